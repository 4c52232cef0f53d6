//! [`Maker`]: the process that makes the data of early arrays, and whether it has ended.
//!
//! The system closes the sockets of a process that ends. But a child of `fork` has the sockets of
//! its parent as well, and then the other side does not learn of the parent's end, although nobody
//! makes the data any more. So the process itself is looked at, too: the system tells which process
//! made a pair of sockets (`SO_PEERCRED`), and gives a descriptor of that process, which can be
//! read once the process has ended (`pidfd_open`, Linux 5.3 and later).
//!
//! Where the system tells nothing, as of a process in a namespace that this process does not see,
//! the socket and the limit of the wait remain. A peer that names the process of somebody else, by
//! a socket of that process, can only end a wait for its own data.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};

/// A process that made sockets.
#[derive(Debug)]
pub(crate) struct Maker {
    number: Pid,
    /// `None` where the process had ended before it was looked for.
    process: Option<OwnedFd>,
}

impl Maker {
    /// The process that made this socket: the `known` one, if that is it. `None` where the system
    /// does not tell.
    pub(crate) fn of(socket: BorrowedFd<'_>, known: Option<&Arc<Self>>) -> Option<Arc<Self>> {
        let number = number_of_maker(socket)?;
        // The number of a process that has ended may be that of another one now.
        let is_it = |known: &&Arc<Self>| known.number == number && !known.has_ended();
        if let Some(known) = known.filter(is_it) {
            return Some(known.clone());
        }
        let process = match rustix::process::pidfd_open(number, PidfdFlags::empty()) {
            Ok(process) => Some(process),
            // No process has the number any more, or only a group of processes or a thread has it.
            Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => None,
            Err(_) => return None,
        };
        Some(Arc::new(Self { number, process }))
    }

    /// What can be read once the process has ended.
    pub(crate) fn process(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().map(AsFd::as_fd)
    }

    /// Whether the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        let Some(process) = self.process() else { return true };
        let mut polled = [PollFd::from_borrowed_fd(process, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut polled, Some(&at_once)).is_ok_and(|ended| ended > 0)
    }
}

/// The number of the process that made this socket by `socketpair`, or that was at the other end
/// when it was connected.
fn number_of_maker(socket: BorrowedFd<'_>) -> Option<Pid> {
    // Not by `rustix`, whose answer has no room for the number 0. That number stands for a process
    // in a namespace that this process does not see.
    let mut said = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let (fd, level, option) = (socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: the descriptor is open. `getsockopt` writes at most `len` bytes, which is how many
    // `said` has, and the length to `len`; both are this function's own, and any bytes are a
    // `ucred`.
    let result =
        unsafe { libc::getsockopt(fd, level, option, (&raw mut said).cast(), &raw mut len) };
    if result == 0 { Pid::from_raw(said.pid) } else { None }
}
