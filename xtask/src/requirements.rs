//! `cargo xtask requirements`: which test proves which requirement.
//!
//! The ids come from the tables of `docs/requirements.md` and `docs/safety.md`. A test claims one
//! in a comment of its own right above it, which begins with the word Requirement and a colon and
//! goes on with ids and nothing else: `// Requirement: ABI-1, ABI-2`. The scan believes the
//! comment; whether the test can fail is for its author to see.
//!
//! The obligations of `docs/safety.md` bind code that the project does not contain, and no test
//! proves that somebody else keeps them. They are cited instead: each by at least one comment of
//! the sources, and a comment cites none that is not in the list. A test may claim an obligation of
//! drivers, if it shows that a driver which breaks the obligation is found. No test claims an
//! obligation of unsafe callers: whoever breaks one has undefined behaviour, and shows nothing.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use crate::shell;

/// The lists of requirements, relative to the project's root.
const LISTS: &[&str] = &["docs/requirements.md", "docs/safety.md"];

/// The families of which every id must have a test. A family is added here by the change that
/// completes it.
const SWITCHED_ON: &[&str] = &["ABI", "SCH", "ARR", "STR", "ASY", "PYC", "DLP", "SYS", "SAF"];

/// The families of the safety contract, whose ids comments of all kinds cite.
const CITED: &[&str] = &["SAF", UNSAFE_CALLERS, "DRV"];

/// Those of them of which every id is cited by at least one comment.
const OBLIGATIONS: &[&str] = &[UNSAFE_CALLERS, "DRV"];

/// The family that no test may claim.
const UNSAFE_CALLERS: &str = "UNS";

/// The kinds of file that hold tests.
const ENDINGS: &[&str] = &["rs", "c", "cc", "py"];

/// Prints the table from ids to tests. The error names every id without a test and every claim that
/// cannot be right.
pub(crate) fn check() -> Result<(), String> {
    let mut claims = Claims::default();
    for file in shell::project_files(ENDINGS)? {
        claims.scan(&file.to_string_lossy(), &shell::read(&file)?);
    }
    let lists: Result<Vec<_>, String> = LISTS.iter().map(shell::read).collect();
    let (table, problems) = compare(&parse_lists(&lists?)?, &claims, SWITCHED_ON);
    print!("{table}");
    shell::none_of(&problems)
}

/// The id of one requirement, such as `ARR-12`: ordered by family, then by number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    family: String,
    number: u32,
}

impl Id {
    fn parse(text: &str) -> Option<Self> {
        let (family, number) = text.split_once('-')?;
        let is_family = family.len() == 3 && family.bytes().all(|b| b.is_ascii_uppercase());
        let is_number = number.bytes().all(|b| b.is_ascii_digit()) && !number.starts_with('0');
        let number = number.parse().ok()?;
        (is_family && is_number).then(|| Self { family: family.to_owned(), number })
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}-{}", self.family, self.number))
    }
}

/// The ids of the lists, in their order. A row of their tables begins with the id.
fn parse_lists(texts: &[impl AsRef<str>]) -> Result<Vec<Id>, String> {
    let mut ids = Vec::new();
    for line in texts.iter().flat_map(|text| text.as_ref().lines()) {
        let first_cell = line.strip_prefix('|').and_then(|row| row.split('|').next());
        let Some(id) = first_cell.and_then(|cell| Id::parse(cell.trim())) else { continue };
        if ids.contains(&id) {
            return Err(format!("{id} stands twice in {}", LISTS.join(", ")));
        }
        ids.push(id);
    }
    if ids.is_empty() {
        Err(format!("no requirement found in {}", LISTS.join(", ")))
    } else {
        Ok(ids)
    }
}

/// What the comments of the tree say.
#[derive(Debug, Default, PartialEq)]
struct Claims {
    tests: BTreeMap<Id, Vec<String>>,
    /// Comments that begin like a claim and do not go on like one.
    unreadable: Vec<String>,
    /// Where an id of the safety contract was first cited.
    citations: BTreeMap<Id, String>,
}

impl Claims {
    fn scan(&mut self, file: &str, text: &str) {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let place = format!("{file}:{}", index + 1);
            let Some(list) = claimed(line) else {
                for id in cited(line) {
                    self.citations.entry(id).or_insert_with(|| place.clone());
                }
                continue;
            };
            let ids: Option<Vec<Id>> = list.split(',').map(|id| Id::parse(id.trim())).collect();
            let Some(ids) = ids else {
                self.unreadable.push(format!("{place}: `{list}` is not a list of ids"));
                continue;
            };
            let test = match function_after(lines.iter().skip(index + 1)) {
                Some(name) => format!("{name} ({place})"),
                None => place,
            };
            for id in ids {
                self.tests.entry(id).or_default().push(test.clone());
            }
        }
    }
}

/// The text after the word and its colon, when a line is such a comment in Rust, C, C++ or Python.
fn claimed(line: &str) -> Option<&str> {
    if !is_comment(line) {
        return None;
    }
    let text = line.trim().trim_start_matches(['/', '*', '!', '#']).trim_end_matches("*/");
    Some(text.trim_start().strip_prefix("Requirement:")?.trim())
}

/// The ids of the safety contract that a line of comment names, a claim left aside.
fn cited(line: &str) -> impl Iterator<Item = Id> {
    let text = if is_comment(line) { line } else { "" };
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.filter_map(Id::parse).filter(|id| CITED.contains(&id.family.as_str()))
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    ["//", "/*", "*"].iter().any(|start| line.starts_with(start))
        || line.strip_prefix('#').is_some_and(|rest| !rest.starts_with('['))
}

/// The Rust or Python function that the first code among these lines begins, beyond comments and
/// attributes.
fn function_after<'a>(mut lines: impl Iterator<Item = &'a &'a str>) -> Option<&'a str> {
    let is_between = |line: &str| {
        let line = line.trim_start();
        line.is_empty() || is_comment(line) || line.starts_with("#[") || line.starts_with('@')
    };
    let code = lines.find(|line| !is_between(line))?.trim_start();
    let mut words = code.split_whitespace();
    words.find(|word| matches!(*word, "fn" | "def"))?;
    let name = words.next()?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    name.get(..end).filter(|name| !name.is_empty())
}

/// The table to print, and all that is wrong.
fn compare(ids: &[Id], claims: &Claims, switched_on: &[&str]) -> (String, Vec<String>) {
    let mut table = String::new();
    let mut problems = claims.unreadable.clone();
    for id in ids {
        let is_on = switched_on.contains(&id.family.as_str());
        let tests = match claims.tests.get(id) {
            Some(tests) => tests.join("\n         "),
            None if is_on => {
                problems.push(format!("{id} has no test"));
                "NO TEST".to_owned()
            }
            None if OBLIGATIONS.contains(&id.family.as_str()) => {
                let place = claims.citations.get(id);
                if place.is_none() {
                    problems.push(format!("{id} is cited by no comment"));
                }
                format!("- (cited: {})", place.map_or("NOWHERE", String::as_str))
            }
            None => "- (family not switched on)".to_owned(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{id:<8} {tests}");
    }
    for family in switched_on {
        if !ids.iter().any(|id| id.family == *family) {
            problems.push(format!("{family} is switched on, but no list has such a family"));
        }
    }
    for (id, tests) in claims.tests.iter().filter(|(id, _)| !ids.contains(id)) {
        problems.push(format!("{} names {id}, which is in no list", tests.join(", ")));
    }
    for (id, place) in claims.citations.iter().filter(|(id, _)| !ids.contains(id)) {
        problems.push(format!("{place} cites {id}, which is in no list"));
    }
    for (id, tests) in claims.tests.iter().filter(|(id, _)| id.family == UNSAFE_CALLERS) {
        problems.push(format!("{} claims {id}, which no test can prove", tests.join(", ")));
    }
    (table, problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# A list\n| id | requirement |\n|---|---|\n| ABI-1 | Sizes. |\n| ABI-2 | Names, ABI-9 too. |\n| STR-1 | Later. |\n";

    fn id(text: &str) -> Id {
        Id::parse(text).unwrap()
    }

    fn scanned(file: &str, lines: &[&str]) -> Claims {
        let mut claims = Claims::default();
        claims.scan(file, &lines.join("\n"));
        claims
    }

    fn problems_of(lines: &[&str]) -> Vec<String> {
        compare(&parse_lists(&[TABLE]).unwrap(), &scanned("a.rs", lines), &["ABI"]).1
    }

    #[test]
    fn the_list_is_read_from_the_first_cells_of_its_tables() {
        assert_eq!(parse_lists(&[TABLE]).unwrap(), [id("ABI-1"), id("ABI-2"), id("STR-1")]);
    }

    #[test]
    fn a_list_with_a_repeated_id_or_with_none_is_refused() {
        assert!(parse_lists(&[TABLE, TABLE]).unwrap_err().contains("ABI-1"));
        assert!(parse_lists(&["| id | requirement |"]).is_err());
    }

    #[test]
    fn the_projects_own_lists_have_every_family() {
        let texts: Vec<_> = LISTS.iter().map(|list| shell::read(list).unwrap()).collect();
        let ids = parse_lists(&texts).unwrap();
        let of_specifications = ["ABI", "SCH", "ARR", "STR", "ASY", "PYC", "DLP", "SYS", "SAF"];
        for family in of_specifications.iter().chain(CITED).copied() {
            let numbers: Vec<u32> =
                ids.iter().filter(|id| id.family == family).map(|id| id.number).collect();
            let expected: Vec<u32> = (1..).take(numbers.len()).collect();
            assert!(!numbers.is_empty(), "{family}");
            assert_eq!(numbers, expected, "{family}");
        }
    }

    #[test]
    fn an_id_is_three_capitals_and_a_number() {
        assert_eq!(id("ARR-12").to_string(), "ARR-12");
        assert!(id("ARR-2") < id("ARR-12"));
        for text in ["", "ARR", "ARR-", "ARR-x", "ARR-01", "arr-1", "ARRAY-1", "ARR-+1", "ARR-1."] {
            assert_eq!(Id::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_claim_is_found_with_the_function_it_stands_above() {
        for lines in [
            ["// Requirement: ABI-1", "#[test]", "fn sizes() {", "}"],
            ["#[test]", "    /// Requirement: ABI-1", "", "    pub(crate) unsafe fn sizes<T>() {"],
            ["", "# Requirement: ABI-1", "@slow", "def sizes(peer):"],
            ["/* Requirement: ABI-1 */", "// More words.", "async fn sizes()", "fn other()"],
        ] {
            let tests = scanned("a.rs", &lines).tests;
            let [test] = tests.get(&id("ABI-1")).unwrap().as_slice() else { panic!("{tests:?}") };
            assert!(test.starts_with("sizes (a.rs:"), "{test}");
        }
    }

    #[test]
    fn a_claim_that_is_not_above_a_function_is_named_by_its_place() {
        for lines in [
            ["", " * Requirement: ABI-1", " */", "static void sizes(void) {"],
            ["", "// Requirement: ABI-1", "const _: () = assert!(true);", "fn other() {}"],
            ["fn above() {", "    // Requirement: ABI-1", "}", "fn other() {}"],
            ["", "//! Requirement: ABI-1", "use something;", "fn main() {}"],
        ] {
            let tests = scanned("t/a.c", &lines).tests;
            assert_eq!(tests.get(&id("ABI-1")).unwrap(), &["t/a.c:2"]);
        }
    }

    #[test]
    fn only_a_comment_of_its_own_is_a_claim() {
        for line in [
            "let text = \"// Requirement: ABI-1\";",
            "call(); // Requirement: ABI-1",
            "// The Requirement: ABI-1",
            "Requirement: ABI-1",
            "#[doc = \"Requirement: ABI-1\"]",
        ] {
            assert_eq!(scanned("a.rs", &[line, "fn sizes() {}"]), Claims::default(), "{line}");
        }
    }

    #[test]
    fn one_comment_may_claim_several_ids_and_several_tests_one_id() {
        let lines =
            ["// Requirement: ABI-1, ABI-2", "fn a() {}", "// Requirement: ABI-1", "fn b() {}"];
        let tests = scanned("a.rs", &lines).tests;
        assert_eq!(tests.get(&id("ABI-1")).unwrap(), &["a (a.rs:1)", "b (a.rs:3)"]);
        assert_eq!(tests.get(&id("ABI-2")).unwrap(), &["a (a.rs:1)"]);
    }

    #[test]
    fn a_tree_with_all_its_tests_has_no_problem() {
        assert!(problems_of(&["// Requirement: ABI-1, ABI-2", "fn a() {}"]).is_empty());
    }

    #[test]
    fn an_id_without_a_test_is_a_problem_in_a_family_that_is_switched_on() {
        assert_eq!(problems_of(&["// Requirement: ABI-1", "fn a() {}"]), ["ABI-2 has no test"]);
    }

    #[test]
    fn an_id_that_is_not_in_the_list_is_a_problem() {
        let problems = problems_of(&["// Requirement: ABI-1, ABI-2, ABI-9, XYZ-1", "fn a() {}"]);
        let [abi, xyz] = problems.as_slice() else { panic!("{problems:?}") };
        assert!(abi.contains("a (a.rs:1) names ABI-9"), "{abi}");
        assert!(xyz.contains("XYZ-1"), "{xyz}");
    }

    const CONTRACT: &str = "| SAF-1 | Kept. |\n| UNS-1 | Kept. |\n| DRV-1 | Kept. |\n";

    fn problems_of_contract(lines: &[&str]) -> Vec<String> {
        compare(&parse_lists(&[CONTRACT]).unwrap(), &scanned("a.rs", lines), &["SAF"]).1
    }

    #[test]
    fn an_obligation_has_to_be_cited_and_a_guarantee_to_be_proved() {
        let proof = ["// Requirement: SAF-1", "fn a() {}"];
        let cited = ["// SAFETY: the pointer is the caller's (UNS-1).", "/// DRV-1, after which"];
        assert_eq!(problems_of_contract(&[proof, cited].concat()), [""; 0]);
        let problems = problems_of_contract(&proof);
        assert_eq!(problems, ["UNS-1 is cited by no comment", "DRV-1 is cited by no comment"]);
        assert_eq!(problems_of_contract(&cited), ["SAF-1 has no test"]);
    }

    #[test]
    fn an_obligation_that_code_or_a_string_names_is_not_cited() {
        for line in ["let text = \"UNS-1\"; // UNS-1", "fn uns() {}", "// UNS-12x, XUNS-1, UNS-"] {
            assert_eq!(scanned("a.rs", &[line]), Claims::default(), "{line}");
        }
    }

    #[test]
    fn a_comment_that_cites_what_is_in_no_list_is_a_problem() {
        let all = ["// Requirement: SAF-1", "fn a() {}", "// UNS-1, DRV-1", "    # See `SAF-9`."];
        assert_eq!(problems_of_contract(&all), ["a.rs:4 cites SAF-9, which is in no list"]);
        // Other families are ids of the specifications' list only where a test claims them.
        assert_eq!(scanned("a.rs", &["// UTF-8, CVE-2"]), Claims::default());
    }

    #[test]
    fn a_driver_that_is_found_out_is_a_test_and_a_caller_that_breaks_its_word_is_none() {
        let cited = ["// UNS-1", "// Requirement: SAF-1, DRV-1", "fn a() {}"];
        assert_eq!(problems_of_contract(&cited), [""; 0]);
        let claimed = ["// DRV-1, UNS-1", "// Requirement: SAF-1, UNS-1", "fn a() {}"];
        let problems = problems_of_contract(&claimed);
        assert_eq!(problems, ["a (a.rs:2) claims UNS-1, which no test can prove"]);
    }

    #[test]
    fn a_claim_that_cannot_be_read_is_a_problem() {
        for list in ["", "ABI-1 and ABI-2", "ABI-1,", "ABI-1.", "ABI 1"] {
            let claim = format!("// Requirement: {list}");
            let problems = problems_of(&["// Requirement: ABI-1, ABI-2", "fn a() {}", &claim]);
            let [problem] = problems.as_slice() else { panic!("{problems:?}") };
            assert!(problem.starts_with("a.rs:3: "), "{problem}");
        }
    }

    #[test]
    fn a_family_that_is_switched_on_and_does_not_exist_is_a_problem() {
        let claims = scanned("a.rs", &["// Requirement: ABI-1, ABI-2"]);
        let (_, problems) = compare(&parse_lists(&[TABLE]).unwrap(), &claims, &["ABI", "ABX"]);
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
}
