//! Checks that need the driver beside the library: streams of another context, graphs, several
//! devices, events that are awaited, drivers with a fault.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::async_stream::block_on;
use arrow_device::copy::Options;
use arrow_device::{Array, DataType, Device, ErrorKind, Result, View, deferred};
use arrow_device_testkit::faulty::{self, Fault};
use gpu_backends::awaits::Over;
use gpu_backends::memory::assert_refused;
use gpu_backends::settle;

use crate::by_hand::{Driver, out};
use crate::report::Report;

/// So many numbers keep a stream busy for some time, or, where little is enough, are not many.
fn length(is_quick: bool) -> i64 {
    if is_quick { 1000 } else { 16 << 20 }
}

fn numbers(first: i64, is_quick: bool) -> Array {
    let values = (0..length(is_quick)).map(|value| Some(value + first));
    Array::from_values(DataType::Int64, values).unwrap()
}

fn bytes(is_quick: bool) -> usize {
    8 * length(is_quick) as usize
}

fn address(view: &View) -> *const c_void {
    view.buffer(1).location().address().cast()
}

/// Streams of a context that a program has made, and of another device, are refused with words, and
/// the device goes on.
pub(crate) fn contexts(driver: &Driver, devices: &[Device]) -> String {
    let [device, others @ ..] = devices else { return "no device".into() };
    let mut said = Vec::new();
    if driver.is_cuda {
        let [mut made, mut theirs] = [0_u64; 2];
        driver.call("cuCtxCreate_v2", &[out(&mut made), 0, 0]);
        driver.call("cuStreamCreate", &[out(&mut theirs), 1]);
        driver.call("cuCtxPopCurrent_v2", &[0]);
        assert_refused(device, theirs as usize);
        // What was begun there is kept until its stream has passed.
        settle();
        driver.call("cuCtxDestroy_v2", &[made]);
        said.push("of another context");
    }
    for other in others {
        let queue = other.open_queue().unwrap();
        assert_refused(device, queue.raw().bits());
        said.push("of another device");
    }
    let few = numbers(1, true);
    let queue = device.open_queue().unwrap();
    let back = few.copy_to(&queue).and_then(|there| there.to_host()).unwrap();
    assert!(back.equals(&few).unwrap(), "the device does not go on");
    settle();
    format!("refused: {said:?}")
}

/// A graph that reads what was imported is launched, and the import let go of at once: its memory
/// is kept until the queue has passed. While the stream captures, it is refused with words.
pub(crate) fn graphs(driver: &Driver, device: &Device, is_quick: bool) -> String {
    let (queue, other) = (device.open_queue().unwrap(), device.open_queue().unwrap());
    let (expected, rest) = (numbers(5, is_quick), numbers(0, is_quick));
    let len = bytes(is_quick);
    let there = expected.copy_to(&other).unwrap();
    let schema = there.schema().unwrap();
    let mut exported = ArrowDeviceArray::empty();
    there.export(&mut exported).unwrap();
    drop(there);
    // SAFETY: `export` wrote the struct for this schema.
    let array = unsafe { Array::import(&mut exported, &schema) }.unwrap();
    let view = array.on(&queue).unwrap();
    let mut to = device.allocate(len as u64).unwrap();
    let to_address = to.spot(&queue).unwrap().base.as_ptr().cast_const();
    queue.synchronize().unwrap();
    driver.begin_capture(&queue);
    driver.copy(to_address, address(&view), len, &queue);
    let refused = rest.copy_to(&queue).map(drop).unwrap_err();
    let graph = driver.end_capture(&queue);
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    assert!(refused.to_string().contains("capturing a graph"), "{refused}");
    for _ in 0..3 {
        driver.launch(graph, &queue);
    }
    // The graph may still read.
    drop((view, array));
    deferred::release_finished();
    let others: Vec<Array> = (0..4).map(|_| rest.copy_to(&other).unwrap()).collect();
    let found = driver.read(to_address, len, &queue).unwrap();
    let first: Vec<u8> = (5..length(is_quick) + 5).flat_map(i64::to_ne_bytes).collect();
    assert!(found == first, "what the graph has copied is not what was imported");
    driver.destroy(graph);
    drop((others, to));
    settle();
    format!("3 launches; refused meanwhile: {refused}")
}

/// Every device's arrays on every other one, and whether memory can be reached is what the driver
/// says of peers.
pub(crate) fn peers(driver: &Driver, devices: &[Device], is_quick: bool) -> String {
    let expected = numbers(7, is_quick);
    let options = Options::new().always(true);
    let mut said = Vec::new();
    for (one, from) in devices.iter().enumerate() {
        for (other, to) in devices.iter().enumerate().filter(|(other, _)| *other != one) {
            let [queue, theirs] = [from, to].map(|device| device.open_queue().unwrap());
            let there = expected.copy_to(&queue).unwrap();
            let copied = there.copy_with(&theirs, &options).unwrap();
            drop(there);
            let back = copied.copy_with(&queue, &options).unwrap();
            for array in [&copied, &back] {
                assert!(array.to_host().unwrap().equals(&expected).unwrap(), "{one} and {other}");
            }
            let can = driver.can_access(other, one);
            match back.on(&theirs) {
                Ok(view) => {
                    assert!(can, "device {other} has no access to {one}, and was shown its memory");
                    driver.copy(
                        address(&copied.on(&theirs).unwrap()),
                        address(&view),
                        bytes(is_quick),
                        &theirs,
                    );
                }
                Err(error) => {
                    assert!(!can, "device {other} can be given access to {one}: {error}");
                    assert_eq!(error.kind(), ErrorKind::NotReachable, "{error}");
                }
            }
            theirs.synchronize().unwrap();
            said.push(format!("{one} to {other}, {}", if can { "peers" } else { "no peers" }));
        }
    }
    settle();
    if said.is_empty() { "there is one device only".into() } else { said.join("; ") }
}

/// Events and copies are awaited: the driver calls back, and nobody asks or waits in between.
pub(crate) fn awaits(driver: &Driver, devices: &[Device], is_quick: bool) -> String {
    let is_over = AtomicBool::new(false);
    // The simulated driver goes on where somebody waits, and a device by itself.
    let is_simulated = devices.iter().any(|device| device.properties().name.contains("Simulated"));
    std::thread::scope(|threads| {
        if is_simulated {
            threads.spawn(|| finish_now_and_then(driver, &is_over));
        }
        let _over = Over(&is_over);
        devices.iter().for_each(|device| await_on(device, is_quick).unwrap());
    });
    format!("on {} kinds of memory", devices.len())
}

fn finish_now_and_then(driver: &Driver, is_over: &AtomicBool) {
    let mut context = 0_u64;
    if driver.is_cuda {
        driver.call("cuDevicePrimaryCtxRetain", &[out(&mut context), 0]);
        driver.call("cuCtxSetCurrent", &[context]);
    }
    while !is_over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(2));
        driver.call(driver.name("cuCtxSynchronize", "hipDeviceSynchronize"), &[]);
    }
}

fn await_on(device: &Device, is_quick: bool) -> Result<()> {
    let queue = device.open_queue()?;
    let expected = numbers(3, is_quick);
    for _ in 0..3 {
        let busy = expected.copy_to(&queue)?;
        let event = queue.record()?;
        block_on(&event)?;
        assert!(event.is_complete()?, "{}: an awaited event has not passed", device.id());
        drop(busy);
        let there = block_on(expected.copy_to_async(&queue))?;
        let back = block_on(there.to_host_async())?;
        assert!(back.equals(&expected)?, "{}: an awaited copy", device.id());
    }
    Ok(())
}

const UNREADABLE: &str = "the host cannot read its memory";
const NOT_FILLED: &str = "the host cannot write its memory";
const NO_PARTS: &str = "a part of its memory is an address with a number added";
const ALONE: &str = "there is one device only";

/// The faults that change no result on a device with memory of its own.
const NO_EFFECT: [(Fault, &str); 7] = [
    (Fault::PartOffset, NO_PARTS),
    (Fault::PartFreesWhole, NO_PARTS),
    (Fault::MapStale, UNREADABLE),
    (Fault::MapOffset, UNREADABLE),
    (Fault::UnmapEndsAll, UNREADABLE),
    (Fault::FillLost, NOT_FILLED),
    (Fault::FilledNow, NOT_FILLED),
];

/// The suite before the driver of this device with each fault of the test kit, and without one.
pub(crate) fn faults(devices: &[Device], is_quick: bool, report: &mut Report) {
    let [device, rest @ ..] = devices else { return };
    let other = rest.first();
    report.check("no fault", || {
        let found = faulty::report(device, other, None);
        assert!(found.failures().is_empty(), "the suite reports what is no fault: {found}");
        String::new()
    });
    let (mut seen, mut harmless) = (0, 0);
    let step = if is_quick { 30 } else { 1 };
    let faults = Fault::ALL.into_iter().step_by(step);
    let all = faults.len();
    for fault in faults {
        let reason = NO_EFFECT.iter().find(|(known, _)| *known == fault).map(|(_, why)| *why);
        let alone = (fault == Fault::CopyPeer && other.is_none()).then_some(ALONE);
        report.check(&format!("{fault:?}"), || {
            let found = faulty::report(device, other, Some(fault));
            let first = found.findings().first().map(|finding| finding.first.to_string());
            match (first, reason.or(alone)) {
                (Some(text), _) => {
                    seen += 1;
                    format!("seen: {text}")
                }
                (None, Some(reason)) => {
                    harmless += 1;
                    format!("no effect, because {reason}")
                }
                (None, None) => panic!("the suite does not see it: {fault}"),
            }
        });
    }
    report.check("all faults", || {
        format!("the suite sees {seen} of {all} faults, and {harmless} have no effect here")
    });
}
