//! Destructors of others that call the library while it releases: owners of events and queues, and
//! values of a thread that ends.

use std::cell::RefCell;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use arrow_device::deferred::{ReleaseThread, held_back, release_finished, wait_until_released};
use arrow_device::driver::Turns;
use arrow_device::{Array, Buffer, DataType, Device, DeviceId, ErrorKind, Event, Queue};
use arrow_device_testkit::{OnDrop, process, release_until};

use super::busy_queue;

/// Longer than a test may wait by mistake.
const LONG: Duration = Duration::from_secs(300);

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

/// A settled array on the host.
fn array_that_owns(owner: impl Send + Sync + 'static) -> Array {
    static VALUES: [i64; 4] = [0; 4];
    // SAFETY: the values stay for ever.
    let buffer = unsafe { Buffer::foreign(DeviceId::CPU, VALUES.as_ptr().cast(), 32, owner) };
    let array = Array::builder(DataType::Int64).len(4).buffers([None, Some(buffer)]);
    array.finish_ready().unwrap()
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

// Requirement: SAF-24
#[test]
fn a_turn_and_a_release_do_not_wait_for_each_other() {
    process::alone(|| {
        // Who comes first, and whether the releasing thread is by itself.
        for (waits_first, is_relayed) in
            [(true, false), (false, false), (true, true), (false, true)]
        {
            let (manual, _device, queue) = busy_queue();
            let turns: Arc<[Turns<u8>; 2]> = Arc::new([Turns::new(0), Turns::new(1)]);
            let said = Arc::new(Mutex::new(None));
            let in_release = Arc::new(Barrier::new(2));
            let of_owner = (turns.clone(), said.clone(), in_release.clone());
            queue.keep_until_done(OnDrop(move || {
                let (turns, said, in_release) = &of_owner;
                in_release.wait();
                std::thread::sleep(Duration::from_millis(if waits_first { 50 } else { 0 }));
                let asked = turns[usize::from(is_relayed)].take_turn("it");
                *said.lock().unwrap() = Some(asked.map(drop).map_err(|error| error.kind()));
            }));
            manual.complete(&queue);
            let turn = turns[0].take_turn("it").unwrap();
            let start = Instant::now();
            let has_turn = Barrier::new(2);
            let (waited, relayed) = std::thread::scope(|threads| {
                // Has the turn that the owner asks for, and waits for the other one.
                let relays = || {
                    let own = turns[1].take_turn("it").unwrap();
                    has_turn.wait();
                    let asked = turns[0].take_turn("it").map(drop);
                    drop(own);
                    asked.map_err(|error| error.kind())
                };
                let relaying = is_relayed.then(|| threads.spawn(relays));
                if is_relayed {
                    has_turn.wait();
                }
                threads.spawn(release_finished);
                in_release.wait();
                std::thread::sleep(Duration::from_millis(if waits_first { 0 } else { 50 }));
                let waited = wait_until_released(LONG).map_err(|error| error.kind());
                drop(turn);
                (waited, relaying.map_or(Ok(()), |thread| thread.join().unwrap()))
            });
            assert!(start.elapsed() < LONG / 10);
            let refused = Err(ErrorKind::InvalidArgument);
            let said = said.lock().unwrap().take().unwrap();
            let told = [waited, said, relayed].iter().filter(|one| **one == refused).count();
            assert_eq!(told, 1, "{waits_first} {is_relayed}: {waited:?} {said:?}");
            assert!(release_until(|| held_back().is_nothing()));
        }
    });
}

// Requirement: SAF-24
#[test]
fn a_destructor_that_nobody_waits_for_waits_for_a_turn() {
    process::alone(|| {
        let (manual, device, queue) = busy_queue();
        queue.keep_until_done(device);
        let turns = Arc::new(Turns::new(0));
        let (about_to_ask, of_owner) = (Arc::new(Barrier::new(2)), turns.clone());
        let said = Arc::new(Mutex::new(None));
        let (asks, says) = (about_to_ask.clone(), said.clone());
        // Dropped at once, and so not one of the things that a wait is for.
        let owner = OnDrop(move || {
            asks.wait();
            let asked = of_owner.take_turn("it").map(drop).map_err(|error| error.kind());
            *says.lock().unwrap() = Some(asked);
        });
        let turn = turns.take_turn("it").unwrap();
        let dropping = std::thread::spawn(move || drop(array_that_owns(owner)));
        about_to_ask.wait();
        std::thread::sleep(Duration::from_millis(50));
        manual.complete(&queue);
        assert!(wait_until_released(LONG).is_ok());
        drop(turn);
        dropping.join().unwrap();
        assert_eq!(said.lock().unwrap().take(), Some(Ok(())));
    });
}
