//! The conformance suite on each kind of memory, streams, tensors.

use arrow_device_testkit::suite::{Check, Report, Suite};

use crate::{Kind, Machine};

/// The suite, watched by the simulated driver, with the other device beside.
pub fn suite(machine: &Machine, kind: Kind) -> Report {
    let (device, other) = (machine.open(0, kind), machine.open(1, Kind::Device));
    let watch = || {
        let reports = machine.sim.take_reports();
        arrow_device_testkit::require(reports.is_empty(), || format!("{}", reports[0]))
    };
    let report = Suite::new(&device).watched_by(&watch).beside(&other).run();
    report.assert();
    report
}

/// What the suite leaves out.
pub fn skipped(report: &Report) -> Vec<Check> {
    report.skipped().map(|(check, _)| check).collect()
}
