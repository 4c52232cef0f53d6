//! The table of wrong peers: each is found out by its judge, and those who are right are not.

use std::collections::{BTreeSet, HashSet};

use arrow_device_testkit::judge::{self, Stage};
use arrow_device_testkit::process::Child;
use arrow_device_testkit::wrong::{self, Direction, Producer};

/// The requirements that a producer, a consumer or a relay of arrays and schemas can break. The
/// others are about headers and documentation.
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
    let child = || Child::of("wrong::a_peer_that_crashes_when_it_is_told_to");
    assert!(child().run().status.success());
    assert!(!child().env(CRASHES, "1").run().status.success());
}

#[test]
fn those_who_are_right_are_not_blamed() {
    let right = |stage: &Stage, schema, array| Producer::RIGHT.produce(stage, schema, array);
    assert_eq!(judge::producer(&right), Ok(()));
    assert_eq!(judge::consumer(&wrong::right_consumer), Ok(()));
}
