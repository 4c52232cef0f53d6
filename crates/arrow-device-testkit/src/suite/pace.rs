//! How the suite waits: by waits of the host, or by turning the device and asking.

use std::time::{Duration, Instant};

use arrow_device::driver::{Driver, Raw};
use arrow_device::{Error, ErrorKind, Event, Queue, Result};

/// How long a device that is turned may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The function that gives the device a turn, if the host may not wait.
#[derive(Clone, Copy)]
pub(super) struct Pace<'a>(pub(super) Option<&'a dyn Fn()>);

impl Pace<'_> {
    /// Whether the host may wait.
    pub(super) fn may_wait(self) -> bool {
        self.0.is_none()
    }

    /// Gives the device a turn, where it needs one.
    pub(super) fn turn(self) {
        if let Some(turn) = self.0 {
            turn();
        }
    }

    /// Asks again and again, and turns the device in between, until the answer is yes.
    pub(super) fn until(self, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if is_so()? {
                return Ok(());
            }
            self.turn();
            if Instant::now() > deadline {
                let message = "the device was turned for a long time, and its work is not over";
                return Err(Error::new(ErrorKind::NotReady, message));
            }
            std::thread::yield_now();
        }
    }

    /// Waits for all work of a queue.
    pub(super) fn synchronize(self, queue: &Queue) -> Result<()> {
        if self.may_wait() { queue.synchronize() } else { self.until(|| queue.is_idle()) }
    }

    /// Waits for an event.
    pub(super) fn wait_for(self, event: &Event) -> Result<()> {
        if self.may_wait() { event.synchronize() } else { self.until(|| event.is_complete()) }
    }

    /// Waits for an event that the library does not know.
    ///
    /// # Safety
    /// UNS-22: the event is recorded and stays meanwhile.
    pub(super) unsafe fn wait_for_raw(self, driver: &dyn Driver, event: Raw<Event>) -> Result<()> {
        if self.may_wait() {
            // SAFETY: UNS-22, which the caller keeps.
            return unsafe { driver.wait_on_host(event, None) }.map(|_| ());
        }
        // SAFETY: UNS-22, which the caller keeps.
        self.until(|| unsafe { driver.is_complete(event) })
    }

    /// Waits for all work of a queue that the library does not know.
    ///
    /// # Safety
    /// UNS-22: the queue is open and stays open meanwhile.
    pub(super) unsafe fn synchronize_raw(
        self,
        driver: &dyn Driver,
        queue: Raw<Queue>,
    ) -> Result<()> {
        if self.may_wait() {
            // SAFETY: UNS-22, which the caller keeps.
            return unsafe { driver.synchronize(queue) };
        }
        // SAFETY: UNS-22, which the caller keeps.
        self.until(|| unsafe { driver.is_idle(queue) })
    }

    /// Returns a length for a copy. Where the host may not wait, it is rounded up to whole units.
    pub(super) fn whole(self, queue: &Queue, len: usize) -> usize {
        if self.may_wait() { len } else { len.next_multiple_of(self.unit(queue)) }
    }

    /// Returns the unit of the lengths of copies. It is 1 where the host may wait.
    pub(super) fn unit(self, queue: &Queue) -> usize {
        if self.may_wait() { 1 } else { queue.device().properties().copy_unit as usize }
    }
}
