//! What is held back: for how long, who releases it, and what that costs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use arrow_device::deferred::{ReleaseThread, held_back, release_finished, wait_until_released};
use arrow_device::{Array, ErrorKind, Queue};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::manual::Manual;
use arrow_device_testkit::{OnDrop, process, release_until};

use super::busy_queue;
use super::events::Scene;

/// An array that was used, and dropped while the queue was still at it.
fn used_and_dropped() -> (Manual, Queue, Arc<Ledger>) {
    let Scene { manual, queue, ledger, array, .. } = Scene::new();
    let view = array.on(&queue).unwrap();
    manual.submit(&queue);
    drop((view, array));
    (manual, queue, ledger)
}

// Requirement: ARR-20, SAF-13
#[test]
fn an_older_use_never_displaces_a_newer_one() {
    let Scene { manual, queue, ledger, array, device } = Scene::new();
    let (first, second) = (array.on(&queue).unwrap(), array.on(&queue).unwrap());
    manual.submit(&queue);
    let barrier = manual.hold_next_record();
    let slow = std::thread::spawn(move || drop(first));
    barrier.wait();
    // The event of the first use is recorded, and the first use is not noted yet.
    let before_the_second = queue.record().unwrap();
    manual.submit(&queue);
    drop(second);
    barrier.wait();
    slow.join().unwrap();
    drop(array);
    // The work of the first use is complete, and that of the second is not.
    before_the_second.synchronize().unwrap();
    assert!(!manual.is_idle(&queue));
    release_finished();
    assert_eq!(ledger.base_releases(), 0, "released while the second view's work runs");
    manual.complete(&queue);
    assert!(release_until(|| ledger.live() == 0));
    assert_eq!(ledger.settle(1), Ok(()));
    drop(device);
}

// Requirement: SAF-15
#[test]
fn what_has_passed_is_released_though_another_thread_still_asks() {
    process::alone(|| {
        let (manual, queue, ledger) = used_and_dropped();
        let barrier = manual.hold_next_answer();
        let asking = std::thread::spawn(release_finished);
        barrier.wait();
        // The other thread was told that the use has not ended, and has not gone on yet.
        manual.complete(&queue);
        assert_eq!(release_finished(), 1);
        assert_eq!(ledger.settle(1), Ok(()));
        barrier.wait();
        assert_eq!(asking.join().unwrap(), 0);
    });
}

#[test]
fn what_has_passed_is_released_before_the_next_queue_is_asked() {
    process::alone(|| {
        let (over, queue, released) = used_and_dropped();
        let (still_used, other, ledger) = used_and_dropped();
        over.complete(&queue);
        let barrier = still_used.hold_next_answer();
        let asking = std::thread::spawn(release_finished);
        barrier.wait();
        assert_eq!(released.settle(1), Ok(()));
        assert_eq!(ledger.base_releases(), 0);
        barrier.wait();
        assert_eq!(asking.join().unwrap(), 1);
        still_used.complete(&other);
        assert_eq!(release_finished(), 1);
        assert_eq!(ledger.settle(1), Ok(()));
    });
}

// Requirement: SAF-15
#[test]
fn waiting_waits_for_a_release_on_another_thread() {
    process::alone(|| {
        let (manual, device, queue) = busy_queue();
        let barrier = Arc::new(Barrier::new(2));
        let in_destructor = barrier.clone();
        queue.keep_until_done(OnDrop(move || {
            in_destructor.wait();
            in_destructor.wait();
        }));
        manual.complete(&queue);
        let releasing = std::thread::spawn(release_finished);
        barrier.wait();
        assert_eq!((held_back().in_use, held_back().being_released), (0, 1));
        let error = wait_until_released(Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(error.operation(), Some("wait until released"));
        assert!(error.message().contains("1 are being released"), "{error}");
        barrier.wait();
        wait_until_released(Duration::from_secs(60)).unwrap();
        assert_eq!(releasing.join().unwrap(), 1);
        assert!(held_back().is_nothing());
        drop(device);
    });
}

/// Another thread begins to release the thing after any of the questions that a wait asks on a
/// thread on which the driver may not wait.
#[test]
fn waiting_waits_for_another_thread_where_the_driver_may_not_wait() {
    process::alone(|| {
        let (manual, device, queue) = busy_queue();
        manual.refuse_to_wait();
        queue.keep_until_done(OnDrop(|| {}));
        let before = manual.questions();
        let error = wait_until_released(Duration::from_secs(60)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotReady);
        let questions = manual.questions() - before;
        manual.complete(&queue);
        wait_until_released(Duration::from_secs(60)).unwrap();
        for answered in 0..questions {
            manual.submit(&queue);
            let (in_destructor, begun) = std::sync::mpsc::channel();
            let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
            queue.keep_until_done(OnDrop(move || {
                in_destructor.send(()).unwrap();
                may_go_on.recv().unwrap();
            }));
            let mut barrier = manual.hold_next_answer();
            let waiting = std::thread::spawn(|| wait_until_released(Duration::from_secs(60)));
            for _ in 0..answered {
                barrier.wait();
                let next = manual.hold_next_answer();
                barrier.wait();
                barrier = next;
            }
            barrier.wait();
            manual.complete(&queue);
            let releasing = std::thread::spawn(release_finished);
            begun.recv().unwrap();
            barrier.wait();
            // Long enough for a wait that does not wait for the other thread to be over.
            std::thread::sleep(Duration::from_millis(50));
            go_on.send(()).unwrap();
            assert!(waiting.join().unwrap().is_ok(), "after question {answered} of {questions}");
            assert_eq!(releasing.join().unwrap(), 1);
        }
        drop(device);
    });
}

#[test]
fn waiting_makes_a_device_work_that_does_nothing_by_itself() {
    process::alone(|| {
        let (_manual, _queue, ledger) = used_and_dropped();
        wait_until_released(Duration::from_secs(20)).unwrap();
        assert_eq!(ledger.settle(1), Ok(()));
    });
}

#[test]
fn waiting_ends_with_the_time_and_says_how_much_is_left() {
    process::alone(|| {
        let (manual, queue, ledger) = used_and_dropped();
        manual.set_slow(true);
        let error = wait_until_released(Duration::from_millis(30)).unwrap_err();
        assert!(error.message().contains("queues still use 1 things"), "{error}");
        assert_eq!(ledger.base_releases(), 0);
        manual.complete(&queue);
        assert_eq!(release_finished(), 1);
    });
}

// Requirement: SAF-15, SAF-23, SAF-24
#[test]
fn a_destructor_may_call_the_library_and_hold_things_back() {
    process::alone(|| {
        let (manual, device, queue) = busy_queue();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (inner, on_queue) = (said.clone(), queue.clone());
        queue.keep_until_done(OnDrop(move || {
            let nested = inner.clone();
            on_queue.keep_until_done(OnDrop(move || nested.lock().unwrap().push("nested")));
            assert_eq!(release_finished(), 0, "the outer release does it");
            let error = wait_until_released(Duration::from_secs(60)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            drop(on_queue.device().allocate(64).unwrap());
            inner.lock().unwrap().push("outer");
        }));
        manual.complete(&queue);
        release_finished();
        assert!(release_until(|| held_back().is_nothing()));
        let mut said = said.lock().unwrap().clone();
        said.sort_unstable();
        assert_eq!(said, ["nested", "outer"]);
        assert_eq!(held_back().abandoned, 0);
        drop(device);
    });
}

/// Far more than a stack has room for.
const MANY: usize = if cfg!(miri) { 20 } else { 20_000 };

#[test]
fn a_chain_of_releases_does_not_grow_the_stack() {
    process::alone(|| {
        struct Chain(Queue, Option<Box<Chain>>);
        impl Drop for Chain {
            fn drop(&mut self) {
                if let Some(next) = self.1.take() {
                    self.0.clone().keep_until_done(next);
                }
            }
        }
        let (manual, _device, queue) = busy_queue();
        let mut chain = Chain(queue.clone(), None);
        for _ in 0..MANY {
            chain = Chain(queue.clone(), Some(Box::new(chain)));
        }
        queue.keep_until_done(chain);
        manual.complete(&queue);
        assert!(release_until(|| held_back().is_nothing()));
    });
}

// Requirement: ARR-20, SAF-25
#[test]
fn questions_grow_with_the_number_of_things_and_not_with_its_square() {
    process::alone(|| {
        let (manual, _device, queue) = busy_queue();
        let dropped = Arc::new(AtomicUsize::new(0));
        for _ in 0..MANY {
            let dropped = dropped.clone();
            manual.submit(&queue);
            queue.keep_until_done(OnDrop(move || {
                dropped.fetch_add(1, Ordering::SeqCst);
            }));
        }
        assert_eq!((dropped.load(Ordering::SeqCst), held_back().in_use), (0, MANY));
        let to_hold = manual.questions();
        manual.complete(&queue);
        assert_eq!(release_finished(), MANY);
        assert_eq!(dropped.load(Ordering::SeqCst), MANY);
        let to_release = manual.questions() - to_hold;
        assert!(to_hold <= 2 * MANY as u64, "{to_hold} questions to hold back {MANY} things");
        assert!(to_release <= MANY as u64 + 1, "{to_release} questions to release {MANY} things");
    });
}

// Requirement: ARR-20, SAF-13, SAF-25
#[test]
fn things_of_many_queues_are_released_in_any_order() {
    process::alone(|| {
        let (manual, device) = Manual::open();
        let count = MANY / 10;
        let dropped = Arc::new(AtomicUsize::new(0));
        let queues: Vec<Queue> = (0..count).map(|_| device.open_queue().unwrap()).collect();
        for queue in &queues {
            manual.submit(queue);
            let dropped = dropped.clone();
            queue.keep_until_done(OnDrop(move || {
                dropped.fetch_add(1, Ordering::SeqCst);
            }));
        }
        queues.iter().rev().step_by(2).for_each(|queue| manual.complete(queue));
        release_finished();
        assert_eq!(dropped.load(Ordering::SeqCst), count.div_ceil(2));
        queues.iter().for_each(|queue| manual.complete(queue));
        release_finished();
        assert_eq!(dropped.load(Ordering::SeqCst), count);
        let questions = manual.questions();
        assert!(questions <= 8 * count as u64, "{questions} questions for {count} queues");
    });
}

// Requirement: ARR-20, SAF-16
#[test]
fn a_driver_that_cannot_tell_frees_nothing_until_it_can() {
    let (manual, queue, ledger) = used_and_dropped();
    manual.complete(&queue);
    manual.set_cannot_tell(true);
    release_finished();
    assert_eq!(ledger.base_releases(), 0);
    manual.set_cannot_tell(false);
    assert!(release_until(|| ledger.live() == 0));
    assert_eq!(ledger.settle(1), Ok(()));
}

// Requirement: SAF-30
#[test]
#[cfg(panic = "unwind")]
fn a_destructor_that_panics_is_counted_and_the_others_run() {
    process::alone(|| {
        let (manual, device, queue) = busy_queue();
        let dropped = Arc::new(AtomicUsize::new(0));
        for number in 0..3 {
            let dropped = dropped.clone();
            queue.keep_until_done(OnDrop(move || {
                dropped.fetch_add(1, Ordering::SeqCst);
                assert_ne!(number, 1, "planted");
            }));
        }
        manual.complete(&queue);
        assert_eq!(release_finished(), 3);
        assert_eq!(dropped.load(Ordering::SeqCst), 3);
        assert!(held_back().is_nothing());
        assert_eq!(held_back().abandoned, 1);
        // At once, where nothing has to be held back.
        queue.keep_until_done(OnDrop(|| panic!("planted")));
        assert_eq!((held_back().is_nothing(), held_back().abandoned), (true, 2));
        drop(device);
    });
}

const QUEUES: usize = if cfg!(miri) { 5 } else { 200 };

// Requirement: ARR-20, SAF-13
#[test]
fn one_array_on_very_many_queues_is_kept_for_each_of_them() {
    let Scene { manual, ledger, array, device, .. } = Scene::new();
    let use_it = |array: &Array, queue: &Queue| {
        let view = array.on(queue).unwrap();
        manual.submit(queue);
        drop(view);
    };
    let queues: Vec<Queue> = (0..QUEUES).map(|_| device.open_queue().unwrap()).collect();
    queues.iter().for_each(|queue| use_it(&array, queue));
    queues.iter().rev().for_each(|queue| use_it(&array, queue));
    drop(array);
    for queue in &queues {
        assert_eq!(ledger.base_releases(), 0);
        manual.complete(queue);
        release_finished();
    }
    assert!(release_until(|| ledger.live() == 0));
    assert_eq!(ledger.settle(1), Ok(()));
}

#[test]
fn a_release_thread_without_a_pause_asks_a_driver_no_more_than_it_has_to() {
    process::alone(|| {
        let (manual, queue, ledger) = used_and_dropped();
        let before = manual.questions();
        let thread = ReleaseThread::start(Duration::ZERO).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let questions = manual.questions() - before;
        // One in a millisecond; tens of thousands without a pause.
        assert!((1..=200).contains(&questions), "{questions}");
        manual.complete(&queue);
        assert!(arrow_device_testkit::release_until(|| ledger.live() == 0));
        drop(thread);
    });
}
