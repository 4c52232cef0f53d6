//! Checks of what a driver says about work that fails after it was accepted, and about a lost
//! device. These checks come at the end of the suite, because nothing can be checked after them.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use arrow_device::driver::{Region, Route, Spot};
use arrow_device::{Device, ErrorKind, Event, Memory, Queue, Result};

use super::data::text;
use super::pace::Pace;
use super::probes::{host, numbered};
use crate::{Verdict, release_until, require};

/// How many bytes each copy has.
const LEN: usize = 4096;
/// How long a wait may take that has to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often an answer that may not change is asked for.
const QUESTIONS: usize = 3;

/// Two queues, and memory that both may use.
struct EndScene {
    one: Queue,
    two: Queue,
    _memory: Memory,
    spot: Spot,
}

impl EndScene {
    fn on(device: &Device) -> Result<Self> {
        let (one, two) = (device.open_queue()?, device.open_queue()?);
        let mut memory = one.allocate(2 * LEN as u64)?;
        let spot = memory.spot(&one)?;
        memory.spot(&two)?;
        Ok(Self { one, two, _memory: memory, spot })
    }

    /// Returns the place that the second queue writes to.
    fn other_spot(&self) -> Spot {
        Spot { offset: self.spot.offset + LEN as u64, ..self.spot }
    }
}

fn put(queue: &Queue, to: Spot, len: usize) -> Result<()> {
    let bytes = numbered(len, 12);
    let region = Region { from: host(&bytes, 0), to, len: len as u64 };
    // SAFETY: UNS-21: the memory has as many bytes and is freed behind the queue; the source is
    // kept until the queue has passed.
    let submitted = unsafe { queue.copy(Route::FromHost, &[region]) };
    queue.keep_until_done(bytes);
    submitted
}

/// Checks that the answer is an error of this kind.
fn require_kind<T>(answer: Result<T>, kind: ErrorKind, who: &str) -> Verdict {
    match answer {
        Err(error) if error.kind() == kind => Ok(()),
        Err(error) => Err(format!("{who}, and not with `{kind}` but: {error}")),
        Ok(_) => Err(format!("{who}, and not with `{kind}` but with success")),
    }
}

/// Returns a successful answer, or `None` where the driver says already that the work failed.
fn unless_failed<T>(answer: Result<T>) -> Result<Option<T>, String> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.kind() == ErrorKind::WorkFailed => Ok(None),
        Err(error) => Err(text(error)),
    }
}

fn require_failed(event: &Event, whose: &str) -> Verdict {
    let failed = ErrorKind::WorkFailed;
    for _ in 0..QUESTIONS {
        require_kind(event.synchronize(), failed, &format!("a wait for {whose} ends"))?;
        require_kind(event.is_complete(), failed, &format!("{whose} answers"))?;
        let waited = event.wait_timeout(Duration::from_millis(1));
        require_kind(waited, failed, &format!("a wait with a limit for {whose} ends"))?;
    }
    Ok(())
}

/// Checks failing work. `fail` makes the next copy fail after it was accepted.
pub(super) fn work_fails(device: &Device, fail: &dyn Fn(), pace: Pace<'_>) -> Verdict {
    let end = EndScene::on(device).map_err(text)?;
    let EndScene { one, two, spot, .. } = &end;
    put(one, *spot, 2 * LEN).map_err(text)?;
    let before = one.record().map_err(text)?;
    pace.wait_for(&before).map_err(text)?;
    let kept = Arc::new(());
    fail();
    put(one, *spot, LEN).map_err(text)?;
    let failed = unless_failed(one.record())?;
    let mut behind = None;
    if let Some(failed) = &failed
        && unless_failed(two.wait(failed))?.is_some()
        && unless_failed(put(two, end.other_spot(), LEN))?.is_some()
    {
        behind = unless_failed(two.record())?;
    }
    one.keep_until_done(kept.clone());
    two.keep_until_done(kept.clone());
    if !pace.may_wait() {
        // Gives the failed work its turn.
        for event in failed.iter().chain(&behind) {
            let _ = pace.wait_for(event);
        }
    }
    if let Some(failed) = &failed {
        require_failed(failed, "an event of work that failed")?;
    }
    let kind = ErrorKind::WorkFailed;
    if let Some(behind) = &behind {
        require_failed(behind, "an event behind a wait for failed work")?;
        require_kind(
            two.synchronize(),
            kind,
            "a wait for a queue that waited for failed work ends",
        )?;
    }
    for _ in 0..QUESTIONS {
        require_kind(one.synchronize(), kind, "a wait for a queue whose work failed ends")?;
        let idle = one.is_idle();
        if !matches!(idle, Ok(false)) {
            require_kind(idle, kind, "a queue whose work failed says whether it is idle")?;
        }
        let later = one.record().and_then(|event| {
            pace.turn();
            event.synchronize()
        });
        require_kind(later, kind, "a wait for a later event of a queue whose work failed ends")?;
        let is_kept = before.is_complete().map_err(text)?;
        require(is_kept, || "an event had passed and says no since later work failed".into())?;
    }
    drop((failed, behind, before, end));
    let is_released = release_until(|| {
        pace.turn();
        Arc::strong_count(&kept) == 1
    });
    require(is_released, || "what failed work used is never given back".into())
}

/// Checks a lost device. `lose` loses the device. All its queues may have failed before.
pub(super) fn device_is_lost(device: &Device, lose: &dyn Fn(), pace: Pace<'_>) -> Verdict {
    let end = EndScene::on(device).map_err(text)?;
    let EndScene { one, two, spot, .. } = &end;
    let kept = Arc::new(());
    unless_failed(put(one, *spot, LEN))?;
    let events = [one.record().map_err(text)?, one.record().map_err(text)?];
    let had_failed = events[1].is_complete().is_err();
    one.keep_until_done(kept.clone());
    two.keep_until_done(kept.clone());
    let (awaited, (told, is_told)) = (events[0].clone(), channel());
    let waiting = std::thread::spawn(move || {
        drop(awaited.synchronize());
        drop(awaited);
        let _ = told.send(());
    });
    lose();
    let has_ended = is_told.recv_timeout(PATIENCE).is_ok();
    require(has_ended, || "a wait goes on although the device was lost".into())?;
    drop(waiting.join());
    let kind = ErrorKind::DeviceLost;
    for _ in 0..QUESTIONS {
        for event in &events {
            let answer = event.is_complete();
            // An event that had passed or failed before may go on saying so.
            if !matches!(answer, Ok(true)) && !had_failed {
                require_kind(answer, kind, "an event of a lost device answers")?;
                require_kind(
                    event.synchronize(),
                    kind,
                    "a wait for an event of a lost device ends",
                )?;
            }
        }
        require_kind(one.synchronize(), kind, "a wait for a queue of a lost device ends")?;
        require_kind(one.is_idle(), kind, "a queue of a lost device says whether it is idle")?;
        require_kind(device.open_queue(), kind, "a lost device opens a queue")?;
        require_kind(one.allocate(64), kind, "a lost device allocates")?;
        require_kind(one.record(), kind, "an event is recorded on a lost device")?;
        require_kind(put(one, *spot, LEN), kind, "a lost device takes a copy")?;
    }
    drop((events, end));
    let is_released = release_until(|| {
        pace.turn();
        Arc::strong_count(&kept) == 1
    });
    require(is_released, || "what a lost device used is never given back".into())
}
