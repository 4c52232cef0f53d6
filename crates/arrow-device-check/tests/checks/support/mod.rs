//! What the tests share: checking a peer that this test program has, in children that are this test
//! program.

pub(crate) mod foreign;

use std::ffi::c_int;
use std::time::Duration;

use arrow_device::abi::ArrowDeviceArray;
use arrow_device_check::{
    Bench, Kind, Launcher, Limits, Report, Side, Subject, Where, check, check_some,
};

/// The test that is a child, in every module that has peers.
const CHILD: &str = "the_child_of_the_other_tests";

/// Starts this test program as a child that has the peers of the calling test's module.
pub(crate) fn launcher() -> Launcher {
    let thread = std::thread::current();
    let (module, _) = thread.name().and_then(|test| test.rsplit_once("::")).unwrap();
    let child = format!("{module}::{CHILD}");
    let arguments = ["--exact", &child, "--nocapture", "--test-threads=1"];
    let arguments = arguments.map(str::to_owned).to_vec();
    Launcher { arguments, ..Launcher::this_program().unwrap() }
}

pub(crate) fn limits() -> Limits {
    Limits { scenario: Duration::from_secs(120), patience: Duration::from_secs(60) }
}

/// Checks a peer of this test program.
pub(crate) fn report(peer: &str, kind: Kind, side: Side) -> Report {
    report_within(peer, kind, side, limits())
}

/// What was found in what is named.
pub(crate) fn report_of(peer: &str, kind: Kind, side: Side, names: &[&str]) -> Report {
    let subject = Subject { peer: peer.to_owned(), kind, side };
    let wanted = |_: &Report, name: &str| Some(names.contains(&name));
    check_some(&subject, &launcher(), limits(), wanted).unwrap()
}

pub(crate) fn report_within(peer: &str, kind: Kind, side: Side, limits: Limits) -> Report {
    let subject = Subject { peer: peer.to_owned(), kind, side };
    check(&subject, &launcher(), limits).unwrap()
}

/// That nothing is found, and something was looked at.
#[track_caller]
pub(crate) fn assert_right(peer: &str, kind: Kind, side: Side) -> Report {
    let report = report(peer, kind, side);
    assert!(report.failed().is_empty(), "{report}");
    assert!(report.findings().count() > 3, "{report}");
    report
}

/// Where nobody is.
pub(crate) fn nowhere(place: Where) -> Result<Bench, String> {
    Err(format!("{place:?} is not for this peer"))
}

/// The code of an outcome.
pub(crate) fn code<T, E>(outcome: Result<T, E>) -> c_int {
    outcome.map_or(22, |_| 0)
}

/// Releases an array, if it is not released.
pub(crate) fn release(array: *mut ArrowDeviceArray) {
    let array = unsafe { &mut *array };
    if let Some(release) = array.array.release {
        unsafe { release(&raw mut array.array) };
    }
}
