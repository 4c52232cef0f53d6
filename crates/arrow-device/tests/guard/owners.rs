//! Owners that panic when they are dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_device::copy::Options;
use arrow_device::deferred::{held_back, release_finished};
use arrow_device::driver::Raw;
use arrow_device::{Allocator, Buffer, Device, Event, Memory, Queue};
use arrow_device_testkit::manual::Manual;
use arrow_device_testkit::process::alone;
use arrow_device_testkit::release_what_has_passed;

use crate::trap::{Payload, panic_with};

/// Tells when it is dropped, and panics.
struct Panicking {
    _alive: Arc<()>,
    payload: Payload,
}

impl Drop for Panicking {
    fn drop(&mut self) {
        panic_with(self.payload);
    }
}

/// Gives an owner to the library and has it dropped.
type Scenario = fn(&Device, &Manual, Panicking);

const SCENARIOS: [(&str, Scenario); 11] = [
    ("an event's", |device, _, owner| {
        // SAFETY: the null event is never asked about.
        drop(unsafe { Event::adopt_of(device, Raw::NULL, owner) });
    }),
    ("a queue's", |device, _, owner| {
        // SAFETY: the null queue is never used.
        drop(unsafe { device.adopt_queue_of(Raw::NULL, owner) });
    }),
    ("memory's", |device, _, owner| {
        // SAFETY: the memory is never used.
        drop(unsafe { Memory::adopt(device, Raw::from_bits(64), 64, owner) });
    }),
    ("that of memory that was used", |device, manual, owner| {
        // SAFETY: the memory is never used.
        let mut memory = unsafe { Memory::adopt(device, Raw::from_bits(64), 64, owner) };
        let queue = device.open_queue().unwrap();
        memory.spot(&queue).unwrap();
        manual.submit(&queue);
        drop(memory);
        manual.complete(&queue);
        release_what_has_passed();
    }),
    ("a buffer's", |device, _, owner| {
        let address = std::ptr::without_provenance(0x1000);
        // SAFETY: nobody reads device memory here.
        drop(unsafe { Buffer::foreign(device.id(), address, 64, owner) });
    }),
    ("a host buffer's", |_, _, owner| {
        let address = std::ptr::without_provenance(0x1000);
        // SAFETY: nobody reads it.
        drop(unsafe { Buffer::foreign(Device::host().id(), address, 64, owner) });
    }),
    ("what a queue keeps", |device, manual, owner| {
        let queue = device.open_queue().unwrap();
        manual.submit(&queue);
        queue.keep_until_done(owner);
        manual.complete(&queue);
        release_what_has_passed();
    }),
    ("what an idle queue keeps", |device, _, owner| {
        let queue = device.open_queue().unwrap();
        queue.keep_until_done(owner);
        release_what_has_passed();
    }),
    ("an allocator's", |device, _, owner| drop(device.with_allocator(allocator_of(owner)))),
    ("that of an allocator of a copy", |_, _, owner| {
        drop(Options::new().allocator(allocator_of(owner)));
    }),
    ("that of an allocator whose device is kept by a use", |device, manual, owner| {
        let with_allocator = device.with_allocator(allocator_of(owner));
        let queue = with_allocator.open_queue().unwrap();
        drop(with_allocator);
        manual.submit(&queue);
        queue.keep_until_done(());
        manual.complete(&queue);
        drop(queue);
        release_what_has_passed();
    }),
];

/// An allocator that holds an owner.
fn allocator_of(owner: Panicking) -> impl Allocator {
    move |device: &Device, len: u64, _: Option<&Queue>| {
        let _ = &owner;
        device.allocate(len)
    }
}

// Requirement: SAF-30
#[test]
fn an_owner_that_panics_is_counted_and_nothing_unwinds() {
    alone(|| {
        for payload in [Payload::Text, Payload::Stubborn] {
            for (whose, scenario) in SCENARIOS {
                let (manual, device) = Manual::open();
                let before = held_back().abandoned;
                let is_alive = Arc::new(());
                let owner = Panicking { _alive: is_alive.clone(), payload };
                let outcome = catch_unwind(AssertUnwindSafe(|| scenario(&device, &manual, owner)));
                assert!(outcome.map_err(std::mem::forget).is_ok(), "{whose} panic came through");
                assert_eq!(Arc::strong_count(&is_alive), 1, "{whose}: it was not dropped");
                assert_eq!((held_back().abandoned, held_back().in_use), (before + 1, 0), "{whose}");
            }
        }
    });
}

// Requirement: SAF-30
#[test]
fn an_owner_of_an_event_that_panics_leaves_the_counts_right() {
    alone(|| {
        let (manual, device) = Manual::open();
        let queue = device.open_queue().unwrap();
        let kept: [_; 3] = std::array::from_fn(|_| Arc::new(()));
        manual.submit(&queue);
        let before = held_back().abandoned;
        for what in &kept {
            let point = queue.record().unwrap();
            let owner = Panicking { _alive: Arc::new(()), payload: Payload::Text };
            // SAFETY: the owner has the event, too.
            let event = unsafe { Event::adopt_of(&device, point.raw(), (point.clone(), owner)) };
            let address = std::ptr::without_provenance(0x1000);
            // SAFETY: nobody reads device memory here.
            let buffer = unsafe { Buffer::foreign(device.id(), address, 64, what.clone()) };
            let array = arrow_device::Array::builder(arrow_device::DataType::Int64);
            let array = array.device(device.id()).len(4).buffers([None, Some(buffer)]);
            drop(unsafe { array.finish_after(event) }.unwrap());
        }
        assert_eq!(held_back().in_use, 3);
        manual.complete(&queue);
        let outcome = catch_unwind(release_finished);
        assert!(outcome.is_ok(), "it came through");
        release_what_has_passed();
        assert!(kept.iter().all(|what| Arc::strong_count(what) == 1));
        assert_eq!(
            (held_back().abandoned, held_back().in_use, manual.live_events()),
            (before + 3, 0, 0)
        );
    });
}
