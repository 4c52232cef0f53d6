//! The page about the checker: the rules that it lists are those that there are, and what it says
//! to be found is found by a test.

use std::fs;
use std::path::Path;

use arrow_device_check::rules;

const PAGE: &str = include_str!("../../../../docs/check.md");

/// The rows of the table that begins with this head, as cells.
fn rows(head: &str) -> Vec<Vec<&'static str>> {
    let table = PAGE.lines().skip_while(|line| *line != head).skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn the_page_lists_the_rules_that_there_are() {
    let listed = rows("| id | rule |");
    let known: Vec<Vec<&str>> =
        rules::ALL.iter().map(|rule| vec![rule.id, rule.sentence]).collect();
    assert_eq!(listed, known);
}

/// Whether a test of this name is in the file of this name.
fn is_test(name: &str) -> bool {
    let Some((file, function)) = name.split_once("::") else { return false };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let file = folder.join("checks").join(file).with_extension("rs");
    fs::read_to_string(file).is_ok_and(|text| text.contains(&format!("#[test]\nfn {function}()")))
}

#[test]
fn each_fault_on_the_page_is_found_by_a_test_that_there_is() {
    let faults = rows("| library | fault | found as | by the test |");
    for fault in &faults {
        let [_, _, ids, test] = fault[..] else { panic!("{fault:?}") };
        let is_known = |id: &str| rules::ALL.iter().any(|rule| rule.id == id);
        assert!(ids.split(", ").all(is_known), "{fault:?}");
        assert!(is_test(test.trim_matches('`')), "there is no {test}");
    }
    assert_eq!(faults.len(), 38);
    assert!(!is_test("python::nobody") && !is_test("nowhere::nobody"));
}
