//! Times workloads beside their peers, and reports.
//!
//! `arrow-device-times [--quick] [--only WORKLOAD] [--also FILE] [--command WORDS]
//! [--into FOLDER [--page FILE]...]`
//!
//! A file of others' times has a line of JSON for each. Without a folder everything is only
//! printed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use benchmarks::case::Case;
use benchmarks::clock::{Effort, compare};
use benchmarks::gate::Record;
use benchmarks::report::{self, Machine, OURS, Row, aims, page};
use benchmarks::workloads::{FAMILIES, processes};

/// For figures that are kept.
const THOROUGH: Effort =
    Effort { rounds: 41, turn: Duration::from_millis(4), most: Duration::from_secs(20) };
/// To see whether something changed much.
const QUICK: Effort =
    Effort { rounds: 9, turn: Duration::from_millis(1), most: Duration::from_secs(2) };

/// The counts, whose promises are among the aims.
const COUNTS: &str = include_str!("../../counts.json");

#[derive(Debug, Default)]
struct Wish {
    quick: bool,
    only: Option<String>,
    also: Option<PathBuf>,
    command: String,
    into: Option<PathBuf>,
    pages: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [processes::RECEIVE, how] => processes::receive(how),
        _ => wish(&words).and_then(|wish| run(&wish)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(wish: &Wish) -> Result<(), String> {
    let mut machine = Machine::look(&wish.command);
    let mut rows = measured(wish);
    if let Some(file) = &wish.also {
        let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        for line in text.lines() {
            let row = Row::parse(line)?;
            println!("{}", page::line(&row, None));
            rows.push(row);
        }
    }
    rows.sort_by(|a, b| (&a.workload, &a.shape, a.size).cmp(&(&b.workload, &b.shape, b.size)));
    machine.finish();
    let counts = Record::parse(COUNTS)?;
    println!();
    aims::verdicts(&rows, &counts).iter().for_each(|verdict| println!("{verdict}"));
    let pages: Vec<&Path> = wish.pages.iter().map(PathBuf::as_path).collect();
    match &wish.into {
        Some(folder) => report::write(&rows, &machine, &counts, folder, &pages),
        None => Ok(()),
    }
}

fn measured(wish: &Wish) -> Vec<Row> {
    let effort = if wish.quick { QUICK } else { THOROUGH };
    let mut rows = Vec::new();
    for family in FAMILIES {
        let mut cases: Vec<Case> = (family.cases)();
        cases.retain(|case| wish.only.as_ref().is_none_or(|only| case.workload == only));
        cases.sort_by_key(|case| (case.workload, case.shape, case.size, case.peer));
        let same =
            |a: &Case, b: &Case| (a.workload, a.shape, a.size) == (b.workload, b.shape, b.size);
        for cases in cases.chunk_by_mut(same) {
            let new: Vec<Row> = compare(cases, effort).into_iter().map(Row::from).collect();
            let ours = new.iter().find(|row| row.peer == OURS).map(|row| row.median);
            new.iter().for_each(|row| println!("{}", page::line(row, ours)));
            rows.extend(new);
        }
    }
    rows
}

fn wish(words: &[String]) -> Result<Wish, String> {
    let mut wish = Wish::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().cloned().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--quick" => wish.quick = true,
            "--only" => wish.only = Some(value()?),
            "--also" => wish.also = Some(value()?.into()),
            "--command" => wish.command = value()?,
            "--into" => wish.into = Some(value()?.into()),
            "--page" => wish.pages.push(value()?.into()),
            other => return Err(format!("arrow-device-times has no option `{other}`")),
        }
    }
    Ok(wish)
}
