//! Turns, releases and threads that would wait for each other.

use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use arrow_device::deferred::{
    ReleaseThread, held_back, release_finished, set_allocation_timeout, wait_until_released,
};
use arrow_device::driver::Turns;
use arrow_device::{Array, Buffer, DataType, DeviceId, ErrorKind, Result};
use arrow_device_testkit::{OnDrop, process, release_until};

use super::busy_queue;

/// Longer than a test may wait by mistake.
const LONG: Duration = Duration::from_secs(if cfg!(miri) { 3000 } else { 300 });

/// A settled array on the host.
fn array_that_owns(owner: impl Send + Sync + 'static) -> Array {
    array_on(DeviceId::CPU, owner)
}

/// A settled array, whose bytes no test looks at.
fn array_on(id: DeviceId, owner: impl Send + Sync + 'static) -> Array {
    static VALUES: [i64; 4] = [0; 4];
    // SAFETY: the values stay for ever.
    let buffer = unsafe { Buffer::foreign(id, VALUES.as_ptr().cast(), 32, owner) };
    let array = Array::builder(DataType::Int64).len(4).buffers([None, Some(buffer)]);
    array.finish_ready().unwrap()
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

/// What a call said, as far as the tests want to know.
type Said = Option<Result<(), ErrorKind>>;

fn said<T>(result: Result<T>) -> Said {
    Some(result.map(drop).map_err(|error| error.kind()))
}

/// One thread has a turn and waits for all releases. Another one drops an owner, put where
/// `inside_of` puts it, that leaves something to be released and asks for the turn. Returns what
/// both were told.
fn turn_and_drop(
    inside_of: impl FnOnce(Box<dyn Send + Sync>) -> Array,
    leave_something: impl FnOnce() + Send + Sync + 'static,
    waits_first: bool,
) -> [Said; 2] {
    let turns = Arc::new(Turns::new(0));
    let (both, answer) = (Arc::new(Barrier::new(2)), Arc::new(Mutex::new(None)));
    let of_owner = (turns.clone(), both.clone(), answer.clone());
    let mut leave_something = Some(leave_something);
    let array = inside_of(Box::new(OnDrop(move || {
        if let Some(leave) = leave_something.take() {
            leave();
        }
        let (turns, both, answer) = &of_owner;
        both.wait();
        std::thread::sleep(Duration::from_millis(if waits_first { 50 } else { 0 }));
        *answer.lock().unwrap() = said(turns.take_turn("it"));
    })));
    let start = Instant::now();
    let turn = turns.take_turn("it").unwrap();
    let dropping = std::thread::spawn(move || drop(array));
    both.wait();
    std::thread::sleep(Duration::from_millis(if waits_first { 0 } else { 50 }));
    let waited = said(wait_until_released(LONG));
    drop(turn);
    dropping.join().unwrap();
    assert!(start.elapsed() < LONG / 10);
    let answer = answer.lock().unwrap().take();
    [waited, answer]
}

fn assert_one_is_told(told: [Said; 2]) {
    let refused = Some(Err(ErrorKind::InvalidArgument));
    assert_eq!(told.iter().filter(|one| **one == refused).count(), 1, "{told:?}");
    assert!(release_until(|| held_back().is_nothing()));
}

// Requirement: SAF-24
#[test]
fn a_turn_is_not_waited_for_with_a_list_of_drops_in_hand() {
    process::alone(|| {
        for waits_first in [true, false] {
            let deep = (0..30).fold(array_that_owns(()), |array, _| array_that_owns(array));
            assert_one_is_told(turn_and_drop(array_that_owns, || drop(deep), waits_first));
        }
    });
}

// Requirement: SAF-24
#[test]
fn a_turn_is_not_waited_for_with_releases_to_do() {
    process::alone(|| {
        for waits_first in [true, false] {
            let (manual, device, queue) = busy_queue();
            // Used, and passed: released as soon as somebody drops it.
            let passed = |owner: Box<dyn Send + Sync>| {
                let array = array_on(device.id(), owner);
                drop(array.on(&queue).unwrap());
                array
            };
            let other = passed(Box::new(()));
            let put = |owner| {
                let array = passed(owner);
                manual.complete(&queue);
                array
            };
            assert_one_is_told(turn_and_drop(put, || drop(other), waits_first));
        }
    });
}

// Requirement: SAF-22
#[test]
fn an_allocation_does_not_wait_for_releases_that_wait_for_it() {
    process::alone(|| {
        set_allocation_timeout(LONG);
        let (manual, device, queue) = busy_queue();
        manual.limit_memory(100);
        let held = device.allocate(64).unwrap();
        let (turns, both) = (Arc::new(Turns::new(0)), Arc::new(Barrier::new(2)));
        let of_owner = (turns.clone(), both.clone());
        let mut held = Some(held);
        queue.keep_until_done(OnDrop(move || {
            of_owner.1.wait();
            drop(of_owner.0.take_turn("it"));
            drop(held.take());
        }));
        // Something that may help, and that stays.
        let other = device.open_queue().unwrap();
        manual.submit(&other);
        other.keep_until_done(());
        let turn = turns.take_turn("it").unwrap();
        manual.complete(&queue);
        let releasing = std::thread::spawn(release_finished);
        both.wait();
        std::thread::sleep(Duration::from_millis(50));
        let start = Instant::now();
        let allocated = device.allocate(64).map(drop).map_err(|error| error.kind());
        assert_eq!(allocated, Err(ErrorKind::OutOfMemory));
        assert!(start.elapsed() < LONG / 10);
        drop(turn);
        releasing.join().unwrap();
        assert_eq!(device.allocate(64).unwrap().len(), 64);
        manual.complete(&other);
        assert!(release_until(|| held_back().is_nothing()));
        set_allocation_timeout(Duration::from_secs(10));
    });
}

// Requirement: SAF-24
#[test]
fn a_release_thread_is_not_waited_for_by_whom_it_waits_for() {
    process::alone(|| {
        let (manual, _device, queue) = busy_queue();
        let (turns, both) = (Arc::new(Turns::new(0)), Arc::new(Barrier::new(2)));
        let of_owner = (turns.clone(), both.clone());
        queue.keep_until_done(OnDrop(move || {
            of_owner.1.wait();
            drop(of_owner.0.take_turn("it"));
        }));
        let thread = ReleaseThread::start(Duration::from_millis(1)).unwrap();
        let start = Instant::now();
        let turn = turns.take_turn("it").unwrap();
        manual.complete(&queue);
        both.wait();
        std::thread::sleep(Duration::from_millis(50));
        drop(thread);
        drop(turn);
        assert!(start.elapsed() < LONG / 10);
        assert!(release_until(|| held_back().is_nothing()));
    });
}
