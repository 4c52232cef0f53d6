//! As much of Markdown as the pages of this project use: links, headings and fenced blocks.

use std::collections::BTreeMap;
use std::path::{Component, Path};

/// A fenced block: the word behind the fence.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fence<'a> {
    pub(super) line: usize,
    pub(super) kind: &'a str,
}

/// The lines outside of fenced blocks, with their numbers from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            inside = !inside;
            return None;
        }
        (!inside).then_some((index + 1, line))
    })
}

/// A part of a text.
#[derive(Debug)]
struct Piece<'a> {
    /// The number of its first line.
    line: usize,
    text: &'a str,
    is_code: bool,
}

/// A text in pieces: fenced blocks, and what stands between blank lines. Together the pieces are
/// the whole text.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    let (mut begin, mut first, mut at, mut inside) = (0, 1, 0, false);
    let mut end_piece = |begin: &mut usize, first: &mut usize, end: usize, line, is_code| {
        if end > *begin {
            let text = text.get(*begin..end).unwrap_or("");
            pieces.push(Piece { line: *first, text, is_code });
        }
        (*begin, *first) = (end, line);
    };
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let number = index + 1;
        let is_fence = line.trim_start().starts_with("```");
        if is_fence && !inside {
            end_piece(&mut begin, &mut first, at, number, false);
        }
        at += line.len();
        if is_fence && inside {
            end_piece(&mut begin, &mut first, at, number + 1, true);
        } else if !inside && !is_fence && line.trim().is_empty() {
            end_piece(&mut begin, &mut first, at, number + 1, false);
        }
        inside ^= is_fence;
    }
    end_piece(&mut begin, &mut first, at, 0, inside);
    pieces
}

/// All fenced blocks.
pub(super) fn fences(text: &str) -> Vec<Fence<'_>> {
    let fences = text.lines().enumerate().filter_map(|(index, line)| {
        let kind = line.trim_start().strip_prefix("```")?;
        Some(Fence { line: index + 1, kind })
    });
    fences.step_by(2).collect()
}

/// The title: the first heading.
pub(super) fn title(text: &str) -> Option<&str> {
    prose(text).find_map(|(_, line)| line.strip_prefix("# ")).map(str::trim)
}

/// The anchors of a page's headings, as mdBook makes them.
pub(super) fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    let anchor = |(_, line): (usize, &str)| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// A link in prose: the number of the line in which it ends, the text with its brackets, and the
/// target.
pub(super) fn links(text: &str) -> Vec<(usize, &str, &str)> {
    let mut links = Vec::new();
    for piece in pieces(text).iter().filter(|piece| !piece.is_code) {
        for (begin, label, target) in links_of(piece.text) {
            let before = piece.text.get(..begin + label.len()).unwrap_or("");
            links.push((piece.line + before.matches('\n').count(), label, target));
        }
    }
    links
}

/// The links of a piece of prose: where each begins, the text with its brackets, the target.
fn links_of(text: &str) -> Vec<(usize, &str, &str)> {
    let mut links = Vec::new();
    let mut at = 0;
    while let Some(middle) = text.get(at..).and_then(|rest| rest.find("](")).map(|i| at + i) {
        at = middle + 2;
        let (before, after) = (text.get(..middle).unwrap_or(""), text.get(at..).unwrap_or(""));
        let (Some(begin), Some(end)) = (opening(before), after.find(')')) else { continue };
        // What stands between an odd and an even backtick is code.
        if before.get(..begin).unwrap_or("").matches('`').count() % 2 == 1 {
            continue;
        }
        links.push((begin, text.get(begin..=middle).unwrap_or(""), after.get(..end).unwrap_or("")));
    }
    links
}

/// Where the bracket opens that closes at the end of this text. A label may have brackets in it.
fn opening(before: &str) -> Option<usize> {
    let mut depth = 1;
    for (index, letter) in before.char_indices().rev() {
        match letter {
            ']' => depth += 1,
            '[' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(index);
        }
    }
    None
}

/// The path, from the root, of what a page's link leads to. `None` where the link leads out of the
/// repository.
pub(super) fn resolved(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<String> =
        Path::new(page).parent()?.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => drop(parts.pop()?),
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

/// Whether a link leads to another site.
pub(super) fn is_foreign(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// The text of the page `path`, which is called `name` in the book. Its links lead to pages of the
/// book; a link to another file of the repository is replaced by the link's text.
pub(super) fn relinked(
    text: &str,
    path: &str,
    name: &str,
    pages: &BTreeMap<String, String>,
) -> String {
    let up = "../".repeat(name.matches('/').count());
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text) {
        let links = if piece.is_code { Vec::new() } else { links_of(piece.text) };
        let mut done = 0;
        for (begin, label, target) in links {
            let end = begin + label.len() + target.len() + 2;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            if begin < done || is_foreign(target) || file.is_empty() {
                continue;
            }
            out += piece.text.get(done..begin).unwrap_or("");
            done = end;
            let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
            match resolved(path, file).and_then(|file| pages.get(&file)) {
                Some(page) => out += &format!("{label}({up}{page}{anchor})"),
                None => {
                    out +=
                        label.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(label)
                }
            }
        }
        out += piece.text.get(done..).unwrap_or("");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_headings_are_found_outside_of_code_alone() {
        let page = "# A page\n\nsee [b](c.md#d) and `[e](f.md)`\n\n```text\n# no\n[g](h.md)\n```\n## Its 2nd `part`\n";
        assert_eq!(links(page), [(3, "[b]", "c.md#d")]);
        assert_eq!(anchors(page), ["a-page", "its-2nd-part"]);
        assert_eq!(title(page), Some("A page"));
        assert_eq!(fences(page), [Fence { line: 5, kind: "text" }]);
    }

    #[test]
    fn a_link_leads_to_a_page_of_the_book_or_becomes_its_text() {
        let pages = BTreeMap::from([
            ("docs/c.md".to_owned(), "reference/c.md".to_owned()),
            ("book/src/first.md".to_owned(), "first.md".to_owned()),
        ]);
        let chapter =
            "[c](../../docs/c.md#build), [one](first.md), [code](../../crates/a/lib.rs).\n";
        let relinked_chapter = relinked(chapter, "book/src/why.md", "why.md", &pages);
        assert_eq!(relinked_chapter, "[c](reference/c.md#build), [one](first.md), code.\n");
        let broken = "see ([the\ndecision](e.md)) and\n[c](c.md).\n\n```text\n[c](c.md)\n```\n";
        assert_eq!(
            relinked(broken, "docs/d.md", "reference/d.md", &pages),
            "see (the\ndecision) and\n[c](../reference/c.md).\n\n```text\n[c](c.md)\n```\n"
        );
        assert_eq!(links(broken), [(2, "[the\ndecision]", "e.md"), (3, "[c]", "c.md")]);
        let page = "[c](c.md) [here](#part) [out](https://example.org/a.md) [`x[i]`](../a.rs)\n";
        let relinked_page = relinked(page, "docs/d.md", "reference/d.md", &pages);
        assert_eq!(
            relinked_page,
            "[c](../reference/c.md) [here](#part) [out](https://example.org/a.md) `x[i]`\n"
        );
    }

    #[test]
    fn a_path_is_resolved_from_the_folder_of_its_page() {
        assert_eq!(resolved("docs/c.md", "../README.md").as_deref(), Some("README.md"));
        assert_eq!(resolved("docs/c.md", "d/e.md").as_deref(), Some("docs/d/e.md"));
        assert_eq!(resolved("c.md", "../e.md"), None);
    }
}
