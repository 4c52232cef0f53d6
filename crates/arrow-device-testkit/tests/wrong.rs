//! The table of wrong peers: each is found out by its judge, and those who are right are not.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]

use std::collections::{BTreeSet, HashSet};

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, Batch, Buffer, DataType, Schema};
use arrow_device_testkit::judge::{self, Stage};
use arrow_device_testkit::ledger::Bytes;
use arrow_device_testkit::relay::Ours;
use arrow_device_testkit::wrong::{self, Direction, Producer};

/// The requirements that a producer, a consumer or a relay of arrays and schemas can break. The others are about headers and
/// documentation.
const BREAKABLE: [&str; 31] = [
    "ABI-1", "ABI-2", "ABI-3", "ABI-5", "ARR-1", "ARR-10", "ARR-11", "ARR-12", "ARR-13", "ARR-14",
    "ARR-15", "ARR-16", "ARR-17", "ARR-18", "ARR-19", "ARR-2", "ARR-20", "ARR-3", "ARR-4", "ARR-5",
    "ARR-6", "ARR-7", "ARR-8", "ARR-9", "SCH-1", "SCH-2", "SCH-3", "SCH-4", "SCH-5", "SCH-6",
    "SYS-1",
];

#[test]
fn there_is_a_wrong_peer_for_each_rule_and_their_number_is_pinned() {
    let all = wrong::all();
    let mut ids: BTreeSet<&str> = all.iter().map(|wrong| wrong.id).collect();
    assert!(ids.remove("SYS-2"));
    assert_eq!(ids.into_iter().collect::<Vec<_>>(), BREAKABLE);
    let names: HashSet<(&str, Direction)> =
        all.iter().map(|wrong| (wrong.name, wrong.direction())).collect();
    assert_eq!(names.len(), all.len());
    let count = |direction| all.iter().filter(|wrong| wrong.direction() == direction).count();
    let counts = [Direction::Producer, Direction::Consumer, Direction::Relay].map(count);
    println!("{} wrong peers: producers, consumers, relays {counts:?}", all.len());
    assert_eq!(counts, [27, 10, 25]);
}

#[test]
fn each_wrong_peer_is_found_out() {
    for wrong in wrong::all().iter().filter(|wrong| !wrong.crashes) {
        let Err(complaint) = wrong.run() else { panic!("nobody complained about {wrong:?}") };
        assert!(complaint.contains(wrong.complaint), "{wrong:?}: {complaint}");
    }
}

/// Set for a process that is to run the peers that crash.
const CRASHES: &str = "ARROW_DEVICE_TEST_PEER_CRASHES";

/// Run by the test below in a process of its own, which it ends.
#[test]
fn a_peer_that_crashes_when_it_is_told_to() {
    if std::env::var_os(CRASHES).is_some() {
        wrong::all().iter().filter(|wrong| wrong.crashes).for_each(|wrong| drop(wrong.run()));
    }
}

#[test]
fn a_peer_that_reads_device_memory_on_the_host_does_not_live_long() {
    let crashing = wrong::all().iter().filter(|wrong| wrong.crashes).count();
    assert_eq!(crashing, 1);
    let run = |told: bool| {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_peer_that_crashes_when_it_is_told_to"]);
        if told {
            command.env(CRASHES, "1");
        }
        command.output().unwrap().status
    };
    assert!(run(false).success());
    assert!(!run(true).success());
}

#[test]
fn those_who_are_right_are_not_blamed() {
    let right = |stage: &Stage, schema, array| Producer::RIGHT.produce(stage, schema, array);
    assert_eq!(judge::producer(&right), Ok(()));
    assert_eq!(judge::consumer(&wrong::right_consumer), Ok(()));
}

// Requirement: ABI-1, ABI-3, ABI-5, ARR-6, ARR-7, ARR-8, ARR-9, ARR-10, ARR-11, ARR-12, ARR-13, ARR-17, SCH-1, SCH-6
#[test]
fn the_library_is_a_right_producer() {
    let numbers = |stage: &Stage| {
        let bytes = Bytes::new((0..32).collect(), &stage.ledger);
        let id = stage.device.id();
        let buffer = unsafe { Buffer::foreign(id, bytes.address(), bytes.len(), bytes) };
        Array::builder(DataType::Int64).len(4).buffers([None, Some(buffer)])
    };
    let export = |batch: &Batch, schema: *mut ArrowSchema, out: *mut ArrowDeviceArray| unsafe {
        batch.schema().unwrap().export(&mut *schema).unwrap();
        batch.as_array().export_to(out).unwrap();
    };
    let finished = |stage: &Stage, schema, out| {
        stage.manual.submit(&stage.queue);
        let column = numbers(stage).finish_on(&stage.queue).unwrap();
        let other = numbers(stage).finish_ready().unwrap();
        export(&Batch::from_columns([("a", column), ("b", other)]).unwrap(), schema, out);
    };
    assert_eq!(judge::producer(&finished), Ok(()));
    let settled = |stage: &Stage, schema: *mut ArrowSchema, out: *mut ArrowDeviceArray| unsafe {
        stage.manual.submit(&stage.queue);
        let column = numbers(stage).finish_on(&stage.queue).unwrap();
        column.schema().unwrap().export(&mut *schema).unwrap();
        // `export_settled` wants memory that holds a struct.
        out.write(ArrowDeviceArray::empty());
        column.export_settled(&mut *out).unwrap();
    };
    assert_eq!(judge::producer(&settled), Ok(()));
}

// Requirement: ARR-2, ARR-5, ARR-13, ARR-15, ARR-18, ARR-20, SCH-6
#[test]
fn the_library_is_a_right_consumer() {
    let uses = |stage: &Stage, schema: &mut ArrowSchema, array: &mut ArrowDeviceArray| {
        let schema = unsafe { Schema::import(schema) }.unwrap();
        let array = unsafe { Array::import(array, &schema) }.unwrap();
        let view = array.on(&stage.queue).unwrap();
        stage.manual.submit(&stage.queue);
        drop((view, array));
    };
    assert_eq!(judge::consumer(&uses), Ok(()));
    let does_not_use = |_: &Stage, schema: &mut ArrowSchema, array: &mut ArrowDeviceArray| {
        let schema = unsafe { Schema::import(schema) }.unwrap();
        drop(unsafe { Array::import(array, &schema) }.unwrap());
    };
    assert_eq!(judge::consumer(&does_not_use), Ok(()));
}

// Requirement: ABI-2, ABI-5, SCH-2, SCH-3, SCH-4, SCH-5, ARR-1, ARR-3, ARR-4, ARR-14, ARR-16, ARR-19, SYS-1, SYS-2
#[test]
fn the_library_is_a_right_relay() {
    assert_eq!(judge::relay(&Ours), Ok(()));
    assert_eq!(judge::relay_of_unreadable_data(&Ours), Ok(()));
}
