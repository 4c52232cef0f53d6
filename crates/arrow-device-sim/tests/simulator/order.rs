//! Work runs when it is waited for, in an order that is legal and the seed's.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device::{ErrorKind, Memory, Queue, Result};
use arrow_device_sim::{Builder, Kind, Mistake, Schedule, Sim, sweep};

use crate::support;

/// Submits a kernel that adds its name to a list when it runs.
fn mark(sim: &Sim, queue: &Queue, name: &'static str, ran: &Arc<Mutex<Vec<&'static str>>>) {
    let ran = ran.clone();
    sim.kernel(name).launch(queue, move |_| ran.lock().unwrap().push(name)).unwrap();
}

fn late() -> Builder {
    Sim::builder().schedule(Schedule::Late)
}

#[test]
fn an_eager_device_has_done_what_it_was_given_when_the_call_returns() {
    Sim::builder().schedule(Schedule::Eager).sweep(support::seeds(100), |sim| {
        let ran = Arc::default();
        let [one, two] = [(); 2].map(|()| sim.device().open_queue().unwrap());
        mark(sim, &one, "a", &ran);
        two.wait(&one.record().unwrap()).unwrap();
        mark(sim, &two, "b", &ran);
        assert_eq!(*ran.lock().unwrap(), ["a", "b"]);
        assert!(one.is_idle().unwrap() && two.is_idle().unwrap());
        // Memory that is given up is there no more.
        let mut memory = sim.device().allocate(64).unwrap();
        let spot = memory.spot(&one).unwrap();
        sim.fill(&one, spot, 64, 1).unwrap();
        drop(memory);
        assert_eq!(sim.allocated(), 0);
        sim.fill(&one, spot, 64, 1).unwrap();
        let kinds: Vec<Mistake> = sim.take_reports().iter().map(|report| report.kind).collect();
        assert_eq!(kinds, [Mistake::UseAfterFree]);
    });
}

#[test]
fn an_eager_device_tells_the_host_nothing_that_it_has_not_asked() {
    Sim::builder().schedule(Schedule::Eager).sweep(support::seeds(100), |sim| {
        let [one, two] = [(); 2].map(|()| sim.device().open_queue().unwrap());
        let mut memory = sim.device().allocate(64).unwrap();
        let spots = [&one, &two].map(|queue| memory.spot(queue).unwrap());
        sim.fill(&one, spots[0], 64, 1).unwrap();
        sim.fill(&two, spots[1], 64, 1).unwrap();
        let kinds: Vec<Mistake> = sim.take_reports().iter().map(|report| report.kind).collect();
        assert_eq!(kinds, [Mistake::UnorderedWrite]);
    });
}

#[test]
fn a_sweep_has_late_and_eager_schedules() {
    let mut idle = Vec::new();
    sweep(0..4, |sim| {
        let queue = sim.device().open_queue().unwrap();
        mark(sim, &queue, "a", &Arc::default());
        idle.push(queue.is_idle().unwrap());
    });
    assert_eq!(idle, [false, true, false, true]);
}

#[test]
fn nothing_runs_before_somebody_waits() {
    late().sweep(support::seeds(100), |sim| {
        let ran = Arc::default();
        let queue = sim.device().open_queue().unwrap();
        mark(sim, &queue, "a", &ran);
        let event = queue.record().unwrap();
        mark(sim, &queue, "b", &ran);
        assert!(!event.is_complete().unwrap() && !queue.is_idle().unwrap());
        assert_eq!(*ran.lock().unwrap(), [""; 0]);
        event.synchronize().unwrap();
        assert_eq!(*ran.lock().unwrap(), ["a"], "and no more than is waited for");
        assert!(event.is_complete().unwrap() && !queue.is_idle().unwrap());
        queue.synchronize().unwrap();
        assert_eq!(*ran.lock().unwrap(), ["a", "b"]);
    });
}

#[test]
fn a_wait_brings_the_work_of_other_queues_with_it_and_only_what_is_needed() {
    late().sweep(support::seeds(100), |sim| {
        let ran = Arc::default();
        let [one, two, three] = [(); 3].map(|()| sim.device().open_queue().unwrap());
        mark(sim, &one, "a", &ran);
        let event = one.record().unwrap();
        mark(sim, &one, "not needed", &ran);
        mark(sim, &two, "b", &ran);
        two.wait(&event).unwrap();
        drop(event);
        mark(sim, &two, "c", &ran);
        three.wait(&two.record().unwrap()).unwrap();
        mark(sim, &three, "d", &ran);
        three.synchronize().unwrap();
        let ran = ran.lock().unwrap();
        assert_eq!(ran.len(), 4, "{ran:?}");
        assert_eq!(ran[2..], ["c", "d"]);
        drop(ran);
        sim.run_until_idle();
    });
}

#[test]
fn every_legal_order_comes_with_some_seed() {
    let mut orders = std::collections::BTreeSet::new();
    late().sweep(support::seeds(200), |sim| {
        let ran = Arc::default();
        let queues = [(); 3].map(|()| sim.device().open_queue().unwrap());
        for (queue, name) in queues.iter().zip(["a", "b", "c"]) {
            mark(sim, queue, name, &ran);
        }
        sim.run_until_idle();
        orders.insert(ran.lock().unwrap().clone());
    });
    assert!(orders.len() == 6 || cfg!(miri), "{orders:?}");
}

fn busy(seed: u64) -> (Vec<arrow_device_sim::Step>, Vec<u8>) {
    let sim = Sim::builder().seed(seed).log(true).build();
    let queues = [(); 4].map(|()| sim.device().open_queue().unwrap());
    let mut memory = sim.device().allocate(64).unwrap();
    let spots = queues.each_ref().map(|queue| memory.spot(queue).unwrap());
    for (turn, (queue, spot)) in queues.iter().zip(spots).cycle().take(40).enumerate() {
        sim.fill(queue, spot, 64, turn as u8).unwrap();
    }
    sim.run_until_idle();
    let bytes = sim.read(&queues[0], spots[0], 64).unwrap();
    sim.take_reports();
    (sim.log(), bytes)
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in support::seeds(100) {
        assert_eq!(busy(seed), busy(seed), "seed {seed}");
    }
    assert_ne!(busy(1).0, busy(2).0);
}

#[test]
fn the_same_seed_gives_the_same_reports() {
    let reports = |seed| {
        let sim = Sim::builder().seed(seed).build();
        let queues = [(); 4].map(|()| sim.device().open_queue().unwrap());
        let mut memory = sim.device().allocate(64).unwrap();
        for queue in &queues {
            let spot = memory.spot(queue).unwrap();
            sim.fill(queue, spot, 64, 1).unwrap();
        }
        sim.take_reports().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(reports(7), reports(7));
    assert!(!reports(7).is_empty());
}

#[test]
fn code_that_only_asks_gets_on_with_a_pump() {
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    sim.kernel("work").launch(&queue, |_| {}).unwrap();
    let event = queue.record().unwrap();
    let _pump = sim.pump();
    while !event.is_complete().unwrap() {
        std::thread::yield_now();
    }
}

#[test]
fn a_slow_device_lets_waits_with_a_limit_run_out_and_gets_there_in_the_end() {
    let second = Duration::from_secs(1);
    let sim = Sim::builder().work_time(10 * second).build();
    let queue = sim.device().open_queue().unwrap();
    for _ in 0..3 {
        sim.kernel("slow").launch(&queue, |_| {}).unwrap();
    }
    let event = queue.record().unwrap();
    let mut waits = 0;
    while !event.wait_timeout(4 * second).unwrap() {
        assert!(!event.is_complete().unwrap());
        waits += 1;
    }
    assert_eq!(waits, 7, "eight times four seconds are the first to reach thirty");
}

#[test]
fn a_kernel_that_waits_for_its_own_device_gets_an_error() {
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    let inner = queue.clone();
    let seen = Arc::new(Mutex::new(None));
    let told = seen.clone();
    sim.kernel("waits")
        .launch(&queue, move |_| *told.lock().unwrap() = Some(inner.synchronize()))
        .unwrap();
    queue.synchronize().unwrap();
    let result: Result<()> = seen.lock().unwrap().take().unwrap();
    assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_kernel_gets_the_bytes_that_it_named_and_changes_what_it_may() {
    for kind in Kind::ALL {
        Sim::builder().kind(kind).sweep(support::seeds(20), |sim| {
            let queue = sim.device().open_queue().unwrap();
            let numbers: Vec<u8> = [3_i32, -4, 5].iter().flat_map(|n| n.to_ne_bytes()).collect();
            let mut memory: Memory = sim.device().allocate(16).unwrap();
            memory.write(&queue, &numbers).unwrap();
            let spot = memory.spot(&queue).unwrap();
            let last = arrow_device::driver::Spot { offset: 12, ..spot };
            sim.kernel("sum")
                .reads(spot, 12)
                .writes(last, 4)
                .launch(&queue, |memory| {
                    let sum = memory.values::<i32>(0).iter().sum::<i32>();
                    memory.set_values(0, &[sum]);
                })
                .unwrap();
            let bytes = sim.read(&queue, last, 4).unwrap();
            assert_eq!(bytes, 4_i32.to_ne_bytes());
        });
    }
}

#[test]
fn a_panic_in_a_kernel_is_a_report() {
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    sim.kernel("broken").launch(&queue, |_| panic!("planted")).unwrap();
    queue.synchronize().unwrap();
    let [report] = &sim.take_reports()[..] else { panic!() };
    assert_eq!(report.kind, Mistake::KernelPanicked);
    assert!(report.to_string().contains("planted"));
}

/// Copies on one queue into the same bytes of the host are in order, and no mistake; nor are copies
/// out of them, once the host has waited (UNS-21), and copies into them behind those.
#[test]
fn ordered_copies_may_share_bytes_of_the_host() {
    late().sweep(support::seeds(50), |sim| {
        let queue = sim.device().open_queue().unwrap();
        let other = sim.device().open_queue().unwrap();
        let of = |byte: u8| {
            let mut memory = queue.allocate(8).unwrap();
            memory.write(&queue, &[byte; 8]).unwrap();
            memory
        };
        let [mut ones, mut twos, mut third] = [1, 2, 3].map(of);
        queue.synchronize().unwrap();
        let bytes: *mut [u8; 8] = Box::into_raw(Box::new([9; 8]));
        let host = |offset| Spot { base: Raw::from_ptr(bytes.cast()), offset };
        let copy = |queue: &Queue, route: Route<'_>, from: Spot, to: Spot, len: u64| {
            unsafe { queue.copy(route, &[Region { from, to, len }]) }.unwrap();
        };
        let (first, second) = (ones.spot(&queue).unwrap(), twos.spot(&queue).unwrap());
        copy(&queue, Route::ToHost, first, host(0), 8);
        copy(&queue, Route::ToHost, second, host(4), 4);
        queue.synchronize().unwrap();
        copy(&queue, Route::FromHost, host(0), third.spot(&queue).unwrap(), 8);
        // So are those of a queue that waits.
        other.wait(&queue.record().unwrap()).unwrap();
        copy(&other, Route::ToHost, third.spot(&other).unwrap(), host(2), 4);
        other.synchronize().unwrap();
        assert_eq!(unsafe { bytes.read() }, [1, 1, 1, 1, 1, 1, 2, 2]);
        let reports = sim.take_reports();
        assert!(reports.is_empty(), "{reports:?}");
        // What the host changes meanwhile is still seen, and so are copies without an order.
        copy(&queue, Route::ToHost, first, host(0), 4);
        copy(&queue, Route::ToHost, second, host(0), 4);
        unsafe { bytes.cast::<u8>().add(3).write(77) };
        queue.synchronize().unwrap();
        copy(&queue, Route::ToHost, first, host(0), 4);
        copy(&other, Route::ToHost, second, host(0), 4);
        queue.synchronize().unwrap();
        other.synchronize().unwrap();
        let kinds: Vec<Mistake> = sim.take_reports().iter().map(|report| report.kind).collect();
        assert_eq!(kinds, [Mistake::HostDestinationChanged, Mistake::UnorderedWrite]);
        drop(unsafe { Box::from_raw(bytes) });
    });
}
