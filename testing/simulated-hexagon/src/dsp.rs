//! [`Dsp`]: a process that does the commands of a ring, and the [`Ring`] that the library asks.

use std::fmt;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_device_hexagon::{Place, Progress, Ring};

use crate::program;
use crate::ring::{COMMANDS, Command, Operand, SharedRing, await_change, set};

/// How often a wait looks whether the program is still there.
const LOOK: Duration = Duration::from_millis(5);
/// How long the program may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command for the DSP.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Copies as many bytes.
    Copy(Place, Place, u32),
    /// Counts to a number, and does nothing else.
    Spin(u32),
    /// Adds a number to each of so many 32-bit integers.
    Add(Place, Place, u32, i32),
    /// Writes those of so many 32-bit integers that are more than a number behind one another, and
    /// how many there are.
    Filter(Place, Place, Place, u32, i32),
    /// Fails.
    Fail,
    /// Crashes after half of so many bytes were overwritten.
    Die(Place, u32),
}

/// A DSP with one command ring.
pub struct Dsp {
    ring: SharedRing,
    program: Mutex<Child>,
    is_gone: AtomicBool,
    /// Held by whoever submits.
    submitting: Mutex<()>,
}

impl Dsp {
    /// Starts a DSP. An error says which tool is missing.
    pub fn start() -> Result<Arc<Self>, String> {
        let ring = SharedRing::new().map_err(|problem| problem.to_string())?;
        set(&ring.header().gate, u32::MAX);
        let program = Mutex::new(program::start(ring.descriptor)?);
        let (is_gone, submitting) = (AtomicBool::new(false), Mutex::new(()));
        let dsp = Self { ring, program, is_gone, submitting };
        let end = Instant::now() + PATIENCE;
        while dsp.ring.header().is_up.load(Ordering::Acquire) == 0 {
            if dsp.is_lost() || Instant::now() > end {
                return Err("the program of the DSP has not begun".into());
            }
            await_change(&dsp.ring.header().is_up, 0, LOOK);
        }
        Ok(Arc::new(dsp))
    }

    /// Whether the program is one for a Hexagon DSP, under `qemu-hexagon`.
    pub fn is_emulated() -> bool {
        program::is_hexagon()
    }

    /// Submits a command, and returns its number.
    pub fn submit(&self, work: Work) -> u64 {
        let operand = |place: Place, len: u32| Operand {
            descriptor: place.descriptor.cast_unsigned(),
            offset: place.offset as u32,
            len,
        };
        let none = Operand::default();
        let (what, argument, operands) = match work {
            Work::Copy(from, to, len) => (1, 0, [operand(from, len), operand(to, len), none]),
            Work::Spin(count) => (2, count, [none; 3]),
            Work::Add(from, to, count, number) => {
                let operands = [operand(from, 4 * count), operand(to, 4 * count), none];
                (3, number.cast_unsigned(), operands)
            }
            Work::Filter(from, to, kept, count, number) => {
                let (from, to) = (operand(from, 4 * count), operand(to, 4 * count));
                (4, number.cast_unsigned(), [from, to, operand(kept, 4)])
            }
            Work::Fail => (5, 0, [none; 3]),
            Work::Die(to, len) => (6, 0, [none, operand(to, len), none]),
        };
        let _submitting = locked(&self.submitting);
        let header = self.ring.header();
        let number = header.head.load(Ordering::Relaxed);
        // A full ring makes whoever submits wait. One whose program is gone takes everything.
        while number - header.tail.load(Ordering::Acquire) >= COMMANDS && !self.is_lost() {
            await_change(&header.tail, header.tail.load(Ordering::Acquire), LOOK);
        }
        let command = Command { what, argument, operands, padding: [0; 5] };
        // SAFETY: the command that was in this place is done, or nobody reads it any more; the lock
        // keeps others from writing.
        unsafe { self.ring.write(number, command) };
        set(&header.head, number + 1);
        u64::from(number + 1)
    }

    /// Keeps commands that are submitted later from beginning, until [`Dsp::open_gate`].
    pub fn close_gate(&self) {
        let _submitting = locked(&self.submitting);
        set(&self.ring.header().gate, self.ring.header().head.load(Ordering::Relaxed));
    }

    /// Lets all commands begin.
    pub fn open_gate(&self) {
        set(&self.ring.header().gate, u32::MAX);
    }

    /// Ends the program at once, as a crash does.
    pub fn kill(&self) {
        let mut program = locked(&self.program);
        let _ = program.kill();
        let _ = program.wait();
        self.is_gone.store(true, Ordering::Release);
    }

    /// The answer about a number, without a look whether the program is there.
    fn seen(&self, number: u64) -> Progress {
        let header = self.ring.header();
        let tail = u64::from(header.tail.load(Ordering::Acquire));
        let failed = u64::from(header.failed.load(Ordering::Acquire));
        if tail < number {
            Progress::Pending
        } else if failed != 0 && failed <= number {
            Progress::Failed
        } else {
            Progress::Completed
        }
    }
}

// SAFETY: the program does commands one after the other, and raises the count of those that are
// done, with release order, after it has written their results. The files are shared memory of
// processes, which all see at once. A program that has ended touches no memory.
unsafe impl Ring for Dsp {
    fn submitted(&self) -> u64 {
        self.ring.header().head.load(Ordering::Acquire).into()
    }

    fn progress(&self, number: u64) -> Progress {
        self.seen(number)
    }

    fn wait(&self, number: u64, timeout: Option<Duration>) -> Progress {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let tail = &self.ring.header().tail;
        loop {
            let done = tail.load(Ordering::Acquire);
            let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()));
            let seen = self.seen(number);
            if seen != Progress::Pending || left.is_zero() || self.is_lost() {
                return self.seen(number);
            }
            await_change(tail, done, left.min(LOOK));
        }
    }

    fn is_lost(&self) -> bool {
        if self.is_gone.load(Ordering::Acquire) {
            return true;
        }
        let has_ended = !matches!(locked(&self.program).try_wait(), Ok(None));
        if has_ended {
            self.is_gone.store(true, Ordering::Release);
        }
        has_ended
    }
}

impl Drop for Dsp {
    fn drop(&mut self) {
        self.kill();
    }
}

impl fmt::Debug for Dsp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dsp(ring {})", self.ring.descriptor)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
