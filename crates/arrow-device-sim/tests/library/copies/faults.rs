//! Every call that can fail, failing, on every way: all is freed, nothing is used too early, the
//! error names the step.

use std::collections::BTreeSet;

use arrow_device::copy::Options;
use arrow_device::{Array, DataType, Error, ErrorKind, Queue, Result};
use arrow_device_sim::{Builder, Kind, Sim};

use super::words::words;

/// Strings in a list with a bitmap, some of them: two levels of lengths, and offsets that have to
/// change.
pub(super) fn lists() -> Array {
    let words = words(40);
    let offsets: Vec<i32> = (0..=20).map(|index| index * 2).collect();
    let lists = Array::builder(DataType::list(DataType::Utf8))
        .len(20)
        .buffers([Some(vec![0xbd_u8; 3].into()), Some(offsets.into())])
        .children([words])
        .finish_ready();
    lists.unwrap().slice(13, 5).unwrap()
}

/// A copy there, over this way, and back.
type Journey = fn(&Sim, &Array) -> Result<Array>;

fn to_device_and_back(sim: &Sim, array: &Array) -> Result<Array> {
    let queue = sim.device().open_queue()?;
    array.copy_to(&queue)?.to_host()
}

fn in_separate_buffers(sim: &Sim, array: &Array) -> Result<Array> {
    let queue = sim.device().open_queue()?;
    array.copy_with(&queue, &Options::new().separate(true))?.to_host()
}

fn within(sim: &Sim, array: &Array) -> Result<Array> {
    let queue = sim.device().open_queue()?;
    let there = array.copy_with(&queue, &Options::new().trim(false))?;
    there.copy_with(&queue, &Options::new().always(true))?.to_host()
}

fn to_the_other(sim: &Sim, array: &Array) -> Result<Array> {
    let (one, other) = (sim.device().open_queue()?, sim.device_number(1).open_queue()?);
    let there = array.copy_with(&one, &Options::new().trim(false))?;
    there.copy_with(&other, &Options::new().chunk(128))?.to_host()
}

/// Runs a journey with every call failing in turn; returns the steps that errors named.
fn fail_everywhere(builder: Builder, journey: Journey) -> BTreeSet<&'static str> {
    let (array, mut steps, mut succeeded) = (lists(), BTreeSet::new(), 0);
    let runs = builder.for_each_fault(|sim| match journey(sim, &array) {
        Ok(back) => {
            assert!(back.equals(&array).unwrap());
            succeeded += 1;
        }
        Err(error) => {
            // The simulator's own kinds, and no other error in their wake.
            let kinds = [ErrorKind::OutOfMemory, ErrorKind::Driver, ErrorKind::DeviceLost];
            assert!(kinds.contains(&error.kind()), "{error}");
            assert!(error.device().is_some(), "{error}");
            steps.insert(named(&error));
        }
    });
    // Each run but the last two had a fault. Some do no harm: a destruction's, or one that was
    // tried again.
    assert!(runs > 20 && succeeded >= 2 && succeeded < runs / 2, "{succeeded} of {runs}");
    steps
}

/// The step of a copy, or the call of the test's own.
fn named(error: &Error) -> &'static str {
    let operation = error.operation().unwrap_or_else(|| panic!("no step: {error}"));
    assert!(operation.starts_with("copy, ") || operation == "open_queue", "{error}");
    operation
}

const ALLOCATE: &str = "copy, allocating the destination";
const SUBMIT: &str = "copy, submitting";
const RECORD: &str = "copy, recording the end";
const LEARN: &str = "copy, reading lengths";
const OPEN: &str = "copy, opening a queue at the source";
const ORDER: &str = "copy, ordering a queue behind the source";
const FINISH: &str = "copy, waiting for the end";

#[track_caller]
fn assert_steps(found: &BTreeSet<&'static str>, expected: &[&str]) {
    let missing: Vec<_> = expected.iter().filter(|step| !found.contains(**step)).collect();
    assert!(missing.is_empty(), "no error named {missing:?}, but {found:?}");
}

#[test]
fn whichever_call_fails_between_host_and_device_all_is_freed_and_the_step_is_named() {
    for kind in [Kind::Discrete, Kind::Handles] {
        let steps = fail_everywhere(Sim::builder().kind(kind), to_device_and_back);
        assert_steps(&steps, &[ALLOCATE, SUBMIT, RECORD, OPEN, ORDER, LEARN, FINISH]);
    }
    let readable = Sim::builder().kind(Kind::HostReadable);
    let steps = fail_everywhere(readable, to_device_and_back);
    let mapped = ["copy, waiting for the source", "copy, mapping"];
    // The host fills such memory itself, and submits nothing.
    assert_steps(&steps, &[&[ALLOCATE, RECORD, LEARN], &mapped[..]].concat());
}

#[test]
fn whichever_call_fails_where_parts_have_handles_all_is_freed() {
    let builder = Sim::builder().kind(Kind::Handles).parts(true);
    let steps = fail_everywhere(builder, to_device_and_back);
    assert_steps(&steps, &[ALLOCATE, SUBMIT, RECORD, "copy, building the result"]);
}

#[test]
fn whichever_call_fails_with_separate_buffers_all_is_freed() {
    let steps = fail_everywhere(Sim::builder(), in_separate_buffers);
    assert_steps(&steps, &[ALLOCATE, SUBMIT, RECORD]);
}

// Requirement: SAF-14
#[test]
fn whichever_call_fails_within_a_device_all_is_freed() {
    for kind in Kind::ALL {
        let steps = fail_everywhere(Sim::builder().kind(kind), within);
        let common = [ALLOCATE, SUBMIT, ORDER, LEARN];
        assert_steps(&steps, &[&common[..], &[RECORD]].concat());
    }
}

#[test]
fn whichever_call_fails_between_two_devices_all_is_freed() {
    let steps = fail_everywhere(Sim::builder().peers(2), to_the_other);
    assert_steps(&steps, &[ALLOCATE, SUBMIT, RECORD, OPEN, ORDER, LEARN]);
    let steps = fail_everywhere(Sim::builder().devices(2), to_the_other);
    let staged = ["copy, reading a chunk", "copy, writing a chunk"];
    assert_steps(&steps, &[&[ALLOCATE, RECORD, OPEN, ORDER, LEARN], &staged[..]].concat());
}

#[test]
fn wrong_lengths_on_a_device_are_not_followed() {
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    // Numbers do not get looked at on the way, so wrong offsets get there as such.
    let upload = |offsets: [i32; 3]| {
        let mut memory = queue.allocate(12).unwrap();
        let bytes: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_ne_bytes()).collect();
        memory.write(&queue, &bytes).unwrap();
        memory.into_buffer()
    };
    let mut data = queue.allocate(8).unwrap();
    data.write(&queue, b"abcdefgh").unwrap();
    let data = data.into_buffer();
    for (offsets, message) in [
        ([0, 3, -1], "the last offset is -1"),
        ([5, 6, 3], "the first offset is 5, and the last one is 3"),
        ([-2, 0, 3], "the first offset is -2, and the last one is 3"),
        ([0, 3, 9], "the last offset is 9, and buffer 2 has 8 bytes"),
    ] {
        let text = Array::builder(DataType::Utf8)
            .len(2)
            .buffers([None, Some(upload(offsets)), Some(data.clone())])
            .finish_ready()
            .unwrap();
        // Built here, the length is known; imported, only the driver knows it.
        for array in [text.clone(), arrow_device_testkit::trips::imported(&text)] {
            let error = array.to_host().unwrap_err();
            assert_eq!((error.kind(), error.message()), (ErrorKind::InvalidData, message));
            assert_eq!(error.place().unwrap().to_string(), "root");
        }
        let list = Array::builder(DataType::list(DataType::UInt8))
            .len(2)
            .buffers([None, Some(upload(offsets))])
            .children([Array::builder(DataType::UInt8)
                .len(8)
                .buffers([None, Some(data.clone())])
                .finish_ready()
                .unwrap()])
            .finish_ready()
            .unwrap();
        assert_eq!(list.to_host().unwrap_err().kind(), ErrorKind::InvalidData, "{message}");
    }
    queue.synchronize().unwrap();
}

#[test]
fn an_array_on_a_device_that_is_not_open_says_so() {
    let id = arrow_device::DeviceId::new(arrow_device::DeviceType::EXT_DEV, 77);
    let nowhere =
        Array::builder(lists().data_type().clone()).device(id).len(0).buffers([None, None]);
    let words = Array::builder(DataType::Utf8).device(id).len(0).buffers([None, None, None]);
    let nowhere = nowhere.children([words.finish_ready().unwrap()]).finish_ready().unwrap();
    assert_eq!(nowhere.to_host().unwrap_err().kind(), ErrorKind::DeviceMissing);
    assert_eq!(nowhere.copy_to(&Queue::host()).unwrap_err().kind(), ErrorKind::DeviceMissing);
}
