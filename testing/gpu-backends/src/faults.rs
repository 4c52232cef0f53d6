//! Whatever call fails, whatever the code: a typed error with the vendor's code or an outcome that
//! is documented, nothing used without order, nothing left, and everything works afterwards.

use std::collections::{BTreeMap, BTreeSet};

use arrow_device::copy::Options;
use arrow_device::driver::Raw;
use arrow_device::{Array, DataType, Device, Error, ErrorKind, Result};

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
    locate(&device)?;
    let back = far.to_host()?;
    assert_numbers(&back);
    Ok(())
}

/// Asks what lies at addresses: of plain memory, and of memory of the device.
fn locate(device: &Device) -> Result<()> {
    let plain = 0_u8;
    let plain = Raw::from_ptr((&raw const plain).cast_mut().cast());
    let queue = device.open_queue()?;
    let mut memory = device.allocate(64)?;
    for address in [plain, memory.spot(&queue)?.base] {
        // SAFETY: the driver looks the address up.
        unsafe { device.driver().locate(address) }?;
    }
    Ok(())
}

/// The code that HIP tells this thread's program when it asks for the last error, which is kept
/// for it. CUDA's driver keeps none.
fn last_error(machine: &Machine) -> i32 {
    if machine.is_cuda() { 0 } else { machine.raw("hipPeekAtLastError", &[]) }
}

/// Whatever is asked, and whatever comes of it: a program that asks HIP for the last error is told
/// none of the library's.
pub fn no_error_is_left_for_the_program(machine: &Machine) {
    let questions: [(&str, &dyn Fn()); 7] = [
        ("a device that is not there", &|| drop(machine.try_open(7, Kind::Device))),
        ("devices", &|| drop(arrow_device_rocm::devices())),
        ("a diagnosis", &|| drop(arrow_device_rocm::diagnose())),
        ("addresses", &|| {
            for kind in machine.kinds() {
                let _ = machine.try_open(0, *kind).and_then(|device| locate(&device));
            }
        }),
        ("an allocation that is too large", &|| {
            drop(machine.open(0, Kind::Device).allocate(1 << 50));
        }),
        ("copies", &|| journey(machine, Kind::Device).unwrap()),
        ("what was used", &settle),
    ];
    for (what, ask) in questions {
        ask();
        assert_eq!(last_error(machine), 0, "{what}");
    }
    // The same where each call fails that the questions make.
    for (what, ask) in questions.iter().take(4) {
        machine.take_calls();
        ask();
        let names: BTreeSet<String> = machine.take_calls().into_iter().collect();
        for name in names.iter().filter(|name| !name.contains("LastError")) {
            for (code, _) in CODES {
                machine.sim.fail(name, 1, code);
                ask();
                assert_eq!(last_error(machine), 0, "{what}: {name} fails with {code}");
            }
        }
    }
    settle();
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
    ("FromPoolAsync", Some(801)),
    // An allocation that finds no memory waits for what is to be released, and asks once more.
    ("MemAlloc", Some(2)),
    ("Malloc", Some(2)),
    ("MemGetInfo", Some(2)),
    // An attribute that the driver does not know, and what it does not know of an address.
    ("Attribute", Some(1)),
    ("PointerGetAttribute", Some(801)),
    ("GetAddressRange", Some(1)),
    ("GetAddressRange", Some(801)),
];

/// What a device's own memory passes through may be plain memory, whatever the driver says. For
/// pinned memory of an array nothing stands in.
const STAGING: &[&str] = &["HostAlloc", "HostMalloc"];

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
        let is_staging = kind != Kind::Host && STAGING.iter().any(|part| name.contains(part));
        let is_always_silent =
            is_staging || SILENT.iter().any(|(part, code)| name.contains(part) && code.is_none());
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
    assert_eq!(last_error(machine), 0, "{what}: the program is told of it");
    settle();
    assert_eq!(last_error(machine), 0, "{what}: the program is told of it later");
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
        Err(error) if name.contains("DeviceGetAttribute") && code == 1 => {
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
        Ok(()) if kind != Kind::Host && STAGING.iter().any(|part| name.contains(part)) => {}
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

/// What drivers answer first where they cannot work, and a word of what to do then.
const NOT_HERE: &[(i32, ErrorKind, &str)] = &[
    (3, ErrorKind::Driver, "system's log"),
    (35, ErrorKind::DriverMissing, "install"),
    (100, ErrorKind::DeviceMissing, "kernel module"),
    (304, ErrorKind::Driver, "limits"),
    (999, ErrorKind::Driver, "system's log"),
];
const NO_CUDA: &[(i32, ErrorKind, &str)] = &[
    (34, ErrorKind::DriverMissing, "stubs"),
    (36, ErrorKind::DriverMissing, "install"),
    (46, ErrorKind::Driver, "nvidia-smi -c DEFAULT"),
    (101, ErrorKind::DeviceMissing, "MIG"),
    (102, ErrorKind::Driver, "licence"),
    (802, ErrorKind::Driver, "nvidia-fabricmanager"),
    (803, ErrorKind::DriverMissing, "restart the machine"),
    (804, ErrorKind::DriverMissing, "compat"),
    (805, ErrorKind::Driver, "nvidia-cuda-mps-control -d"),
    (807, ErrorKind::Driver, "try later"),
    (808, ErrorKind::Driver, "end other programs"),
];
const NO_HIP: &[(i32, ErrorKind, &str)] =
    &[(101, ErrorKind::DeviceMissing, "`render`"), (1052, ErrorKind::Driver, "system's log")];

/// A device that is there and cannot be had now is none that is lost, whatever the reason, and each
/// error says what to do. Once the reason is gone, the device is opened.
pub fn a_device_that_cannot_be_had(machine: &Machine) {
    let open = machine.name("cuDevicePrimaryCtxRetain", "hipGetDeviceCount");
    let own = if machine.is_cuda() { NO_CUDA } else { NO_HIP };
    for (code, expected, word) in NOT_HERE.iter().chain(own) {
        machine.sim.fail(open, 1, *code);
        let error = machine.try_open(0, Kind::Device).unwrap_err();
        assert_eq!(error.kind(), *expected, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    drop(machine.open(0, Kind::Device));
}

/// Where pinned memory is refused, whatever the reason, data goes through plain memory, both ways.
/// A device that is lost is lost.
pub fn refused_pinned_memory(machine: &Machine) {
    let name = machine.name("cuMemHostAlloc", "hipHostMalloc");
    for (code, _) in CODES {
        let device = machine.open(0, Kind::Device);
        let queue = device.open_queue().unwrap();
        // What was kept of earlier copies is smaller than this.
        let array = Array::from_values(DataType::Int64, (0..100_000 + i64::from(code)).map(Some));
        let array = array.unwrap();
        machine.sim.fail(name, 1, code);
        let before = machine.sim.count(name);
        let there = array.copy_to(&queue).unwrap();
        assert!(machine.sim.count(name) > before, "{code}: it was not asked for");
        crate::calls::compare(&array, &there);
        drop((there, queue));
        assert_eq!(last_error(machine), 0);
        drop(device);
        settle();
    }
    let queue = machine.open(0, Kind::Device).open_queue().unwrap();
    machine.sim.fail(name, 1, 719);
    let error = numbers().copy_to(&queue).map(drop).unwrap_err();
    assert_eq!((error.kind(), error.vendor().unwrap().code), (ErrorKind::DeviceLost, 719));
}

/// A device that has too many peers goes by way of the host.
pub fn too_many_peers(machine: &Machine) {
    let [here, there] =
        [0, 1].map(|ordinal| machine.open(ordinal, Kind::Device).open_queue().unwrap());
    let enable = machine.name("cuCtxEnablePeerAccess", "hipDeviceEnablePeerAccess");
    machine.sim.fail(enable, 1, 711);
    let array = numbers().copy_to(&there).unwrap();
    let error = array.on(&here).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReachable, "{error}");
    assert_numbers(&array.copy_to(&here).unwrap());
    assert_eq!(last_error(machine), 0);
}

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
    for (code, expected, word) in NOT_HERE {
        machine.sim.fail(init, 1, *code);
        let error = diagnosis().problem.unwrap();
        let vendor = error.vendor().unwrap().code;
        assert_eq!((error.kind(), vendor), (*expected, i64::from(*code)), "{error}");
        assert!(error.to_string().contains(word), "{error}");
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

/// On a device whose context somebody has reset everything says so, and everything is released.
pub fn a_reset_device(machine: &Machine) {
    let queue = machine.open(0, Kind::Device).open_queue().unwrap();
    let there = numbers().copy_to(&queue).unwrap();
    drop(there.on(&queue).unwrap());
    match machine.is_cuda() {
        true => assert_eq!(machine.raw("cuDevicePrimaryCtxReset_v2", &[0]), 0),
        false => assert_eq!(machine.raw("hipDeviceReset", &[]), 0),
    }
    for error in [there.to_host().map(drop), numbers().copy_to(&queue).map(drop)] {
        let error = error.unwrap_err();
        assert_eq!((error.kind(), error.vendor().unwrap().code), (ErrorKind::DeviceLost, 709));
        assert!(error.to_string().contains("destroyed"), "{error}");
    }
    drop((there, queue));
    settle();
}

/// On a device that is lost everything says so with the driver's code and its name, and everything
/// is released.
pub fn a_lost_device(machine: &Machine, code: i32, name: &str) {
    for kind in machine.kinds() {
        let device = machine.open(0, *kind);
        assert_eq!(device.held().allocated, 0, "{kind:?}");
    }
    let device = machine.open(0, Kind::Device);
    let queue = device.open_queue().unwrap();
    let there = numbers().copy_to(&queue).unwrap();
    drop(there.on(&queue).unwrap());
    machine.sim.lose(0, code);
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
        let vendor = error.vendor().unwrap();
        assert_eq!((vendor.code, &*vendor.text), (i64::from(code), name), "{error}");
        assert_eq!(error.device(), Some(device.id()), "{error}");
    }
    drop(there);
    settle();
}
