//! The ring in shared memory, whose layout is that of `dsp/dsp.c`, and the processor's side of it.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How many commands the ring has room for.
pub(crate) const COMMANDS: u32 = 1024;

/// Bytes in a file that a command uses.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Operand {
    pub(crate) descriptor: u32,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Command {
    pub(crate) what: u32,
    pub(crate) argument: u32,
    pub(crate) operands: [Operand; 3],
    pub(crate) padding: [u32; 5],
}

#[repr(C)]
pub(crate) struct Header {
    /// How many commands were submitted.
    pub(crate) head: AtomicU32,
    /// How many commands are done.
    pub(crate) tail: AtomicU32,
    /// Up to which number commands may begin.
    pub(crate) gate: AtomicU32,
    /// The number of the command that failed, or 0.
    pub(crate) failed: AtomicU32,
    /// Whether the program has begun.
    pub(crate) is_up: AtomicU32,
    padding: [u32; 11],
}

#[repr(C)]
struct Whole {
    header: Header,
    commands: [Command; COMMANDS as usize],
}

/// A ring in a file of memory.
#[derive(Debug)]
pub(crate) struct SharedRing {
    whole: NonNull<Whole>,
    pub(crate) descriptor: i32,
}

// SAFETY: the words of the header are atomic, and whoever submits writes a command alone.
unsafe impl Send for SharedRing {}
// SAFETY: the words of the header are atomic, and whoever submits writes a command alone.
unsafe impl Sync for SharedRing {}

impl SharedRing {
    pub(crate) fn new() -> std::io::Result<Self> {
        let failed = std::io::Error::last_os_error;
        // SAFETY: the name is a C string.
        let descriptor = unsafe { libc::memfd_create(c"ring".as_ptr(), libc::MFD_CLOEXEC) };
        let len = size_of::<Whole>();
        // SAFETY: a descriptor that is none is an error of the call.
        if descriptor < 0 || unsafe { libc::ftruncate(descriptor, len as libc::off_t) } != 0 {
            return Err(failed());
        }
        let both = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the file is as long, and the system chooses the address.
        let mapped =
            unsafe { libc::mmap(ptr::null_mut(), len, both, libc::MAP_SHARED, descriptor, 0) };
        match NonNull::new(mapped.cast()) {
            Some(whole) if mapped != libc::MAP_FAILED => Ok(Self { whole, descriptor }),
            _ => Err(failed()),
        }
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the ring is mapped as long as `self` lives; zeros are values of all its fields.
        unsafe { &(*self.whole.as_ptr()).header }
    }

    /// Writes a command.
    ///
    /// # Safety
    /// The program does not read this command now, and nobody else writes it.
    pub(crate) unsafe fn write(&self, number: u32, command: Command) {
        let at = (number % COMMANDS) as usize;
        // SAFETY: the ring is mapped as long as `self` lives.
        let commands = unsafe { &raw mut (*self.whole.as_ptr()).commands };
        let place = commands.cast::<Command>().wrapping_add(at);
        // SAFETY: the place is one of the ring's, which nobody else uses now, as the caller
        // promises.
        unsafe { place.write(command) }
    }
}

impl Drop for SharedRing {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody uses it any more.
        unsafe { libc::munmap(self.whole.as_ptr().cast(), size_of::<Whole>()) };
        // SAFETY: the descriptor was opened with the ring.
        unsafe { libc::close(self.descriptor) };
    }
}

/// Sets a word and wakes whoever waits for its change.
pub(crate) fn set(word: &AtomicU32, value: u32) {
    word.store(value, Ordering::Release);
    // SAFETY: the word is alive; the call wakes waiting threads, in all processes.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// Waits until a word has another value, or until the time is over.
pub(crate) fn await_change(word: &AtomicU32, value: u32, timeout: Duration) {
    let time = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    };
    let (word, time) = (word.as_ptr(), &raw const time);
    // SAFETY: the word and the time are alive during the call.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, value, time) };
}
