//! The keeper: a thread that finishes what nobody waits for any more.
//!
//! A sender that is dropped may still hold arrays that its receiver uses, a receiver may have
//! releases to tell that the system has no room for, and an array may have been sent before its
//! data is there. All three are handed to the keeper. Its thread begins with the first of them,
//! sleeps until one of the sockets has something or a future is woken, and ends with the last. A
//! child of `fork` has a keeper of its own, and keeps nothing of its parent.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_device::driver::PerProcess;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::releases::Backchannel;
use crate::sender::Outgoing;
use crate::teller::Teller;

/// What the keeper has.
#[derive(Debug)]
pub(crate) enum Kept {
    /// Arrays that a receiver uses, until it has released all of them or has gone.
    Outgoing(Box<Outgoing>),
    /// Releases to be told, until all are told or the sender has gone.
    Backchannel(Arc<Backchannel>),
    /// An array that was sent before its data is there, until the receiver is told or has gone.
    Teller(Arc<Teller>),
}

impl Kept {
    fn socket(&self) -> BorrowedFd<'_> {
        match self {
            Self::Outgoing(outgoing) => outgoing.socket(),
            Self::Backchannel(back) => back.socket(),
            Self::Teller(teller) => teller.socket(),
        }
    }

    fn awaits(&self) -> PollFlags {
        match self {
            Self::Outgoing(_) => PollFlags::IN,
            Self::Backchannel(_) => PollFlags::OUT,
            // The end of the other side is told without being asked for.
            Self::Teller(_) => PollFlags::empty(),
        }
    }

    /// Whether there is something to do that no socket tells of.
    fn is_woken(&self) -> bool {
        matches!(self, Self::Teller(teller) if teller.is_woken())
    }

    /// Goes on. Returns whether it is finished.
    fn go_on(&self) -> bool {
        match self {
            Self::Outgoing(outgoing) => outgoing.held().is_ok_and(|held| held == 0),
            Self::Backchannel(back) => back.flush(),
            Self::Teller(teller) => teller.go_on(),
        }
    }
}

#[derive(Default)]
struct Keeper {
    /// What the thread has not taken over yet.
    new: Vec<Kept>,
    has_thread: bool,
    /// Wakes the thread. Without a bell the thread looks from time to time.
    bell: Option<Arc<OwnedFd>>,
}

static KEEPER: PerProcess<Mutex<Keeper>> =
    PerProcess::new(Mutex::new(Keeper { new: Vec::new(), has_thread: false, bell: None }));

fn keeper() -> MutexGuard<'static, Keeper> {
    KEEPER.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the thread look at the futures that were woken.
pub(crate) fn wake() {
    if let Some(bell) = &keeper().bell {
        ring(bell);
    }
}

/// Hands something over. Returns whether there is a thread for it. Where no thread can be had, a
/// teller is given up, because its maker waits instead; all else stays until a thread is there, or
/// until the process ends.
pub(crate) fn keep(kept: Kept) -> bool {
    let mut keeper = keeper();
    keeper.new.push(kept);
    if keeper.has_thread {
        if let Some(bell) = &keeper.bell {
            ring(bell);
        }
        return true;
    }
    // Under the lock, for which the new thread waits: whoever hands something over meanwhile has to
    // know whether there is a thread.
    let thread = std::thread::Builder::new().name("arrow-device-share".into());
    keeper.has_thread = thread.spawn(run).is_ok();
    let has_thread = keeper.has_thread;
    let is_of_teller = matches!(keeper.new.last(), Some(Kept::Teller(_)));
    let given_up = if has_thread || !is_of_teller { None } else { keeper.new.pop() };
    drop(keeper);
    drop(given_up);
    has_thread
}

fn ring(bell: &OwnedFd) {
    // A bell that cannot be rung any more has rung already.
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

fn run() {
    let mut kept: Vec<Kept> = Vec::new();
    loop {
        let mut keeper = keeper();
        let new = std::mem::take(&mut keeper.new);
        if new.is_empty() && kept.is_empty() {
            (keeper.has_thread, keeper.bell) = (false, None);
            return;
        }
        if keeper.bell.is_none() {
            // The process may have no descriptor left. What is kept may be what has them.
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            keeper.bell = rustix::event::eventfd(0, flags).ok().map(Arc::new);
        }
        let bell = keeper.bell.clone();
        drop(keeper);
        // What was handed over may be finished already, and then its socket would not wake the
        // thread.
        kept.extend(new.into_iter().filter(|kept| !kept.go_on()));
        if kept.is_empty() {
            continue;
        }
        let ready = wait(bell.as_deref(), &kept);
        let mut ready = ready.into_iter();
        kept.retain(|kept| {
            let is_due = ready.next().unwrap_or(true) || kept.is_woken();
            !(is_due && kept.go_on())
        });
    }
}

/// How long the thread sleeps where nothing can wake it.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until one of the sockets has something, or the bell rings. Returns which sockets have
/// something, or nothing where that is not known.
fn wait(bell: Option<&OwnedFd>, kept: &[Kept]) -> Vec<bool> {
    let sockets = kept.iter().map(|kept| PollFd::from_borrowed_fd(kept.socket(), kept.awaits()));
    let mut polled: Vec<_> = sockets.collect();
    polled.extend(bell.map(|bell| PollFd::new(bell, PollFlags::IN)));
    let pause = if bell.is_some() { None } else { Timespec::try_from(PAUSE).ok() };
    match rustix::event::poll(&mut polled, pause.as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => return Vec::new(),
        Err(_) => {
            // For example where the limit on descriptors was set below the number of open ones.
            std::thread::sleep(PAUSE);
            return Vec::new();
        }
    }
    if let Some(bell) = bell {
        let _ = rustix::io::read(bell, &mut [0; 8]);
    }
    let sockets = polled.iter().take(kept.len());
    sockets.map(|one| !one.revents().is_empty()).collect()
}
