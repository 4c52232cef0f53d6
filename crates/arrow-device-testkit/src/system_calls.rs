//! Counts the calls of the system that a thread makes.
//!
//! 1. A child of `fork` traces the thread by `ptrace`, which stops the thread before and after each
//!    call. Nothing of the thread is changed, and no other thread is looked at.
//! 2. The child writes the number of each call to memory that both processes have, before the call
//!    begins. So whoever reads that memory on the traced thread finds exactly the calls before.
//! 3. The child is made before there is anything to be counted: the pages of a process that a child
//!    has as well are no longer the process's alone, and cannot be fixed for other processes.
//!
//! What the C library answers without the system, such as the time, is no call. Not counted is
//! `fcntl` with `F_GETFD`, by which the standard library checks a descriptor before closing it
//! where debug assertions are on.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use libc::{c_int, c_long, pid_t};

/// Has the calling thread traced, until it is dropped.
///
/// ```no_run
/// use arrow_device_testkit::system_calls::SystemCalls;
///
/// if let Some(calls) = SystemCalls::of_this_thread() {
///     let (file, made) = calls.during(|| std::fs::File::open("/dev/null"));
///     assert_eq!(made, [libc::SYS_openat]);
/// }
/// ```
#[derive(Debug)]
pub struct SystemCalls {
    child: pid_t,
    log: &'static Log,
    /// Another thread is not traced.
    of_one_thread: PhantomData<*const ()>,
}

/// How many calls are remembered.
const MOST: usize = 1 << 16;

/// What the child tells.
#[derive(Debug)]
struct Log {
    state: AtomicU32,
    count: AtomicUsize,
    calls: [AtomicI64; MOST],
}

/// The child has not begun.
const BEGINS: u32 = 0;
/// Each call of the thread is written down.
const TRACES: u32 = 1;
/// The system admits no tracing.
const REFUSED: u32 = 2;

/// How long the child may take to begin.
const PATIENCE: Duration = Duration::from_secs(20);

impl SystemCalls {
    /// Begins to trace the calling thread. `None` where the system admits no tracing, which prints
    /// that the test is skipped. Call this inside of [`alone`](crate::process::alone), before
    /// memory is made that other processes get.
    ///
    /// # Panics
    /// Panics where there is no memory and no process to be had, or where the test may not be
    /// [skipped](crate::required).
    #[must_use]
    pub fn of_this_thread() -> Option<Self> {
        let log = Log::new();
        // By its number, because glibc has the function since 2.30 only.
        // SAFETY: a call without arguments.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) };
        let thread = pid_t::try_from(thread).ok()?;
        // SAFETY: a call without arguments. The child calls the system alone.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "no process to be had: {}", std::io::Error::last_os_error());
        if child == 0 {
            trace(thread, log);
        }
        // Where only a named process may trace (Yama). Elsewhere the call is refused, and is not
        // needed.
        // SAFETY: a call with numbers alone.
        let _ = unsafe { libc::prctl(libc::PR_SET_PTRACER, child as libc::c_ulong, 0, 0, 0) };
        log.state.store(BEGINS, Ordering::SeqCst);
        log.count.store(0, Ordering::SeqCst);
        let calls = Self { child, log, of_one_thread: PhantomData };
        let begun = std::time::Instant::now();
        log.calls[0].store(1, Ordering::SeqCst);
        while log.state.load(Ordering::SeqCst) == BEGINS {
            assert!(begun.elapsed() < PATIENCE, "the tracing process does not begin");
            std::thread::sleep(Duration::from_millis(1));
        }
        if log.state.load(Ordering::SeqCst) == REFUSED {
            crate::required::skip("ptrace", "the system admits no tracing of a thread");
            return None;
        }
        Some(calls)
    }

    /// Calls something, and returns the numbers of the calls of the system that this thread made
    /// meanwhile, such as [`libc::SYS_read`], in their order.
    ///
    /// # Panics
    /// Panics after more than 65,536 calls.
    pub fn during<R>(&self, body: impl FnOnce() -> R) -> (R, Vec<c_long>) {
        let before = self.log.count.load(Ordering::SeqCst);
        let result = body();
        let after = self.log.count.load(Ordering::SeqCst);
        assert!(after <= MOST, "more calls than are remembered");
        let calls = self.log.calls[before..after].iter();
        (result, calls.map(|call| call.load(Ordering::SeqCst) as c_long).collect())
    }
}

impl Drop for SystemCalls {
    fn drop(&mut self) {
        // The end of the tracing process lets the thread go on untraced.
        // SAFETY: the child is ours and has not been waited for.
        let _ = unsafe { libc::kill(self.child, libc::SIGKILL) };
        let mut status = 0;
        // SAFETY: the child was made by this thread, and nobody else waits for it.
        let _ = unsafe { libc::waitpid(self.child, &raw mut status, 0) };
        // SAFETY: the memory was mapped by `Log::new`, and this was the last use of it.
        unsafe { libc::munmap(std::ptr::from_ref(self.log).cast_mut().cast(), size_of::<Log>()) };
    }
}

impl Log {
    /// Memory that a child has together with this process.
    fn new() -> &'static Self {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a mapping at an address of the system's choice replaces nothing.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), size_of::<Self>(), rights, flags, -1, 0) };
        assert!(address != libc::MAP_FAILED, "no memory: {}", std::io::Error::last_os_error());
        // SAFETY: the mapping is as long, begins with a page, and is full of zeros, which are
        // values of atomic numbers. It stays until the only `SystemCalls` of it is dropped.
        unsafe { &*address.cast::<Self>() }
    }

    /// Writes a call down. Called by the child alone.
    fn add(&self, call: i64) {
        let count = self.count.load(Ordering::SeqCst);
        if let Some(place) = self.calls.get(count) {
            place.store(call, Ordering::SeqCst);
        }
        self.count.store(count + 1, Ordering::SeqCst);
    }
}

/// `PTRACE_GET_SYSCALL_INFO`, which not every C library names.
const GET_SYSCALL_INFO: c_long = 0x420e;
/// What the system says of a stopped thread: the first byte is [`ENTRY`] before a call, and the
/// number of the call comes after 24 bytes, and then its arguments.
type SyscallInfo = [u64; 11];
const ENTRY: u8 = 1;
/// How a stop before or after a call shows, with `PTRACE_O_TRACESYSGOOD`.
const CALL: c_int = libc::SIGTRAP | 0x80;

/// The child: traces a thread until that thread ends. No call here but of the system: another
/// thread of the parent may have held any lock at the fork.
fn trace(thread: pid_t, log: &Log) -> ! {
    // The parent says first that this process may trace it.
    while log.calls[0].load(Ordering::SeqCst) == 0 {
        std::hint::spin_loop();
    }
    let options = libc::PTRACE_O_TRACESYSGOOD as usize;
    let is_begun = ask(libc::PTRACE_SEIZE as c_long, thread, 0, options)
        && ask(libc::PTRACE_INTERRUPT as c_long, thread, 0, 0);
    if !is_begun {
        log.state.store(REFUSED, Ordering::SeqCst);
        end();
    }
    loop {
        let mut status = 0;
        // SAFETY: `status` is valid for writes.
        let stopped = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) };
        if stopped != thread || !libc::WIFSTOPPED(status) {
            end();
        }
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        let mut passed_on = 0;
        if signal == CALL {
            let mut info: SyscallInfo = [0; 11];
            let address = (&raw mut info).addr();
            if !ask(GET_SYSCALL_INFO, thread, size_of::<SyscallInfo>(), address) {
                log.state.store(REFUSED, Ordering::SeqCst);
                end();
            }
            let is_entry = info[0].to_ne_bytes()[0] == ENTRY;
            let (call, second) = (info[3].cast_signed(), info[5].cast_signed());
            let is_check = call as c_long == libc::SYS_fcntl && second == libc::F_GETFD.into();
            if is_entry && !is_check && log.state.load(Ordering::SeqCst) == TRACES {
                log.add(call);
            }
        } else if event == 0 {
            passed_on = signal as usize;
        } else {
            log.state.store(TRACES, Ordering::SeqCst);
        }
        if !ask(libc::PTRACE_SYSCALL as c_long, thread, 0, passed_on) {
            end();
        }
    }
}

/// One request about a thread. Returns whether the system did it.
fn ask(request: c_long, thread: pid_t, address: usize, data: usize) -> bool {
    // SAFETY: a request about another process. The one that writes to an address of this process is
    // given an array of the length that it is told.
    unsafe { libc::syscall(libc::SYS_ptrace, request, thread, address, data) >= 0 }
}

fn end() -> ! {
    // SAFETY: ends the child at once, without the handlers of the parent's.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::alone;

    #[test]
    fn the_calls_of_the_thread_are_counted_and_no_others() {
        alone(|| {
            let Some(calls) = SystemCalls::of_this_thread() else { return };
            // SAFETY: a call without arguments.
            let ask = || unsafe { libc::getppid() };
            assert_eq!(calls.during(|| ()).1, []);
            let ((), asked) = calls.during(|| {
                ask();
                ask();
            });
            assert_eq!(asked, [libc::SYS_getppid; 2]);
            let ((), made) = calls.during(|| drop(std::fs::File::open("/dev/null")));
            assert_eq!(made, [libc::SYS_openat, libc::SYS_close]);
            let other = std::sync::Barrier::new(2);
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    other.wait();
                    for _ in 0..100 {
                        ask();
                    }
                    other.wait();
                });
                other.wait();
                let (_, made) = calls.during(|| other.wait());
                assert!(!made.contains(&libc::SYS_getppid), "{made:?}");
            });
        });
    }

    #[test]
    fn a_second_tracer_is_refused() {
        alone(|| {
            let Some(_first) = SystemCalls::of_this_thread() else { return };
            let second = std::panic::catch_unwind(SystemCalls::of_this_thread);
            // A panic, where no test may be skipped.
            assert!(
                second.is_ok_and(|second| second.is_none())
                    || crate::required::is_required("ptrace")
            );
        });
    }
}
