//! A type name has one definition in a package.
//!
//! Types are structs, enums, unions, traits and, outside of traits and implementations, aliases.
//! What stands in a module `tests` does not count. Where two types must have one name, all but one
//! of them have a comment above them, among their documentation and attributes: `// Same name as
//! `place::Type`: REASON`.

use std::collections::BTreeMap;

use super::source::{self, Language};

/// What begins the comment of an exception.
const EXCEPTION: &str = "// Same name as `";

/// The types of the packages.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By package and name.
    definitions: BTreeMap<(String, String), Vec<Definition>>,
    problems: Vec<String>,
}

#[derive(Debug)]
struct Definition {
    /// File and line.
    place: String,
    is_exception: bool,
}

impl Names {
    /// Notes the types of a file, if it is the source of a package.
    pub(super) fn read(&mut self, file: &str, text: &str) {
        let Some((package, inside)) = source_of(file) else { return };
        let is_test = inside.split('/').any(|part| part == "tests" || part == "tests.rs");
        if is_test || Language::of(file) != Some(Language::Rust) {
            return;
        }
        let lines: Vec<&str> = text.lines().collect();
        for (index, name) in types(text) {
            let place = format!("{file}:{}", index + 1);
            let exception = exception(lines.get(..index).unwrap_or_default());
            if exception.is_some_and(|comment| !is_exception(comment)) {
                self.problems.push(format!("{place}: write `{EXCEPTION}place::{name}`: REASON`"));
            }
            let key = (package.to_owned(), name);
            let definition = Definition { place, is_exception: exception.is_some() };
            self.definitions.entry(key).or_default().push(definition);
        }
    }

    /// Every name with more than one definition, and every exception that is none.
    pub(super) fn problems(mut self) -> Vec<String> {
        for ((_, name), definitions) in &self.definitions {
            let mut unexplained = definitions.iter().filter(|definition| !definition.is_exception);
            let first = unexplained.next();
            for second in unexplained {
                let first = first.map_or("", |first| &first.place);
                let place = &second.place;
                self.problems.push(format!("{place}: `{name}` has a definition at {first} too"));
            }
            if first.is_none() || definitions.len() == 1 {
                let needless = definitions.iter().find(|definition| definition.is_exception);
                let needless = needless.map(|definition| {
                    let place = &definition.place;
                    format!("{place}: no other `{name}` needs this comment, `{EXCEPTION}...`")
                });
                self.problems.extend(needless);
            }
        }
        self.problems
    }
}

/// The folder of the package, and the file in the folder of its source.
fn source_of(file: &str) -> Option<(&str, &str)> {
    file.split_once("/src/").or_else(|| file.strip_prefix("src/").map(|inside| ("", inside)))
}

/// The comment of an exception among the documentation and attributes that end here.
fn exception<'a>(above: &[&'a str]) -> Option<&'a str> {
    let belongs = |line: &&str| line.starts_with("//") || line.starts_with('#');
    let lines = above.iter().rev().map(|line| line.trim());
    lines.take_while(belongs).find(|line| line.starts_with("// Same name"))
}

/// Whether the comment names the other type and says why.
fn is_exception(comment: &str) -> bool {
    let other = comment.strip_prefix(EXCEPTION).and_then(|rest| rest.split_once("`: "));
    other.is_some_and(|(other, reason)| !other.is_empty() && !reason.trim().is_empty())
}

/// The types that a file defines outside of `mod tests`, with the index of the line.
fn types(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    // What each open brace belongs to.
    let mut open: Vec<Brace> = Vec::new();
    let mut statement = String::new();
    for (index, line) in source::lines(text, Language::Rust).into_iter().enumerate() {
        let is_at = |brace| open.contains(&brace);
        if !is_at(Brace::Tests) {
            let is_in_module = open.iter().all(|brace| *brace == Brace::Module);
            found.extend(type_of(&line.code, is_in_module).map(|name| (index, name)));
        }
        for character in line.code.chars() {
            match character {
                '{' => {
                    open.push(Brace::after(&statement));
                    statement.clear();
                }
                '}' => {
                    open.pop();
                    statement.clear();
                }
                ';' => statement.clear(),
                other => statement.push(other),
            }
        }
        statement.push(' ');
    }
    found
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Brace {
    Module,
    Tests,
    Other,
}

impl Brace {
    /// Of the brace that ends this.
    fn after(statement: &str) -> Self {
        let mut words = statement.split_whitespace().rev();
        match (words.next(), words.next()) {
            (Some("tests"), Some("mod")) => Self::Tests,
            (Some(_), Some("mod")) => Self::Module,
            _ => Self::Other,
        }
    }
}

/// The name of the type whose definition begins in this line.
fn type_of(line: &str, is_in_module: bool) -> Option<String> {
    let mut rest = line.trim_start();
    if let Some(public) = rest.strip_prefix("pub") {
        let scope = public.strip_prefix('(').and_then(|scope| scope.split_once(')'));
        rest = scope.map_or(public, |(_, rest)| rest).trim_start();
    }
    rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let (keyword, name) = rest.split_once(' ')?;
    let defines_a_type = match keyword {
        "struct" | "enum" | "union" | "trait" => true,
        "type" => is_in_module,
        _ => false,
    };
    if !defines_a_type {
        return None;
    }
    let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let name = name.get(..end.unwrap_or(name.len()))?;
    name.starts_with(char::is_uppercase).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let mut names = Names::default();
        for (file, text) in files {
            names.read(file, text);
        }
        names.problems()
    }

    #[test]
    fn every_kind_of_type_is_found() {
        let text = "struct A;\npub enum B<T> {}\npub(crate) union C {}\npub unsafe trait D: E {}\n\
            type F<T> = G<T>;\nmod h {\n    pub(in super::h) struct I(u8);\n    type J = u8;\n}\n\
            fn k() {\n    struct L;\n}\n";
        let found = types(text);
        let found: Vec<_> = found.iter().map(|(line, name)| (*line, name.as_str())).collect();
        let expected =
            [(0, "A"), (1, "B"), (2, "C"), (3, "D"), (4, "F"), (6, "I"), (7, "J"), (10, "L")];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_defines_no_type_of_a_module_is_not_found() {
        let text = "// struct A;\nlet b = \"\nstruct C;\n\";\nimpl D for E {\n    type F = G;\n}\n\
            trait H {\n    type I;\n}\nuse a::J;\nstruct $name;\n";
        assert_eq!(types(text), [(7, "H".to_owned())]);
    }

    #[test]
    fn tests_may_use_a_name_again() {
        let text =
            "struct A;\n#[cfg(test)]\nmod tests {\n    mod b {}\n    struct A;\n}\nstruct B;\n";
        let found: Vec<_> = types(text).into_iter().map(|(_, name)| name).collect();
        assert_eq!(found, ["A", "B"]);
        let files = [("a/src/b.rs", "struct A;"), ("a/src/b/tests/c.rs", "struct A;")];
        assert!(problems(&files).is_empty());
        let files = [("a/src/b.rs", "struct A;"), ("a/tests/c.rs", "struct A;")];
        assert!(problems(&files).is_empty());
    }

    #[test]
    fn a_second_definition_in_a_package_names_both_places() {
        let files = [("a/src/b.rs", "struct A;"), ("a/src/c.rs", "\nenum A {}")];
        assert_eq!(problems(&files), ["a/src/c.rs:2: `A` has a definition at a/src/b.rs:1 too"]);
        let files = [("a/src/b.rs", "struct A;"), ("c/src/b.rs", "struct A;")];
        assert!(problems(&files).is_empty());
    }

    #[test]
    fn an_exception_says_which_type_and_why() {
        let with = |comment: &str| {
            let second = format!("struct B;\n/// Words.\n{comment}\n#[derive(Debug)]\nstruct A;");
            problems(&[("a/src/b.rs", "struct A;"), ("a/src/c.rs", &second)])
        };
        assert!(with("// Same name as `b::A`: C compilers see both.").is_empty());
        for comment in
            ["// Same name: because.", "// Same name as `b::A`:", "// Same name as ``: b"]
        {
            assert_eq!(with(comment).len(), 1, "{comment}");
        }
        assert_eq!(with("// Words.").len(), 1);
    }

    #[test]
    fn an_exception_that_is_not_needed_is_a_problem() {
        let file = ("a/src/b.rs", "// Same name as `c::A`: C compilers see both.\nstruct A;");
        assert_eq!(problems(&[file]).len(), 1);
    }
}
