//! Faults, peers, other parties' events.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::driver::{Addressing, Raw, Route, SyncEvent, Waiting};
use arrow_device::{Array, DataType, DeviceType, ErrorKind};
use arrow_device_sim::{Call, EventTable, Kind, Mistake, Sim, for_each_fault};
use arrow_device_testkit::process::alone;

use crate::support;
use crate::support::{Bench, at, host, host_mut, region};

// ---- peers

#[test]
fn peers_reach_each_others_memory_and_copy_it() {
    Sim::builder().peers(2).sweep(support::seeds(100), |sim| {
        let bench = Bench::new(sim);
        let other = sim.device_number(1);
        assert!(bench.one.reaches(other.id()).is_ok());
        let queue = other.open_queue().unwrap();
        let mut near = other.allocate(16).unwrap();
        let to = near.spot(&queue).unwrap();
        let mut far = bench.device.allocate(16).unwrap();
        far.write(&bench.one, b"sixteen letters!").unwrap();
        let from = far.spot(&queue).unwrap();
        let route = Route::FromPeer(bench.driver());
        unsafe { queue.copy(route, &[region(from, to, 16)]) }.unwrap();
        assert_eq!(sim.read(&queue, to, 16).unwrap(), b"sixteen letters!");
    });
}

#[test]
fn devices_without_access_say_so() {
    let sim = Sim::builder().devices(2).build();
    let bench = Bench::new(&sim);
    let queue = sim.device_number(1).open_queue().unwrap();
    let refused = queue.reaches(bench.device.id()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotReachable);
    let route = Route::FromPeer(bench.driver());
    let refused = bench.copy(&queue, route, &[region(at(Raw::NULL, 0), at(Raw::NULL, 0), 1)]);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotReachable);
}

#[test]
fn two_simulators_share_nothing_but_can_wait_for_each_other_on_the_host() {
    let (sim, other) = (Sim::builder().build(), Sim::builder().build());
    assert_ne!(sim.device().id(), other.device().id());
    assert!(
        Sim::is_ours(sim.device().id()) && sim.device().id().device_type == DeviceType::EXT_DEV
    );
    let (here, there) = (sim.device().open_queue().unwrap(), other.device().open_queue().unwrap());
    other.kernel("work").launch(&there, |_| {}).unwrap();
    let event = there.record().unwrap();
    here.wait(&event).unwrap();
    assert!(event.is_complete().unwrap());
}

// Requirement: SAF-12
#[test]
fn two_simulators_that_are_open_by_one_id_have_memory_of_their_own() {
    alone(|| {
        for kind in Kind::ALL {
            let sim = Sim::builder().kind(kind).parts(true).devices(2).build();
            let twin = Sim::builder().kind(kind).parts(true).ids_of(&sim).devices(3).build();
            for number in [0, 1] {
                assert_eq!(sim.device_number(number).id(), twin.device_number(number).id());
            }
            assert!(sim.device_number(1).id() != twin.device_number(2).id());
            assert_ne!(sim.device().driver().runtime(), twin.device().driver().runtime());
            let queues = [&sim, &twin].map(|sim| sim.device().open_queue().unwrap());
            let [here, there] = &queues;
            for (queue, other) in [(here, there), (there, here)] {
                let mut memory = queue.allocate(64).unwrap();
                memory.write(queue, &[7; 64]).unwrap();
                let buffer = memory.into_buffer();
                buffer.on(queue).unwrap();
                let refused = buffer.on(other).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::NotReachable);
            }
        }
    });
}

// ---- settings

#[test]
fn handles_of_parts_lie_together_where_addresses_would_be_separate() {
    for kind in Kind::ALL {
        let sim = Sim::builder().kind(kind).parts(true).separate(true).build();
        let device = sim.device();
        let has_addresses = device.properties().addressing == Addressing::Address;
        assert_eq!(device.properties().separate, has_addresses, "{kind:?}");
        let queue = device.open_queue().unwrap();
        let texts = Array::from_texts(DataType::Utf8, [Some("one"), None, Some("three")]).unwrap();
        let there = texts.copy_to(&queue).unwrap();
        there.validate_layout().unwrap();
        assert_eq!(sim.take_reports().len(), 0, "{kind:?}");
    }
}

// ---- faults

#[test]
fn each_call_can_be_told_to_fail_with_a_typed_error() {
    let sim = Sim::builder().build();
    let bench = Bench::new(&sim);
    for (call, kind) in [
        (Call::Allocate, ErrorKind::OutOfMemory),
        (Call::OpenQueue, ErrorKind::Driver),
        (Call::MakeEvent, ErrorKind::Driver),
        (Call::Record, ErrorKind::Driver),
        (Call::Wait, ErrorKind::Driver),
        (Call::Submit, ErrorKind::Driver),
        (Call::HostWait, ErrorKind::Driver),
    ] {
        let attempt = || match call {
            // Straight to the driver: the library tries again.
            Call::Allocate => {
                unsafe { bench.driver().allocate(8, None) }.map(|memory| bench.free(memory, 8))
            }
            Call::OpenQueue => bench.device.open_queue().map(drop),
            Call::MakeEvent | Call::Record => bench.one.record().map(drop),
            Call::Wait => bench.one.wait(&bench.two.record().unwrap()),
            Call::Submit => sim.kernel("k").launch(&bench.one, |_| {}),
            _ => bench.one.synchronize(),
        };
        sim.fail(call, 2);
        assert!(attempt().is_ok(), "{call:?}");
        assert_eq!(attempt().unwrap_err().kind(), kind, "{call:?}");
        assert!(attempt().is_ok(), "{call:?}");
    }
}

#[test]
fn memory_runs_out_where_it_was_told_to() {
    let sim = Sim::builder().memory_limit(100).build();
    let device = sim.device();
    let first = device.allocate(60).unwrap();
    assert_eq!(device.allocate(41).unwrap_err().kind(), ErrorKind::OutOfMemory);
    drop(first);
    assert_eq!(sim.allocated(), 0);
    assert!(device.allocate(100).is_ok());
}

#[test]
fn a_lost_device_answers_everything_with_that_and_holds_nothing_back() {
    let sim = Sim::builder().build();
    let bench = Bench::new(&sim);
    let mut memory = bench.device.allocate(8).unwrap();
    let spot = memory.spot(&bench.one).unwrap();
    sim.fill(&bench.one, spot, 8, 1).unwrap();
    let event = bench.one.record().unwrap();
    sim.lose_device();
    let lost = |result: arrow_device::Result<()>| {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::DeviceLost);
    };
    lost(event.is_complete().map(drop));
    lost(event.synchronize());
    lost(bench.two.wait(&event));
    lost(bench.one.synchronize());
    lost(bench.one.is_idle().map(drop));
    lost(bench.device.open_queue().map(drop));
    lost(bench.device.allocate(1).map(drop));
    lost(sim.fill(&bench.one, spot, 8, 1));
    drop(memory);
    assert_eq!(sim.allocated(), 0);
}

#[test]
fn what_a_lost_device_will_not_run_is_dropped() {
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    let held = std::sync::Arc::new(());
    let kept = held.clone();
    sim.kernel("never").launch(&queue, move |_| drop(kept)).unwrap();
    assert_eq!(std::sync::Arc::strong_count(&held), 2);
    sim.lose_device();
    assert_eq!(std::sync::Arc::strong_count(&held), 1);
}

#[test]
fn a_write_from_the_host_survives_a_wait_that_fails() {
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    let mut memory = sim.device().allocate(1024).unwrap();
    sim.fail(Call::HostWait, 1);
    let mut bytes = vec![7_u8; 1024];
    assert!(memory.write(&queue, &bytes).is_err());
    // The device reads the source only now, and must not see this.
    bytes.fill(9);
    drop(bytes);
    let spot = memory.spot(&queue).unwrap();
    assert_eq!(sim.read(&queue, spot, 1024).unwrap(), [7; 1024]);
}

#[test]
fn every_call_of_a_test_is_made_to_fail_once() {
    let mut outcomes = Vec::new();
    let runs = for_each_fault(|sim| {
        let outcome = sim.device().open_queue().and_then(|queue| {
            let mut memory = queue.device().allocate(8)?;
            memory.write(&queue, &[1; 8])
        });
        outcomes.push(outcome.map_err(|error| error.kind()).err());
    });
    // Open, allocate (tried again by the library), submit, wait; then the event that lets the
    // memory go.
    assert_eq!(runs, outcomes.len());
    let failed = |kind| outcomes.iter().filter(|outcome| **outcome == Some(kind)).count();
    assert_eq!(failed(ErrorKind::DeviceLost), 4, "{outcomes:?}");
    assert_eq!(failed(ErrorKind::Driver), 3, "{outcomes:?}");
}

// ---- other parties' events

/// The size of the table of an event.
const TABLE: u32 = size_of::<EventTable>() as u32;

#[test]
fn an_event_can_be_used_through_its_table_alone() {
    let sim = Sim::builder().build();
    let bench = Bench::new(&sim);
    let memory = bench.allocate(8);
    bench.fill(&bench.one, memory, 8);
    let event = bench.one.record().unwrap();
    let SyncEvent::Address(address) = event.sync_event().unwrap() else { unreachable!() };
    let table = address.as_ptr().cast::<EventTable>().cast_const();
    let EventTable { magic, version, size, query, wait, queue_wait, .. } = unsafe { table.read() };
    assert_eq!((magic, version, size), (EventTable::MAGIC, EventTable::VERSION, TABLE));
    let (query, wait, queue_wait) = (query.unwrap(), wait.unwrap(), queue_wait.unwrap());
    assert_eq!(unsafe { query(table) }, libc_eagain());
    // Ordered by the table, so that this read is no mistake.
    assert_eq!(unsafe { queue_wait(table, bench.two.raw().as_ptr()) }, 0);
    bench.consume(&bench.two, memory, 8);
    assert_eq!(unsafe { wait(table, 0) }, 0, "no work takes any time here");
    assert_eq!(unsafe { query(table) }, 0);
    let elsewhere = ErrorKind::NotReachable.errno();
    assert_eq!(unsafe { queue_wait(table, std::ptr::without_provenance_mut(77)) }, elsewhere);
    bench.idle();
    bench.free(memory, 8);
}

fn libc_eagain() -> c_int {
    ErrorKind::NotReady.errno()
}

#[test]
fn whoever_looks_at_a_destroyed_event_sees_that_it_is_none() {
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    let event = queue.record().unwrap();
    let table = event.raw().as_ptr().cast::<EventTable>();
    assert_eq!(unsafe { (*table).magic }, EventTable::MAGIC);
    drop(event);
    // The memory of the table is the simulator's, and stays.
    assert_ne!(unsafe { (*table).magic }, EventTable::MAGIC);
}

static QUERIES: AtomicUsize = AtomicUsize::new(0);
static WAITS: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn query(_: *const EventTable) -> c_int {
    if QUERIES.fetch_add(1, Ordering::SeqCst) > 0 { 0 } else { libc_eagain() }
}

unsafe extern "C" fn wait(_: *const EventTable, nanoseconds: i64) -> c_int {
    WAITS.fetch_add(1, Ordering::SeqCst);
    if nanoseconds < 0 { 0 } else { ErrorKind::TimedOut.errno() }
}

#[test]
fn the_event_of_another_library_is_waited_for_through_its_table() {
    let sim = Sim::builder().build();
    let bench = Bench::new(&sim);
    let mut table = EventTable {
        magic: EventTable::MAGIC,
        version: EventTable::VERSION,
        size: TABLE,
        query: Some(query),
        wait: Some(wait),
        queue_wait: None,
        context: std::ptr::null_mut(),
    };
    let address = std::ptr::NonNull::from(&mut table).cast::<c_void>();
    let driver = bench.driver();
    let event = unsafe { driver.read_sync_event(address) }.unwrap();
    assert_eq!(unsafe { driver.wait(bench.one.raw(), event) }.unwrap(), Waiting::HostMustWait);
    assert!(unsafe { driver.wait_on_host(event, None) }.unwrap());
    assert!(!unsafe { driver.wait_on_host(event, Some(std::time::Duration::ZERO)) }.unwrap());
    assert_eq!(WAITS.load(Ordering::SeqCst), 2);
    assert!(!unsafe { driver.is_complete(event) }.unwrap());
    assert!(unsafe { driver.is_complete(event) }.unwrap());
    for broken in [
        EventTable { magic: 7, ..table_like(&table) },
        EventTable { version: 0, ..table_like(&table) },
        EventTable { size: TABLE - 1, ..table_like(&table) },
        EventTable { wait: None, ..table_like(&table) },
    ] {
        let address = std::ptr::NonNull::from(&broken).cast::<c_void>();
        let error = unsafe { driver.read_sync_event(address) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
    }
}

fn table_like(table: &EventTable) -> EventTable {
    unsafe { std::ptr::read(table) }
}

// ---- copies

#[test]
fn bytes_travel_there_and_back() {
    for kind in arrow_device_sim::Kind::ALL {
        Sim::builder().kind(kind).sweep(support::seeds(50), |sim| {
            let bench = Bench::new(sim);
            let memory = bench.allocate(12);
            let (source, mut target) = (*b"hello, world", [0_u8; 12]);
            let there = [
                region(host(&source), at(memory, 7), 5),
                region(host(&source[5..]), at(memory, 0), 7),
            ];
            bench.copy(&bench.one, Route::FromHost, &there).unwrap();
            bench.order(&bench.one, &bench.two);
            let back = region(at(memory, 0), host_mut(&mut target), 12);
            bench.copy(&bench.two, Route::ToHost, &[back]).unwrap();
            bench.idle();
            assert_eq!(&target, b", worldhello");
            bench.free(memory, 12);
        });
    }
}

#[test]
fn the_regions_of_one_copy_have_no_order() {
    let mut ends = std::collections::BTreeSet::new();
    for seed in 0..64 {
        let sim = Sim::builder().seed(seed).build();
        let bench = Bench::new(&sim);
        let memory = bench.allocate(1);
        let source = [1_u8, 2];
        let regions =
            [region(host(&source), at(memory, 0), 1), region(host(&source[1..]), at(memory, 0), 1)];
        bench.copy(&bench.one, Route::FromHost, &regions).unwrap();
        ends.insert(sim.read(&bench.one, at(memory, 0), 1).unwrap());
        assert_eq!(sim.take_reports()[0].kind, Mistake::OverlappingRegions);
        bench.free(memory, 1);
    }
    assert_eq!(ends.len(), 2);
}

#[test]
fn what_a_copy_has_not_brought_yet_looks_like_nothing() {
    let sim = Sim::builder().build();
    let bench = Bench::new(&sim);
    let memory = bench.allocate(4);
    bench.fill(&bench.one, memory, 4);
    let mut target = [0_u8; 4];
    let back = region(at(memory, 0), host_mut(&mut target), 4);
    bench.copy(&bench.one, Route::ToHost, &[back]).unwrap();
    let early = unsafe { back.to.base.as_ptr().cast::<[u8; 4]>().read() };
    assert_eq!(early, [0xd5; 4], "the bytes of a copy that has not run");
    bench.idle();
    assert_eq!(target, [7; 4]);
    bench.free(memory, 4);
}

#[test]
fn fresh_memory_is_not_zero_and_a_freed_address_is_known_for_long() {
    let sim = Sim::builder().build();
    let bench = Bench::new(&sim);
    let memory = bench.allocate(64);
    let bytes = sim.read(&bench.one, at(memory, 0), 64).unwrap();
    assert!(bytes.iter().all(|byte| *byte != 0));
    bench.free(memory, 64);
    for _ in 0..100 {
        bench.free(bench.allocate(64), 64);
    }
    bench.consume(&bench.one, memory, 64);
    let kinds: Vec<Mistake> = sim.take_reports().iter().map(|report| report.kind).collect();
    assert_eq!(kinds, [Mistake::UseAfterFree]);
}
