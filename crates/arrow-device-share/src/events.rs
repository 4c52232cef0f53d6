//! The events of other processes: when the data is there of an array that came before its data.
//!
//! The sender has made a pair of connected sockets, keeps one of them, and sends the other one with
//! the array. It writes one byte once the data is there. If the process of the sender ends before,
//! the system closes its socket, and whoever waits here sees the end. So nobody waits for a process
//! that is gone, and no handle of a runtime is needed: a socket is an event for every device. A
//! child of `fork` of the sender may have the socket, too, so the process is looked at as well
//! ([`Maker`]).
//!
//! Here such a socket is an [`Event`] of a driver that has nothing but events. A queue cannot wait
//! for the event, so the host waits before it gives work to a queue.
//!
//! The descriptor may be anything, and the peer may have it, too. So no flag of the descriptor is
//! relied on: each look asks for an answer at once (`MSG_DONTWAIT`) and takes nothing out
//! (`MSG_PEEK`), so that other threads that wait for the same event see the same. What was seen
//! first stays.

use std::ffi::c_void;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use arrow_device::driver::{
    Driver, PerProcess, Properties, Raw, Region, Route, Runtime, Spot, SyncEvent, Waiting,
};
use arrow_device::{Device, DeviceId, Error, ErrorKind, Event, Memory, Queue, Result};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketType, sockopt};

use crate::frames::Patience;
use crate::maker::Maker;
use crate::problem::{MAX_TEXT, malformed, shortened};

/// What the sender writes first: the data is there.
pub(crate) const READY: u8 = 1;

/// What the sender writes first where the work failed that makes the data. The text of the error
/// follows.
pub(crate) const FAILED: u8 = 2;

/// How long a wait pauses where the socket can be read and tells nothing.
const PAUSE: Duration = Duration::from_millis(1);

/// What is said where nobody makes the data any more.
const ENDED: &str = "the sender has ended before the data was there";

/// How the wait for data ended: well, or with this message.
type Outcome = Result<(), String>;

/// The event of one array.
#[derive(Debug)]
struct PeerEvent {
    /// `None` once it is known how the wait ended.
    source: Mutex<Option<Arc<Source>>>,
    outcome: OnceLock<Outcome>,
    /// When the data counts as failed.
    deadline: Option<Instant>,
}

/// What tells of one event.
#[derive(Debug)]
struct Source {
    socket: OwnedFd,
    /// The process that makes the data. `None` where the system does not tell.
    maker: Option<Arc<Maker>>,
}

/// An event of another process, of which this descriptor tells. It counts as failed after this
/// time. `maker` is the process of the event before, and then the one of this event.
pub(crate) fn event(
    socket: OwnedFd,
    limit: Duration,
    maker: &mut Option<Arc<Maker>>,
) -> Result<Event> {
    let is_right = sockopt::socket_domain(&socket) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(&socket) == Ok(SocketType::STREAM);
    if !is_right {
        return Err(malformed("the descriptor that tells when the data is there is no socket"));
    }
    *maker = Maker::of(socket.as_fd(), maker.as_ref());
    let source = Source { socket, maker: maker.clone() };
    let event = Arc::new(PeerEvent {
        source: Mutex::new(Some(Arc::new(source))),
        outcome: OnceLock::new(),
        deadline: Instant::now().checked_add(limit),
    });
    let raw = Raw::from_ptr(Arc::as_ptr(&event).cast_mut().cast());
    // SAFETY: UNS-19: the handle is the address of a `PeerEvent`, which is what the driver's events
    // are, stands for the work that the sender told of, and stays until the owner is dropped, which
    // has a share of it.
    Ok(unsafe { Event::adopt_of(device(), raw, event) })
}

/// The device of all such events. A child of `fork` has one of its own: an event of its parent is
/// an error there.
fn device() -> &'static Device {
    static DEVICE: PerProcess<OnceLock<Device>> = PerProcess::new(OnceLock::new());
    DEVICE.get().get_or_init(|| {
        let properties = Properties::new("events of other processes");
        Device::unlisted(PeerEvents { properties })
    })
}

impl PeerEvent {
    /// How the wait ended, if that can be told. Does not wait.
    fn look(&self) -> Option<&Outcome> {
        let Some(source) = self.source() else { return self.outcome.get() };
        let is_late = || self.deadline.is_some_and(|deadline| deadline <= Instant::now());
        let outcome = source.told().or_else(|| {
            is_late().then(|| Err("the data did not come in the time that was given".into()))
        })?;
        let outcome = self.outcome.get_or_init(|| outcome);
        let own = self.source.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(own);
        Some(outcome)
    }

    fn source(&self) -> Option<Arc<Source>> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the source has something to tell, or this moment has come.
    fn pause(&self, until: Option<Instant>) {
        let Some(source) = self.source() else { return };
        let patience = until.map_or(Patience::Forever, Patience::Until);
        let socket = source.socket.as_fd();
        let is_there = match source.maker.as_ref().and_then(|maker| maker.process()) {
            Some(process) => patience.wait_for_either(socket, process),
            None => patience.wait(socket, PollFlags::IN),
        };
        // A peer that has the socket as well may have taken what was there.
        if is_there != Ok(false) && source.told().is_none() {
            std::thread::sleep(PAUSE);
        }
    }

    fn has_passed(&self) -> Result<bool> {
        match self.look() {
            None => Ok(false),
            Some(Ok(())) => Ok(true),
            Some(Err(message)) => {
                Err(Error::new(ErrorKind::WorkFailed, message.clone()).during("wait"))
            }
        }
    }
}

impl Source {
    /// What the sender tells, or the end of its process. `None` where there is neither yet.
    fn told(&self) -> Option<Outcome> {
        told(&self.socket).or_else(|| {
            let has_ended = self.maker.as_ref().is_some_and(|maker| maker.has_ended());
            // The process may have told before its end, and after the look.
            has_ended.then(|| told(&self.socket).unwrap_or_else(|| Err(ENDED.into())))
        })
    }
}

/// What the socket tells. `None` where the sender has told nothing yet.
fn told(socket: &OwnedFd) -> Option<Outcome> {
    // A character takes four bytes at most.
    let mut bytes = [0; 1 + 4 * MAX_TEXT];
    loop {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let came = match rustix::net::recv(socket, &mut bytes, flags) {
            Ok((came, _)) => bytes.get(..came).unwrap_or_default(),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => return None,
            // As with a connection that was never made, or that was reset.
            Err(_) => &[],
        };
        return Some(match came {
            [READY, ..] => Ok(()),
            [FAILED, text @ ..] => {
                let text = String::from_utf8_lossy(text);
                Err(format!("the sender says of the data: {}", shortened(&text)))
            }
            [] => Err(ENDED.into()),
            [other, ..] => Err(format!("the sender told {other} of the data, which means nothing")),
        });
    }
}

/// The driver of the events. It has no memory and no queues.
#[derive(Debug)]
struct PeerEvents {
    properties: Properties,
}

/// # Safety
/// UNS-22: the event is one that [`event`] made, and is alive during the call.
unsafe fn of<'a>(event: Raw<Event>) -> &'a PeerEvent {
    // SAFETY: `event` made the handle of the address of a `PeerEvent`, which stays as long as the
    // event, as the caller promises.
    unsafe { &*event.as_ptr().cast::<PeerEvent>().cast_const() }
}

#[cold]
fn refused<T>(operation: &'static str) -> Result<T> {
    let message = "events of other processes have no memory and no queues";
    Err(Error::new(ErrorKind::Unsupported, message).during(operation))
}

// SAFETY: memory and queues are errors, which promise nothing. The answers about an event are those
// of the sender, which says of the work of its own that it is over, and the first answer stays. No
// call waits but `wait_on_host`, and nothing is done outside of the operations. One answer is an
// exception of DRV-27, which names it: `WorkFailed` after the limit, or when the sender has ended
// or says so, while work of the sender's runtime may go on. Nothing of this process is freed for
// this answer but a mapping, and the sender keeps the memory until its own event has passed.
unsafe impl Driver for PeerEvents {
    fn id(&self) -> DeviceId {
        DeviceId::CPU
    }

    fn runtime(&self) -> Runtime {
        Runtime { name: "arrow-device-share", instance: 0 }
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    unsafe fn allocate(&self, _len: u64, _queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        refused("allocate")
    }

    unsafe fn free(&self, _memory: Raw<Memory>, _len: u64) {}

    fn open_queue(&self) -> Result<Raw<Queue>> {
        refused("open a queue")
    }

    unsafe fn close_queue(&self, _queue: Raw<Queue>) {}

    unsafe fn synchronize(&self, _queue: Raw<Queue>) -> Result<()> {
        refused("wait for a queue")
    }

    unsafe fn is_idle(&self, _queue: Raw<Queue>) -> Result<bool> {
        refused("ask a queue")
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        refused("make an event")
    }

    unsafe fn destroy_event(&self, _event: Raw<Event>) {}

    unsafe fn record(&self, _queue: Raw<Queue>, _event: Raw<Event>) -> Result<Raw<Event>> {
        refused("record")
    }

    unsafe fn wait(&self, _queue: Raw<Queue>, _event: Raw<Event>) -> Result<Waiting> {
        Ok(Waiting::HostMustWait)
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { of(event) }.has_passed()
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        let event = unsafe { of(event) };
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if event.has_passed()? {
                return Ok(true);
            }
            if end.is_some_and(|end| end <= Instant::now()) {
                return Ok(false);
            }
            event.pause([end, event.deadline].into_iter().flatten().min());
        }
    }

    fn sync_event(&self, _event: Raw<Event>) -> Result<SyncEvent> {
        refused("export an event")
    }

    unsafe fn read_sync_event(&self, _sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        refused("import an event")
    }

    unsafe fn copy(
        &self,
        _queue: Raw<Queue>,
        _route: Route<'_>,
        _regions: &[Region],
    ) -> Result<()> {
        refused("copy")
    }

    unsafe fn map(&self, _spot: Spot, _len: u64) -> Result<NonNull<u8>> {
        refused("map")
    }
}
