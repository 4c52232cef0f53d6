//! Where a copy reads from: host memory, memory that the host may read after a mapping, or a device
//! through a queue.

use std::cell::OnceCell;
use std::ptr::NonNull;

use super::run::in_flight::OnItsWay;
use super::step;
use crate::array::View;
use crate::device::ReadsTo;
use crate::device::driver::{Raw, Region, Route, Spot};
use crate::device::staging::zeroed;
pub(super) use crate::device::staging::{copy_bytes, host_address, host_len};
use crate::{Array, Device, Error, ErrorKind, Memory, Queue, Result};

/// Bytes in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) spot: Spot,
    pub(super) len: u64,
}

/// How the source is read.
#[derive(Debug)]
pub(super) enum CopySource {
    /// Host memory whose data is ready.
    Host,
    /// Memory that the host reads in place after a mapping, and whose data is ready.
    Mapped(Device),
    /// Memory that is read by copies on a queue.
    Lane(Lane),
}

/// A queue that reads the source. The queue is opened when it is first needed, and not at all where
/// nothing has to be read.
#[derive(Debug)]
pub(super) struct Lane {
    array: Array,
    queue: Option<Queue>,
    /// The number of bytes of a unit. The device copies whole units, which begin at multiples of
    /// this number.
    unit: u64,
    /// The view that orders the queue behind the data, and keeps the data until the queue has
    /// passed.
    view: OnceCell<View>,
}

impl Lane {
    /// A lane on this queue. Without a queue, the lane opens one when it needs one. `unit` is the
    /// number of bytes of a unit that the device copies.
    pub(super) fn new(array: &Array, queue: Option<Queue>, unit: u64) -> Self {
        Self { array: array.clone(), queue, unit, view: OnceCell::new() }
    }

    /// The queue, which is opened by the first call. It is not ordered behind the data yet.
    pub(super) fn open(&mut self) -> Result<&Queue> {
        let opened = match self.queue.take() {
            Some(queue) => queue,
            None => {
                let device = self.array.open_device()?;
                device.open_queue().map_err(|error| error.at_step(step::OPEN))?
            }
        };
        Ok(self.queue.insert(opened))
    }

    /// The queue, ordered behind the data.
    pub(super) fn queue(&self) -> Result<&Queue> {
        if let Some(view) = self.view.get() {
            return Ok(view.queue());
        }
        let queue = match &self.queue {
            Some(queue) => queue.clone(),
            None => {
                let device = self.array.open_device()?;
                device.open_queue().map_err(|error| error.at_step(step::OPEN))?
            }
        };
        let view = self.array.on(&queue).map_err(|error| error.at_step(step::ORDER))?;
        Ok(self.view.get_or_init(|| view).queue())
    }
}

impl CopySource {
    /// The alignment of the bytes that the source's device copies. Bytes that begin at a multiple
    /// of this are copied without the help of the host.
    pub(super) fn unit(&self) -> u64 {
        if let Self::Lane(lane) = self { lane.unit } else { 1 }
    }

    /// Whether the host reads the source without a copy.
    pub(super) fn is_on_host(&self) -> bool {
        !matches!(self, Self::Lane(_))
    }

    /// Reads spans one after the other into one piece of memory. This takes one submission and one
    /// wait, or neither where the host reads the source itself.
    ///
    /// # Safety
    /// The spans lie inside the source, which is alive, and for memory that the host reads also
    /// ready.
    pub(super) unsafe fn read(&self, spans: &[Span], step: &'static str) -> Result<Vec<u8>> {
        let total: u64 = spans.iter().map(|span| span.len).sum();
        let mut bytes = zeroed(total)?;
        if total == 0 {
            return Ok(bytes);
        }
        // SAFETY: `bytes` is as long as the spans together, and is kept until the queue has passed;
        // that the spans lie inside the source, and that it is ready, is the caller's promise.
        let read = unsafe { self.read_to(spans, bytes.as_mut_ptr(), step) };
        match (read, self) {
            (Ok(()), _) => Ok(bytes),
            (Err(error), Self::Lane(lane)) => {
                // After the failure, the device may still write to the bytes.
                if let Ok(queue) = lane.queue() {
                    queue.keep_until_done(bytes);
                }
                Err(error)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Submits a read of spans of a device, one after the other, into new memory that is kept until
    /// the queue has passed the read. Waits for nothing.
    ///
    /// # Safety
    /// The spans lie inside the source, which is alive.
    pub(super) unsafe fn submit_read(&self, spans: &[Span]) -> Result<OnItsWay<Vec<u8>>> {
        let Self::Lane(lane) = self else { return Err(step::no_way()) };
        let queue = lane.queue()?;
        let mut bytes = zeroed(spans.iter().map(|span| span.len).sum())?;
        let mut offset = 0;
        let mut regions = Vec::with_capacity(spans.len());
        for span in spans.iter().filter(|span| span.len > 0) {
            let to = Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset };
            regions.push(Region { from: span.spot, to, len: span.len });
            offset += span.len;
        }
        // SAFETY: UNS-21: the spans lie inside the source, as the caller promises, which the lane's
        // view keeps until the queue has passed; `bytes` is as long as they are together.
        unsafe { OnItsWay::submit(queue, bytes, regions, ReadsTo::Any) }
    }

    /// # Safety
    /// The spans lie inside the source, which is alive, and for memory that the host reads also
    /// ready; as many bytes can be written at `to`, until this succeeds or the queue has passed.
    unsafe fn read_to(&self, spans: &[Span], to: *mut u8, step: &'static str) -> Result<()> {
        let mut offset = 0;
        let mut regions = Vec::with_capacity(if self.is_on_host() { 0 } else { spans.len() });
        for span in spans.iter().filter(|span| span.len > 0) {
            match self {
                Self::Lane(_) => {
                    let to = Spot { base: Raw::from_ptr(to.cast()), offset };
                    regions.push(Region { from: span.spot, to, len: span.len });
                }
                _ => {
                    // SAFETY: the span lies inside the source, which is alive, and ready where the
                    // host reads it, as the caller promises.
                    let shown = unsafe { self.show(*span) }.map_err(|error| error.at_step(step))?;
                    // SAFETY: a mapping shows `len` bytes (DRV-24), and as many can be written at
                    // `to`, as the caller promises; `to` is memory of our own and no part of the
                    // source.
                    unsafe {
                        copy_bytes(shown.address(), to.wrapping_add(host_len(offset)), span.len)
                    };
                }
            }
            offset += span.len;
        }
        let Self::Lane(lane) = self else { return Ok(()) };
        let queue = lane.queue()?;
        // SAFETY: UNS-21: the spans lie inside the source, which the lane's view keeps until the
        // queue has passed; as many bytes can be written at `to` until then, as the caller
        // promises.
        let submitted = unsafe { queue.copy(Route::ToHost, &regions) };
        submitted.and_then(|()| queue.synchronize()).map_err(|error| error.at_step(step))
    }

    /// Shows a span to the host. Only for a source that the host reads without a copy.
    ///
    /// # Safety
    /// The span lies inside the source, which is alive, and for memory that the host reads also
    /// ready.
    pub(super) unsafe fn show(&self, span: Span) -> Result<ShownBytes> {
        match self {
            Self::Host => Ok(ShownBytes::Plain(host_address(span.spot))),
            Self::Mapped(device) => {
                // SAFETY: the span lies inside the source, which is alive, and for memory that the
                // host reads also ready, as the caller promises.
                let address = unsafe { device.driver().map(span.spot, span.len) }?;
                Ok(ShownBytes::Mapped(Mapping { device: device.clone(), span, address }))
            }
            Self::Lane(_) => Err(Error::new(ErrorKind::Unsupported, "the host cannot read this")),
        }
    }

    /// How many bytes there are from an address to the end of its allocation, where the runtime
    /// knows.
    ///
    /// # Safety
    /// `base` is a buffer of the source.
    pub(super) unsafe fn remaining(&self, base: Raw<Memory>) -> Option<u64> {
        let device = match self {
            Self::Host => return None,
            Self::Mapped(device) => device,
            Self::Lane(lane) => lane.queue().ok()?.device(),
        };
        // SAFETY: `base` is a buffer of the source, as the caller promises.
        let found = unsafe { device.driver().locate(base) }.ok()??;
        Some(found.remaining)
    }
}

/// Bytes that the host may read until this value is dropped.
#[derive(Debug)]
pub(super) enum ShownBytes {
    Plain(*mut u8),
    Mapped(Mapping),
}

// SAFETY: an address that is only read, and a mapping that can be ended on any thread (DRV-1,
// DRV-24).
unsafe impl Send for ShownBytes {}

impl ShownBytes {
    pub(super) fn address(&self) -> *mut u8 {
        match self {
            Self::Plain(address) => *address,
            Self::Mapped(mapping) => mapping.address.as_ptr(),
        }
    }
}

/// A mapping that ends when this is dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    device: Device,
    span: Span,
    address: NonNull<u8>,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let Span { spot, len } = self.span;
        // SAFETY: ends what `CopySource::show` began, with the same place and length.
        unsafe { self.device.driver().unmap(spot, len, self.address) }
    }
}

/// A place in host memory, by its address.
pub(super) fn at_address(address: *const u8) -> Spot {
    Spot { base: Raw::from_ptr(address.cast_mut().cast()), offset: 0 }
}
