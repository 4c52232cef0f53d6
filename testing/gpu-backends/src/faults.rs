//! Whatever call fails, whatever the code: a typed error with the vendor's code or an outcome that
//! is documented, nothing used without order, nothing left, and everything works afterwards.

use std::collections::BTreeMap;

use arrow_device::copy::Options;
use arrow_device::{Error, ErrorKind, Result};

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

/// The codes that a driver answers with, and what each is here. None of those that say that a
/// device is lost: a driver that says so says it for good, as in [`a_lost_device`].
const CODES: [(i32, ErrorKind); 5] = [
    (1, ErrorKind::InvalidArgument),
    (2, ErrorKind::OutOfMemory),
    (304, ErrorKind::Driver),
    (801, ErrorKind::Unsupported),
    (999, ErrorKind::Driver),
];

/// What may fail without an error: parts of functions' names, and the code that it holds for, or
/// any.
const SILENT: &[(&str, Option<i32>)] = &[
    // What cannot be given back leaks, as the documentation of `Driver` says.
    ("Free", None),
    ("Destroy", None),
    // Whoever asks an event whether memory can be released asks again later.
    ("Query", None),
    // Nothing depends on them but the thread's own device, its captures, and words.
    ("CtxPopCurrent", None),
    ("ThreadExchange", None),
    ("GetLastError", None),
    ("GetName", None),
    // Where another device cannot be reached the data goes by way of the host.
    ("Peer", None),
    ("MemPool", None),
    // There is another way: plain memory, one copy after another, allocating out of order.
    ("HostAlloc", Some(2)),
    ("HostMalloc", Some(2)),
    ("MemcpyBatch", Some(1)),
    ("MemcpyBatch", Some(801)),
    ("AllocAsync", Some(801)),
    ("MallocAsync", Some(801)),
    // An allocation that finds no memory waits for what is to be released, and asks once more.
    ("MemAlloc", Some(2)),
    ("Malloc", Some(2)),
    ("MemGetInfo", Some(2)),
    // An attribute that the driver does not know.
    ("Attribute", Some(1)),
];

/// These are called both by whoever asked for something, who gets the error, and when something is
/// given back or its last use is noted, where nobody is asked.
const ALSO_WHEN_GIVING_BACK: &[&str] =
    &["CtxPushCurrent", "SetDevice", "GetDevice", "EventRecord", "EventCreate", "IsCapturing"];

/// Has each call of the journey fail once: with each of the codes, or, where there are many calls,
/// with one after another.
pub fn every_call_fails_once(machine: &Machine, kind: Kind) {
    // Until what is kept for the next time is there.
    for _ in 0..3 {
        journey(machine, kind).unwrap();
        settle();
    }
    machine.take_calls();
    journey(machine, kind).unwrap();
    settle();
    let mut counts = BTreeMap::new();
    for name in machine.take_calls() {
        *counts.entry(name).or_insert(0_usize) += 1;
    }
    for part in ["Free", "Destroy", "Query", "GetName"] {
        assert!(counts.keys().any(|name| name.contains(part)), "the journey never calls {part}");
    }
    for (name, count) in counts {
        let mut errors = 0;
        for nth in 1..=count {
            let codes = if count > 4 { &CODES[nth % CODES.len()..][..1] } else { &CODES[..] };
            for code in codes {
                let what = format!("{kind:?}: {name}, call {nth} of {count}, with {}", code.0);
                errors += usize::from(fails(machine, kind, &name, nth as u64, *code, &what));
            }
        }
        let is_always_silent =
            SILENT.iter().any(|(part, code)| name.contains(part) && code.is_none());
        assert!(errors > 0 || is_always_silent, "{kind:?}: {name} never was an error");
    }
}

/// Lets one call fail in a journey and looks at all that comes of it. Returns whether it was an
/// error.
fn fails(
    machine: &Machine,
    kind: Kind,
    name: &str,
    nth: u64,
    (code, expected): (i32, ErrorKind),
    what: &str,
) -> bool {
    let before = left(machine);
    // Shown where something goes wrong.
    println!("{what}");
    machine.sim.clear_log();
    machine.sim.fail(name, nth, code);
    let outcome = journey(machine, kind);
    settle();
    let was_reached = machine.sim.count(name) >= nth;
    // Not every journey makes as many calls; the order to fail has to be used up.
    for _ in 0..100 {
        if machine.sim.count(name) >= nth {
            break;
        }
        let _ = journey(machine, kind);
        settle();
    }
    assert!(machine.sim.count(name) >= nth, "{what}: not reached");
    let is_silent =
        |(part, of): &(&str, Option<i32>)| name.contains(part) && of.is_none_or(|of| of == code);
    match &outcome {
        // A driver that has never heard of managed memory.
        Err(error) if name.contains("Attribute") && code == 1 => {
            assert_eq!((error.kind(), kind), (ErrorKind::Unsupported, Kind::Managed), "{what}");
        }
        Err(error) => {
            assert_eq!(
                error.vendor().map(|vendor| vendor.code),
                Some(code.into()),
                "{what}: {error}"
            );
            assert_eq!(error.kind(), expected, "{what}: {error}");
        }
        Ok(()) if !was_reached || SILENT.iter().any(is_silent) => {}
        Ok(()) if ALSO_WHEN_GIVING_BACK.iter().any(|part| name.contains(part)) => {}
        Ok(()) => panic!("{what}: nobody was told"),
    }
    let mistakes = machine.sim.take_reports();
    assert!(mistakes.is_empty(), "{what}: {}", mistakes[0]);
    // What was to be given back and could not be is the one thing that may be left.
    let gives_back = ["Free", "Destroy", "CtxPushCurrent", "SetDevice", "GetDevice"];
    let mut leaked = left(machine);
    for (thing, count) in &before {
        *leaked.entry(thing.clone()).or_default() -= count;
    }
    leaked.retain(|_, count| *count != 0);
    let is_of_one_kind = leaked.len() <= 1 && leaked.values().all(|count| *count > 0);
    let may_leak = gives_back.iter().any(|part| name.contains(part));
    assert!(leaked.is_empty() || may_leak && is_of_one_kind, "{what}: left behind: {leaked:?}");
    if name.contains("Free") || name.contains("Destroy") {
        assert_eq!(leaked.values().sum::<i64>(), 1, "{what}: {leaked:?}");
    }
    journey(machine, kind).unwrap_or_else(|error| panic!("{what}: afterwards: {error}"));
    settle();
    outcome.is_err()
}

/// How much there is that somebody has to give back, by kind.
fn left(machine: &Machine) -> BTreeMap<String, i64> {
    let mut left = BTreeMap::new();
    for report in machine.sim.left() {
        *left.entry(report.kind).or_default() += 1;
    }
    left
}

/// What drivers answer first where they cannot work: no GPU, no kernel module or another one, a
/// stub in the driver's place.
const NOT_HERE: [(i32, ErrorKind); 6] = [
    (3, ErrorKind::Driver),
    (34, ErrorKind::DriverMissing),
    (35, ErrorKind::DriverMissing),
    (100, ErrorKind::DeviceMissing),
    (803, ErrorKind::DriverMissing),
    (999, ErrorKind::Driver),
];

/// On a machine with the driver and without a GPU every way to ask gets an error that says so, and
/// nobody dies.
pub fn no_device(machine: &Machine) {
    let diagnosis = || match machine.is_cuda() {
        true => arrow_device_cuda::diagnose(),
        false => arrow_device_rocm::diagnose(),
    };
    let errors = [
        machine.try_open(0, Kind::Device).unwrap_err(),
        machine.try_open(1, Kind::Host).unwrap_err(),
        machine.try_open(usize::MAX, Kind::Device).unwrap_err(),
        match machine.is_cuda() {
            true => arrow_device_cuda::is_available().unwrap_err(),
            false => arrow_device_rocm::is_available().unwrap_err(),
        },
        diagnosis().problem.unwrap(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::DeviceMissing, "{error}");
        assert!(error.to_string().contains("kernel module"), "{error}");
    }
    assert!(diagnosis().devices.is_empty() && diagnosis().library.is_some());
    let init = machine.name("cuInit", "hipInit");
    for (code, expected) in NOT_HERE {
        machine.sim.fail(init, 1, code);
        let error = diagnosis().problem.unwrap();
        assert_eq!(
            (error.kind(), error.vendor().unwrap().code),
            (expected, code.into()),
            "{error}"
        );
        let says_what_to_do = error.to_string().contains("install");
        assert_eq!(says_what_to_do, expected == ErrorKind::DriverMissing, "{error}");
    }
}

/// The first calls of all fail, in a process that has made none: there is no device until they
/// succeed.
pub fn the_first_calls_fail(machine: &Machine) {
    let names = match machine.is_cuda() {
        true => &["cuInit", "cuDeviceGetCount", "cuDeviceTotalMem_v2"][..],
        false => &["hipInit", "hipGetDeviceCount", "hipDeviceTotalMem"],
    };
    let list = || match machine.is_cuda() {
        true => arrow_device_cuda::devices(),
        false => arrow_device_rocm::devices(),
    };
    for name in names {
        for (code, expected) in CODES {
            machine.sim.fail(name, 1, code);
            let error = list().unwrap_err();
            assert_eq!(
                error.vendor().map(|vendor| vendor.code),
                Some(code.into()),
                "{name}: {error}"
            );
            assert_eq!(error.kind(), expected, "{name} {code}: {error}");
        }
    }
    let names = match machine.is_cuda() {
        true => &["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain"][..],
        false => &["hipInit", "hipGetDeviceCount"],
    };
    for name in names {
        for (code, expected) in CODES {
            machine.sim.fail(name, 1, code);
            let error = machine.try_open(0, Kind::Device).unwrap_err();
            assert_eq!(
                error.vendor().map(|vendor| vendor.code),
                Some(code.into()),
                "{name}: {error}"
            );
            assert_eq!(error.kind(), expected, "{name} {code}: {error}");
        }
    }
    assert_eq!(list().unwrap().len(), 2);
    journey(machine, Kind::Device).unwrap();
    settle();
}

/// An error keeps its code where the driver fails to name it.
pub fn a_code_without_a_name(machine: &Machine) {
    let queue = machine.open(0, Kind::Device).open_queue().unwrap();
    machine.sim.fail("cuGetErrorName", 1, 999);
    machine.sim.fail("cuEventRecord", 1, 700);
    let error = queue.record().map(drop).unwrap_err();
    assert_eq!((error.kind(), error.vendor().unwrap().code), (ErrorKind::DeviceLost, 700));
    assert!(error.to_string().contains("no name"), "{error}");
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
    let errors: [Error; 6] = [
        there.to_host().map(drop).unwrap_err(),
        numbers().copy_to(&queue).map(drop).unwrap_err(),
        queue.synchronize().unwrap_err(),
        there.on(&queue).map(drop).unwrap_err(),
        queue.record().map(drop).unwrap_err(),
        there.wait().unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
        assert_eq!(error.vendor().unwrap().code, 719, "{error}");
        assert_eq!(error.device(), Some(device.id()), "{error}");
    }
    drop(there);
    settle();
}
