//! What a run of the suite found.

use std::fmt;

use arrow_device::DeviceId;

/// One thing that is looked at: the first four at the driver itself, the others for each array of
/// the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Check {
    /// Queues are in order, and wait for events; the host waits for both; both answer truly, and no
    /// other call waits.
    Waits,
    /// Copies at any places and of any lengths move every byte that they are to move, and no other.
    Bytes,
    /// Memory is nobody else's, lies where it is said to lie, and is given back.
    Memory,
    /// The host reads and writes in place what the device has.
    Mappings,
    /// An array of somebody else's is taken over as it is: numbers, addresses and bytes; released
    /// once, when it is dropped.
    Import,
    /// An array that is built here goes out as it was built, and its memory is freed when its
    /// consumer releases it.
    Export,
    /// What was imported is handed on twice, with the same addresses, device and event.
    ReExport,
    /// Children and dictionaries are moved out of what was handed on, and released in every order.
    MoveChildren,
    /// A copy to the device, over to somebody else, and back to the host has the same values.
    Copy,
    /// Work on one queue sees what another has still to write, in both directions.
    Order,
    /// Memory that a queue uses goes back after that use, and then at once.
    DeferredRelease,
    /// The host reads the data where it lies, after waiting for it.
    ReadInPlace,
    /// Another device uses the data, or says that it cannot.
    AnotherDevice,
}

impl Check {
    /// All of them, in the order of the report.
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

    /// Whether it looks at the driver itself. The others look at arrays, and rest on these.
    pub fn is_of_driver(self) -> bool {
        matches!(self, Self::Waits | Self::Bytes | Self::Memory | Self::Mappings)
    }

    /// Its name in a report.
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

/// One array for which a check failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The check.
    pub check: Check,
    /// The array: its type, which elements of its buffers it is, and what is known of its nulls.
    pub case: String,
    /// What is wrong.
    pub complaint: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.check, self.case, self.complaint)
    }
}

/// What is wrong, as far as a report can tell it from what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The first case in which it shows.
    pub first: Failure,
    /// How many cases of that check failed.
    pub cases: usize,
    /// What failed after it and may follow from it: checks, and how many of their cases.
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

/// A complaint, without the middle of it where it is long.
struct Shortened<'a>(&'a str);

/// How many characters of a complaint are printed.
const SHOWN: usize = 300;

impl fmt::Display for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.chars();
        shown.by_ref().take(SHOWN).try_for_each(|character| write!(f, "{character}"))?;
        if shown.next().is_some() { f.write_str(" ...") } else { Ok(()) }
    }
}

/// What became of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// It was run for so many arrays.
    Run(usize),
    /// It was not run, for this reason.
    Skipped(String),
}

/// What a run of the suite found. Printed, it has a line for each check, and then the findings.
#[derive(Clone, Debug)]
#[must_use]
pub struct Report {
    pub(super) device: DeviceId,
    pub(super) name: String,
    pub(super) arrays: usize,
    pub(super) rows: Vec<(Check, CheckOutcome)>,
    /// Promises that were not looked at, because nobody may wait.
    pub(super) left_out: Vec<(Check, &'static str)>,
    pub(super) failures: Vec<Failure>,
}

impl Report {
    /// How many cases were run: arrays, counted once for each check.
    pub fn cases(&self) -> usize {
        self.rows.iter().map(|(_, outcome)| count(outcome)).sum()
    }

    /// What became of a check.
    pub fn outcome(&self, check: Check) -> Option<&CheckOutcome> {
        self.rows.iter().find(|(known, _)| *known == check).map(|(_, outcome)| outcome)
    }

    /// For how many arrays each check was run.
    pub fn counts(&self) -> Vec<(Check, usize)> {
        self.rows.iter().map(|(check, outcome)| (*check, count(outcome))).collect()
    }

    /// The checks that were not run, and why.
    pub fn skipped(&self) -> impl Iterator<Item = (Check, &str)> {
        self.rows.iter().filter_map(|(check, outcome)| match outcome {
            CheckOutcome::Skipped(reason) => Some((*check, reason.as_str())),
            CheckOutcome::Run(_) => None,
        })
    }

    /// What was not looked at of a check that was run, because the host may not wait: see
    /// [`Suite::turned_by`](super::Suite::turned_by).
    pub fn left_out(&self) -> impl Iterator<Item = (Check, &str)> {
        self.left_out.iter().copied()
    }

    /// What is wrong: one finding for one fault of a driver, as far as this can be told.
    ///
    /// The driver is looked at from the ground up. Where one of those checks fails, whatever fails
    /// after it may follow from it, and is one finding with it. Where the driver is right, each
    /// check of arrays that fails is a finding.
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

    /// Every case that failed.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// Fails the test that calls this, unless every case passed. Prints the report first.
    ///
    /// # Panics
    /// If a case failed.
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
