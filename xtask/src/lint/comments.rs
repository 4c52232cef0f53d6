//! No line with a comment is wider than a reader's window.

use super::source::{self, Language};

/// The most columns of a line with a comment.
const MOST_COLUMNS: usize = 100;

/// The lines of a file that have a comment which reaches too far to the right.
pub(super) fn too_wide(file: &str, text: &str) -> Vec<String> {
    let Some(language) = Language::of(file) else { return Vec::new() };
    let mut problems = Vec::new();
    for ((line, read), number) in text.lines().zip(source::lines(text, language)).zip(1..) {
        let columns = read.comment_end;
        let is_exempt = ends_with_a_link(line) || is_row_of_a_table(line) || is_drawn(line);
        if columns > MOST_COLUMNS && !is_exempt {
            problems.push(format!(
                "{file}:{number}: a comment of {columns} columns, {MOST_COLUMNS} at most: wrap it"
            ));
        }
    }
    problems
}

/// Whether this is a row of a table in documentation. A row is one line.
fn is_row_of_a_table(line: &str) -> bool {
    let line = line.trim();
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start);
    text.is_some_and(|text| text.starts_with("| ") && text.ends_with(" |"))
}

/// Whether this is a whole line of comment that belongs to a drawing or to a table with columns:
/// its parts are kept apart by spaces, or it stands in a later column, or it rules off columns.
fn is_drawn(line: &str) -> bool {
    let line = line.trim();
    let text = line.trim_start_matches(['/', '!', '*']);
    line.starts_with("//") && (text.contains("     ") || text.contains("--  --"))
}

/// Whether only an address or the target of a link is too far to the right. Neither can be broken.
fn ends_with_a_link(line: &str) -> bool {
    let line = line.trim_end();
    let (before, last) = line.rsplit_once(' ').unwrap_or(("", line));
    let is_link = last.contains("://") || last.contains("](") || before.ends_with("]:");
    is_link && before.chars().count() < MOST_COLUMNS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line that begins like this, made as wide as this with short words.
    fn line(start: &str, columns: usize) -> String {
        let mut line = start.to_owned();
        while line.chars().count() < columns {
            let count = line.chars().count();
            line.push(if count.is_multiple_of(8) && count + 1 < columns { ' ' } else { 'ä' });
        }
        line
    }

    #[test]
    fn a_line_of_a_drawing_may_be_wider_and_code_with_a_comment_may_not() {
        let drawn = line("//   CUDA    2   device address     ordinal ", 110);
        assert!(too_wide("a.h", &drawn).is_empty());
        let beside_code = line("int a;      // ", 110);
        assert_eq!(too_wide("a.h", &beside_code).len(), 1);
    }

    #[test]
    fn a_comment_may_have_a_hundred_columns_and_no_more() {
        for (file, start) in [
            ("a.rs", "// "),
            ("a.rs", "    /// "),
            ("a.rs", "//! "),
            ("a.rs", "    let a = b; // "),
            ("a.c", "/* "),
            ("a.h", "// "),
            ("a.cpp", "// "),
            ("a.py", "# "),
        ] {
            assert!(too_wide(file, &line(start, MOST_COLUMNS)).is_empty(), "{start}");
            let problems = too_wide(file, &line(start, MOST_COLUMNS + 1));
            assert_eq!(problems.len(), 1, "{start}");
            assert!(problems[0].starts_with(&format!("{file}:1: a comment of 101")), "{start}");
        }
        let middle = format!("/*\n{}\n */", line(" * ", MOST_COLUMNS + 1));
        assert!(too_wide("a.h", &middle)[0].starts_with("a.h:2: "));
    }

    #[test]
    fn an_address_at_the_end_may_be_wider() {
        let path = "a/".repeat(50);
        for start in ["// See https://", "/// the [page](", "/// [page]: ../", "// <https://"] {
            assert!(too_wide("a.rs", &format!("{start}{path}")).is_empty(), "{start}");
            let followed = format!("{start}{path} and more");
            assert_eq!(too_wide("a.rs", &followed).len(), 1, "{start}");
        }
        let could_be_broken = format!("{} https://a", line("// ", MOST_COLUMNS));
        assert_eq!(too_wide("a.rs", &could_be_broken).len(), 1);
    }

    #[test]
    fn a_row_of_a_table_may_be_wider() {
        let words = line("", MOST_COLUMNS);
        for (text, wrong) in
            [("/// | ROW |", 0), ("//! | ROW |", 0), ("// | ROW |", 1), ("/// ROW", 1)]
        {
            assert_eq!(too_wide("a.rs", &text.replace("ROW", &words)).len(), wrong, "{text}");
        }
    }

    #[test]
    fn code_and_strings_may_be_wider() {
        let words = line("", MOST_COLUMNS);
        for text in [format!("let a = \"// {words}\";"), format!("let a = r#\"\n// {words}\n\"#;")]
        {
            assert!(too_wide("a.rs", &text).is_empty(), "{text}");
        }
        assert!(too_wide("a.py", &format!("a = '# {words}'")).is_empty());
        assert!(too_wide("a.c", &format!("{words}(/*b=*/1, {words});")).len() == 1);
        assert!(too_wide("a.c", &format!("a(/*b=*/1, {words});")).is_empty());
        assert!(too_wide("a.md", &format!("# {words}")).is_empty());
    }
}
