//! [`Teller`]: tells a receiver when the data is there of an array that was sent before.
//!
//! A teller is the sender's end of the socket that the receiver has as an event, and the readiness
//! of the array as a future. The keeper polls the future when it was woken, and the future needs no
//! thread of its own where the driver calls back. One byte is written at the end, and the socket is
//! closed. A process that ends before closes it without a byte.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use arrow_device::{Array, ArrayReady, Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};

use crate::events::{FAILED, READY};
use crate::keeper;
use crate::problem::{failed, shortened};

/// What is to be told of one array.
#[derive(Debug)]
pub(crate) struct Teller {
    socket: OwnedFd,
    /// `None` once the receiver was told.
    ready: Mutex<Option<ArrayReady>>,
    woken: Arc<Woken>,
}

/// Whether the future is to be polled.
#[derive(Debug)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
        keeper::wake();
    }
}

impl Teller {
    /// A teller, and the receiver's end.
    pub(crate) fn new(array: &Array) -> Result<(Arc<Self>, OwnedFd)> {
        let (here, there) =
            UnixStream::pair().map_err(|error| match Errno::from_io_error(&error) {
                Some(error) => failed("send", error),
                None => Error::other(error),
            })?;
        let teller = Self {
            socket: here.into(),
            ready: Mutex::new(Some(array.until_ready())),
            woken: Arc::new(Woken(AtomicBool::new(true))),
        };
        Ok((Arc::new(teller), there.into()))
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether the future was woken since it was polled.
    pub(crate) fn is_woken(&self) -> bool {
        self.woken.0.load(Ordering::SeqCst)
    }

    /// Looks whether the data is there, and tells the receiver so. Returns whether there is nothing
    /// left to tell, or nobody.
    pub(crate) fn go_on(&self) -> bool {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(future) = ready.as_mut() else { return true };
        // Before the poll: who wakes it during the poll has it polled again.
        self.woken.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(self.woken.clone());
        let outcome = match Pin::new(future).poll(&mut Context::from_waker(&waker)) {
            Poll::Pending if !self.is_unheard() => return false,
            Poll::Pending => None,
            Poll::Ready(outcome) => Some(outcome),
        };
        let over = ready.take();
        drop(ready);
        // The array is let go without the lock, and before anybody is told: a receiver that knows
        // that the data is there finds nothing here that keeps the array.
        drop(over);
        if let Some(outcome) = outcome {
            self.tell(&outcome);
        }
        true
    }

    /// Waits for the data, and tells. For a process that can have no keeper.
    pub(crate) fn wait_for(&self, array: &Array) {
        let outcome = array.wait();
        let over = self.ready.lock().unwrap_or_else(PoisonError::into_inner).take();
        if over.is_some() {
            self.tell(&outcome);
        }
    }

    fn tell(&self, outcome: &Result<()>) {
        let mut bytes = vec![READY];
        if let Err(error) = outcome {
            bytes = vec![FAILED];
            bytes.extend(shortened(&error.to_string()).as_bytes());
        }
        // A receiver that has gone is told nothing, and the first bytes on a socket have room.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = rustix::net::send(&self.socket, &bytes, flags);
        // A child of `fork` may have the socket, too.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }

    /// Whether nobody has the other end any more.
    fn is_unheard(&self) -> bool {
        let mut polled = [PollFd::new(&self.socket, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut polled, Some(&at_once)).is_ok_and(|gone| gone > 0)
    }
}
