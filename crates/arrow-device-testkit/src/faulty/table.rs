//! The suite before each fault, on one device.

use std::fmt;

use arrow_device::Device;

use super::{Fault, Faulty};
use crate::kinds::{Case, Kind};
use crate::plan::{Nulls, Window};
use crate::suite::{Report, Suite};

/// What the suite says of a device with this fault, or without one, whose work is
/// [late](Faulty::late). A few arrays are enough, because the suite looks at the driver itself.
pub fn report(device: &Device, other: Option<&Device>, fault: Option<Fault>) -> Report {
    report_of(Faulty::of(device).late(), other, fault, false)
}

/// The same where the host may not wait for the device's work ([`Faulty::polled`]), and the suite
/// [turns](Suite::turned_by) the device.
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
    // Work that is late is slow enough, and goes on until somebody waits.
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

/// Arrays in which every mistake with the bytes of an array shows.
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

/// What came of a fault on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultCell {
    /// The suite reports it: what it found first.
    Reported(String),
    /// It changes no result on this device, for this reason.
    NoEffect(&'static str),
    /// The suite says nothing, and nobody gave a reason.
    Missed,
    /// The suite reports what was said to have no effect.
    ReportedInSpiteOf(&'static str, String),
}

/// What came of each fault on a device. Printed, it has a line for each.
#[derive(Clone, Debug)]
#[must_use]
pub struct FaultTable {
    device: String,
    rows: Vec<(Fault, FaultCell)>,
    /// What the suite reports without a fault.
    false_alarms: Option<Report>,
}

/// Runs each fault, and the device without one, and holds the reports against the list of faults
/// that change no result on this device, with the reasons.
///
/// `run` has the suite judge a device with this fault: see [`report`].
///
/// # Panics
/// If a report has more than one finding for one fault.
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
    /// What came of each fault.
    pub fn rows(&self) -> &[(Fault, FaultCell)] {
        &self.rows
    }

    /// Prints the table.
    ///
    /// # Panics
    /// If a fault was missed, if one was reported that was said to have no effect, or if the suite
    /// reported something without a fault.
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

/// How much of a complaint a line of the table has.
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
