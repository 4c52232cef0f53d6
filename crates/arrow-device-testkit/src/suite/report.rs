//! What a run of the suite found.

use std::fmt;

use arrow_device::DeviceId;

/// One thing that is looked at: the first four at the driver itself, the others for each array of
/// the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Check {
    /// Queues are in order, and wait for events; the host waits for both; both answer truly.
    Waits,
    /// Memory is nobody else's, lies where it is said to lie, and is given back.
    Memory,
    /// Copies at any places and of any lengths move every byte that they are to move, and no other.
    Bytes,
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
        Self::Memory,
        Self::Bytes,
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

/// What became of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// It was run for so many arrays.
    Run(usize),
    /// It was not run, for this reason.
    Skipped(String),
}

/// What a run of the suite found. Printed, it has a line for each check and one for each failure.
#[derive(Clone, Debug)]
#[must_use]
pub struct Report {
    pub(super) device: DeviceId,
    pub(super) name: String,
    pub(super) arrays: usize,
    pub(super) rows: Vec<(Check, CheckOutcome)>,
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

    /// What failed.
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

/// How many failures are printed.
const SHOWN: usize = 20;

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
        }
        write!(f, "  {:<20} {:>6} cases, {} failed", "all", self.cases(), self.failures.len())?;
        for failure in self.failures.iter().take(SHOWN) {
            write!(f, "\n  {failure}")?;
        }
        if self.failures.len() > SHOWN {
            write!(f, "\n  and {} more", self.failures.len() - SHOWN)?;
        }
        Ok(())
    }
}
