//! Queues in all hands at once: threads, failures, a loss, closed queues, forks and ends of the
//! process while work goes on.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow_device::driver::{Raw, Region, Route, Spot, Waiting};
use arrow_device::{Array, DataType, ErrorKind};
use arrow_device_testkit::process::{self, End};
use arrow_device_testkit::release_until;
use metal_stand_in::Gate;

use crate::lanes::{OwnQueue, byte, record};
use crate::support::Bench;

/// Each thread copies by a queue that all share and by queues of its own, which it closes at once.
/// Now and then a copy fails. Whoever is told that a copy is over finds the bytes, or an error.
// Requirement: DRV-1, DRV-16, DRV-19, DRV-27
#[test]
fn threads_copy_by_shared_and_closed_queues_while_work_fails() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        bench.stand_in.set_delay(0);
        let before = bench.stand_in.objects();
        let (good, bad) = (AtomicUsize::new(0), AtomicUsize::new(0));
        for _ in 0..8 {
            let shared = OwnQueue::new(&bench);
            let driver = &**bench.driver();
            let once = |number: usize| {
                let own = driver.open_queue().unwrap();
                let queue = if number.is_multiple_of(3) { shared.raw() } else { own };
                let (mut bytes, mut events) = ([0; 300], Vec::new());
                shared.copy_to(queue, &mut bytes);
                events.push(record(driver, queue));
                if number.is_multiple_of(2) {
                    // Another queue that waits for the copy knows of it. A wait for work that is
                    // known to have failed is refused.
                    let other = if queue == own { shared.raw() } else { own };
                    match unsafe { driver.wait(other, events[0]) } {
                        Ok(answer) => {
                            assert_eq!(answer, Waiting::Queued);
                            events.push(record(driver, other));
                        }
                        Err(error) => assert_eq!(error.kind(), ErrorKind::WorkFailed),
                    }
                }
                unsafe { driver.close_queue(own) };
                let last = *events.last().unwrap();
                match unsafe { driver.wait_on_host(last, None) } {
                    Ok(passed) => {
                        assert!(passed);
                        assert!(bytes.iter().enumerate().all(|(at, found)| *found == byte(at)));
                        good.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WorkFailed, "{error}");
                        bad.fetch_add(1, Ordering::Relaxed);
                        // The copy may go on behind other failed work.
                        let _ = unsafe { driver.wait_on_host(events[0], None) };
                    }
                }
                for event in events {
                    unsafe { driver.destroy_event(event) };
                }
            };
            std::thread::scope(|threads| {
                for thread in 0..4 {
                    let once = &once;
                    threads.spawn(move || (0..60).for_each(|number| once(number + thread)));
                }
                while good.load(Ordering::Relaxed) == 0 {
                    std::thread::yield_now();
                }
                bench.stand_in.fail_next_copy(3);
            });
            bench.stand_in.fail_next_copy(0);
        }
        assert_eq!(good.into_inner() + bad.into_inner(), 8 * 4 * 60);
        // What failed is remembered of the application's queues, each with its timeline.
        let few = || bench.stand_in.objects() <= before + 2 * 8;
        assert!(release_until(few), "{} and {before}", bench.stand_in.objects());
    });
}

/// Whoever hears of the loss frees the place of the copy. Here that place gets another content.
// Requirement: DRV-21, DRV-28
#[test]
fn a_device_is_lost_while_threads_copy() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        let (driver, own) = (&**bench.driver(), OwnQueue::new(&bench));
        let rounds = AtomicUsize::new(0);
        std::thread::scope(|threads| {
            for thread in 0..4 {
                let (own, rounds) = (&own, &rounds);
                threads.spawn(move || {
                    let opened = driver.open_queue().unwrap();
                    let queue = if thread % 2 == 0 { own.raw() } else { opened };
                    let mut bytes = vec![0; 4096];
                    let error = loop {
                        bytes.fill(0);
                        let base = Raw::from_ptr(bytes.as_mut_ptr().cast());
                        let to = Spot { base, offset: 0 };
                        let region = Region { from: own.spot(), to, len: 4096 };
                        let copied = unsafe { driver.copy(queue, Route::ToHost, &[region]) };
                        if let Err(error) = copied {
                            break error;
                        }
                        if let Err(error) = unsafe { driver.synchronize(queue) } {
                            break error;
                        }
                        assert!(bytes.iter().enumerate().all(|(at, found)| *found == byte(at)));
                        rounds.fetch_add(1, Ordering::Relaxed);
                    };
                    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
                    bytes.fill(0xee);
                    unsafe { driver.close_queue(opened) };
                    std::thread::yield_now();
                    assert!(bytes.iter().all(|found| *found == 0xee));
                });
            }
            while rounds.load(Ordering::Relaxed) < 100 {
                std::thread::yield_now();
            }
            bench.stand_in.lose(0);
        });
        assert_eq!(driver.make_event().unwrap_err().kind(), ErrorKind::DeviceLost);
    });
}

/// Each queue waits for the one before, and all are closed before the first one goes on. The last
/// share of a queue's work must not end the others' within it.
// Requirement: DRV-16, SAF-37
#[test]
fn a_long_chain_of_closed_queues_ends() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        bench.stand_in.set_delay(0);
        let before = bench.stand_in.objects();
        let chain = || {
            let driver = &**bench.driver();
            let mut gate = Gate::new();
            let mut queue = driver.open_queue().unwrap();
            unsafe { gate.before(queue.as_ptr()) };
            let mut event = record(driver, queue);
            for _ in 0..2000 {
                unsafe { driver.close_queue(queue) };
                queue = driver.open_queue().unwrap();
                assert_eq!(unsafe { driver.wait(queue, event) }.unwrap(), Waiting::Queued);
                unsafe { driver.destroy_event(event) };
                event = record(driver, queue);
            }
            unsafe { driver.close_queue(queue) };
            unsafe { driver.destroy_event(event) };
            gate.open();
        };
        let thread = std::thread::Builder::new().stack_size(256 << 10);
        std::thread::scope(|threads| {
            thread.spawn_scoped(threads, chain).unwrap().join().unwrap();
        });
        let given_back = || {
            // The end of another event is when closed queues are looked at.
            let event = bench.driver().make_event().unwrap();
            unsafe { bench.driver().destroy_event(event) };
            bench.stand_in.objects() <= before
        };
        assert!(release_until(given_back), "{} and {before}", bench.stand_in.objects());
    });
}

/// Two queues that wait for each other's work are closed, and nobody asks about either.
#[test]
fn closed_queues_that_waited_for_each_other_are_given_back() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        let before = bench.stand_in.objects();
        let driver = bench.driver();
        let queues = [driver.open_queue().unwrap(), driver.open_queue().unwrap()];
        let gate = Gate::new();
        unsafe { gate.before(queues[0].as_ptr()) };
        for round in 0..4 {
            let event = record(&**driver, queues[round % 2]);
            let waiting = unsafe { driver.wait(queues[(round + 1) % 2], event) }.unwrap();
            assert_eq!(waiting, Waiting::Queued);
            unsafe { driver.destroy_event(event) };
        }
        for queue in queues {
            unsafe { driver.close_queue(queue) };
        }
        drop(gate);
        let given_back = || {
            let event = driver.make_event().unwrap();
            unsafe { driver.destroy_event(event) };
            bench.stand_in.objects() <= before
        };
        assert!(release_until(given_back), "{} and {before}", bench.stand_in.objects());
    });
}

#[test]
fn ten_thousand_small_arrays_come_back() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        bench.stand_in.set_delay(0);
        let own = OwnQueue::new(&bench);
        let queue = unsafe { bench.adopt_queue(own.raw()) };
        let before = bench.stand_in.objects();
        let arrays: Vec<Array> = (0..10_000)
            .map(|number| {
                let array = Array::from_values(DataType::Int32, [Some(number), None]).unwrap();
                array.copy_to(&queue).unwrap()
            })
            .collect();
        for (number, array) in arrays.iter().enumerate().step_by(97) {
            let expected = Array::from_values(DataType::Int32, [Some(number as i32), None]);
            assert!(array.to_host().unwrap().equals(&expected.unwrap()).unwrap());
        }
        drop(arrays);
        let few = || bench.stand_in.objects() <= before + 16;
        assert!(release_until(few), "{} and {before}", bench.stand_in.objects());
    });
}

// Requirement: DRV-8, SAF-27
#[test]
fn a_process_forks_while_its_threads_copy() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        let (own, is_over) = (OwnQueue::new(&bench), AtomicBool::new(false));
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    let array = Array::from_values(DataType::Int32, (0..50).map(Some)).unwrap();
                    while !is_over.load(Ordering::Relaxed) {
                        let queue = bench.open_queue().unwrap();
                        let there = array.copy_to(&queue).unwrap();
                        assert!(there.to_host().unwrap().equals(&array).unwrap());
                    }
                });
            }
            let (queue, adopted) =
                (bench.open_queue().unwrap(), unsafe { bench.adopt_queue(own.raw()) });
            let array = Array::from_values(DataType::Int32, (0..50).map(Some)).unwrap();
            for _ in 0..20 {
                let mut gate = Gate::new();
                unsafe { gate.before(adopted.raw().as_ptr()) };
                let there = array.copy_to(&queue).unwrap().copy_to(&adopted).unwrap();
                process::forked(|| {
                    let refused = there.to_host().is_err() && queue.record().is_err();
                    drop((there.clone(), queue.clone()));
                    if refused { Ok(()) } else { Err("the parent's array was read".into()) }
                });
                gate.open();
                assert!(there.to_host().unwrap().equals(&array).unwrap());
            }
            is_over.store(true, Ordering::Relaxed);
        });
    });
}

// Requirement: DRV-8, SAF-29
#[test]
fn a_process_ends_while_work_waits() {
    let end = process::end_of(|| {
        let Some(bench) = Bench::new() else { return };
        let queue = bench.open_queue().unwrap();
        let gate = Gate::new();
        unsafe { gate.before(queue.raw().as_ptr()) };
        let array = Array::from_values(DataType::Int32, (0..50).map(Some)).unwrap();
        let there = array.copy_to(&queue).unwrap().copy_to(&queue).unwrap();
        for _ in 0..3 {
            let there = there.clone();
            std::thread::spawn(move || there.to_host().map(drop));
        }
        std::mem::forget((gate, there));
        std::process::exit(0);
    });
    assert!(end.is_none_or(|end| matches!(end, End::Well)));
}
