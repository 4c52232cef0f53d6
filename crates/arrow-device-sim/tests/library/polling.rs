//! Drivers that run the application's callbacks while they are asked: the callbacks call the
//! library, with the same queues, arrays and streams.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_device::abi::{ArrowDeviceArray, ArrowDeviceArrayStream};
use arrow_device::{Array, ArrayStream, DataType, Device, Queue, Recycler, View, deferred};
use arrow_device_sim::{Kind, Sim};
use arrow_device_testkit::faulty::Faulty;
use arrow_device_testkit::process::alone;

fn numbers() -> Array {
    Array::from_values(DataType::Int64, (0..64_i64).map(Some)).unwrap()
}

/// Callbacks call the library so often, and later ones do nothing.
const MOST_CALLS: usize = 300;

/// What the program and its callbacks share.
struct Shared {
    device: Device,
    queue: Queue,
    things: Mutex<Vec<(Array, Option<View>)>>,
    calls: AtomicUsize,
}

impl Shared {
    /// An array whose data is on its way, with a view on the queue that others use too.
    fn add(&self) {
        let array = numbers().copy_to(&self.queue).unwrap();
        let view = array.on(&self.queue).unwrap();
        self.things.lock().unwrap().push((array, Some(view)));
    }

    fn take(&self) -> Option<(Array, Option<View>)> {
        self.things.lock().unwrap().pop()
    }

    /// What a program does in a callback of its runtime.
    fn callback(&self) {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        if number > MOST_CALLS {
            // Whoever holds more back with each question is asked for ever.
            return;
        }
        match number % 12 {
            0 => self.add(),
            1 => drop(self.take()),
            2 => {
                let Some((array, view)) = self.take() else { return };
                let schema = array.schema().unwrap();
                let mut c_array = ArrowDeviceArray::empty();
                array.export(&mut c_array).unwrap();
                // SAFETY: exported just now.
                let again = unsafe { Array::import(&raw mut c_array, &schema) }.unwrap();
                self.things.lock().unwrap().push((again, view));
            }
            3 => self.queue.keep_until_done(numbers()),
            4 => _ = deferred::release_finished(),
            // An error where the thread is in a release: it would wait for itself.
            5 => drop(deferred::wait_until_released(Duration::from_millis(1))),
            6 => self.queue.synchronize().unwrap(),
            7 => _ = self.queue.is_idle().unwrap(),
            8 => {
                let event = self.queue.record().unwrap();
                event.wait_timeout(Duration::from_millis(1)).unwrap();
                let _ = event.is_complete().unwrap();
            }
            9 => drop(self.device.open_queue().unwrap().allocate(100).unwrap()),
            10 => {
                let Some((array, view)) = self.take() else { return };
                drop(view);
                assert!(array.to_host().unwrap().equals(&numbers()).unwrap());
            }
            _ => {
                let Some((array, _)) = self.take() else { return };
                array.wait().unwrap();
                assert!(array.is_ready().unwrap());
            }
        }
    }
}

/// What the program does, in whose calls the driver runs the callbacks.
fn program(shared: &Shared, queue: &Queue) {
    let device = &shared.device;
    shared.add();
    let array = numbers().copy_to(&shared.queue).unwrap();
    let view = array.on(queue).unwrap();
    queue.keep_until_done(view);
    assert!(array.to_host().unwrap().equals(&numbers()).unwrap());
    // Memory that a recycler lends, and a write, which waits.
    let recycled = device.with_allocator(Recycler::new(1 << 16)).open_queue().unwrap();
    let there = array.copy_to(&recycled).unwrap();
    recycled.allocate(64).unwrap().write(&recycled, &[1; 64]).unwrap();
    // A stream of arrays that are on their way, exported, imported and read.
    let arrays = vec![there.clone(), array.clone()];
    let schema = there.schema().unwrap();
    let stream = ArrayStream::new(schema, device.id().device_type, arrays.into_iter().map(Ok));
    let mut c_stream = ArrowDeviceArrayStream::empty();
    stream.export(&mut c_stream);
    // SAFETY: exported just now.
    let read = unsafe { ArrayStream::import(&raw mut c_stream) }.unwrap();
    for array in read {
        assert!(array.unwrap().to_host().unwrap().equals(&numbers()).unwrap());
    }
    drop((there, array));
    deferred::release_finished();
    let _ = deferred::wait_until_released(Duration::from_millis(20));
    queue.synchronize().unwrap();
}

/// Requirement: DRV-3, SAF-23, SAF-24
#[test]
fn callbacks_that_run_while_a_driver_is_asked_may_call_the_library() {
    alone(|| {
        for kind in Kind::ALL {
            Sim::builder().kind(kind).backtraces(false).sweep(0..16, |sim| {
                let (device, _, hand) = Faulty::of(&sim.device()).open_with_hand();
                let queue = device.open_queue().unwrap();
                let shared = Arc::new(Shared {
                    device: device.clone(),
                    queue: queue.clone(),
                    things: Mutex::default(),
                    calls: AtomicUsize::new(0),
                });
                let of_callback = Arc::downgrade(&shared);
                hand.run_in_polls(Some(Arc::new(move || {
                    if let Some(shared) = of_callback.upgrade() {
                        shared.callback();
                    }
                })));
                let thread = deferred::ReleaseThread::start(Duration::from_millis(1)).unwrap();
                std::thread::scope(|scope| {
                    for _ in 0..2 {
                        scope.spawn(|| {
                            let queue = device.open_queue().unwrap();
                            (0..3).for_each(|_| program(&shared, &queue));
                        });
                    }
                });
                drop(thread);
                assert!(shared.calls.load(Ordering::Relaxed) > 50);
                hand.run_in_polls(None);
                shared.things.lock().unwrap().clear();
                drop((shared, queue, device));
                sim.run_until_idle();
                deferred::wait_until_released(Duration::from_secs(20)).unwrap();
                assert_eq!(sim.allocated(), 0);
            });
        }
    });
}
