//! Locks that a thread of the parent holds at a `fork`, and locks that two threads take at once.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Waker};

use arrow_device::copy::{Copying, Executor, Job, Options};
use arrow_device::{
    Array, Buffer, DataType, Device, DeviceId, DeviceType, ErrorKind, Queue, Recycler,
};
use arrow_device_testkit::process::{alone, forked};

use crate::trap::Trap;

fn expect(is_so: bool, what: impl Into<String>) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what.into()) }
}

// Requirement: SAF-12
#[test]
fn two_runtimes_that_are_opened_at_once_by_one_id_are_told_apart() {
    alone(|| {
        let id = DeviceId::new(DeviceType(4712), 3);
        for round in 0..300 {
            // A process in which no driver was used before.
            forked(|| {
                let ready = Arc::new(AtomicUsize::new(0));
                let open = |instance| {
                    let ready = ready.clone();
                    move || {
                        let trap = Trap::of_runtime(id, instance);
                        ready.fetch_add(1, Ordering::SeqCst);
                        while ready.load(Ordering::SeqCst) < 2 {
                            std::hint::spin_loop();
                        }
                        Device::new(trap)
                    }
                };
                let (first, second) = (open(1), open(2));
                let thread = std::thread::spawn(first);
                let second = second();
                let first = thread.join().unwrap();
                // No driver says that this memory is its own.
                let address = std::ptr::without_provenance(0x1001);
                // SAFETY: nobody reads device memory here.
                let buffer = unsafe { Buffer::foreign(id, address, 64, ()) };
                let queue = second.open_queue().unwrap();
                let told = buffer.on(&queue).map(drop).map_err(|error| error.kind());
                drop(first);
                expect(
                    told == Err(ErrorKind::NotReachable),
                    format!("round {round}: memory of no runtime in particular: {told:?}"),
                )
            });
        }
    });
}

// Requirement: SAF-27, SAF-28
#[test]
fn a_child_uses_a_host_array_that_threads_of_its_parent_use() {
    alone(|| {
        // No driver was used here: a fork counts for host arrays too.
        let array = Array::from_values(DataType::Int64, [Some(1_i64), None]).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    let queue = Queue::host();
                    while !stop.load(Ordering::Relaxed) {
                        drop(array.on(&queue).unwrap());
                    }
                });
            }
            let forks = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                for _ in 0..300 {
                    forked(|| {
                        drop(array.on(&Queue::host()).unwrap());
                        Ok(())
                    });
                }
            }));
            stop.store(true, Ordering::Relaxed);
            if let Err(panic) = forks {
                std::panic::resume_unwind(panic);
            }
        });
    });
}

// Requirement: SAF-27
#[test]
fn a_child_allocates_from_a_recycler_that_a_thread_of_its_parent_asks() {
    alone(|| {
        // No driver was used here: a fork counts for a recycler too.
        let recycler = Recycler::new(u64::MAX);
        let device = Device::host().with_allocator(recycler.clone());
        // So many that whoever counts them has the lock nearly always.
        let blocks: Vec<_> = (0..4000).map(|_| device.allocate(64).unwrap()).collect();
        let lent = device.allocate(128).unwrap();
        drop(blocks);
        let (begun, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    begun.store(true, Ordering::Relaxed);
                    assert_eq!(recycler.kept(), 4000 * 64);
                }
            });
            while !begun.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            let forks = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                for _ in 0..20 {
                    forked(|| {
                        drop(device.allocate(64).unwrap());
                        expect(recycler.kept() == 64, "it keeps what this process gave back")?;
                        // SAFETY: the parent has the memory in another process.
                        drop(unsafe { std::ptr::read(&raw const lent) });
                        expect(recycler.kept() == 64 + 128, "and what was lent at the fork")?;
                        recycler.clear();
                        expect(recycler.kept() == 0, "it is empty")
                    });
                }
            }));
            stop.store(true, Ordering::Relaxed);
            if let Err(panic) = forks {
                std::panic::resume_unwind(panic);
            }
        });
        drop(lent);
        assert_eq!(recycler.kept(), 4000 * 64 + 128);
    });
}

fn start(array: &Array, executor: &dyn Executor) -> Copying {
    let plan = array.plan_copy(&Queue::host(), &Options::new().always(true)).unwrap();
    plan.start(executor)
}

// Requirement: SAF-27
#[test]
fn a_copy_on_a_thread_of_the_parent_is_refused_to_a_child_that_waits_for_it() {
    alone(|| {
        // No driver was used here: a fork counts for a copy too.
        let array = Array::from_values(DataType::Int64, [Some(1_i64), None]).unwrap();
        // For both copies and this thread, so that none begins before the fork.
        let go = Arc::new(Barrier::new(3));
        let executor = |job: Job| {
            let go = go.clone();
            drop(std::thread::spawn(move || {
                go.wait();
                job();
            }));
        };
        let [waited, polled] = [0; 2].map(|_| start(&array, &executor));
        forked(|| {
            let mut polled = pin!(polled);
            expect(!polled.is_done(), "it is not done")?;
            let answer = polled.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let kind = answer.map(|copy| copy.map(drop).map_err(|error| error.kind()));
            expect(kind == Poll::Ready(Err(ErrorKind::Unsupported)), format!("{kind:?}"))?;
            let kind = waited.wait().map(drop).map_err(|error| error.kind());
            expect(kind == Err(ErrorKind::Unsupported), format!("{kind:?}"))
        });
        go.wait();
    });
}

// Requirement: SAF-27, SAF-28
#[test]
fn a_child_takes_what_was_copied_before_the_fork_and_what_it_copies_itself() {
    alone(|| {
        let array = Array::from_values(DataType::Int64, [Some(1_i64), None]).unwrap();
        let jobs = Mutex::new(Vec::new());
        let [done, later] = [0; 2].map(|_| start(&array, &|job| jobs.lock().unwrap().push(job)));
        let job_of_child = jobs.lock().unwrap().pop().unwrap();
        jobs.lock().unwrap().pop().unwrap()();
        assert!(done.is_done() && !later.is_done());
        forked(|| {
            job_of_child();
            for copying in [done, later] {
                let copy = copying.wait().map_err(|error| error.to_string())?;
                expect(copy.equals(&array).unwrap(), "it is the copy")?;
            }
            Ok(())
        });
    });
}
