//! Destructors of others that call the library while it releases: owners of events and queues, and
//! values of a thread that ends.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_device::deferred::{ReleaseThread, held_back, release_finished, wait_until_released};
use arrow_device::{Array, Buffer, DataType, Device, ErrorKind, Event, Queue};
use arrow_device_testkit::{OnDrop, process, release_until};

use super::busy_queue;

/// What a wait said that was called by a destructor.
type Said = Arc<Mutex<Option<Result<(), ErrorKind>>>>;

/// A destructor that waits for all releases.
fn waits(said: &Said) -> OnDrop<impl FnMut() + Send + Sync + 'static> {
    let said = said.clone();
    OnDrop(move || {
        let waited = wait_until_released(Duration::from_secs(30));
        *said.lock().unwrap() = Some(waited.map_err(|error| error.kind()));
    })
}

fn array_after(device: &Device, event: Event) -> Array {
    let address = std::ptr::without_provenance(0x1000);
    let buffer = unsafe { Buffer::foreign(device.id(), address, 64, ()) };
    let array = Array::builder(DataType::Int64).len(4).buffers([None, Some(buffer)]);
    unsafe { array.finish_after(event) }.unwrap()
}

// Requirement: SAF-24
#[test]
fn the_owner_of_an_event_does_not_wait_for_itself() {
    process::alone(|| {
        let (manual, device, queue) = busy_queue();
        let (said, recorded) = (Said::default(), queue.record().unwrap());
        let raw = recorded.raw();
        let event = unsafe { Event::adopt_of(&device, raw, (waits(&said), recorded)) };
        drop(array_after(&device, event));
        assert_eq!(held_back().in_use, 1);
        manual.complete(&queue);
        assert!(release_until(|| held_back().is_nothing()));
        assert_eq!(*said.lock().unwrap(), Some(Err(ErrorKind::InvalidArgument)));
    });
}

// Requirement: SAF-24
#[test]
fn the_owner_of_a_queue_does_not_wait_for_itself() {
    process::alone(|| {
        let (manual, device, own) = busy_queue();
        let said = Said::default();
        let queue = unsafe { device.adopt_queue_of(own.raw(), waits(&said)) };
        // Without an event the whole queue is waited for, and kept.
        manual.refuse_to_record();
        queue.keep_until_done(());
        drop(queue);
        assert_eq!((held_back().in_use, said.lock().unwrap().is_none()), (1, true));
        manual.complete(&own);
        assert!(release_until(|| held_back().is_nothing()));
        assert_eq!(*said.lock().unwrap(), Some(Err(ErrorKind::InvalidArgument)));
    });
}

// Requirement: SAF-19
#[test]
fn the_owner_of_a_queue_is_kept_as_long_as_an_event_of_the_queue() {
    let (_manual, device, own) = busy_queue();
    let owner = Arc::new(());
    let queue = unsafe { device.adopt_queue_of(own.raw(), owner.clone()) };
    let event = queue.record().unwrap();
    drop(queue);
    assert_eq!(Arc::strong_count(&owner), 2);
    drop(event);
    assert_eq!(Arc::strong_count(&owner), 1);
}

thread_local! {
    /// Dropped when its thread ends, after what was made later.
    static LAST: RefCell<Option<Box<dyn Send>>> = const { RefCell::new(None) };
}

// Requirement: SAF-24
#[test]
fn a_thread_that_ends_does_not_wait_for_itself() {
    process::alone(|| {
        let (manual, _device, queue) = busy_queue();
        let said = Said::default();
        let wait = Mutex::new(Some(waits(&said)));
        let ending = std::thread::spawn(move || {
            let at_end = OnDrop(move || {
                queue.keep_until_done(wait.lock().unwrap().take());
                manual.complete(&queue);
                release_finished();
            });
            LAST.with(|last| *last.borrow_mut() = Some(Box::new(at_end)));
            Queue::host().keep_until_done(());
        });
        ending.join().unwrap();
        assert_eq!(*said.lock().unwrap(), Some(Err(ErrorKind::InvalidArgument)));
    });
}

/// Far more than a stack has room for.
const MANY: usize = if cfg!(miri) { 20 } else { 50_000 };

/// Has one less of itself kept when it is dropped.
struct Links(usize);

impl Drop for Links {
    fn drop(&mut self) {
        if self.0 > 0 {
            Queue::host().keep_until_done(Self(self.0 - 1));
        }
    }
}

#[test]
fn releases_of_a_thread_that_ends_do_not_grow_its_stack() {
    process::alone(|| {
        let ending = std::thread::spawn(|| {
            LAST.with(|last| *last.borrow_mut() = Some(Box::new(Links(MANY))));
            Queue::host().keep_until_done(());
        });
        ending.join().unwrap();
    });
}

#[test]
fn a_chain_of_owners_of_events_does_not_grow_the_stack() {
    process::alone(|| {
        let (manual, device, queue) = busy_queue();
        let mut next: Option<Array> = None;
        for _ in 0..MANY {
            let recorded = queue.record().unwrap();
            let raw = recorded.raw();
            let event = unsafe { Event::adopt_of(&device, raw, (next.take(), recorded)) };
            next = Some(array_after(&device, event));
        }
        drop(next);
        manual.complete(&queue);
        assert!(release_until(|| held_back().is_nothing()));
    });
}

// Requirement: SAF-24
#[test]
fn a_release_thread_that_releases_itself_does_not_wait_for_itself() {
    process::alone(|| {
        let (manual, _device, queue) = busy_queue();
        let before = held_back().abandoned;
        queue.keep_until_done(ReleaseThread::start(Duration::from_millis(2)).unwrap());
        manual.complete(&queue);
        assert!(release_until(|| held_back().is_nothing()));
        assert_eq!(held_back().abandoned, before);
    });
}

// Requirement: SAF-17
#[test]
fn one_event_that_was_not_recorded_does_not_hold_back_all_that_comes_later() {
    process::alone(|| {
        let (manual, _device, queue) = busy_queue();
        manual.refuse_to_record();
        queue.keep_until_done(());
        manual.record_again();
        for _ in 0..20 {
            queue.keep_until_done(());
            manual.complete(&queue);
            // Never idle when somebody looks.
            manual.submit(&queue);
        }
        release_finished();
        assert!(held_back().in_use <= 1, "{:?}", held_back());
        manual.complete(&queue);
        assert!(release_until(|| held_back().is_nothing()));
    });
}
