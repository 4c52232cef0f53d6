//! What is checked of the book's sources without building the book: the list of chapters, links,
//! and that every program is run by a test.

use std::path::Path;

use super::{CHAPTERS, LIST, markdown};
use crate::shell;

/// The languages of fenced blocks. Programs are run in the first four; no test runs the others.
const LANGUAGES: [&str; 7] = ["rust", "c", "cpp", "python", "sh", "text", "toml"];
/// Where the programs in Rust become tests.
const TESTS_IN_RUST: [&str; 2] =
    ["testing/book/src/lib.rs", "crates/arrow-device-datafusion/src/lib.rs"];

/// Fails with all that is wrong in the book's sources.
pub(crate) fn check() -> Result<(), String> {
    let mut problems = Vec::new();
    let mut chapters = Vec::new();
    let tests: String = TESTS_IN_RUST.iter().filter_map(|file| shell::read(file).ok()).collect();
    for file in shell::project_files(&["md"])? {
        let path = file.to_string_lossy().into_owned();
        let Some(name) = path.strip_prefix(CHAPTERS).and_then(|name| name.strip_prefix('/')) else {
            continue;
        };
        let text = shell::read(&path)?;
        problems.extend(broken_links(&path, &text));
        problems.extend(broken_includes(&path, &text));
        problems.extend(untested(name, &text, &tests));
        if name != LIST {
            chapters.push(name.to_owned());
        }
    }
    let list = shell::read(Path::new(CHAPTERS).join(LIST))?;
    problems.extend(unlisted(&list, &chapters));
    shell::none_of(&problems)
}

/// The chapters that the list does not have once, and what it lists and is not there.
fn unlisted(list: &str, chapters: &[String]) -> Vec<String> {
    let listed: Vec<&str> = markdown::links(list).iter().map(|(_, _, target)| *target).collect();
    let count = |chapter: &str| listed.iter().filter(|target| **target == chapter).count();
    let chapters_wrong = chapters.iter().filter(|chapter| count(chapter) != 1).map(|chapter| {
        format!("{CHAPTERS}/{chapter}: is {} times in {LIST}, not once", count(chapter))
    });
    let missing = listed.iter().filter(|target| !chapters.iter().any(|chapter| chapter == *target));
    let missing = missing.map(|target| format!("{LIST}: lists {target}, which is not there"));
    chapters_wrong.chain(missing).collect()
}

/// The links of a chapter that lead nowhere.
fn broken_links(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (line, _, target) in markdown::links(text) {
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        if markdown::is_foreign(target) {
            continue;
        }
        let file =
            if file.is_empty() { Some(path.to_owned()) } else { markdown::resolved(path, file) };
        let is_there = file.as_ref().is_some_and(|file| shell::root().join(file).exists());
        let has_anchor = anchor.is_empty()
            || file.and_then(|file| shell::read(file).ok()).is_some_and(|page| {
                markdown::anchors(&page).iter().any(|heading| heading == anchor)
            });
        if !is_there || !has_anchor {
            problems.push(format!("{path}:{line}: `{target}` leads nowhere"));
        }
    }
    problems
}

/// The files that a chapter includes and that are not there.
fn broken_includes(path: &str, text: &str) -> Vec<String> {
    let files = text.split("{{#include ").skip(1).filter_map(|rest| {
        let (file, _) = rest.split_once("}}")?;
        Some(file.split(':').next().unwrap_or(file))
    });
    let missing = files.filter(|file| {
        let file = markdown::resolved(path, file);
        !file.is_some_and(|file| shell::root().join(file).is_file())
    });
    missing.map(|file| format!("{path}: includes `{file}`, which is not there")).collect()
}

/// The blocks of a chapter that no test runs and that are not known to need none.
fn untested(name: &str, text: &str, tests: &str) -> Vec<String> {
    let fences = markdown::fences(text);
    let mut problems: Vec<String> = fences
        .iter()
        .filter(|fence| !LANGUAGES.contains(&fence.kind))
        .map(|fence| {
            format!(
                "{CHAPTERS}/{name}:{}: `{}` is none of {}",
                fence.line,
                fence.kind,
                LANGUAGES.join(", ")
            )
        })
        .collect();
    let has_rust = fences.iter().any(|fence| fence.kind == "rust");
    let is_tested = tests.contains(&format!("\"{name}\"")) || tests.contains(&format!("/{name}\""));
    if has_rust && !is_tested {
        problems.push(format!(
            "{CHAPTERS}/{name}: its programs in Rust are no tests; name it in {}",
            TESTS_IN_RUST.join(" or ")
        ));
    }
    problems
}

/// What a page or a style sheet loads from another site.
pub(super) fn foreign(text: &str) -> Vec<String> {
    let mut loads = Vec::new();
    for begin in ["src=\"", "<link", "url(", "@import"] {
        for rest in text.split(begin).skip(1) {
            let value: String =
                rest.chars().take_while(|c| !matches!(c, '>' | ')' | '\n')).collect();
            let value = if begin == "src=\"" {
                value.split('"').next().unwrap_or_default().to_owned()
            } else {
                value
            };
            let loaded = ["http://", "https://", "\"//", "'//"].iter().any(|it| value.contains(it));
            if loaded || value.starts_with("//") {
                loads.push(value);
            }
        }
    }
    loads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_each_chapter_once_and_no_other() {
        let chapters = ["a.md".to_owned(), "b.md".to_owned()];
        assert!(unlisted("- [A](a.md)\n- [B](b.md)\n", &chapters).is_empty());
        for wrong in
            ["- [A](a.md)\n", "[A](a.md) [B](b.md) [B](b.md)", "[A](a.md) [B](b.md) [C](c.md)"]
        {
            assert_eq!(unlisted(wrong, &chapters).len(), 1, "{wrong}");
        }
    }

    #[test]
    fn a_link_to_a_missing_page_or_heading_is_found() {
        let good = "[a](../../README.md) [b](../../docs/c.md#build) [c](https://example.org)\n";
        assert_eq!(broken_links("book/src/a.md", good), Vec::<String>::new());
        for wrong in ["[a](../../READ.md)", "[b](../../docs/c.md#bild)", "[c](#nowhere)"] {
            assert_eq!(broken_links("book/src/introduction.md", wrong).len(), 1, "{wrong}");
        }
        assert_eq!(broken_includes("book/src/a.md", "{{#include ../../no.md:3:}}").len(), 1);
    }

    #[test]
    fn a_block_that_no_test_runs_is_found() {
        let block = |kind: &str| format!("```{kind}\nx\n```\n");
        assert!(untested("a.md", &block("rust"), "chapter!(A, \"a.md\");").is_empty());
        assert_eq!(untested("a.md", &block("rust"), "chapter!(B, \"b.md\");").len(), 1);
        for kind in ["rust,ignore", "rust,no_run", ""] {
            assert_eq!(untested("a.md", &block(kind), "\"a.md\"").len(), 1, "{kind}");
        }
    }

    #[test]
    fn what_is_loaded_from_another_site_is_found() {
        for page in [
            "<script src=\"https://example.org/a.js\"></script>",
            "<link rel=\"stylesheet\" href=\"//example.org/a.css\">",
            "@import url(http://example.org/a.css)",
        ] {
            assert!(!foreign(page).is_empty(), "{page}");
        }
        let own = "<script src=\"a.js\"></script><a href=\"https://example.org\">a</a> url('fonts/a.woff2')";
        assert!(foreign(own).is_empty());
    }

    #[test]
    fn the_book_is_right() {
        assert_eq!(check(), Ok(()));
    }
}
