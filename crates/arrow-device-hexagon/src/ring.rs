//! [`Ring`]: how the library asks about the commands that an application submits to a DSP.

use std::fmt;
use std::time::Duration;

/// How far a DSP has come with the commands of a [`Ring`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A command that was asked about is not over, and may touch memory.
    Pending,
    /// All commands that were asked about are done, and went well.
    Completed,
    /// A command that was asked about has failed. No command that was asked about will be done any
    /// more, or touch memory.
    Failed,
}

/// A command ring of the application to a DSP, such as a `dspqueue`.
///
/// Commands have numbers: the first is 1, and each has one more than the command before. The
/// application submits commands by itself; the library only asks. A `dspqueue` tells which packets
/// were answered, so an implementation counts the packets that it writes and the answers that it
/// reads.
///
/// Operations can be called on any thread, and from several at once. They call nothing of this
/// library. Nor does the drop of a ring, which may happen within any call of the library.
///
/// # Safety
/// The library frees memory, and lets others use memory, by what a ring says. So an implementation
/// keeps for its ring what the library asks of drivers in `docs/safety.md`:
///
/// * The DSP does commands one after the other, in the order of their numbers (DRV-4).
/// * Only [`wait`](Self::wait) waits for the DSP (DRV-5).
/// * A command sees what the processor wrote before the command was submitted. The processor sees
///   what a command wrote from the moment at which the command counts as
///   [`Completed`](Progress::Completed) (DRV-4, DRV-17).
/// * [`submitted`](Self::submitted) counts every command that any thread has submitted before the
///   call (DRV-18).
/// * An answer other than [`Pending`](Progress::Pending) is true, and stays the answer for the
///   number (DRV-19, DRV-27). Once a command has failed, the answer for all later numbers is
///   [`Failed`](Progress::Failed) when they are over.
/// * [`is_lost`](Self::is_lost) says yes only when the DSP will touch no memory of the process any
///   more by this ring, and is then the answer for ever (DRV-21, DRV-28).
pub unsafe trait Ring: fmt::Debug + Send + Sync + 'static {
    /// Returns the number of the newest command that was submitted, 0 before the first.
    fn submitted(&self) -> u64;

    /// Returns how far the DSP has come with the commands up to this number.
    fn progress(&self, number: u64) -> Progress;

    /// Waits until the commands up to this number are not pending any more, until the ring is lost,
    /// or until the time is over.
    ///
    /// Where the calling thread may not wait, the answer is [`Pending`](Progress::Pending) at once.
    fn wait(&self, number: u64, timeout: Option<Duration>) -> Progress;

    /// Returns whether the session with the DSP has ended, as after a crash of its program. No
    /// command goes on then, and none can be submitted.
    fn is_lost(&self) -> bool;
}
