//! Many threads, children of `fork`, the end of the process, and rings with unusual answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::copy::Options;
use arrow_device::{Array, DataType, Device, ErrorKind};
use arrow_device_hexagon::{Mapping, Progress, Ring, open_with, place_of};
use arrow_device_testkit::process::{Child, alone, forked, is_child, while_threads_work};
use arrow_device_testkit::{consumer, release_until};
use simulated_hexagon::{Work, memory};

use crate::support::{self, array_of, filled, place, values_of};

/// One round of a thread: a command over fresh memory, an export, and a read of the results.
fn round(dsp: &simulated_hexagon::Dsp, device: &Device) -> arrow_device::Result<Vec<i32>> {
    let queue = device.open_queue()?;
    let mut memories = [queue.allocate(16)?, queue.allocate(16)?];
    for memory in &mut memories {
        memory.write(&queue, &[1; 16])?;
    }
    let [mut from, mut to] = memories;
    dsp.submit(Work::Add(place(&mut from, &queue), place(&mut to, &queue), 4, 1));
    queue.keep_until_done(from);
    let buffers = [None, Some(to.into_buffer())];
    let builder = Array::builder(DataType::Int32).len(4).buffers(buffers);
    let array = builder.finish_on(&queue)?;
    let mut c_array = ArrowDeviceArray::empty();
    array.export(&mut c_array)?;
    let values = values_of(&array);
    drop(array);
    consumer::release(c_array.array).unwrap();
    Ok(values)
}

// Requirement: DRV-28
#[test]
fn every_thread_on_a_dsp_that_dies_gets_an_error_and_nothing_stays_allocated() {
    alone(|| {
        let Some((dsp, device)) = support::with_ring() else { return };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        loop {
                            match round(&dsp, &device) {
                                Ok(values) => assert_eq!(values, [0x0101_0102; 4]),
                                Err(error) => return error.kind(),
                            }
                        }
                    })
                })
                .collect();
            while dsp.submitted() < 400 {
                std::thread::yield_now();
            }
            dsp.kill();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), ErrorKind::DeviceLost);
            }
        });
        drop(device);
        assert!(release_until(|| memory::counts().allocations == 0), "{:?}", memory::counts());
        assert_eq!(memory::counts().mistakes, 0);
    });
}

#[test]
fn children_that_end_in_the_middle_of_commands_leave_the_dsp_to_their_parent() {
    alone(|| {
        let Some((dsp, device)) = support::with_ring() else { return };
        let work = || assert_eq!(round(&dsp, &device).unwrap(), [0x0101_0102; 4]);
        while_threads_work(3, work, || {
            for _ in 0..10 {
                let queue = device.open_queue().unwrap();
                let array = array_of(filled(&queue, &[1, 2]), 2, &queue);
                let event = queue.record().unwrap();
                forked(|| {
                    // A child that only drops what it has got calls nobody.
                    drop((array.clone(), event.clone()));
                    match array.copy_to(&queue).map(drop) {
                        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
                        other => Err(format!("{other:?}")),
                    }
                });
                drop((array, event));
            }
        });
        assert!(!dsp.is_lost());
        assert!(release_until(|| memory::counts().allocations == 0), "{:?}", memory::counts());
    });
}

/// Functions that the application brings are those of FastRPC too, which a child cannot use.
#[test]
fn a_child_opens_no_device_with_functions_that_its_parent_has_used() {
    alone(|| {
        let kept = support::device();
        forked(|| match open_with(support::opening()).map(drop) {
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
            other => Err(format!("{other:?}")),
        });
        assert_eq!(kept.allocate(64).unwrap().len(), 64);
    });
}

#[test]
fn a_process_ends_while_commands_are_under_way() {
    if !is_child() {
        let child = Child::of_this_test().run().expect_success();
        assert!(child.stdout.contains("under way") || child.stdout.contains("skipped"));
        return;
    }
    let Some((dsp, device)) = support::with_ring() else { return };
    let queue = device.open_queue().unwrap();
    let (mut from, mut to) = (filled(&queue, &[1, 2, 3, 4]), filled(&queue, &[0; 4]));
    dsp.close_gate();
    dsp.submit(Work::Add(place(&mut from, &queue), place(&mut to, &queue), 4, 10));
    queue.keep_until_done(from);
    let event = queue.record().unwrap();
    std::thread::spawn(move || event.synchronize());
    println!("under way");
    // The application never ends its DSP.
    std::mem::forget((dsp, device, queue, to));
}

/// A ring whose answers a test chooses.
#[derive(Debug, Default)]
struct Told {
    submitted: AtomicU64,
    done: AtomicU64,
    is_lost: AtomicBool,
    /// Counts the question for the loss as the moment in which everything is done.
    is_done_with_the_loss: AtomicBool,
}

// SAFETY: no DSP uses any memory.
unsafe impl Ring for Told {
    fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::SeqCst)
    }

    fn progress(&self, number: u64) -> Progress {
        let is_done = number <= self.done.load(Ordering::SeqCst);
        if is_done { Progress::Completed } else { Progress::Pending }
    }

    /// The threads of this test may not wait.
    fn wait(&self, number: u64, _timeout: Option<Duration>) -> Progress {
        self.progress(number)
    }

    fn is_lost(&self) -> bool {
        if self.is_lost.load(Ordering::SeqCst) && self.is_done_with_the_loss.load(Ordering::SeqCst)
        {
            self.done.store(self.submitted(), Ordering::SeqCst);
        }
        self.is_lost.load(Ordering::SeqCst)
    }
}

fn told() -> (Arc<Told>, Device) {
    let ring = Arc::new(Told::default());
    let opening = support::opening().with_ring(ring.clone()).with_mapping(Mapping::WhileAllocated);
    (ring, open_with(opening).unwrap())
}

#[test]
fn a_thread_that_may_not_wait_is_told_that_the_commands_are_not_done() {
    let (ring, device) = told();
    let queue = device.open_queue().unwrap();
    let array = array_of(filled(&queue, &[1, 2]), 2, &queue);
    let mut memory = filled(&queue, &[3, 4]);
    ring.submitted.store(1, Ordering::SeqCst);
    let event = queue.record().unwrap();
    for error in [
        event.synchronize().unwrap_err(),
        queue.synchronize().unwrap_err(),
        memory.write(&queue, &[0; 8]).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
    }
    assert!(!event.wait_timeout(Duration::from_millis(1)).unwrap());
    assert!(!event.is_complete().unwrap() && !queue.is_idle().unwrap());
    ring.done.store(1, Ordering::SeqCst);
    event.synchronize().unwrap();
    queue.synchronize().unwrap();
    memory.write(&queue, &[0; 8]).unwrap();
    assert_eq!(values_of(&array.copy_to(&queue).unwrap()), [1, 2]);
}

/// The DSP does its last command between the question for the command and that for the loss.
#[test]
fn commands_that_were_done_before_the_dsp_died_count_as_done() {
    type Ask = fn(&arrow_device::Event) -> arrow_device::Result<bool>;
    let asks: [Ask; 3] = [
        |event| event.is_complete(),
        |event| event.wait_timeout(Duration::ZERO),
        |event| event.synchronize().map(|()| true),
    ];
    for ask in asks {
        let (ring, device) = told();
        let queue = device.open_queue().unwrap();
        ring.submitted.store(1, Ordering::SeqCst);
        let event = queue.record().unwrap();
        ring.is_done_with_the_loss.store(true, Ordering::SeqCst);
        ring.is_lost.store(true, Ordering::SeqCst);
        assert!(ask(&event).unwrap());
        assert_eq!(queue.synchronize().unwrap_err().kind(), ErrorKind::DeviceLost);
    }
}

/// An application that opens the device again still holds arrays of the lost one.
// Requirement: DRV-28
#[test]
fn a_device_that_is_opened_again_takes_arrays_while_the_lost_one_is_held() {
    alone(|| {
        let Some((dsp, lost)) = support::with_ring() else { return };
        let queue = lost.open_queue().unwrap();
        let old = array_of(filled(&queue, &[7, 8]), 2, &queue);
        old.wait().unwrap();
        dsp.kill();
        assert_eq!(queue.synchronize().unwrap_err().kind(), ErrorKind::DeviceLost);
        let Some((_dsp, again)) = support::with_ring() else { return };
        let queue = again.open_queue().unwrap();
        let mut c_array = ArrowDeviceArray::empty();
        array_of(filled(&queue, &[1, 2]), 2, &queue).export(&mut c_array).unwrap();
        let schema = DataType::Int32.try_into().unwrap();
        // SAFETY: UNS-5: the struct was just exported.
        let new = unsafe { Array::import(&mut c_array, &schema) }.unwrap();
        assert_eq!(values_of(&new), [1, 2]);
        assert_eq!(values_of(&new.copy_to(&queue).unwrap()), [1, 2]);
        drop(new.on(&queue).unwrap());
        // The old memory is still there, and is no memory of the new session.
        assert_eq!(values_of(&old), [7, 8]);
        let moved = old.copy_with(&queue, &Options::new().always(true)).unwrap();
        assert_eq!(values_of(&moved), [7, 8]);
        let lies = |array: &Array| {
            let view = array.on(&queue).unwrap();
            place_of(view.buffer(1).location().spot()).unwrap().descriptor
        };
        assert_ne!(lies(&moved), lies(&old));
    });
}
