//! Every file that inlines by force is in the table of what that saves.
//!
//! [`PAGE`] has a row for each file with `#[inline(always)]`: the file's path in [`FOLDER`], the
//! number of these attributes, and what was counted without them.

use std::collections::BTreeMap;

/// Where the crates are.
pub(super) const FOLDER: &str = "crates/";
/// The page with the table.
pub(super) const PAGE: &str = "docs/performance.md";

/// The attribute. In two parts, so that this file does not contain it.
const ATTRIBUTE: [&str; 2] = ["#[inline", "(always)]"];

/// The number of attributes of each file that has some, given the path and the text of files.
#[derive(Debug, Default)]
pub(super) struct Inlining(BTreeMap<String, usize>);

impl Inlining {
    /// Counts the attributes of a file, if the file belongs to a crate.
    pub(super) fn read(&mut self, file: &str, text: &str) {
        let Some(inside) = file.strip_prefix(FOLDER) else { return };
        let attribute = ATTRIBUTE.concat();
        let count = text.lines().filter(|line| line.trim() == attribute).count();
        if count > 0 {
            self.0.insert(inside.to_owned(), count);
        }
    }

    /// Where the table of this page differs from the files.
    pub(super) fn problems(mut self, page: &str) -> Vec<String> {
        let mut problems = Vec::new();
        for (file, said) in page.lines().filter_map(row) {
            let counted = self.0.remove(file).unwrap_or_default();
            if counted != said {
                problems.push(format!(
                    "{PAGE}: {file} has {counted} times {}, not {said} (or a row before this one)",
                    ATTRIBUTE.concat()
                ));
            }
        }
        problems.extend(self.0.iter().map(|(file, count)| {
            let attribute = ATTRIBUTE.concat();
            format!("{FOLDER}{file}: {count} times {attribute}, which is in no row of {PAGE}")
        }));
        problems
    }
}

/// The file and the number of a row such as `` | `arrow-device/src/once.rs` | 3 | ... | ``.
fn row(line: &str) -> Option<(&str, usize)> {
    let (file, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
    let count = rest.split(' ').next()?.parse().ok()?;
    file.ends_with(".rs").then_some((file, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_OF_TWO: &str = "| file | times |\n|---|---|\n| `a/src/one.rs` | 1 | 5 % |\n\
                               | `a/src/two.rs` | 2 | 7 % |\n\n| `not a file` | 3 |\n";

    fn problems_of(ones: usize, twos: usize, page: &str) -> Vec<String> {
        let mut inlining = Inlining::default();
        let text = |count| format!("    {}\nfn a() {{}}\n", ATTRIBUTE.concat()).repeat(count);
        inlining.read("crates/a/src/one.rs", &text(ones));
        inlining.read("crates/a/src/two.rs", &text(twos));
        inlining.read("elsewhere/a/src/three.rs", &text(3));
        inlining.problems(page)
    }

    #[test]
    fn files_with_a_row_of_their_number_pass() {
        assert!(problems_of(1, 2, PAGE_OF_TWO).is_empty());
    }

    #[test]
    fn a_row_with_another_number_or_of_a_file_without_attributes_is_found() {
        for (ones, twos) in [(1, 3), (0, 2), (1, 0)] {
            let problems = problems_of(ones, twos, PAGE_OF_TWO);
            let [problem] = problems.as_slice() else { panic!("{problems:?}") };
            assert!(problem.starts_with(PAGE), "{problem}");
        }
        let twice = format!("{PAGE_OF_TWO}| `a/src/one.rs` | 1 | 5 % |\n");
        assert_eq!(problems_of(1, 2, &twice).len(), 1);
    }

    #[test]
    fn a_file_without_a_row_is_found() {
        let page = PAGE_OF_TWO.replace("one.rs", "four.rs");
        let problems = problems_of(1, 2, &page);
        let [row, file] = problems.as_slice() else { panic!("{problems:?}") };
        assert!(row.contains("a/src/four.rs has 0 times"), "{row}");
        assert!(file.starts_with("crates/a/src/one.rs: 1 times"), "{file}");
    }
}
