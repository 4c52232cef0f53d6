//! The keeper: a thread that finishes what nobody waits for any more.
//!
//! A sender that is dropped may still hold arrays that its receiver uses, and a receiver may have
//! releases to tell that the system has no room for. Both are handed to the keeper. Its thread
//! begins with the first of them, sleeps until one of the sockets has something, and ends with the
//! last. A child of `fork` has a keeper of its own, and keeps nothing of its parent.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_device::driver::PerProcess;
use rustix::event::{EventfdFlags, PollFd, PollFlags};

use crate::releases::Backchannel;
use crate::sender::Outgoing;

/// What the keeper has.
#[derive(Debug)]
pub(crate) enum Kept {
    /// Arrays that a receiver uses, until it has released all of them or has gone.
    Outgoing(Box<Outgoing>),
    /// Releases to be told, until all are told or the sender has gone.
    Backchannel(Arc<Backchannel>),
}

impl Kept {
    fn socket(&self) -> BorrowedFd<'_> {
        match self {
            Self::Outgoing(outgoing) => outgoing.socket(),
            Self::Backchannel(back) => back.socket(),
        }
    }

    fn awaits(&self) -> PollFlags {
        match self {
            Self::Outgoing(_) => PollFlags::IN,
            Self::Backchannel(_) => PollFlags::OUT,
        }
    }

    /// Goes on. Returns whether it is finished.
    fn go_on(&self) -> bool {
        match self {
            Self::Outgoing(outgoing) => outgoing.held().is_ok_and(|held| held == 0),
            Self::Backchannel(back) => back.flush(),
        }
    }
}

#[derive(Default)]
struct Keeper {
    /// What the thread has not taken over yet.
    new: Vec<Kept>,
    /// Wakes the thread. `None` where there is no thread.
    bell: Option<Arc<OwnedFd>>,
}

static KEEPER: PerProcess<Mutex<Keeper>> =
    PerProcess::new(Mutex::new(Keeper { new: Vec::new(), bell: None }));

fn keeper() -> MutexGuard<'static, Keeper> {
    KEEPER.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hands something over. Where no thread can be had it stays until one is there, or until the
/// process ends.
pub(crate) fn keep(kept: Kept) {
    let mut keeper = keeper();
    keeper.new.push(kept);
    if let Some(bell) = &keeper.bell {
        ring(bell);
        return;
    }
    let Ok(bell) = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK) else {
        return;
    };
    let bell = Arc::new(bell);
    keeper.bell = Some(bell.clone());
    drop(keeper);
    let thread = std::thread::Builder::new().name("arrow-device-share".into());
    if thread.spawn(move || run(&bell)).is_err() {
        self::keeper().bell = None;
    }
}

fn ring(bell: &OwnedFd) {
    // A bell that cannot be rung any more has rung already.
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

fn run(bell: &OwnedFd) {
    let mut kept: Vec<Kept> = Vec::new();
    loop {
        let mut keeper = keeper();
        let new = std::mem::take(&mut keeper.new);
        if new.is_empty() && kept.is_empty() {
            keeper.bell = None;
            return;
        }
        drop(keeper);
        // What is new may have been told everything before it came here.
        kept.extend(new.into_iter().filter(|kept| !kept.go_on()));
        if kept.is_empty() {
            continue;
        }
        let ready = wait(bell, &kept);
        let mut ready = ready.into_iter();
        kept.retain(|kept| !(ready.next().unwrap_or(true) && kept.go_on()));
    }
}

/// Waits until one of the sockets has something, or the bell rings. Returns which sockets have
/// something.
fn wait(bell: &OwnedFd, kept: &[Kept]) -> Vec<bool> {
    let mut polled = vec![PollFd::new(bell, PollFlags::IN)];
    polled.extend(kept.iter().map(|kept| PollFd::from_borrowed_fd(kept.socket(), kept.awaits())));
    if rustix::event::poll(&mut polled, None).is_err() {
        return Vec::new();
    }
    let mut count = [0; 8];
    let _ = rustix::io::read(bell.as_fd(), &mut count);
    polled.iter().skip(1).map(|one| !one.revents().is_empty()).collect()
}
