//! The conformance suite on each kind of memory, streams, tensors.

use arrow_device_testkit::kinds::{self, Case};
use arrow_device_testkit::suite::{Check, Report, Suite};

use crate::{Kind, Machine};

/// Every fifth of all arrays, for the kinds of memory that differ from the device's own in what the
/// host may do.
pub fn few() -> impl Iterator<Item = Case> {
    kinds::cases().step_by(5)
}

/// The suite, watched by the simulated driver, with the other device beside.
pub fn suite(machine: &Machine, kind: Kind) -> Report {
    let (device, other) = (machine.open(0, kind), machine.open(1, Kind::Device));
    let watch = || {
        let reports = machine.sim.take_reports();
        arrow_device_testkit::require(reports.is_empty(), || format!("{}", reports[0]))
    };
    let mut suite = Suite::new(&device).watched_by(&watch).beside(&other);
    if kind != Kind::Device {
        suite = suite.over(few());
    }
    let report = suite.run();
    report.assert();
    report
}

/// What the suite leaves out.
pub fn skipped(report: &Report) -> Vec<Check> {
    report.skipped().map(|(check, _)| check).collect()
}
