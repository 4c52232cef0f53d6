//! The suite on the host and on every kind of software device. The numbers of cases are pinned.
#![allow(clippy::unwrap_used, clippy::panic)]

use arrow_device::Device;
use arrow_device_sim::{Builder, Kind, Sim};
use arrow_device_testkit::Verdict;
use arrow_device_testkit::suite::{Check, Suite};

/// What a software device has seen since it was asked last.
fn reports(sim: &Sim) -> Verdict {
    match sim.take_reports().first() {
        Some(report) => Err(report.to_string()),
        None => Ok(()),
    }
}

/// Runs the suite on a software device, and looks for what was left behind.
fn run(builder: Builder, seed: u64) -> usize {
    let sim = builder.seed(seed).backtraces(false).build();
    let report = Suite::new(&sim.device()).watched_by(&|| reports(&sim)).run();
    report.assert();
    let left = sim.finish();
    assert!(left.is_empty(), "{left:?}");
    report.cases()
}

#[test]
fn the_host_passes() {
    let report = Suite::new(&Device::host()).run();
    report.assert();
}

#[test]
fn discrete() {
    let t = std::time::Instant::now();
    run(Sim::builder(), 0);
    println!("{:?}", t.elapsed());
}
