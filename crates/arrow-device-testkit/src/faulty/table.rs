//! Runs the suite on each fault of a device.

use std::fmt;

use arrow_device::Device;

use super::{Fault, Faulty};
use crate::kinds::{Case, Kind};
use crate::plan::{Nulls, Window};
use crate::suite::{Report, Suite};

/// Returns the report of the suite about a device whose work is [late](Faulty::late), with this
/// fault or without one. A few arrays are enough, because the suite looks at the driver itself.
pub fn report(device: &Device, other: Option<&Device>, fault: Option<Fault>) -> Report {
    report_of(Faulty::of(device).late(), other, fault, false)
}

/// Returns the report about a device for whose work the host may not wait ([`Faulty::polled`]). The
/// suite [turns](Suite::turned_by) the device.
pub fn report_turned(device: &Device, other: Option<&Device>, fault: Option<Fault>) -> Report {
    report_of(Faulty::of(device).polled(), other, fault, true)
}

fn report_of(
    mut faulty: Faulty,
    other: Option<&Device>,
    fault: Option<Fault>,
    is_turned: bool,
) -> Report {
    if let Some(fault) = fault {
        faulty = faulty.fault(fault);
    }
    if let Some(other) = other {
        faulty = faulty.beside(other);
    }
    let (device, other, hand) = faulty.open_with_hand();
    let (fail, lose) = (|| hand.fail_next(), || hand.lose());
    let (turn, call_back) = (|| hand.turn(), |callback| hand.run_in_polls(callback));
    // Late work is slow enough, and goes on until somebody waits.
    let suite = Suite::new(&device).over(arrays()).slow(&|_| ()).holding(&|_| Box::new(|| ()));
    let mut suite = suite.calling_back(&call_back).failing(&fail).losing(&lose);
    if is_turned {
        suite = suite.turned_by(&turn);
    }
    if let Some(other) = &other {
        suite = suite.beside(other);
    }
    suite.run()
}

/// Returns arrays that together show every mistake with the bytes of an array.
fn arrays() -> Vec<Case> {
    let text = || Kind::Text("u", 4);
    [
        Kind::Struct(vec![Kind::Fixed("l", 8), text()]),
        Kind::List("+l", 4, Box::new(text())),
        Kind::Dictionary("c", 1, Box::new(text())),
    ]
    .map(|kind| Case::new(kind, Window::SLICED, Nulls::Counted))
    .into()
}

/// The result of a fault on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultCell {
    /// The suite reports the fault. This is what it found first.
    Reported(String),
    /// The fault changes no result on this device, for this reason.
    NoEffect(&'static str),
    /// The suite reports nothing, and nobody gave a reason.
    Missed,
    /// The suite reports the fault, although it was listed as having no effect for this reason.
    ReportedInSpiteOf(&'static str, String),
}

/// The results of all faults on a device. Printed, the table has a line for each fault.
#[derive(Clone, Debug)]
#[must_use]
pub struct FaultTable {
    device: String,
    rows: Vec<(Fault, FaultCell)>,
    /// The report of the suite without a fault, if it reports anything.
    false_alarms: Option<Report>,
}

/// Runs each fault, and the device without a fault. Compares the reports with the list of faults
/// that change no result on this device, with the reasons.
///
/// # Panics
/// Panics if a report has more than one finding for one fault.
pub fn table(
    device: impl Into<String>,
    no_effect: &[(Fault, &'static str)],
    mut run: impl FnMut(Option<Fault>) -> Report,
) -> FaultTable {
    let without = run(None);
    let rows = Fault::ALL.map(|fault| {
        let report = run(Some(fault));
        let reason = no_effect.iter().find(|(known, _)| *known == fault).map(|(_, why)| *why);
        let findings = report.findings();
        assert!(findings.len() <= 1, "{fault:?} is more than one finding: {report}");
        let found = findings.first().map(|finding| finding.first.to_string());
        let cell = match (found, reason) {
            (Some(found), None) => FaultCell::Reported(found),
            (None, Some(reason)) => FaultCell::NoEffect(reason),
            (None, None) => FaultCell::Missed,
            (Some(found), Some(reason)) => FaultCell::ReportedInSpiteOf(reason, found),
        };
        (fault, cell)
    });
    let false_alarms = Some(without).filter(|report| !report.failures().is_empty());
    FaultTable { device: device.into(), rows: rows.into(), false_alarms }
}

impl FaultTable {
    /// Returns the result of each fault.
    pub fn rows(&self) -> &[(Fault, FaultCell)] {
        &self.rows
    }

    /// Prints the table.
    ///
    /// # Panics
    /// Panics if a fault was missed, or one was reported that was listed as having no effect, or
    /// the suite reported something without a fault.
    #[track_caller]
    pub fn assert(&self) {
        println!("{self}");
        if let Some(report) = &self.false_alarms {
            panic!("the suite reports what is no fault: {report}");
        }
        let is_wrong =
            |cell: &FaultCell| matches!(cell, FaultCell::Missed | FaultCell::ReportedInSpiteOf(..));
        let wrong: Vec<_> = self.rows.iter().filter(|(_, cell)| is_wrong(cell)).collect();
        assert!(wrong.is_empty(), "{} faults are not as was said: {wrong:#?}", wrong.len());
    }
}

/// The most characters of a complaint that a line of the table shows.
const SHOWN: usize = 140;

impl fmt::Display for FaultTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} faults", self.device, self.rows.len())?;
        for (fault, cell) in &self.rows {
            let name = format!("{fault:?}");
            let short = |text: &str| text.chars().take(SHOWN).collect::<String>();
            let cell = match cell {
                FaultCell::Reported(found) => format!("reported: {}", short(found)),
                FaultCell::NoEffect(reason) => format!("no effect, because {reason}"),
                FaultCell::Missed => "MISSED".into(),
                FaultCell::ReportedInSpiteOf(reason, found) => {
                    format!("REPORTED although {reason}: {}", short(found))
                }
            };
            write!(f, "\n  {name:<20} {cell}")?;
        }
        Ok(())
    }
}
