//! Keeps a queue busy.
//!
//! A queue that has nothing to do finishes new work before anybody can look, so code that does not
//! wait for the work reads the right bytes anyway. So the suite first gives the queue something
//! slow: a copy inside the device, as large as needed, or work that the caller supplies. The size
//! of the copy is found by trial: starting from a first guess, the time that it keeps the queue
//! busy is measured and the size corrected a few times.

use std::time::{Duration, Instant};

use arrow_device::driver::{Driver, Raw, Region, Route, Spot};
use arrow_device::{Device, DeviceType, Error, ErrorKind, Memory, Queue};

use super::data::text;
use super::pace::Pace;

/// How long the queue should be busy.
const LONG_ENOUGH: Duration = Duration::from_micros(100);

/// The most and the fewest bytes of the copy, and the first guess.
const LARGEST: u64 = 64 << 20;
const SMALLEST: u64 = 16 << 10;
const FIRST: u64 = 128 << 10;

/// How often the size is corrected.
const CORRECTIONS: usize = 4;

/// How many more copies than one are timed.
const MORE: u32 = 8;

/// A part of the memory for each queue that is busy at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Writer,
    Other,
}

/// Keeps queues of one device busy, with memory that is allocated once.
pub(super) struct Busy<'a> {
    hook: Option<&'a dyn Fn(&Queue)>,
    copies: Option<SlowCopies>,
}

/// Copies inside a device, of which each is slow.
pub(super) struct SlowCopies {
    _memory: [Memory; 3],
    /// The target of the copies on a device that copies nothing within itself.
    host: [Vec<u8>; 2],
    lanes: [Region; 2],
}

impl<'a> Busy<'a> {
    /// Returns a value that keeps no queue busy.
    pub(super) fn idle() -> Self {
        Self { hook: None, copies: None }
    }

    /// Finds out how large a copy has to be on this device.
    pub(super) fn new(device: &Device, hook: Option<&'a dyn Fn(&Queue)>) -> Result<Self, String> {
        // The host does its work while it is submitted.
        if hook.is_some() || device.id().device_type == DeviceType::CPU {
            return Ok(Self { hook, copies: None });
        }
        let queue = device.open_queue().map_err(text)?;
        let mut len = FIRST;
        let mut copies = SlowCopies::new(&queue, len)?;
        for _ in 0..CORRECTIONS {
            let takes = copies.takes(&queue)?.max(Duration::from_micros(1));
            let ratio = LONG_ENOUGH.as_secs_f64() / takes.as_secs_f64();
            let next = (len as f64 * ratio.clamp(1.0 / 16.0, 16.0)) as u64;
            let next = next.next_multiple_of(SMALLEST).clamp(SMALLEST, LARGEST);
            if (0.7..1.5).contains(&ratio) || next == len {
                break;
            }
            match SlowCopies::new(&queue, next) {
                Ok(other) => (copies, len) = (other, next),
                // A small device is slow enough with the memory that it has.
                Err(_) => break,
            }
        }
        Ok(Self { hook, copies: Some(copies) })
    }

    /// Whether queues are kept busy.
    pub(super) fn is_there(&self) -> bool {
        self.hook.is_some() || self.copies.is_some()
    }

    /// Gives the queue something slow to do. No other queue may be busy with the same lane.
    pub(super) fn occupy(&self, queue: &Queue, lane: Lane) -> Result<(), Error> {
        if let Some(hook) = self.hook {
            hook(queue);
            return Ok(());
        }
        let Some(copies) = &self.copies else { return Ok(()) };
        // SAFETY: UNS-21: the memory stays until `settle` has waited for the queue, and nobody else
        // uses the lane.
        unsafe { queue.copy(copies.route(), &[copies.lanes[lane as usize]]) }
    }

    /// Copies that are as large as may be, where copies keep queues busy and the device has memory
    /// for them. Their memory is freed behind the queue.
    pub(super) fn large(&self, queue: &Queue) -> Option<SlowCopies> {
        let is_within = |copies: &SlowCopies| copies.host[0].is_empty();
        self.copies.as_ref().filter(|copies| is_within(copies))?;
        SlowCopies::new(queue, LARGEST).ok()
    }

    /// Gives a queue that the library does not know something slow to do.
    ///
    /// # Safety
    /// The queue is one of the driver's and is waited for before the lane is used again (UNS-22).
    pub(super) unsafe fn occupy_raw(
        &self,
        driver: &dyn Driver,
        queue: Raw<Queue>,
        lane: Lane,
    ) -> Result<(), Error> {
        let Some(copies) = &self.copies else { return Ok(()) };
        // SAFETY: UNS-21 and UNS-22: the memory stays until `settle` has waited for the queues, and
        // the caller waits for this one.
        unsafe { driver.copy(queue, copies.route(), &[copies.lanes[lane as usize]]) }
    }

    /// Waits for a queue that was busy.
    pub(super) fn settle(&mut self, queue: &Queue, pace: Pace<'_>) {
        // A device may fail once and go on.
        if pace.synchronize(queue).or_else(|_| pace.synchronize(queue)).is_err() {
            // The device may still be copying there.
            std::mem::forget(self.copies.take());
        }
    }
}

impl SlowCopies {
    fn new(queue: &Queue, len: u64) -> Result<Self, String> {
        let allocate = || queue.allocate(len).map_err(text);
        let mut memory = [allocate()?, allocate()?, allocate()?];
        memory[0].write(queue, &vec![0; len as usize]).map_err(text)?;
        let mut spots = [Spot { base: Raw::NULL, offset: 0 }; 3];
        for (spot, memory) in spots.iter_mut().zip(&mut memory) {
            *spot = memory.spot(queue).map_err(text)?;
        }
        queue.synchronize().map_err(text)?;
        let [from, one, other] = spots;
        let lanes = [one, other].map(|to| Region { from, to, len });
        let copies = Self { _memory: memory, host: [Vec::new(), Vec::new()], lanes };
        // SAFETY: UNS-21: the queue is waited for below, and the memory lives longer.
        match unsafe { queue.copy(Route::Within, &lanes[..1]) } {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Ok(copies.with_host_memory(len))
            }
            submitted => {
                submitted.and_then(|()| queue.synchronize()).map_err(text)?;
                Ok(copies)
            }
        }
    }

    /// Replaces copies inside the device by copies to the host.
    fn with_host_memory(mut self, len: u64) -> Self {
        for (region, host) in self.lanes.iter_mut().zip(&mut self.host) {
            *host = vec![0; len as usize];
            region.to = Spot { base: Raw::from_ptr(host.as_mut_ptr().cast()), offset: 0 };
        }
        self
    }

    /// Gives the queue that the copies were made for one of them to do.
    pub(super) fn occupy(&self, queue: &Queue) -> Result<(), Error> {
        // SAFETY: UNS-21: the memory of a device is freed behind the queue. Host memory is not used
        // by large copies, which are made where the device copies within itself alone.
        unsafe { queue.copy(self.route(), &self.lanes[..1]) }
    }

    fn route(&self) -> Route<'static> {
        if self.host[0].is_empty() { Route::Within } else { Route::ToHost }
    }

    /// Returns how long one copy keeps the queue busy. The host's share of the time, and delays by
    /// other programs, are left out by comparing many copies with one.
    fn takes(&self, queue: &Queue) -> Result<Duration, String> {
        let mut least = [Duration::MAX; 2];
        for _ in 0..4 {
            for (least, copies) in least.iter_mut().zip([1, 1 + MORE]) {
                let start = Instant::now();
                for _ in 0..copies {
                    // SAFETY: UNS-21: the queue is waited for below, and the memory lives longer.
                    unsafe { queue.copy(self.route(), &self.lanes[..1]) }.map_err(text)?;
                }
                queue.synchronize().map_err(text)?;
                *least = start.elapsed().min(*least);
            }
        }
        let [one, many] = least;
        Ok(many.saturating_sub(one) / MORE)
    }
}
