//! Holds counts to what was promised and to what they were before, which a file keeps.
//!
//! Counts are exact, instructions may rise by 2 %. Instructions depend on the compiler and the C
//! library, which the file names: with others they are held to what was promised alone. What became
//! better is no failure; `ARROW_DEVICE_BLESS=1` writes the file anew, and from then on it may not
//! become worse again.

mod measure;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

pub use measure::{gate, toolchain};

use crate::meter::INSTRUCTIONS;

/// The counts of one workload by their names.
pub type Counts = BTreeMap<String, u64>;

/// What the file keeps, or what was measured now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The compiler and the C library that the instructions are of.
    pub toolchain: String,
    /// The counts of each workload.
    pub workloads: BTreeMap<String, Counts>,
}

impl Record {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// Where it is not such a file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let toolchain = value["toolchain"].as_str().ok_or("it names no toolchain")?.to_owned();
        let mut workloads = BTreeMap::new();
        for (name, counts) in value["workloads"].as_object().ok_or("it has no workloads")? {
            let counts = counts.as_object().ok_or_else(|| format!("{name} has no counts"))?;
            let counts: Option<Counts> = counts
                .iter()
                .map(|(count, value)| Some((count.clone(), value.as_u64()?)))
                .collect();
            workloads.insert(
                name.clone(),
                counts.ok_or_else(|| format!("{name}: a count is no number"))?,
            );
        }
        Ok(Self { toolchain, workloads })
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let value = json!({ "toolchain": self.toolchain, "workloads": self.workloads });
        format!("{value:#}\n")
    }
}

/// How one count of a workload compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The workload.
    pub workload: String,
    /// What there is to say.
    pub what: CountChange,
}

/// How one count of a workload differs from what the file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CountChange {
    /// More than before: the count, what it was, what it is.
    Worse(String, u64, u64),
    /// Less than before.
    Better(String, u64, u64),
    /// More than was promised: the count, the promise, what it is.
    Broken(String, u64, u64),
    /// The file does not have it.
    New,
    /// The file has it, or a count of it, and nobody measured it.
    Missing(Option<String>),
}

impl Finding {
    /// Whether the gate stays shut.
    pub fn is_failure(&self) -> bool {
        !matches!(self.what, CountChange::Better(..))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bless = "ARROW_DEVICE_BLESS=1 writes it down";
        write!(f, "{}: ", self.workload)?;
        match &self.what {
            CountChange::Worse(count, before, now) => write!(f, "{now} {count}, {before} before"),
            CountChange::Better(count, before, now) => {
                write!(f, "{now} {count}, {before} before: better; {bless}")
            }
            CountChange::Broken(count, promise, now) => {
                write!(f, "{now} {count}, at most {promise} promised")
            }
            CountChange::New => write!(f, "not in the file of counts; {bless}"),
            CountChange::Missing(None) => {
                write!(f, "in the file of counts, but not measured; {bless}")
            }
            CountChange::Missing(Some(count)) => {
                write!(f, "{count} is in the file of counts, but was not counted; {bless}")
            }
        }
    }
}

/// Compares what was measured with what was promised, by workload and count, and with what was
/// kept.
pub fn compare(
    kept: &Record,
    now: &Record,
    promises: &BTreeMap<String, Counts>,
    has_instructions: bool,
) -> Vec<Finding> {
    let same_toolchain = kept.toolchain == now.toolchain;
    let is_compared = |count: &str| count != INSTRUCTIONS || (has_instructions && same_toolchain);
    let mut findings = Vec::new();
    let mut find = |workload: &str, what| {
        findings.push(Finding { workload: workload.to_owned(), what });
    };
    for (workload, counts) in &now.workloads {
        for (count, &promise) in promises.get(workload).into_iter().flatten() {
            match counts.get(count) {
                Some(&value) if value > promise => {
                    find(workload, CountChange::Broken(count.clone(), promise, value));
                }
                None if count != INSTRUCTIONS || has_instructions => {
                    find(workload, CountChange::Missing(Some(count.clone())));
                }
                _ => {}
            }
        }
        let Some(before) = kept.workloads.get(workload) else {
            find(workload, CountChange::New);
            continue;
        };
        for (count, &before) in before.iter().filter(|(count, _)| is_compared(count)) {
            let Some(&value) = counts.get(count) else {
                find(workload, CountChange::Missing(Some(count.clone())));
                continue;
            };
            let slack = if count == INSTRUCTIONS { before / 50 } else { 0 };
            if value > before + slack {
                find(workload, CountChange::Worse(count.clone(), before, value));
            } else if value + slack < before {
                find(workload, CountChange::Better(count.clone(), before, value));
            }
        }
        if counts.keys().any(|count| is_compared(count) && !before.contains_key(count)) {
            find(workload, CountChange::New);
        }
    }
    for workload in kept.workloads.keys().filter(|name| !now.workloads.contains_key(*name)) {
        find(workload, CountChange::Missing(None));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::ALLOCATIONS;

    fn record(counts: &[(&str, u64)]) -> Record {
        let counts = counts.iter().map(|&(name, count)| (name.to_owned(), count)).collect();
        Record { toolchain: "one".into(), workloads: BTreeMap::from([("export".into(), counts)]) }
    }

    fn findings(kept: &Record, now: &Record) -> Vec<CountChange> {
        let found = compare(kept, now, &BTreeMap::new(), true);
        found.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn the_same_counts_pass() {
        let record = record(&[(ALLOCATIONS, 1), (INSTRUCTIONS, 1000)]);
        assert_eq!(findings(&record, &record), []);
    }

    #[test]
    fn one_more_allocation_is_worse_and_one_less_is_better() {
        let (one, two) = (record(&[(ALLOCATIONS, 1)]), record(&[(ALLOCATIONS, 2)]));
        let worse = compare(&one, &two, &BTreeMap::new(), true);
        assert_eq!(worse[0].what, CountChange::Worse(ALLOCATIONS.into(), 1, 2));
        assert!(worse[0].is_failure());
        assert_eq!(worse[0].to_string(), "export: 2 allocations, 1 before");
        let better = compare(&two, &one, &BTreeMap::new(), true);
        assert_eq!(better[0].what, CountChange::Better(ALLOCATIONS.into(), 2, 1));
        assert!(!better[0].is_failure());
    }

    #[test]
    fn instructions_may_rise_by_two_hundredths() {
        let before = record(&[(INSTRUCTIONS, 10_000)]);
        assert_eq!(findings(&before, &record(&[(INSTRUCTIONS, 10_200)])), []);
        let worse = CountChange::Worse(INSTRUCTIONS.into(), 10_000, 10_210);
        assert_eq!(findings(&before, &record(&[(INSTRUCTIONS, 10_210)])), [worse]);
        assert_eq!(findings(&before, &record(&[(INSTRUCTIONS, 9_800)])), []);
        let better = CountChange::Better(INSTRUCTIONS.into(), 10_000, 9_790);
        assert_eq!(findings(&before, &record(&[(INSTRUCTIONS, 9_790)])), [better]);
    }

    #[test]
    fn instructions_of_another_compiler_are_held_to_the_promise_alone() {
        let before = record(&[(INSTRUCTIONS, 10_000), (ALLOCATIONS, 1)]);
        let mut now = record(&[(INSTRUCTIONS, 20_000), (ALLOCATIONS, 2)]);
        now.toolchain = "another".into();
        let promise = Counts::from([(INSTRUCTIONS.to_owned(), 15_000)]);
        let found = compare(&before, &now, &BTreeMap::from([("export".into(), promise)]), true);
        let found: Vec<CountChange> = found.into_iter().map(|finding| finding.what).collect();
        let broken = CountChange::Broken(INSTRUCTIONS.into(), 15_000, 20_000);
        assert_eq!(found, [broken, CountChange::Worse(ALLOCATIONS.into(), 1, 2)]);
    }

    #[test]
    fn without_callgrind_nobody_misses_instructions_and_other_counts_are_missed() {
        let before = record(&[(INSTRUCTIONS, 10_000), (ALLOCATIONS, 1)]);
        let promises = BTreeMap::from([("export".to_owned(), before.workloads["export"].clone())]);
        let found = compare(&before, &record(&[]), &promises, false);
        assert!(found.iter().all(|f| f.what == CountChange::Missing(Some(ALLOCATIONS.into()))));
        assert_eq!(found.len(), 2);
        assert_eq!(compare(&before, &record(&[]), &promises, true).len(), 4);
    }

    #[test]
    fn a_workload_or_a_count_that_only_one_side_has_is_told() {
        let (none, one) = (Record { toolchain: "one".into(), ..Record::default() }, record(&[]));
        assert_eq!(findings(&none, &one), [CountChange::New]);
        assert_eq!(findings(&one, &none), [CountChange::Missing(None)]);
        assert_eq!(findings(&one, &record(&[(ALLOCATIONS, 0)])), [CountChange::New]);
        assert!(compare(&none, &one, &BTreeMap::new(), true)[0].is_failure());
        assert!(compare(&one, &none, &BTreeMap::new(), true)[0].is_failure());
    }

    #[test]
    fn the_file_reads_back_as_it_was_written() {
        let record = record(&[(ALLOCATIONS, 1), (INSTRUCTIONS, u64::MAX)]);
        assert_eq!(Record::parse(&record.text()), Ok(record));
        for text in ["", "{}", "{\"toolchain\": \"a\", \"workloads\": {\"b\": {\"c\": -1}}}"] {
            assert!(Record::parse(text).is_err(), "{text}");
        }
    }
}
