//! Whatever call fails, whatever the code: a typed error with the vendor's code, nothing used without order, nothing left.

use arrow_device::copy::Options;
use arrow_device::{ErrorKind, Result};

use crate::{Kind, Machine, assert_numbers, numbers, settle};

/// A journey that makes calls of all sorts.
fn journey(machine: &Machine, kind: Kind) -> Result<()> {
    let device = machine.try_open(0, kind)?;
    let (one, two) = (device.open_queue()?, device.open_queue()?);
    let there = numbers().copy_to(&one)?;
    let again = there.copy_with(&two, &Options::new().always(true))?;
    let elsewhere = machine.try_open(1, Kind::Device)?.open_queue()?;
    let far = again.copy_to(&elsewhere)?;
    drop((there, again));
    let back = far.to_host()?;
    assert_numbers(&back);
    Ok(())
}

/// Has each call of the journey fail once with each of these codes.
pub fn every_call_fails_once(machine: &Machine, kind: Kind) {
    // What frees leaks where it fails, by its documentation; asking again is the answer to an event that cannot be asked; a
    // property that the driver does not tell is one that the device does not have.
    let leaves = [
        "Free",
        "Destroy",
        "Query",
        "Pop",
        "GetErrorName",
        "GetLastError",
        "Exchange",
        "Attribute",
        "GetName",
    ];
    journey(machine, kind).unwrap();
    settle();
    machine.take_calls();
    journey(machine, kind).unwrap();
    let mut names = machine.take_calls();
    settle();
    names.sort();
    let mut failures = 0;
    for group in names.chunk_by(|one, other| one == other) {
        let name = &group[0];
        if leaves.iter().any(|part| name.contains(part)) {
            continue;
        }
        for nth in 1..=group.len() {
            for code in [2, 999] {
                machine.sim.clear_log();
                machine.sim.fail(name, nth as u64, code);
                if let Err(error) = journey(machine, kind) {
                    failures += 1;
                    let said = error.vendor().map(|vendor| vendor.code);
                    assert_eq!(said, Some(code.into()), "{name} {nth}: {error}");
                    let expected =
                        if code == 2 { ErrorKind::OutOfMemory } else { ErrorKind::Driver };
                    assert_eq!(error.kind(), expected, "{name} {nth}: {error}");
                }
                settle();
                // Not reached this time, so it has to be used up.
                let mut left = 0;
                while machine.sim.count(name) < nth as u64 && left < 100 {
                    let _ = journey(machine, kind);
                    left += 1;
                }
                settle();
                let mistakes = machine.sim.take_reports();
                assert!(mistakes.is_empty(), "{name} {nth} {code}: {}", mistakes[0]);
            }
        }
    }
    assert!(failures > 20, "only {failures} failures");
}

/// On a device that is lost everything says so, and everything is released.
pub fn a_lost_device(machine: &Machine) {
    for kind in machine.kinds() {
        let device = machine.open(0, *kind);
        assert_eq!(device.held().allocated, 0, "{kind:?}");
    }
    let device = machine.open(0, Kind::Device);
    let queue = device.open_queue().unwrap();
    let there = numbers().copy_to(&queue).unwrap();
    drop(there.on(&queue).unwrap());
    machine.sim.lose(0, 719);
    for error in [
        there.to_host().map(drop).unwrap_err(),
        numbers().copy_to(&queue).map(drop).unwrap_err(),
        queue.synchronize().unwrap_err(),
        there.on(&queue).map(drop).unwrap_err(),
        queue.record().map(drop).unwrap_err(),
        there.wait().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
        assert_eq!(error.vendor().unwrap().code, 719, "{error}");
        assert_eq!(error.device(), Some(device.id()), "{error}");
    }
    drop(there);
    settle();
}
