//! The pages about the C and C++ headers, made from the headers themselves.
//!
//! A header is read line by line. A comment that stands directly above a declaration describes that
//! declaration; a line of dashes with words at its end begins a part. The page has a heading for
//! each part and for each named declaration, the comment as prose, and the declaration as code.

use crate::shell;

const C_FOLDERS: [(&str, &[&str]); 2] = [
    (
        "crates/arrow-device-capi/include/arrow_device",
        &["arrow_device.h", "schema.h", "share.h", "driver.h", "vulkan.h", "oneapi.h"],
    ),
    ("crates/arrow-device-abi/include/arrow_device", &["abi.h", "dlpack_abi.h"]),
];
const CPP_FOLDER: &str = "crates/arrow-device-capi/include/arrow_device";
const CPP: [&str; 7] = [
    "arrow_device.hpp",
    "result.hpp",
    "data.hpp",
    "views.hpp",
    "exchange.hpp",
    "share.hpp",
    "arrow_cpp.hpp",
];

/// The page about the headers of C.
pub(super) fn c() -> Result<String, String> {
    let mut page = String::from(
        "# C: the headers\n\nThis page is made from the headers, which are the reference. `arrow_device.h` includes all others.\n",
    );
    for (folder, names) in C_FOLDERS {
        for name in names {
            page += &format!("\n## {name}\n\n");
            page += &described(&shell::read(format!("{folder}/{name}"))?);
        }
    }
    Ok(page)
}

/// The page about the headers of C++, whose classes are best read as they are written.
pub(super) fn cpp() -> Result<String, String> {
    let mut page = String::from(
        "# C++: the headers\n\n`arrow_device.hpp` includes all others but `arrow_cpp.hpp`, which is for programs with Arrow C++.\n",
    );
    for name in CPP {
        let text = shell::read(format!("{CPP_FOLDER}/{name}"))?;
        page += &format!("\n## {name}\n\n```cpp\n{}\n```\n", text.trim_end());
    }
    Ok(page)
}

/// A header as Markdown.
fn described(header: &str) -> String {
    let mut page = String::new();
    let mut comment: Vec<&str> = Vec::new();
    let mut lines = header.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(part) = part(line) {
            page += &prose(&comment);
            comment.clear();
            page += &format!("### {part}\n\n");
        } else if let Some(words) = line.strip_prefix("//") {
            comment.push(words.strip_prefix(' ').unwrap_or(words));
        } else if line.is_empty() {
            page += &prose(&comment);
            comment.clear();
        } else {
            let mut declaration = vec![line];
            while !is_complete(&declaration) {
                let Some(line) = lines.next() else { break };
                declaration.push(line);
            }
            if is_plumbing(line) {
                comment.clear();
                continue;
            }
            if let Some(name) = name(&declaration) {
                page += &format!("#### `{name}`\n\n");
            }
            page += &prose(&comment);
            comment.clear();
            page += &format!("```c\n{}\n```\n\n", declaration.join("\n"));
        }
    }
    page + &prose(&comment)
}

/// The words of a line that begins a part.
fn part(line: &str) -> Option<&str> {
    let words = line.strip_prefix("// ----")?.trim_start_matches('-').trim();
    (!words.is_empty()).then_some(words)
}

/// Whether a declaration ends here: its brackets are closed and a semicolon follows, or it is a
/// line of the preprocessor that the next line does not continue.
fn is_complete(declaration: &[&str]) -> bool {
    let text = declaration.join("\n");
    if text.starts_with('#') || text.starts_with("extern \"C\"") || text == "}" {
        return !text.ends_with('\\');
    }
    let count = |letter| text.matches(letter).count();
    let code = text.split("//").next().unwrap_or_default();
    let ends = declaration.last().is_some_and(|line| {
        let line = line.split("//").next().unwrap_or_default().trim_end();
        line.ends_with(';') || line.ends_with('}') || !code.contains(['(', '{'])
    });
    ends && count('{') == count('}') && count('(') == count(')')
}

/// What the page leaves out: guards, includes, and how headers are made to work with C++.
fn is_plumbing(line: &str) -> bool {
    let words =
        ["#include", "#if", "#endif", "#else", "#elif", "#undef", "#  ", "extern \"C\"", "}"];
    words.iter().any(|word| line.starts_with(word))
        || (line.starts_with("#define") && line.split_whitespace().count() == 2)
}

/// The name that a declaration declares.
fn name(declaration: &[&str]) -> Option<String> {
    let text = declaration.join(" ");
    let first = |text: &str| {
        let word: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        (!word.is_empty()).then_some(word)
    };
    for kind in ["struct ", "enum "] {
        if let Some(rest) = text.strip_prefix(kind)
            && (text.contains('{') || text.ends_with(';'))
            && !text.split('{').next().unwrap_or_default().contains('(')
        {
            return first(rest);
        }
    }
    if let Some(rest) = text.strip_prefix("#define ") {
        return first(rest);
    }
    if text.starts_with("typedef ") {
        return text.trim_end_matches(';').split_whitespace().last().map(str::to_owned);
    }
    let before = text.split('(').next()?;
    let word = before.split([' ', '*']).next_back()?;
    first(word)
}

/// A comment as Markdown: lines that are indented are code.
fn prose(comment: &[&str]) -> String {
    let mut out = String::new();
    let mut inside = false;
    for line in comment {
        let is_code = line.starts_with("  ") && !line.trim().is_empty() && !in_list(&out);
        if is_code != inside {
            out += if is_code { "```text\n" } else { "```\n" };
            inside = is_code;
        }
        out += line;
        out.push('\n');
    }
    if inside {
        out += "```\n";
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// Whether the text ends inside an item of a list, whose further lines are indented.
fn in_list(text: &str) -> bool {
    let paragraph = text.rsplit("\n\n").next().unwrap_or_default();
    let digits = paragraph.trim_start_matches(|c: char| c.is_ascii_digit());
    digits.len() < paragraph.len() && digits.starts_with(". ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_declaration_has_its_name_its_comment_and_its_code() {
        let header = "// A header.\n//\n//   code();\n\n#ifndef A_\n#define A_\n#include <a.h>\n\n\
                      // ------------- things\n\n// A thing;\n// it has two.\nstruct thing {\n  int a;  // one\n  int b;\n};\n\n\
                      #define THING_NONE 0  // none\n// Frees it.\nvoid thing_free(struct thing* it,\n                int more);\n#endif\n";
        let page = described(header);
        assert!(page.starts_with("A header.\n\n```text\n  code();\n```\n"), "{page}");
        assert!(page.contains("### things\n"), "{page}");
        assert!(
            page.contains("#### `thing`\n\nA thing;\nit has two.\n\n```c\nstruct thing {\n  int a;  // one\n  int b;\n};\n```\n"),
            "{page}"
        );
        assert!(
            page.contains("#### `THING_NONE`\n\n```c\n#define THING_NONE 0  // none\n```\n"),
            "{page}"
        );
        assert!(
            page.contains("#### `thing_free`\n\nFrees it.\n\n```c\nvoid thing_free("),
            "{page}"
        );
        assert!(!page.contains("#endif") && !page.contains("#include"), "{page}");
    }

    #[test]
    fn every_function_of_the_headers_has_a_heading() {
        let page = c().unwrap();
        let mut functions = 0;
        for (folder, names) in C_FOLDERS {
            for name in names {
                let header = shell::read(format!("{folder}/{name}")).unwrap();
                let starts = |line: &&str| line.starts_with("ARDEV_CHECK int ");
                for line in header.lines().filter(starts) {
                    let function = line.trim_start_matches("ARDEV_CHECK int ");
                    let function = function.split('(').next().unwrap();
                    assert!(page.contains(&format!("#### `{function}`\n")), "{function}");
                    functions += 1;
                }
            }
        }
        assert!(functions > 90, "{functions}");
    }
}
