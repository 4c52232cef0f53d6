//! `docs/peers.md`: what was exchanged with whom and what was found, written by the tests.
//!
//! A test calls [`check`] with the line that it found to be true. A line that is not in the page,
//! or differs, fails; with `ARROW_DEVICE_BLESS=1` it is written instead. The last cell of a line
//! names the test.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use arrow_device_testkit::Verdict;

use crate::build;

/// Which table of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Peer, direction, place; then types, cases, exceptions.
    Exchanges,
    /// Peer, fault; then whether the release that was tested has it, and what this library does.
    Faults,
}

impl Table {
    /// The tables of the page.
    pub const ALL: [Self; 2] = [Self::Exchanges, Self::Faults];

    fn heading(self) -> &'static str {
        match self {
            Self::Exchanges => "## Exchanges",
            Self::Faults => "## Faults",
        }
    }

    /// How many cells say which line it is.
    fn key(self) -> usize {
        match self {
            Self::Exchanges => 3,
            Self::Faults => 2,
        }
    }
}

fn path() -> PathBuf {
    build::here("../../docs/peers.md")
}

/// That the page has this line. `test` is the name of the test that found it.
#[track_caller]
pub fn check(table: Table, cells: &[&str], test: &str) {
    // Several tests of a program may write.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let test = format!("`{test}`");
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let line = format!("| {} | {test} |", cells.join(" | "));
    let page = fs::read_to_string(path()).expect("docs/peers.md is there");
    if lines(&page, table).any(|found| found == line) {
        return;
    }
    assert!(
        std::env::var_os("ARROW_DEVICE_BLESS").is_some(),
        "docs/peers.md does not say:\n{line}\nLook whether that is right, and run the test with \
         ARROW_DEVICE_BLESS=1 to write it."
    );
    fs::write(path(), with_line(&page, table, &line)).expect("docs/peers.md is writable");
}

/// The lines of a table below its head.
fn lines(page: &str, table: Table) -> impl Iterator<Item = &str> {
    let section = page.lines().skip_while(move |line| *line != table.heading());
    let rows = section.skip(1).take_while(|line| !line.starts_with("## "));
    rows.filter(|line| line.starts_with('|')).skip(2)
}

/// The page with this line in place of one with the same key, or in its alphabetical place.
fn with_line(page: &str, table: Table, line: &str) -> String {
    let key = |line: &str| -> Vec<String> {
        line.split(" | ").take(table.key()).map(str::to_owned).collect()
    };
    let mut rows: Vec<&str> = lines(page, table).filter(|old| key(old) != key(line)).collect();
    rows.push(line);
    rows.sort_unstable();
    let mut out: Vec<&str> = Vec::new();
    let (mut in_section, mut head) = (false, 0);
    for old in page.lines() {
        if old.starts_with("## ") {
            (in_section, head) = (old == table.heading(), 0);
        }
        if !in_section || !old.starts_with('|') {
            out.push(old);
            continue;
        }
        head += 1;
        if head <= 2 {
            out.push(old);
        }
        if head == 2 {
            out.append(&mut rows);
        }
    }
    out.join("\n") + "\n"
}

/// The tests that the lines of the page name.
pub fn tests_named() -> Vec<String> {
    let page = fs::read_to_string(path()).expect("docs/peers.md is there");
    let name = |line: &str| {
        let cell = line.trim_end_matches(" |").rsplit(" | ").next();
        cell.map(|cell| cell.trim_matches('`').to_owned())
    };
    let all = Table::ALL.into_iter().flat_map(|table| lines(&page, table));
    all.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Page\n\n## Exchanges\n\n| a | b | c | d |\n|---|---|---|---|\n| x | y | z | 1 |\n\n\
                        ## Faults\n\n| a | b |\n|---|---|\n\nEnd.\n";

    #[test]
    fn a_line_is_replaced_or_put_in_its_place() {
        let page = with_line(PAGE, Table::Exchanges, "| x | y | z | 2 |");
        assert_eq!(page, PAGE.replace("z | 1 |", "z | 2 |"));
        let page = with_line(PAGE, Table::Exchanges, "| x | a | z | 2 |");
        assert_eq!(page, PAGE.replace("| x | y |", "| x | a | z | 2 |\n| x | y |"));
        let page = with_line(PAGE, Table::Faults, "| x | y | z |");
        assert_eq!(page, PAGE.replace("\n\nEnd", "\n| x | y | z |\n\nEnd"));
        assert_eq!(lines(&page, Table::Faults).collect::<Vec<_>>(), ["| x | y | z |"]);
    }
}

/// What was found by running a check for many cases: how many were right, and how many of each
/// exception.
#[derive(Debug, Default)]
pub struct Found {
    /// How many were right.
    pub good: usize,
    exceptions: BTreeMap<&'static str, usize>,
    complaints: Vec<String>,
}

impl Found {
    /// Counts a case. What is said of an exception says which one it is.
    pub fn count(&mut self, case: &dyn Display, verdict: Verdict, known: &[(&str, &'static str)]) {
        let Err(complaint) = verdict else {
            self.good += 1;
            return;
        };
        match known.iter().find(|(said, _)| complaint.contains(said)) {
            Some((_, reason)) => *self.exceptions.entry(reason).or_default() += 1,
            None => self.complaints.push(format!("{case}: {complaint}")),
        }
    }

    /// That there is no complaint, and the line of the exchanges with a peer, whose name and
    /// version these are.
    ///
    /// # Panics
    /// Where there is a complaint, or no such line.
    #[track_caller]
    pub fn settle(&self, peer: &str, direction: &str, types: &str, test: &str) {
        let shown: Vec<_> = self.complaints.iter().take(20).cloned().collect();
        assert!(shown.is_empty(), "{} complaints:\n{}", self.complaints.len(), shown.join("\n"));
        let exceptions = self.exceptions.iter();
        let exceptions: Vec<_> =
            exceptions.map(|(reason, count)| format!("{reason} ({count} cases)")).collect();
        let exceptions = if exceptions.is_empty() { "none".into() } else { exceptions.join("; ") };
        let count = self.good.to_string();
        let cells = [peer, direction, "host", types, &count, &exceptions];
        check(Table::Exchanges, &cells, test);
    }
}
