//! Probes of queues and events.

use std::ffi::c_void;
use std::time::Duration;

use arrow_device::driver::{Readiness, Region, Route, SyncEvent};
use arrow_device::{ErrorKind, Event, Memory};

use super::super::busy::Lane;
use super::super::checks::Scene;
use super::super::data::{Landing, text, wait_for};
use super::{
    Probe, copy_within, driver, get, host, memory, numbered, of_waits, probe, probe_where, put,
    require_landed, write_slowly,
};
use crate::{Verdict, require};

pub(super) const PROBES: &[Probe] = &[
    probe("the host waits for a queue", host_waits_for_queue),
    probe("a queue does one thing after the other", in_order),
    probe("the host waits for an event", host_waits_for_event),
    probe("a queue waits for an event", queue_waits_for_event),
    of_waits("a wait that was too short says so", short_waits),
    probe_where("a wait that may not wait says so", refused_waits),
    probe("an event says when it has passed", event_answers),
    probe("an event does not take its answer back", event_keeps_its_answer),
    probe("an idle queue has done everything", idle_queue),
    probe("the host waits for work of another thread", waits_for_other_threads),
    probe("an event stands for work of another thread", event_of_other_threads),
    probe("a queue waits for an event that is gone", event_is_destroyed),
    probe_where("another device's queue waits for an event", other_queue_waits),
    probe_where("another device's queue waits for an event that is gone", other_queue_waits_on),
    probe("work goes on when its queue is closed", queue_is_closed),
    probe_where("an event is shown and read", event_is_shown),
];

const LEN: usize = 512;

fn host_waits_for_queue(scene: &Scene<'_>) -> Verdict {
    let (_memory, spot) = memory(scene, LEN)?;
    let bytes = numbered(LEN, 1);
    write_slowly(scene, spot, &bytes)?;
    get(&scene.writer, spot, bytes)?.finish(&scene.writer, scene.pace)
}

fn in_order(scene: &Scene<'_>) -> Verdict {
    let queue = &scene.writer;
    let ((_one, first), (_two, second)) = (memory(scene, LEN)?, memory(scene, LEN)?);
    let (old, new) = (numbered(LEN, 2), numbered(LEN, 3));
    write_slowly(scene, first, &old)?;
    let region = Region { from: first, to: second, len: LEN as u64 };
    if !copy_within(queue, &[region])? {
        put(queue, second, old.clone())?;
    }
    put(queue, first, new.clone())?;
    let landings = [get(queue, second, old)?, get(queue, first, new)?];
    landings.into_iter().try_for_each(|landing| landing.finish(queue, scene.pace))
}

/// Submits a copy to the host behind slow work.
fn coming(scene: &Scene<'_>) -> Result<(Memory, Landing), String> {
    let (memory, spot) = memory(scene, LEN)?;
    let bytes = numbered(LEN, 4);
    write_slowly(scene, spot, &bytes)?;
    Ok((memory, get(&scene.writer, spot, bytes)?))
}

fn host_waits_for_event(scene: &Scene<'_>) -> Verdict {
    let (_memory, landing) = coming(scene)?;
    let event = scene.writer.record().map_err(text)?;
    scene.pace.wait_for(&event).map_err(text)?;
    require_landed(&landing, "the host waited for an event")?;
    let is_complete = event.is_complete().map_err(text)?;
    require(is_complete, || "an event that was waited for says that it has not passed".into())?;
    landing.finish(&scene.writer, scene.pace)
}

fn queue_waits_for_event(scene: &Scene<'_>) -> Verdict {
    let (_memory, spot) = memory(scene, LEN)?;
    let bytes = numbered(LEN, 5);
    write_slowly(scene, spot, &bytes)?;
    let event = scene.writer.record().map_err(text)?;
    scene.reader.wait(&event).map_err(text)?;
    get(&scene.reader, spot, bytes)?.finish(&scene.reader, scene.pace)
}

/// Checks the waits of a host that may not wait: an error while work goes on, and none when it is
/// over.
fn refused_waits(scene: &Scene<'_>) -> Result<bool, String> {
    if scene.pace.may_wait() {
        return Ok(false);
    }
    let end = scene.hold.map(|hold| hold(&scene.writer));
    let refused = waits_while_work_goes_on(scene, end.is_some());
    end.into_iter().for_each(|end| end());
    let (_memory, event, landing) = refused?;
    scene.pace.wait_for(&event).map_err(text)?;
    event.synchronize().map_err(text)?;
    scene.pace.synchronize(&scene.writer).map_err(text)?;
    scene.writer.synchronize().map_err(text)?;
    let has_passed = event.wait_timeout(Duration::from_micros(1)).map_err(text)?;
    require(has_passed, || "a wait with a limit says no of an event that has passed".into())?;
    landing.finish(&scene.writer, scene.pace)?;
    Ok(true)
}

/// Checks the waits of the host. `is_held` says that the work does not end meanwhile.
fn waits_while_work_goes_on(
    scene: &Scene<'_>,
    is_held: bool,
) -> Result<(Memory, Event, Landing), String> {
    let (memory, landing) = coming(scene)?;
    let event = scene.writer.record().map_err(text)?;
    let refused = |waited: arrow_device::Result<bool>, who: &str| match waited {
        Err(error) if error.kind() == ErrorKind::NotReady => Ok(()),
        Err(error) => Err(format!("{who}: {error}, which is no `NotReady`")),
        Ok(true) => {
            require_landed(&landing, who)?;
            require(!is_held, || format!("{who}, though nobody may wait and the work goes on"))
        }
        Ok(false) => Err(format!("{who} says no, as if the time had been waited for")),
    };
    refused(event.synchronize().map(|()| true), "a wait for an event ends")?;
    refused(scene.writer.synchronize().map(|()| true), "a wait for a queue ends")?;
    for timeout in [1, 1000] {
        let waited = event.wait_timeout(Duration::from_micros(timeout));
        refused(waited, "a wait for an event with a limit ends")?;
    }
    Ok((memory, event, landing))
}

fn short_waits(scene: &Scene<'_>) -> Verdict {
    let (_memory, landing) = coming(scene)?;
    let event = scene.writer.record().map_err(text)?;
    for timeout in [0, 1, 20, 1000] {
        if event.wait_timeout(Duration::from_micros(timeout)).map_err(text)? {
            require_landed(&landing, "a wait with a limit says that an event has passed")?;
        }
    }
    landing.finish(&scene.writer, scene.pace)
}

/// How often an event or a queue is asked that is not waited for.
const QUESTIONS: usize = 200;

fn event_answers(scene: &Scene<'_>) -> Verdict {
    let (_memory, landing) = coming(scene)?;
    let event = scene.writer.record().map_err(text)?;
    for _ in 0..QUESTIONS {
        if event.is_complete().map_err(text)? {
            require_landed(&landing, "an event says that it has passed")?;
        }
        std::thread::yield_now();
    }
    landing.finish(&scene.writer, scene.pace)
}

fn event_keeps_its_answer(scene: &Scene<'_>) -> Verdict {
    let first = scene.writer.record().map_err(text)?;
    scene.pace.wait_for(&first).map_err(text)?;
    let (_memory, landing) = coming(scene)?;
    let second = scene.writer.record().map_err(text)?;
    for _ in 0..3 {
        let has_passed = first.is_complete().map_err(text)?;
        require(has_passed, || "an event had passed and says no since a later record".into())?;
    }
    drop(second);
    landing.finish(&scene.writer, scene.pace)
}

fn idle_queue(scene: &Scene<'_>) -> Verdict {
    let (_memory, landing) = coming(scene)?;
    for _ in 0..QUESTIONS {
        if scene.writer.is_idle().map_err(text)? {
            require_landed(&landing, "a queue says that it is idle")?;
            break;
        }
        std::thread::yield_now();
    }
    landing.finish(&scene.writer, scene.pace)
}

/// Does what [`coming`] does, on another thread.
fn coming_from_a_thread(scene: &Scene<'_>) -> Result<(Memory, Landing), String> {
    let (memory, spot) = memory(scene, LEN)?;
    let bytes = numbered(LEN, 6);
    scene.busy.occupy(&scene.writer, Lane::Writer).map_err(text)?;
    let writer = &scene.writer;
    let submit = move || {
        put(writer, spot, bytes.clone())?;
        get(writer, spot, bytes)
    };
    let landing = std::thread::scope(|scope| scope.spawn(submit).join());
    Ok((memory, landing.map_err(|_| "a thread that submits has panicked")??))
}

fn waits_for_other_threads(scene: &Scene<'_>) -> Verdict {
    let (_memory, landing) = coming_from_a_thread(scene)?;
    landing.finish(&scene.writer, scene.pace)
}

fn event_of_other_threads(scene: &Scene<'_>) -> Verdict {
    let (_memory, landing) = coming_from_a_thread(scene)?;
    scene.writer.record().and_then(|event| scene.pace.wait_for(&event)).map_err(text)?;
    require_landed(&landing, "the host waited for an event")?;
    landing.finish(&scene.writer, scene.pace)
}

fn event_is_destroyed(scene: &Scene<'_>) -> Verdict {
    let (_memory, spot) = memory(scene, LEN)?;
    let bytes = numbered(LEN, 7);
    write_slowly(scene, spot, &bytes)?;
    let event = scene.writer.record().map_err(text)?;
    scene.reader.wait(&event).map_err(text)?;
    drop(event);
    get(&scene.reader, spot, bytes)?.finish(&scene.reader, scene.pace)
}

fn other_queue_waits(scene: &Scene<'_>) -> Result<bool, String> {
    fetch_behind_an_event(scene, 10, |event| event)
}

fn other_queue_waits_on(scene: &Scene<'_>) -> Result<bool, String> {
    fetch_behind_an_event(scene, 11, drop)
}

/// Has a queue of another device wait for an event, and then copy what was written before it. Calls
/// `waited` with the event in between.
fn fetch_behind_an_event<T>(
    scene: &Scene<'_>,
    seed: u8,
    waited: impl FnOnce(Event) -> T,
) -> Result<bool, String> {
    let Some(queue) = &scene.elsewhere else { return Ok(false) };
    if queue.reaches(scene.device.id()).is_err() {
        return Ok(false);
    }
    let (mut memory, spot) = memory(scene, LEN)?;
    memory.spot(queue).map_err(text)?;
    let mut target = queue.allocate(LEN as u64).map_err(text)?;
    let there = target.spot(queue).map_err(text)?;
    let bytes = numbered(LEN, seed);
    write_slowly(scene, spot, &bytes)?;
    let event = scene.writer.record().map_err(text)?;
    queue.wait(&event).map_err(text)?;
    let kept = waited(event);
    let region = Region { from: spot, to: there, len: LEN as u64 };
    let route = Route::FromPeer(driver(scene.device));
    // SAFETY: UNS-21: both sides have as many bytes, and are freed behind the queue, which was told
    // them.
    unsafe { queue.copy(route, &[region]) }.map_err(text)?;
    let landing = get(queue, there, bytes)?;
    let fetched = landing.finish(queue, scene.pace);
    drop(kept);
    fetched.map(|()| true)
}

fn queue_is_closed(scene: &Scene<'_>) -> Verdict {
    let (_memory, spot) = memory(scene, LEN)?;
    let driver = driver(scene.device);
    let queue = driver.open_queue().map_err(text)?;
    let bytes = numbered(LEN, 8);
    let region = Region { from: host(&bytes, 0), to: spot, len: LEN as u64 };
    // SAFETY: UNS-22: the queue was just opened, and its event is waited for below.
    let busy = unsafe { scene.busy.occupy_raw(driver, queue, Lane::Other) };
    // SAFETY: UNS-21 and UNS-22: the queue was just opened; the memory has as many bytes, and the
    // source is kept below.
    let copied = busy.and_then(|()| unsafe { driver.copy(queue, Route::FromHost, &[region]) });
    let made = driver.make_event();
    let recorded = copied.and(made).and_then(|made| {
        // SAFETY: UNS-22: the queue is open, and the event is recorded once.
        unsafe { driver.record(queue, made) }.inspect_err(|_| {
            // SAFETY: UNS-22: it was not recorded, and is destroyed once.
            unsafe { driver.destroy_event(made) };
        })
    });
    // SAFETY: UNS-22: opened above and not used after this.
    unsafe { driver.close_queue(queue) };
    let waited = recorded.and_then(|event| {
        // SAFETY: UNS-22: the event was recorded above.
        let waited = unsafe { scene.pace.wait_for_raw(driver, event) };
        // SAFETY: UNS-22: not used after this.
        unsafe { driver.destroy_event(event) };
        waited
    });
    if waited.is_err() {
        // The device may still read there.
        std::mem::forget(bytes);
        return waited.map(drop).map_err(text);
    }
    let landing = get(&scene.reader, spot, bytes.clone());
    let read = landing.and_then(|landing| landing.finish(&scene.reader, scene.pace));
    if read.is_err() {
        // The wait may not have been one.
        std::mem::forget(bytes);
    }
    read
}

fn event_is_shown(scene: &Scene<'_>) -> Result<bool, String> {
    if scene.device.properties().readiness != Readiness::Event {
        return Ok(false);
    }
    let (_memory, spot) = memory(scene, LEN)?;
    let bytes = numbered(LEN, 9);
    write_slowly(scene, spot, &bytes)?;
    let event = scene.writer.record().map_err(text)?;
    let mut handle: *mut c_void = std::ptr::null_mut();
    let shown = match event.sync_event().map_err(text)? {
        SyncEvent::Address(address) => address.as_ptr(),
        SyncEvent::Handle(shown) => {
            handle = shown;
            (&raw mut handle).cast()
        }
    };
    wait_for(&scene.reader, shown, scene.pace)?;
    let _ = handle;
    get(&scene.reader, spot, bytes)?.finish(&scene.reader, scene.pace)?;
    Ok(true)
}
