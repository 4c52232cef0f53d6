//! The result of a run of the suite.

use std::fmt;

use arrow_device::DeviceId;

/// A check. The first four look at the driver itself, the others at each array of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Check {
    /// Queues are in order and wait for events. The host waits for both. Queues and events answer
    /// truly, and no other call waits.
    Waits,
    /// Copies at any place and of any length move every byte that they should move, and no other.
    Bytes,
    /// Memory has one owner, lies where it is said to lie, and is given back.
    Memory,
    /// The host reads and writes memory of the device in place.
    Mappings,
    /// A foreign array is taken over with its numbers, addresses and bytes, and is released once,
    /// when it is dropped.
    Import,
    /// An array that is built here is exported as it was built, and its memory is freed when its
    /// consumer releases it.
    Export,
    /// An imported array is exported twice, with the same addresses, device and event.
    ReExport,
    /// Children and dictionaries are moved out of an exported array, and released in every order.
    MoveChildren,
    /// A copy to the device, to another library, and back to the host has the same values.
    Copy,
    /// Work on one queue sees what another queue has still to write, in both directions.
    Order,
    /// Memory that a queue uses is given back after that use, and then at once.
    DeferredRelease,
    /// The host reads the data where it lies, after waiting for it.
    ReadInPlace,
    /// Another device uses the data, or says that it cannot.
    AnotherDevice,
}

impl Check {
    /// All checks, in the order of the report.
    pub const ALL: [Self; 13] = [
        Self::Waits,
        Self::Bytes,
        Self::Memory,
        Self::Mappings,
        Self::Import,
        Self::Export,
        Self::ReExport,
        Self::MoveChildren,
        Self::Copy,
        Self::Order,
        Self::DeferredRelease,
        Self::ReadInPlace,
        Self::AnotherDevice,
    ];

    /// Whether the check looks at the driver itself. The other checks look at arrays, and rely on
    /// these.
    pub fn is_of_driver(self) -> bool {
        matches!(self, Self::Waits | Self::Bytes | Self::Memory | Self::Mappings)
    }

    /// Returns the name of the check in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waits => "waits",
            Self::Memory => "memory",
            Self::Bytes => "bytes",
            Self::Mappings => "mappings",
            Self::Import => "import",
            Self::Export => "export",
            Self::ReExport => "export again",
            Self::MoveChildren => "move children",
            Self::Copy => "copy there and back",
            Self::Order => "order",
            Self::DeferredRelease => "deferred release",
            Self::ReadInPlace => "read in place",
            Self::AnotherDevice => "another device",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An array for which a check failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The check that failed.
    pub check: Check,
    /// The array: its type, which elements of its buffers belong to it, and what is known of its
    /// nulls.
    pub case: String,
    /// The complaint.
    pub complaint: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.check, self.case, self.complaint)
    }
}

/// A mistake, as far as a report can tell it from its consequences.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The first case that shows the mistake.
    pub first: Failure,
    /// How many cases of that check failed.
    pub cases: usize,
    /// Later failures that may follow from it: checks, and how many of their cases.
    pub consequences: Vec<(Check, usize)>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { check, case, complaint } = &self.first;
        write!(f, "{check}: {case}: {}", Shortened(complaint))?;
        if self.cases > 1 {
            write!(f, "\n    and {} more cases of {check}", self.cases - 1)?;
        }
        if !self.consequences.is_empty() {
            let counted = |(check, cases): &(Check, usize)| format!("{check} ({cases})");
            let counted: Vec<String> = self.consequences.iter().map(counted).collect();
            write!(f, "\n    what may follow from it: {}", counted.join(", "))?;
        }
        Ok(())
    }
}

/// A complaint whose middle is left out where it is long.
struct Shortened<'a>(&'a str);

/// The most characters of a complaint that are printed.
const SHOWN: usize = 300;

impl fmt::Display for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.chars();
        shown.by_ref().take(SHOWN).try_for_each(|character| write!(f, "{character}"))?;
        if shown.next().is_some() { f.write_str(" ...") } else { Ok(()) }
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The check was run for this many arrays.
    Run(usize),
    /// The check was not run, for this reason.
    Skipped(String),
}

/// The result of a run of the suite. Printed, it has a line for each check, and then the findings.
#[derive(Clone, Debug)]
#[must_use]
pub struct Report {
    pub(super) device: DeviceId,
    pub(super) name: String,
    pub(super) arrays: usize,
    pub(super) rows: Vec<(Check, CheckOutcome)>,
    /// Promises that were not looked at, because the host may not wait.
    pub(super) left_out: Vec<(Check, &'static str)>,
    pub(super) failures: Vec<Failure>,
}

impl Report {
    /// Returns how many cases were run: arrays, counted once for each check.
    pub fn cases(&self) -> usize {
        self.rows.iter().map(|(_, outcome)| count(outcome)).sum()
    }

    /// Returns the result of a check.
    pub fn outcome(&self, check: Check) -> Option<&CheckOutcome> {
        self.rows.iter().find(|(known, _)| *known == check).map(|(_, outcome)| outcome)
    }

    /// Returns for how many arrays each check was run.
    pub fn counts(&self) -> Vec<(Check, usize)> {
        self.rows.iter().map(|(check, outcome)| (*check, count(outcome))).collect()
    }

    /// Returns the checks that were not run, and why.
    pub fn skipped(&self) -> impl Iterator<Item = (Check, &str)> {
        self.rows.iter().filter_map(|(check, outcome)| match outcome {
            CheckOutcome::Skipped(reason) => Some((*check, reason.as_str())),
            CheckOutcome::Run(_) => None,
        })
    }

    /// Returns what was left out of checks that were run, because the host may not wait: see
    /// [`Suite::turned_by`](super::Suite::turned_by).
    pub fn left_out(&self) -> impl Iterator<Item = (Check, &str)> {
        self.left_out.iter().copied()
    }

    /// Returns the mistakes: one finding for one fault of a driver, as far as that can be told.
    ///
    /// The checks of the driver build on each other. Where one of them fails, all later failures
    /// may follow from it, and belong to one finding. Where the driver is right, each failing check
    /// of arrays is a finding.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = Vec::new();
        for failure in &self.failures {
            let check = failure.check;
            let known = match findings.first_mut() {
                Some(driver) if driver.first.check.is_of_driver() => Some(driver),
                _ => findings.iter_mut().find(|finding| finding.first.check == check),
            };
            match known {
                Some(finding) if finding.first.check == check => finding.cases += 1,
                Some(finding) => {
                    let consequences = &mut finding.consequences;
                    match consequences.iter_mut().find(|(known, _)| *known == check) {
                        Some((_, cases)) => *cases += 1,
                        None => consequences.push((check, 1)),
                    }
                }
                None => {
                    let (first, consequences) = (failure.clone(), Vec::new());
                    findings.push(Finding { first, cases: 1, consequences });
                }
            }
        }
        findings
    }

    /// Returns every case that failed.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// Fails the test that calls this unless every case passed. Prints the report first.
    ///
    /// # Panics
    /// Panics if a case failed.
    #[track_caller]
    pub fn assert(&self) {
        println!("{self}");
        let first = self.failures.first().map(ToString::to_string).unwrap_or_default();
        assert!(self.failures.is_empty(), "{} cases failed, first: {first}", self.failures.len());
    }
}

fn count(outcome: &CheckOutcome) -> usize {
    match outcome {
        CheckOutcome::Run(cases) => *cases,
        CheckOutcome::Skipped(_) => 0,
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({}): {} arrays", self.name, self.device, self.arrays)?;
        for (check, outcome) in &self.rows {
            let failed = self.failures.iter().filter(|failure| failure.check == *check).count();
            match outcome {
                CheckOutcome::Run(cases) if failed == 0 => {
                    writeln!(f, "  {check:<20} {cases:>6} cases")?
                }
                CheckOutcome::Run(cases) => {
                    writeln!(f, "  {check:<20} {cases:>6} cases, {failed} FAILED")?;
                }
                CheckOutcome::Skipped(reason) => writeln!(f, "  {check:<20} skipped: {reason}")?,
            }
            for (_, name) in self.left_out.iter().filter(|(of, _)| of == check) {
                writeln!(f, "    without `{name}`: the host may not wait")?;
            }
        }
        write!(f, "  {:<20} {:>6} cases, {} failed", "all", self.cases(), self.failures.len())?;
        for finding in self.findings() {
            write!(f, "\n  {finding}")?;
        }
        Ok(())
    }
}
