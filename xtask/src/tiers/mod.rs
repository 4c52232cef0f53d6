//! `cargo xtask test`: the tiers of tests, and the count over all of them.
//!
//! The table [`TIERS`] says all there is to know about a tier. Whatever needs a tool that is
//! missing is skipped with its reason, unless the run is strict: then a tool that could be
//! installed must be there.

mod features;
mod room;
mod table;

use std::time::{Duration, Instant};

use crate::setup::{self, Tool};
use crate::shell;

use table::Kind;
pub(crate) use table::{TIERS, Tier, When};

/// What `cargo xtask test` was asked for.
#[derive(Debug, Default)]
pub(crate) struct TestOptions {
    pub(crate) setup: bool,
    /// The tiers of this level and of those before it.
    pub(crate) level: When,
    pub(crate) only: Option<String>,
}

/// Runs the tiers asked for, prints what became of each and the closing line, and writes that line
/// down.
pub(crate) fn test(options: &TestOptions) -> Result<(), String> {
    // A line of an earlier run must not be taken for this one's.
    let summary = shell::root().join("target/test-summary.txt");
    std::fs::remove_file(&summary).or_else(|error| {
        if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(said(&error)) }
    })?;

    let tiers = chosen(options)?;
    let wants_tests = tiers.iter().any(|tier| tier.kind == Kind::Tests);
    if options.setup {
        setup::install(&tools_for(&tiers, options.level >= When::All || shell::in_ci()));
    }
    let first = Instant::now();
    let run = |tier: &'static Tier| {
        // Shows where the time went, also of a run that is cut off before its summary.
        let so_far = first.elapsed().as_secs();
        println!("\n== {}: {} (after {so_far} s)", tier.name, tier.purpose);
        run(tier, is_strict())
    };
    let reports: Vec<Report> = tiers.into_iter().map(run).collect();

    println!("\nsummary");
    let mut total = Tally::default();
    for report in &reports {
        println!("  {report}");
        total.add(report.tally);
    }
    for report in reports.iter().filter(|report| !report.words.is_empty()) {
        println!("\nwhat failed in {} said", report.name);
        report.words.iter().for_each(|line| println!("  {line}"));
    }
    if wants_tests && total.ran() == 0 {
        println!("  no test ran at all, which counts as a failure");
        total.failed += 1;
    }
    let closing_line =
        format!("{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped);
    if let Some(folder) = summary.parent() {
        std::fs::create_dir_all(folder).map_err(|error| said(&error))?;
    }
    std::fs::write(&summary, format!("{closing_line}\n")).map_err(|error| said(&error))?;
    if options.level == When::Everything && total.failed == 0 {
        println!("\nfor the table \"Last run of everything\" in CONTRIBUTING.md:");
        println!("{}", record(&closing_line)?);
    }
    println!("\n{closing_line}");
    if total.failed == 0 { Ok(()) } else { Err(String::new()) }
}

/// The row of the table "Last run of everything" for a run that ends now: which commit, which day,
/// which counts.
fn record(counts: &str) -> Result<String, String> {
    let said = |words: &[&str]| {
        let said = shell::output_of(words).ok_or_else(|| format!("`{}` failed", words.join(" ")));
        said.map(|text| text.trim().to_owned())
    };
    let commit = said(&["git", "rev-parse", "--short=10", "HEAD"])?;
    let changes = said(&["git", "status", "--porcelain", "--untracked-files=no"])?;
    let date = said(&["date", "--utc", "+%Y-%m-%d"])?;
    Ok(row_of(&commit, !changes.is_empty(), &date, counts))
}

fn row_of(commit: &str, is_changed: bool, date: &str, counts: &str) -> String {
    let changes = if is_changed { " with changes that are not committed" } else { "" };
    format!("| {commit}{changes} | {date} | {counts} |")
}

/// How many tests ended how. A tier that fails without a failing test counts as one failure; a tier
/// or a tool that is missing counts as one skip, as does an ignored test.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    fn ran(&self) -> u64 {
        self.passed + self.failed
    }

    /// Reads `test result: ok. 3 passed; 0 failed; 1 ignored; ...`, the line each test program ends
    /// with.
    fn from_line(line: &str) -> Option<Self> {
        let (_, counts) = line.trim_end().strip_prefix("test result: ")?.split_once(". ")?;
        let count = |name: &str| {
            counts.split("; ").find_map(|part| part.strip_suffix(name)?.trim().parse().ok())
        };
        Some(Self {
            passed: count("passed")?,
            failed: count("failed")?,
            skipped: count("ignored")?,
        })
    }
}

/// The name of the test that this line says failed, or that it begins and never ends because its
/// program did.
fn broken(line: &str) -> Option<&str> {
    if let Some(said) = line.strip_prefix("FAILED ") {
        // pytest puts the name first, and after it what was wrong.
        return said.split_whitespace().next();
    }
    let (name, verdict) = line.strip_prefix("test ")?.rsplit_once(" ...")?;
    matches!(verdict.trim(), "FAILED" | "").then_some(name)
}

/// How many lines of what a failure says are repeated behind the summary, for each test and for
/// each tier.
const WORDS_OF_A_TEST: usize = 9;
const WORDS_OF_A_TIER: usize = 27;

/// Collects what failed tests say: where each panicked and the message, which may be that of a
/// child process inside the message of its parent, and what pytest marks as the error. A reader who
/// has only the end of the output learns from these lines what went wrong.
#[derive(Debug, Default)]
struct Words {
    lines: Vec<String>,
    /// How many lines of this test may still be taken.
    of_test: usize,
    /// How many lines belong to the panic that was read last.
    of_panic: usize,
}

impl Words {
    /// Reads a line of the output.
    fn read(&mut self, line: &str) {
        let line = line.trim_end();
        let is_heading = line.starts_with("---- ") && line.ends_with(" stdout ----");
        let is_error = line.starts_with("E   ");
        if is_heading {
            self.of_test = WORDS_OF_A_TEST;
        } else if line.contains("panicked at ") && self.of_test > 0 {
            self.of_panic = 3;
        }
        let is_said = self.of_panic > 0 && self.of_test > 0 && !line.is_empty();
        self.of_panic = self.of_panic.saturating_sub(1);
        if (is_heading || is_error || is_said) && self.lines.len() < WORDS_OF_A_TIER {
            self.of_test = self.of_test.saturating_sub(1);
            self.lines.push(line.chars().take(400).collect());
        }
    }
}

/// What became of a tier.
struct Report {
    name: &'static str,
    tally: Tally,
    problem: Option<String>,
    /// The tests that failed, by name: what they said may be thousands of lines above.
    broken: Vec<String>,
    /// What the tests that failed said, in few lines.
    words: Vec<String>,
    /// Why the tier, or a part of it, did not run.
    skips: Vec<String>,
    time: Duration,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { passed, failed, skipped } = self.tally;
        write!(f, "{:<22} {passed} passed, {failed} failed, {skipped} skipped", self.name)?;
        write!(f, "  ({} s)", self.time.as_secs())?;
        for skip in &self.skips {
            write!(f, "\n    skipped: {skip}")?;
        }
        if let Some(problem) = &self.problem {
            write!(f, "\n    failed: {problem}")?;
        }
        for name in &self.broken {
            write!(f, "\n      {name}")?;
        }
        Ok(())
    }
}

fn run(tier: &'static Tier, strict: bool) -> Report {
    let start = Instant::now();
    let (mut tally, mut problem, mut skips) = (Tally::default(), None, Vec::new());
    let (mut names, mut words) = (Vec::new(), Words::default());

    let missing = |tools: &[Tool]| -> Vec<Tool> {
        tools.iter().copied().filter(|tool| !tool.is_present()).collect()
    };
    let (needed, gained) = (missing(tier.needs), missing(tier.gains_from));
    for (tool, subject) in needed
        .iter()
        .map(|tool| (tool, "this tier"))
        .chain(gained.iter().map(|tool| (tool, "some of its tests")))
    {
        let reason = format!("{subject} for want of {} ({})", tool.name, tool.advice());
        if strict && tool.is_installable() {
            println!("failed: {reason}");
            tally.failed += 1;
            problem = Some(format!("{} must be there in a strict run", tool.name));
        } else {
            println!("skipped: {reason}");
            tally.skipped += 1;
            skips.push(reason);
        }
    }

    if needed.is_empty() {
        let mut seen = Tally::default();
        let outcome = shell::run_seeing_lines(tier.command, tier.variables, |line| {
            seen.add(Tally::from_line(line).unwrap_or_default());
            names.extend(broken(line).map(str::to_owned));
            words.read(line);
        });
        let verdict = judge(&tier.kind, seen, outcome);
        if verdict.is_err() && seen.failed == 0 {
            seen.failed = 1;
        }
        tally.add(seen);
        problem = verdict.err().or(problem);
        room::give_back(tier.name);
    }
    let (words, time) = (words.lines, start.elapsed());
    Report { name: tier.name, tally, problem, broken: names, words, skips, time }
}

/// Whether a tier succeeded, from what its command printed and how it ended.
fn judge(kind: &Kind, seen: Tally, outcome: Result<(), String>) -> Result<(), String> {
    outcome?;
    if seen.failed > 0 {
        return Err("tests failed though the command succeeded".to_owned());
    }
    if *kind == Kind::Tests && seen.ran() == 0 {
        return Err("the command succeeded but ran no test".to_owned());
    }
    Ok(())
}

fn chosen(options: &TestOptions) -> Result<Vec<&'static Tier>, String> {
    let Some(name) = &options.only else {
        return Ok(TIERS.iter().filter(|tier| tier.when <= options.level).collect());
    };
    let tier = TIERS.iter().find(|tier| tier.name == name);
    tier.map(|tier| vec![tier]).ok_or_else(|| {
        format!("there is no tier called `{name}`; `cargo xtask` alone lists the tiers")
    })
}

/// All tools that the tiers can use, and those of `cargo xtask lint` when asked for.
fn tools_for(tiers: &[&Tier], with_lint: bool) -> Vec<Tool> {
    let mut tools: Vec<Tool> = tiers
        .iter()
        .flat_map(|tier| tier.needs.iter().chain(tier.gains_from))
        .copied()
        .chain(with_lint.then_some(setup::CARGO_DENY))
        .collect();
    tools.sort_by_key(|tool| tool.name);
    tools.dedup_by_key(|tool| tool.name);
    tools
}

/// Whether a missing tool is a failure where it could be installed.
pub(crate) fn is_strict() -> bool {
    let required = std::env::var("ARROW_DEVICE_REQUIRE").unwrap_or_default();
    shell::in_ci() || required.split(',').any(|word| word.trim() == "all")
}

fn said(error: &std::io::Error) -> String {
    format!("target/test-summary.txt: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "test result: ok. 3 passed; 0 failed; 2 ignored; 0 measured; 7 filtered out; finished in 0.00s\n";

    #[test]
    fn the_closing_line_of_a_test_program_is_counted() {
        assert_eq!(Tally::from_line(LINE), Some(Tally { passed: 3, failed: 0, skipped: 2 }));
        let failed = LINE.replace("ok. 3 passed; 0 failed", "FAILED. 2 passed; 14 failed");
        assert_eq!(Tally::from_line(&failed), Some(Tally { passed: 2, failed: 14, skipped: 2 }));
        let short = "test result: ok. 3 passed; 0 failed; 0 ignored\n";
        assert_eq!(Tally::from_line(short), Some(Tally { passed: 3, failed: 0, skipped: 0 }));
    }

    #[test]
    fn other_lines_are_not_counted() {
        for line in ["", "running 3 tests", "test a ... ok", "test result: unknown", "3 passed"] {
            assert_eq!(Tally::from_line(line), None, "{line}");
        }
        assert_eq!(Tally::from_line(&format!("  {LINE}")), None);
    }

    #[test]
    fn the_tests_that_failed_are_named() {
        assert_eq!(broken("test a::b ... FAILED\n"), Some("a::b"));
        assert_eq!(broken("test a::b - should panic ... FAILED\n"), Some("a::b - should panic"));
        assert_eq!(
            broken("test the_interpreter_stopped_here ... \n"),
            Some("the_interpreter_stopped_here")
        );
        assert_eq!(broken("FAILED tests/a.py::b - assert 1 == 2\n"), Some("tests/a.py::b"));
        for line in ["test a ... ok\n", "test a ... ignored, takes long\n", LINE, "a ... FAILED\n"]
        {
            assert_eq!(broken(line), None, "{line}");
        }
    }

    #[test]
    fn what_a_failed_test_said_is_repeated_in_few_lines() {
        let mut words = Words::default();
        let printed = "test a ... FAILED\n\n---- a stdout ----\n\n\
            thread 'a' (7) panicked at src/a.rs:1:2:\n it failed, and said:\n\n\
            thread 'a' (8) panicked at src/b.rs:3:4:\n    1 is not 2\nnote: run with\n   0: frame\n\
            E   assert 1 == 2\n";
        printed.lines().for_each(|line| words.read(line));
        let said = [
            "---- a stdout ----",
            "thread 'a' (7) panicked at src/a.rs:1:2:",
            " it failed, and said:",
            "thread 'a' (8) panicked at src/b.rs:3:4:",
            "    1 is not 2",
            "note: run with",
            "E   assert 1 == 2",
        ];
        assert_eq!(words.lines, said);
        (0..100).for_each(|_| words.read("---- b stdout ----"));
        assert_eq!(words.lines.len(), WORDS_OF_A_TIER);
        let mut none = Words::default();
        none.read("thread 'main' panicked at a test that passes");
        assert!(none.lines.is_empty());
    }

    #[test]
    fn a_tier_that_runs_no_test_has_failed() {
        let none = Tally { skipped: 5, ..Tally::default() };
        assert!(judge(&Kind::Tests, none, Ok(())).is_err());
        assert!(judge(&Kind::Check, none, Ok(())).is_ok());
    }

    #[test]
    fn a_failing_test_or_command_fails_the_tier() {
        let good = Tally { passed: 1, ..Tally::default() };
        let bad = Tally { failed: 1, ..good };
        assert!(judge(&Kind::Tests, good, Ok(())).is_ok());
        assert!(judge(&Kind::Tests, bad, Ok(())).is_err());
        assert!(judge(&Kind::Tests, good, Err("exit status: 101".to_owned())).is_err());
    }

    #[test]
    fn a_missing_tool_skips_the_tier_and_fails_it_in_a_strict_run() {
        static TIER: Tier = Tier {
            name: "fixture",
            purpose: "a tier whose tool is never there",
            when: When::All,
            needs: &[setup::ABSENT],
            gains_from: &[],
            variables: &[],
            command: &["false"],
            kind: Kind::Tests,
        };
        let lenient = run(&TIER, false);
        assert_eq!(lenient.tally, Tally { skipped: 1, ..Tally::default() });
        assert!(lenient.problem.is_none());
        let strict = run(&TIER, true);
        assert_eq!(strict.tally, Tally { failed: 1, ..Tally::default() });
        assert!(strict.problem.is_some());
    }

    #[test]
    fn a_command_that_dies_without_a_result_counts_as_one_failure() {
        static TIER: Tier = Tier {
            name: "fixture",
            purpose: "a command that fails",
            when: When::All,
            needs: &[],
            gains_from: &[],
            variables: &[],
            command: &["false"],
            kind: Kind::Tests,
        };
        let report = run(&TIER, false);
        assert_eq!(report.tally, Tally { failed: 1, ..Tally::default() });
        assert!(report.to_string().contains("failed: `false`"), "{report}");
    }

    #[test]
    fn a_run_of_everything_is_recorded_as_a_row_of_the_table_in_contributing() {
        let row = row_of("0123456789", false, "2026-11-22", "3 passed, 0 failed, 1 skipped");
        assert_eq!(row, "| 0123456789 | 2026-11-22 | 3 passed, 0 failed, 1 skipped |");
        let changed = row_of("0123456789", true, "2026-11-22", "3 passed");
        assert!(changed.contains("not committed"), "{changed}");
        let page = shell::read("CONTRIBUTING.md").unwrap();
        let (_, table) = page.split_once("Last run of everything").unwrap();
        let heading = table.lines().find(|line| line.starts_with('|')).unwrap();
        assert_eq!(heading.matches('|').count(), row.matches('|').count(), "{heading}");
    }

    #[test]
    fn a_tier_is_chosen_by_its_level_or_by_name() {
        let names = |options: &TestOptions| -> Vec<_> {
            chosen(options).unwrap().iter().map(|tier| tier.name).collect()
        };
        assert_eq!(
            names(&TestOptions::default()),
            ["unit and integration", "panic abort", "python"]
        );
        let of_level = |level| names(&TestOptions { level, ..TestOptions::default() });
        assert!(of_level(When::All).contains(&"miri") && !of_level(When::All).contains(&"fuzz"));
        assert_eq!(of_level(When::Everything).len(), TIERS.len());
        let only =
            |name: &str| TestOptions { only: Some(name.to_owned()), ..TestOptions::default() };
        assert_eq!(names(&only("miri")), ["miri"]);
        assert!(chosen(&only("mire")).is_err_and(|why| why.contains("`mire`; `cargo xtask`")));
    }
}
