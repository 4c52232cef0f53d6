//! Probes: checks of a driver by itself, without arrays. They look at order, memory, bytes and
//! mappings.
//!
//! A probe looks at one promise of a driver. The queue that it is about is busy, so that a driver
//! that does not keep the promise is seen. No probe needs promises that later probes look at, so
//! the first probe that fails tells most.

mod bytes;
mod calls;
mod mappings;
mod memory;
mod order;

use arrow_device::driver::{Driver, Raw, Region, Route, Spot};
use arrow_device::{Device, ErrorKind, Memory, Queue};

use super::Check;
use super::busy::Lane;
use super::checks::Scene;
use super::data::{Landing, text};
use super::pace::Pace;
use crate::{Verdict, require};

/// A check of one promise of a driver.
pub(super) struct Probe {
    pub(super) name: &'static str,
    look: Look,
    /// How often the probe is run.
    pub(super) rounds: usize,
    /// Whether the promise is about waits of the host.
    pub(super) is_of_waits: bool,
}

/// The function of a probe.
enum Look {
    /// Looks at every device.
    Always(fn(&Scene<'_>) -> Verdict),
    /// Looks only at a device that does what the promise is about. Returns whether this device
    /// does.
    Where(fn(&Scene<'_>) -> Result<bool, String>),
}

impl Probe {
    /// Runs the probe. Returns whether there was something to look at.
    pub(super) fn run(&self, scene: &Scene<'_>) -> Result<bool, String> {
        match self.look {
            Look::Always(look) => look(scene).map(|()| true),
            Look::Where(look) => look(scene),
        }
    }
}

const fn probe(name: &'static str, look: fn(&Scene<'_>) -> Verdict) -> Probe {
    Probe { name, look: Look::Always(look), rounds: 4, is_of_waits: false }
}

const fn probe_where(name: &'static str, look: fn(&Scene<'_>) -> Result<bool, String>) -> Probe {
    Probe { name, look: Look::Where(look), rounds: 4, is_of_waits: false }
}

/// Returns a probe of a promise that the host sees only when it waits.
const fn of_waits(name: &'static str, look: fn(&Scene<'_>) -> Verdict) -> Probe {
    Probe { is_of_waits: true, ..probe(name, look) }
}

/// Returns a probe that does not depend on the pace of the device, and is run once.
const fn once(name: &'static str, look: fn(&Scene<'_>) -> Verdict) -> Probe {
    Probe { name, look: Look::Always(look), rounds: 1, is_of_waits: false }
}

const fn once_where(name: &'static str, look: fn(&Scene<'_>) -> Result<bool, String>) -> Probe {
    Probe { name, look: Look::Where(look), rounds: 1, is_of_waits: false }
}

/// Returns the probes of a check. A check of arrays has none.
pub(super) fn of(check: Check) -> Vec<&'static Probe> {
    let probes: &[&'static [Probe]] = match check {
        Check::Waits => &[order::PROBES, calls::PROBES],
        Check::Memory => &[memory::PROBES],
        Check::Bytes => &[bytes::PROBES],
        Check::Mappings => &[mappings::PROBES],
        _ => &[],
    };
    probes.iter().copied().flatten().collect()
}

/// The bytes that memory holds before a probe writes to it.
const BEFORE: u8 = 0xa5;

/// Returns bytes that differ from those of another seed, and from themselves a few places on.
pub(super) fn numbered(len: usize, seed: u8) -> Vec<u8> {
    let byte = |index: usize| (index * 197 + index / 251 * 31 + usize::from(seed) * 59 + 7) as u8;
    (0..len).map(byte).collect()
}

/// Allocates memory that the writer and the reader may use at once.
fn memory(scene: &Scene<'_>, len: usize) -> Result<(Memory, Spot), String> {
    let mut memory = scene.writer.allocate(len as u64).map_err(text)?;
    let spot = memory.spot(&scene.writer).map_err(text)?;
    memory.spot(&scene.reader).map_err(text)?;
    put(&scene.writer, spot, vec![BEFORE; len])?;
    scene.pace.synchronize(&scene.writer).map_err(text)?;
    Ok((memory, spot))
}

/// Submits a copy from the host.
fn put(queue: &Queue, to: Spot, bytes: Vec<u8>) -> Verdict {
    let region = Region { from: host(&bytes, 0), to, len: bytes.len() as u64 };
    // SAFETY: UNS-21: the memory has as many bytes and is freed behind the queue; the source is
    // kept until the queue has passed.
    let submitted = unsafe { queue.copy(Route::FromHost, &[region]) };
    queue.keep_until_done(bytes);
    submitted.map_err(text)
}

/// Submits copies within the device. Returns whether the device makes such copies.
fn copy_within(queue: &Queue, regions: &[Region]) -> Result<bool, String> {
    // SAFETY: UNS-21: both sides are inside memory that is freed behind the queue, and do not
    // overlap.
    match unsafe { queue.copy(Route::Within, regions) } {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(false),
        Err(error) => Err(text(error)),
    }
}

/// Submits a copy to the host of bytes that are expected there. Where the host may not wait, the
/// copy has whole units.
fn get(queue: &Queue, from: Spot, expected: Vec<u8>) -> Result<Landing, String> {
    Landing::submit(queue, vec![(from, expected)], Pace(None)).map_err(text)
}

/// Returns a place in host memory.
pub(super) fn host(bytes: &[u8], offset: usize) -> Spot {
    Spot { base: Raw::from_ptr(bytes.as_ptr().cast_mut().cast()), offset: offset as u64 }
}

/// Returns the spot `bytes` bytes behind another one.
fn behind(spot: Spot, bytes: usize) -> Spot {
    Spot { offset: spot.offset + bytes as u64, ..spot }
}

/// Has the writer write behind slow work.
fn write_slowly(scene: &Scene<'_>, to: Spot, bytes: &[u8]) -> Verdict {
    scene.busy.occupy(&scene.writer, Lane::Writer).map_err(text)?;
    put(&scene.writer, to, bytes.to_vec())
}

fn driver(device: &Device) -> &dyn Driver {
    &**device.driver()
}

/// Checks that bytes have arrived, which somebody was told to be there.
fn require_landed(landing: &Landing, who: &str) -> Verdict {
    require(landing.has_landed(), || format!("{who}, and what the queue copies has not come"))
}
