//! Queues that are closed, forgotten, full or shared by threads while work on them goes on.
//!
//! The tests call the driver's operations, because the library asks about its queues more often
//! than the obligations say.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use arrow_device::driver::{Driver, Raw, Region, Route, Spot, Waiting};
use arrow_device::{Device, ErrorKind, Event, Memory, Queue};
use arrow_device_metal::open_from;
use arrow_device_testkit::process;
use metal_stand_in::{Application, Gate, Id, StandIn};

use crate::application::pointer;
use crate::support::Bench;

/// A queue of the application's on the default device, and memory of the device with some bytes.
pub(crate) struct OwnQueue {
    application: Application<'static>,
    mtl_device: Id,
    pub(crate) queue: Id,
    memory: Raw<Memory>,
    device: Device,
}

// SAFETY: the objects of Metal may be used on any thread.
unsafe impl Send for OwnQueue {}
// SAFETY: the objects of Metal may be used on several threads at once.
unsafe impl Sync for OwnQueue {}

const LEN: usize = 4096;

pub(crate) fn byte(index: usize) -> u8 {
    (index % 251) as u8 + 1
}

impl OwnQueue {
    pub(crate) fn new(device: &Device) -> Self {
        let application = StandIn::load().unwrap().application();
        let mtl_device = application.default_device();
        let queue: Id = unsafe { application.send(mtl_device, "newCommandQueue") };
        let memory = unsafe { device.driver().allocate(LEN as u64, None) }.unwrap();
        for index in 0..LEN {
            unsafe { memory.as_ptr().cast::<u8>().add(index).write(byte(index)) };
        }
        Self { application, mtl_device, queue, memory, device: device.clone() }
    }

    fn driver(&self) -> &dyn Driver {
        &**self.device.driver()
    }

    pub(crate) fn raw(&self) -> Raw<Queue> {
        Raw::from_ptr(self.queue)
    }

    /// Where the bytes are.
    pub(crate) fn spot(&self) -> Spot {
        Spot { base: self.memory, offset: 0 }
    }

    /// Submits a copy of the memory to the host.
    pub(crate) fn copy_to(&self, queue: Raw<Queue>, bytes: &mut [u8]) {
        let region = Region {
            from: self.spot(),
            to: Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset: 0 },
            len: bytes.len() as u64,
        };
        unsafe { self.driver().copy(queue, Route::ToHost, &[region]) }.unwrap();
    }
}

impl Drop for OwnQueue {
    fn drop(&mut self) {
        unsafe { self.driver().free(self.memory, LEN as u64) };
        unsafe { self.application.release(self.queue) };
        unsafe { self.application.release(self.mtl_device) };
    }
}

pub(crate) fn record(driver: &dyn Driver, queue: Raw<Queue>) -> Raw<Event> {
    let event = driver.make_event().unwrap();
    unsafe { driver.record(queue, event) }.unwrap()
}

fn assert_copied(bytes: &[u8]) {
    assert!(bytes.iter().enumerate().all(|(index, found)| *found == byte(index)));
}

// Requirement: DRV-16, DRV-17
#[test]
fn a_queue_that_was_closed_and_opened_again_knows_of_the_copies_before() {
    let Some(bench) = Bench::new() else { return };
    let own = OwnQueue::new(&bench);
    let device = unsafe { open_from(pointer(own.mtl_device), Some(pointer(own.queue))) }.unwrap();
    let mut bytes = vec![0; LEN];
    let mut gate = Gate::new();
    unsafe { gate.before(own.queue) };
    let queue = device.driver().open_queue().unwrap();
    own.copy_to(queue, &mut bytes);
    unsafe { device.driver().close_queue(queue) };
    let again = device.driver().open_queue().unwrap();
    gate.open();
    unsafe { device.driver().synchronize(again) }.unwrap();
    assert_copied(&bytes);
    unsafe { device.driver().close_queue(again) };
}

// Requirement: DRV-17
#[test]
fn an_adopted_queue_that_was_opened_and_closed_elsewhere_knows_of_its_copies() {
    let Some(bench) = Bench::new() else { return };
    let own = OwnQueue::new(&bench);
    let device = unsafe { open_from(pointer(own.mtl_device), Some(pointer(own.queue))) }.unwrap();
    let mut bytes = vec![0; LEN];
    let mut gate = Gate::new();
    unsafe { gate.before(own.queue) };
    own.copy_to(own.raw(), &mut bytes);
    let opened = device.driver().open_queue().unwrap();
    assert_eq!(opened, own.raw());
    unsafe { device.driver().close_queue(opened) };
    gate.open();
    unsafe { own.driver().synchronize(own.raw()) }.unwrap();
    assert_copied(&bytes);
}

/// A queue is forgotten when another one is used for the first time. Here another one comes all
/// the time.
// Requirement: DRV-17, SAF-1
#[test]
fn a_queue_in_use_is_not_forgotten() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        bench.stand_in.set_delay(0);
        let own = OwnQueue::new(&bench);
        let (device, is_over) = (bench.clone(), AtomicBool::new(false));
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let other = OwnQueue::new(&device);
                        assert!(unsafe { device.driver().is_idle(other.raw()) }.is_ok());
                    }
                });
            }
            for _ in 0..1500 {
                let mut bytes = [0; 64];
                own.copy_to(own.raw(), &mut bytes);
                unsafe { own.driver().synchronize(own.raw()) }.unwrap();
                if bytes.contains(&0) {
                    is_over.store(true, Ordering::Relaxed);
                }
                assert_copied(&bytes);
            }
            is_over.store(true, Ordering::Relaxed);
        });
    });
}

/// Metal has room for 64 command buffers on the queue, and each waits for the one before.
// Requirement: DRV-27
#[test]
fn a_full_queue_behind_failed_work_goes_on_without_a_question() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        let own = OwnQueue::new(&bench);
        bench.stand_in.set_delay(20_000_000);
        bench.stand_in.fail_next_copy(3);
        own.copy_to(own.raw(), &mut vec![0; LEN]);
        bench.stand_in.set_delay(1);
        let events: Vec<_> = (0..200).map(|_| record(own.driver(), own.raw())).collect();
        for event in events {
            let answer = unsafe { own.driver().wait_on_host(event, None) };
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::WorkFailed);
            unsafe { own.driver().destroy_event(event) };
        }
    });
}

/// The same for a queue that waits for the failed work of another.
// Requirement: DRV-27
#[test]
fn a_full_queue_behind_the_failed_work_of_another_queue_goes_on_without_a_question() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        let (own, other) = (OwnQueue::new(&bench), OwnQueue::new(&bench));
        let driver = own.driver();
        bench.stand_in.set_delay(20_000_000);
        bench.stand_in.fail_next_copy(3);
        other.copy_to(other.raw(), &mut vec![0; LEN]);
        let first = record(driver, other.raw());
        assert_eq!(unsafe { driver.wait(own.raw(), first) }.unwrap(), Waiting::Queued);
        bench.stand_in.set_delay(1);
        let events: Vec<_> = (0..200).map(|_| record(driver, own.raw())).collect();
        for event in events.into_iter().chain([first]) {
            let answer = unsafe { driver.wait_on_host(event, None) };
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::WorkFailed);
            unsafe { driver.destroy_event(event) };
        }
    });
}

// Requirement: DRV-5
#[test]
fn a_question_does_not_wait_for_a_queue_that_is_full() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        let own = OwnQueue::new(&bench);
        let mut gate = Gate::new();
        unsafe { gate.before(own.queue) };
        let recorded = AtomicUsize::new(0);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for _ in 0..80 {
                    let event = record(own.driver(), own.raw());
                    recorded.fetch_add(1, Ordering::SeqCst);
                    unsafe { own.driver().destroy_event(event) };
                }
            });
            let mut before = 0;
            loop {
                std::thread::sleep(Duration::from_millis(100));
                let now = recorded.load(Ordering::SeqCst);
                if now == before && now > 0 {
                    break;
                }
                before = now;
            }
            assert!(before < 80);
            for _ in 0..100 {
                assert!(!unsafe { own.driver().is_idle(own.raw()) }.unwrap());
            }
            gate.open();
        });
        unsafe { own.driver().synchronize(own.raw()) }.unwrap();
    });
}

/// The application holds all command buffers of its queue, and commits none. Whoever submits work
/// to that queue waits for the application; nobody else does.
// Requirement: DRV-5
#[test]
fn a_queue_whose_command_buffers_the_application_holds_keeps_nobody_else() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        let own = OwnQueue::new(&bench);
        let held: Vec<Id> =
            (0..64).map(|_| unsafe { own.application.command_buffer(own.queue) }).collect();
        let blocked = || bench.stand_in.blocked();
        std::thread::scope(|threads| {
            let thread = threads.spawn(|| {
                let event = record(own.driver(), own.raw());
                unsafe { own.driver().wait_on_host(event, None) }.unwrap();
                unsafe { own.driver().destroy_event(event) };
            });
            while blocked() == 0 {
                std::thread::yield_now();
            }
            assert!(!unsafe { own.driver().is_idle(own.raw()) }.unwrap());
            // A queue that is used for the first time looks at the queues that are there.
            let other = OwnQueue::new(&bench);
            let mut bytes = vec![0; LEN];
            other.copy_to(other.raw(), &mut bytes);
            unsafe { other.driver().synchronize(other.raw()) }.unwrap();
            assert_copied(&bytes);
            for commands in held {
                unsafe { own.application.release(commands) };
            }
            thread.join().unwrap();
        });
    });
}

/// A thread brings the bytes of copies to their place on the host. Meanwhile the device is lost,
/// and whoever hears of that may use the place for something else.
// Requirement: DRV-21
#[test]
fn nobody_hears_of_the_loss_while_bytes_are_on_their_way_to_the_host() {
    const COPIES: std::ffi::c_long = 10;
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        let driver = bench.driver();
        let len = 32 << 20;
        let (queue, other) = (driver.open_queue().unwrap(), driver.open_queue().unwrap());
        let memory = unsafe { driver.allocate(len as u64, None) }.unwrap();
        unsafe { memory.as_ptr().cast::<u8>().write_bytes(7, len) };
        let mut bytes = vec![0_u8; len];
        let (start, before) = (bytes.as_mut_ptr().addr(), bench.stand_in.copies());
        let place = |index: usize| (start + index * (len / 8)) as *mut u8;
        let seen = |index| unsafe { place(index).read_volatile() };
        let region = Region {
            from: Spot { base: memory, offset: 0 },
            to: Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset: 0 },
            len: len as u64,
        };
        for _ in 0..COPIES {
            unsafe { driver.copy(queue, Route::ToHost, &[region]) }.unwrap();
        }
        while bench.stand_in.copies() - before < COPIES {
            std::thread::yield_now();
        }
        std::thread::scope(|threads| {
            let thread = threads.spawn(|| unsafe { driver.synchronize(queue) });
            while seen(0) == 0 {
                std::hint::spin_loop();
            }
            bench.stand_in.lose(0);
            let error = unsafe { driver.synchronize(other) }.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DeviceLost);
            (0..8).for_each(|index| unsafe { place(index).write_volatile(9) });
            let _ = thread.join().unwrap();
            assert!((0..8).all(|index| seen(index) == 9), "bytes came after the loss was told");
        });
    });
}
