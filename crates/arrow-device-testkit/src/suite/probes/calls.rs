//! Probes of calls that have to come back before the work is over, and of callbacks that may not
//! run under a lock.
//!
//! Where the suite has work that goes on until it is told to end, a call that comes back before
//! then did not wait, whatever the clock says. A call that waits does not come back, or has done
//! the work itself. On other devices, a queue is given more and more to do, until a call comes back
//! before the queue is done. A call that waits never does.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow_device::driver::{EventNotices, HostAccess, Region, Route, Spot, WaitingCopies};
use arrow_device::{Event, Memory, Queue};

use super::super::Hold;
use super::super::busy::Lane;
use super::super::checks::Scene;
use super::super::data::{Landing, text};
use super::{Probe, copy_within, driver, get, host, memory, numbered, once, once_where};
use super::{require_landed, write_slowly};
use crate::{Verdict, require};

pub(super) const PROBES: &[Probe] = &[
    once_where("a copy does not wait for earlier work", copies),
    once("a queue's wait for an event does not hold up the host", queue_waits),
    once("an event that has not passed says so at once", questions),
    once_where("callbacks run under no lock", callbacks),
    once_where("whoever awaits is woken under no lock", wakers),
];

const LEN: usize = 512;

// ---- calls that do not wait

/// How long calls that do not wait may take while the work goes on, and how long an operation may
/// take while the application's code runs inside another one.
const PATIENCE: Duration = Duration::from_secs(5);

/// The call that is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Called {
    Copy,
    QueueWait,
    Question,
}

impl Called {
    fn complaint(self) -> String {
        let call = match self {
            Self::Copy => "a copy comes back only when earlier work of the queue is done",
            Self::QueueWait => "a queue's wait for an event comes back only when that has passed",
            Self::Question => "whether an event has passed is answered only when it has passed",
        };
        call.into()
    }
}

/// The queues and memory of the calls.
struct Calls {
    writer: Queue,
    reader: Queue,
    spots: [Spot; 2],
    _memory: [Memory; 2],
    bytes: Arc<Vec<u8>>,
    /// Whether the copies that come before another call have been submitted.
    has_copied: AtomicBool,
}

impl Calls {
    fn on(scene: &Scene<'_>) -> Result<Self, String> {
        let ((one, first), (two, second)) = (memory(scene, LEN)?, memory(scene, LEN)?);
        Ok(Self {
            writer: scene.writer.clone(),
            reader: scene.reader.clone(),
            spots: [first, second],
            _memory: [one, two],
            bytes: Arc::new(numbered(LEN, 14)),
            has_copied: AtomicBool::new(false),
        })
    }

    /// Submits a copy from the host. The source is given to the library only after all calls,
    /// because the library asks about events when it gets one.
    fn put(&self, to: Spot) -> Verdict {
        let region = Region { from: host(&self.bytes, 0), to, len: LEN as u64 };
        // SAFETY: UNS-21: the memory has as many bytes and is freed behind the queue; the source is
        // kept until the queue has passed when this is dropped.
        unsafe { self.writer.copy(Route::FromHost, &[region]) }.map_err(text)
    }

    /// Submits copies, and then makes the call that is looked at.
    fn call(&self, called: Called) -> Result<Came, String> {
        let (writer, [spot, other]) = (&self.writer, self.spots);
        self.put(spot)?;
        let mut landings = vec![get(writer, spot, self.bytes.to_vec())?];
        let event = writer.record().map_err(text)?;
        let before = landings[0].has_landed();
        self.has_copied.store(true, Ordering::SeqCst);
        match called {
            Called::Copy => {
                self.put(other)?;
                let region = Region { from: spot, to: other, len: LEN as u64 };
                copy_within(writer, &[region])?;
                landings.push(get(writer, other, self.bytes.to_vec())?);
            }
            Called::QueueWait => {
                let driver = driver(self.reader.device());
                // SAFETY: UNS-22: the queue is open, and the event was recorded just now.
                let waiting = unsafe { driver.wait(self.reader.raw(), event.raw()) };
                // Where the host has to wait, the library would wait later.
                let _ = waiting.map_err(text)?;
            }
            Called::Question => _ = event.is_complete().map_err(text)?,
        }
        let had_landed = [before, landings[0].has_landed()];
        Ok(Came { landings, had_landed })
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.writer.keep_until_done(self.bytes.clone());
    }
}

/// The results of some calls.
struct Came {
    /// Bytes on their way to the host. The first element has those of the first copy.
    landings: Vec<Landing>,
    /// Whether the first copy had landed before the call that is looked at, and when the call came
    /// back.
    had_landed: [bool; 2],
}

impl Came {
    /// Waits for the bytes.
    fn finish(self, scene: &Scene<'_>) -> Verdict {
        let mut landings = self.landings.into_iter();
        landings.try_for_each(|landing| landing.finish(&scene.writer, scene.pace))
    }
}

fn copies(scene: &Scene<'_>) -> Result<bool, String> {
    if scene.hold.is_none() || scene.device.properties().waiting_copies != WaitingCopies::None {
        return Ok(false);
    }
    let verdict = look(scene, Called::Copy);
    scene.copies_wait.set(verdict.is_err());
    verdict.map(|()| true)
}

fn queue_waits(scene: &Scene<'_>) -> Verdict {
    look(scene, Called::QueueWait)
}

fn questions(scene: &Scene<'_>) -> Verdict {
    look(scene, Called::Question)
}

fn look(scene: &Scene<'_>, called: Called) -> Verdict {
    if scene.copies_wait.get() {
        // Copies that wait do not come back while work goes on, so no call comes behind them.
        return Ok(());
    }
    // Copies that wait would wait for the work that goes on.
    let may_hold = scene.device.properties().waiting_copies == WaitingCopies::None;
    match scene.hold.filter(|_| may_hold) {
        Some(hold) => while_work_goes_on(scene, called, hold),
        None => behind_more_and_more(scene, called),
    }
}

/// Has a thread make the calls. The work ends when the thread is done, or after it was waited for
/// long enough.
fn while_work_goes_on(scene: &Scene<'_>, called: Called, hold: &Hold) -> Verdict {
    let calls = Arc::new(Calls::on(scene)?);
    let (told, is_told) = channel();
    let end = hold(&scene.writer);
    let of_thread = calls.clone();
    let thread = std::thread::spawn(move || {
        // The suite waits for this message.
        let _ = told.send(of_thread.call(called));
    });
    let came = is_told.recv_timeout(PATIENCE);
    let has_copied = calls.has_copied.load(Ordering::SeqCst);
    end();
    let has_come_back = came.is_ok();
    let came = match came {
        Err(RecvTimeoutError::Timeout) => {
            is_told.recv().map_err(|_| RecvTimeoutError::Disconnected)
        }
        came => came,
    };
    let joined = thread.join();
    let came = came.map_err(|_| format!("a thread that calls has ended: {joined:?}"))??;
    let [before, after] = came.had_landed;
    came.finish(scene)?;
    let waited = if has_copied && !before { called } else { Called::Copy };
    require(has_come_back && !before && !after, || waited.complaint())
}

/// How often the queue is given more to do, each time twice as much.
const ROUNDS: u32 = 10;
/// How many rounds may show nothing, because the queue was done before the call. On a busy machine
/// the thread that calls pauses, and only the rounds with much to do show something.
const EMPTY_ROUNDS: usize = 7;
/// From which round on the queue is also given copies that are as large as may be. Where handing a
/// copy to the queue takes longer than the copy itself, the queue is done with small ones at once,
/// however many they are. On a device whose bytes land only when somebody asks, such a round does
/// not count as empty.
const LARGE_ROUNDS: u32 = 5;

/// Which part of the time for handing over the last and longest work the calls must take, so that
/// they may have waited for the work. Some devices of software do the work while it is handed over,
/// and then no call can come back before the work is done.
const AT_ONCE: u32 = 8;

/// Calls behind more and more work, until a call comes back before the work is done.
fn behind_more_and_more(scene: &Scene<'_>, called: Called) -> Verdict {
    if !scene.busy.is_there() {
        return Ok(());
    }
    let calls = Calls::on(scene)?;
    let (mut empty, mut large, mut is_at_once) = (0, None, false);
    for round in 0..ROUNDS {
        let begun = Instant::now();
        for _ in 0..1 << round {
            scene.busy.occupy(&scene.writer, Lane::Writer).map_err(text)?;
        }
        if round >= LARGE_ROUNDS {
            let large = large.get_or_insert_with(|| scene.busy.large(&scene.writer));
            for _ in 0..1 << (round - LARGE_ROUNDS) {
                large.iter().try_for_each(|large| large.occupy(&scene.writer)).map_err(text)?;
            }
        }
        let submitted = begun.elapsed();
        let came = calls.call(called)?;
        is_at_once = begun.elapsed() - submitted < submitted / AT_ONCE;
        let [before, after] = came.had_landed;
        came.finish(scene)?;
        empty += usize::from(before);
        if !after || empty == EMPTY_ROUNDS {
            return Ok(());
        }
    }
    if is_at_once { Ok(()) } else { Err(called.complaint()) }
}

// ---- callbacks and wakers

/// An operation that another thread calls.
type Other = fn(&Queue) -> arrow_device::Result<()>;

/// The operations that another thread calls while the application's code runs inside an operation.
const OTHERS: [(&str, Other); 4] = [
    ("is_idle", |queue| queue.is_idle().map(drop)),
    ("record", |queue| queue.record().map(drop)),
    ("open_queue", |queue| queue.device().open_queue().map(drop)),
    ("allocate", |queue| queue.allocate(LEN as u64).map(drop)),
];

/// The application's code, which is run once, and what it found out.
struct Within {
    queue: Queue,
    is_run: AtomicBool,
    /// The operation that the other thread could not finish meanwhile.
    stuck: Mutex<Option<&'static str>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Within {
    fn of(queue: &Queue) -> Arc<Self> {
        let (queue, is_run) = (queue.clone(), AtomicBool::new(false));
        Arc::new(Self { queue, is_run, stuck: Mutex::default(), thread: Mutex::default() })
    }

    /// Has another thread call the driver, and waits for it.
    fn run(&self) {
        // The operations of the other thread run this code too.
        if self.is_run.swap(true, Ordering::SeqCst) {
            return;
        }
        let (queue, at) = (self.queue.clone(), Arc::new(AtomicUsize::new(0)));
        let (told, is_told) = channel();
        let reached = at.clone();
        let thread = std::thread::spawn(move || {
            for (number, (_, call)) in OTHERS.iter().enumerate() {
                reached.store(number, Ordering::SeqCst);
                // The result of the call was checked elsewhere.
                let _ = call(&queue);
            }
            let _ = told.send(());
        });
        // Each operation has its time. On a busy machine `is_idle` takes long by itself: it asks
        // again and again, and lets other threads run in between.
        let mut before = at.load(Ordering::SeqCst);
        while is_told.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let now = at.load(Ordering::SeqCst);
            if now == before {
                let (name, _) = OTHERS[now];
                *self.stuck.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
                break;
            }
            before = now;
        }
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
    }

    fn is_run(&self) -> bool {
        self.is_run.load(Ordering::SeqCst)
    }

    /// Waits for the other thread, and complains about the operation that could not be finished.
    fn verdict(&self, whose: &str) -> Verdict {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let is_fine = thread.is_none_or(|thread| thread.join().is_ok());
        require(is_fine, || "a thread that calls a driver has panicked".into())?;
        match *self.stuck.lock().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some(name) => Err(format!("{whose} under a lock that `{name}` takes")),
        }
    }
}

impl Wake for Within {
    fn wake(self: Arc<Self>) {
        self.run();
    }
}

/// An operation that may run callbacks.
type Asking = fn(&Scene<'_>, &Event, Spot);

const ASKING: [(&str, Asking); 5] = [
    ("is_complete", |_, event, _| drop(event.is_complete())),
    ("is_idle", |scene, _, _| drop(scene.writer.is_idle())),
    ("wait_on_host", |_, event, _| drop(event.synchronize())),
    ("synchronize", |scene, _, _| drop(scene.writer.synchronize())),
    ("map", |scene, _, spot| {
        let driver = driver(scene.device);
        if scene.device.properties().host_access == HostAccess::Mapped
            // SAFETY: UNS-22: the bytes lie inside memory for which the host has waited.
            && let Ok(address) = unsafe { driver.map(spot, LEN as u64) }
        {
            // SAFETY: UNS-22: mapped just now with this length, and not used after this.
            unsafe { driver.unmap(spot, LEN as u64, address) };
        }
    }),
];

fn callbacks(scene: &Scene<'_>) -> Result<bool, String> {
    let Some(call_back) = scene.call_back else { return Ok(false) };
    let (_memory, spot) = memory(scene, LEN)?;
    for (name, ask) in ASKING {
        let bytes = numbered(LEN, 15);
        let is_for_idle_memory = name == "map";
        let landing = match is_for_idle_memory {
            true => None,
            false => {
                write_slowly(scene, spot, &bytes)?;
                Some(get(&scene.writer, spot, bytes)?)
            }
        };
        let event = scene.writer.record().map_err(text)?;
        let within = Within::of(&scene.reader);
        let of_callback = within.clone();
        call_back(Some(Arc::new(move || of_callback.run())));
        ask(scene, &event, spot);
        call_back(None);
        let finished = landing.map(|landing| landing.finish(&scene.writer, scene.pace));
        within.verdict(&format!("`{name}` runs callbacks"))?;
        finished.unwrap_or(Ok(()))?;
    }
    Ok(true)
}

fn wakers(scene: &Scene<'_>) -> Result<bool, String> {
    if scene.device.properties().event_notices != EventNotices::Anywhere {
        return Ok(false);
    }
    let (_memory, spot) = memory(scene, LEN)?;
    let bytes = numbered(LEN, 16);
    write_slowly(scene, spot, &bytes)?;
    let landing = get(&scene.writer, spot, bytes)?;
    let event = scene.writer.record().map_err(text)?;
    let within = Within::of(&scene.reader);
    let waker = Waker::from(within.clone());
    let mut awaited = std::pin::pin!(event.clone().into_future());
    if awaited.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        scene.pace.wait_for(&event).map_err(text)?;
        let deadline = Instant::now() + PATIENCE;
        while !within.is_run() && Instant::now() < deadline {
            scene.pace.turn();
            std::thread::yield_now();
        }
        // Another thread may be running the code.
        let is_over = || within.thread.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        while within.is_run() && !is_over() {
            std::thread::yield_now();
        }
        require(within.is_run(), || "nobody wakes who awaits an event that has passed".into())?;
        within.verdict("whoever awaits an event is woken")?;
    }
    require_landed(&landing, "an event that was awaited has passed")
        .and_then(|()| landing.finish(&scene.writer, scene.pace).map(|()| true))
}
