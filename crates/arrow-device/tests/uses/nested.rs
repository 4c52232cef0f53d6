//! Destructors inside of many others that wait for releases, allocate or fork.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::{Duration, Instant};

use arrow_device::deferred::{
    held_back, release_finished, set_allocation_timeout, wait_until_released,
};
use arrow_device::{Array, Buffer, DataType, Device, DeviceId, ErrorKind, Queue};
use arrow_device_testkit::manual::{Manual, ManualCopies};
use arrow_device_testkit::{OnDrop, process};

/// More than three times as deep as a thread goes at once, which is 16 drops: each array is two.
const DEPTHS: RangeInclusive<usize> = if cfg!(miri) { 6..=8 } else { 0..=25 };

/// From so many arrays on a destructor is left to the outermost drop.
const IS_LEFT: usize = 7;

/// How many owners a long chain has.
const MANY: usize = if cfg!(miri) { 40 } else { 100 };

/// Longer than a test may wait by mistake.
const LONG: Duration = Duration::from_secs(if cfg!(miri) { 3000 } else { 300 });

static VALUES: [i64; 8] = [0; 8];

fn buffer_of(id: DeviceId, owner: impl Send + Sync + 'static) -> Buffer {
    // SAFETY: the values stay for ever, and no test uses them on a device.
    unsafe { Buffer::foreign(id, VALUES.as_ptr().cast(), 64, owner) }
}

/// An array on the host that keeps an owner.
fn owning(owner: impl Send + Sync + 'static) -> Array {
    let buffers = [None, Some(buffer_of(DeviceId::CPU, owner))];
    Array::builder(DataType::Int64).len(8).buffers(buffers).finish_ready().unwrap()
}

/// The owner inside of so many arrays, each of which owns the next.
fn inside_of(depth: usize, owner: impl Send + Sync + 'static) -> Array {
    (0..depth).fold(owning(owner), |array, _| owning(array))
}

/// What a destructor gives that so many arrays stand around.
fn in_destructor<T: Send + 'static>(
    depth: usize,
    does: impl Fn() -> T + Send + Sync + 'static,
) -> T {
    let (sender, receiver) = mpsc::sync_channel(1);
    drop(inside_of(depth, OnDrop(move || sender.send(does()).unwrap())));
    receiver.try_recv().unwrap()
}

/// A chain of so many owners that count their drops.
fn counted(count: usize, dropped: &Arc<AtomicUsize>) -> Array {
    let one = || {
        let dropped = dropped.clone();
        OnDrop(move || {
            dropped.fetch_add(1, Ordering::Relaxed);
        })
    };
    (1..count).fold(owning(one()), |array, _| owning((one(), array)))
}

/// That a wait has come to an end at once, with nothing to wait for or with the error that says
/// that the thread would wait for itself.
fn ends_at_once(waited: (Duration, arrow_device::Result<()>)) -> bool {
    let (took, outcome) = waited;
    let is_told = |kind| kind == ErrorKind::InvalidArgument;
    assert!(took < LONG / 10, "{took:?} {outcome:?}");
    outcome.map_err(|error| assert!(is_told(error.kind()), "{error}")).is_ok()
}

fn timed<T>(call: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = call();
    (start.elapsed(), result)
}

// Requirement: SAF-24, SAF-37
#[test]
fn a_destructor_at_any_depth_waits_for_releases_or_is_told() {
    process::alone(|| {
        for depth in DEPTHS {
            let waited = in_destructor(depth, || timed(|| wait_until_released(LONG)));
            assert!(ends_at_once(waited) || depth >= IS_LEFT, "{depth}");
        }
        assert!(held_back().is_nothing());
    });
}

// Requirement: SAF-24, SAF-37
#[test]
fn a_destructor_may_wait_after_it_has_dropped_a_long_chain() {
    process::alone(|| {
        for depth in DEPTHS {
            let dropped = Arc::new(AtomicUsize::new(0));
            let of_destructor = dropped.clone();
            let (is_done, count) = in_destructor(depth, move || {
                drop(counted(MANY, &of_destructor));
                let is_done = ends_at_once(timed(|| wait_until_released(LONG)));
                (is_done, of_destructor.load(Ordering::Relaxed))
            });
            assert!(!is_done || count == MANY, "{depth}: {count} before the end of the wait");
            assert!(is_done || depth >= IS_LEFT, "{depth}");
            assert_eq!(dropped.load(Ordering::Relaxed), MANY);
        }
    });
}

// Requirement: SAF-24
#[test]
fn threads_in_deep_destructors_do_not_wait_for_each_other() {
    process::alone(|| {
        for depth in DEPTHS {
            let both = Arc::new(Barrier::new(2));
            let waits = || {
                let both = both.clone();
                in_destructor(depth, move || {
                    both.wait();
                    let waited = timed(|| wait_until_released(LONG));
                    both.wait();
                    waited
                })
            };
            std::thread::scope(|threads| {
                let waiting = [threads.spawn(waits), threads.spawn(waits)];
                for thread in waiting {
                    ends_at_once(thread.join().unwrap());
                }
            });
        }
    });
}

/// An array of an array of memory that a queue uses.
fn pending(device: &Device, queue: &Queue) -> Array {
    let mut memory = device.allocate(64).unwrap();
    memory.write(queue, &[1; 64]).unwrap();
    let inner = Array::builder(DataType::Int64).len(8).null_count(0);
    let buffers = [None, Some(memory.into_buffer())];
    let inner = inner.buffers(buffers).finish_on(queue).unwrap();
    let buffers = [None, Some(buffer_of(device.id(), inner))];
    let outer = Array::builder(DataType::Int64).len(8).null_count(0).buffers(buffers);
    outer.finish_on(queue).unwrap()
}

// Requirement: SAF-22, SAF-24, SAF-37
#[test]
fn a_destructor_at_any_depth_gets_memory_or_is_told() {
    process::alone(|| {
        // What other tests have left, where all run in one process.
        wait_until_released(LONG).unwrap();
        set_allocation_timeout(LONG);
        for depth in DEPTHS {
            let (manual, device) = Manual::open();
            manual.limit_memory(100);
            manual.set_copies(ManualCopies::Submitted);
            let queue = device.open_queue().unwrap();
            let array = pending(&device, &queue);
            let view = array.on(&queue).unwrap();
            manual.submit(&queue);
            drop(view);
            drop(array);
            assert_eq!((held_back().in_use, manual.live_memory()), (1, 1));
            let of_destructor = (manual.clone(), device.clone(), queue.clone());
            let (took, result) = in_destructor(depth, move || {
                let (manual, device, queue) = &of_destructor;
                manual.complete(queue);
                timed(|| device.allocate(64).map(drop).map_err(|error| error.kind()))
            });
            assert!(took < LONG / 10, "{depth}: {took:?} {result:?}");
            assert!(result == Ok(()) || depth >= IS_LEFT && result == Err(ErrorKind::OutOfMemory));
            assert!(held_back().is_nothing() && manual.live_memory() == 0);
        }
        set_allocation_timeout(Duration::from_secs(10));
    });
}

// Requirement: SAF-37
#[test]
fn what_is_counted_as_released_in_a_destructor_is_dropped() {
    process::alone(|| {
        for depth in *DEPTHS.start()..IS_LEFT {
            let (manual, device, queue) = super::busy_queue();
            let dropped = Arc::new(AtomicUsize::new(0));
            let owner = counted(MANY, &dropped);
            let array = Array::builder(DataType::Int64).len(8).null_count(0);
            let array = array.buffers([None, Some(buffer_of(device.id(), owner))]);
            let array = array.finish_on(&queue).unwrap();
            drop(array.on(&queue).unwrap());
            manual.submit(&queue);
            drop(array);
            let count = in_destructor(depth, move || {
                manual.complete(&queue);
                (release_finished(), dropped.load(Ordering::Relaxed))
            });
            assert_eq!(count, (1, MANY), "{depth}");
        }
    });
}

/// In a child of `fork`: drops a long chain and waits.
#[cfg(all(unix, not(miri)))]
fn drops_and_waits() -> Result<(), String> {
    let dropped = Arc::new(AtomicUsize::new(0));
    drop(counted(MANY, &dropped));
    let (took, waited) = timed(|| wait_until_released(Duration::from_secs(20)));
    match dropped.load(Ordering::Relaxed) {
        MANY if waited.is_ok() && took < Duration::from_secs(10) => Ok(()),
        count => Err(format!("{count} of {MANY}, {waited:?} after {took:?}, {:?}", held_back())),
    }
}

// Requirement: SAF-27, SAF-28, SAF-37
#[test]
#[cfg(all(unix, not(miri)))]
fn a_child_that_begins_in_a_destructor_at_any_depth_releases_what_is_its_own() {
    process::alone(|| {
        // Forks are counted from the first use of a driver on at the latest.
        for is_driver_used in [false, true] {
            let _device = is_driver_used.then(Manual::open);
            for depth in DEPTHS {
                in_destructor(depth, || process::forked(drops_and_waits));
            }
            assert!(held_back().is_nothing());
        }
    });
}

// Requirement: SAF-27
#[test]
#[cfg(all(unix, not(miri)))]
fn a_child_does_not_wait_for_what_threads_of_its_parent_drop() {
    process::alone(|| {
        let (begun, over) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let of_thread = (begun.clone(), over.clone());
        let dropping = std::thread::spawn(move || {
            in_destructor(40, move || {
                of_thread.0.wait();
                of_thread.1.wait();
            });
        });
        begun.wait();
        process::forked(drops_and_waits);
        over.wait();
        dropping.join().unwrap();
    });
}
