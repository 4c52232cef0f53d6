//! Probes of allocations, their parts, and what is known of them.

use arrow_device::driver::{Addressing, Driver, Raw, Region, Route, Spot};
use arrow_device::{DeviceId, DeviceType, ErrorKind, Memory};

use super::super::busy::Lane;
use super::super::checks::Scene;
use super::super::data::text;
use super::{Probe, driver, get, host, memory, numbered, once, once_where, probe, put};
use crate::{Verdict, require};

pub(super) const PROBES: &[Probe] = &[
    once("a device that nobody has is not reached", reaches_nobody),
    once_where("memory is aligned", aligned),
    once("allocations do not overlap", allocations_are_apart),
    probe("fresh memory is the queue's that was named", allocated_in_order),
    once("memory outlives the queue that it was allocated for", queue_is_closed),
    once("memory is given back", given_back),
    once("what does not fit is out of memory", out_of_memory),
    once_where("a part is the bytes that were named", parts),
    once_where("an allocation is where it is", located),
];

const LEN: usize = 256;

fn reaches_nobody(scene: &Scene<'_>) -> Verdict {
    // A device type that no device has.
    let nobody = DeviceId::new(DeviceType(9999), 77);
    match scene.writer.reaches(nobody) {
        Err(error) if error.kind() == ErrorKind::NotReachable => Ok(()),
        Err(error) => Err(format!("{error} and not NotReachable")),
        Ok(()) => Err(format!("memory on {nobody} is said to be reached")),
    }
}

fn aligned(scene: &Scene<'_>) -> Result<bool, String> {
    let properties = scene.device.properties();
    if properties.addressing != Addressing::Address {
        return Ok(false);
    }
    for len in [1, 3, 64, 100, 4097] {
        let mut memory = scene.writer.allocate(len).map_err(text)?;
        let base = memory.spot(&scene.writer).map_err(text)?.base;
        let is_aligned = base.bits().is_multiple_of(properties.alignment);
        require(is_aligned, || format!("{len} bytes lie at {base:?}, which is not aligned"))?;
    }
    Ok(true)
}

fn allocations_are_apart(scene: &Scene<'_>) -> Verdict {
    let queue = &scene.writer;
    let mut held: Vec<(Memory, Spot)> = Vec::new();
    for number in 0..8 {
        let mut memory = queue.allocate(LEN as u64).map_err(text)?;
        let spot = memory.spot(queue).map_err(text)?;
        put(queue, spot, numbered(LEN, number))?;
        held.push((memory, spot));
    }
    for (number, (_, spot)) in (0..).zip(&held) {
        get(queue, *spot, numbered(LEN, number))?.finish(queue, scene.pace)?;
    }
    Ok(())
}

fn allocated_in_order(scene: &Scene<'_>) -> Verdict {
    let queue = &scene.writer;
    scene.busy.occupy(queue, Lane::Writer).map_err(text)?;
    let mut memory = queue.allocate(LEN as u64).map_err(text)?;
    let spot = memory.spot(queue).map_err(text)?;
    put(queue, spot, numbered(LEN, 20))?;
    get(queue, spot, numbered(LEN, 20))?.finish(queue, scene.pace)?;
    // The bytes are still there after other work.
    scene.busy.occupy(queue, Lane::Writer).map_err(text)?;
    get(queue, spot, numbered(LEN, 20))?.finish(queue, scene.pace)
}

fn queue_is_closed(scene: &Scene<'_>) -> Verdict {
    let driver = driver(scene.device);
    let queue = driver.open_queue().map_err(text)?;
    // SAFETY: UNS-22: the queue was just opened, and the length is not 0.
    let allocated = unsafe { driver.allocate(LEN as u64, Some(queue)) };
    let bytes = numbered(LEN, 21);
    let written = allocated.and_then(|base| {
        let to = Spot { base, offset: 0 };
        let region = Region { from: host(&bytes, 0), to, len: LEN as u64 };
        // SAFETY: UNS-21 and UNS-22: the memory was allocated for this queue with as many bytes,
        // and the source is kept until the queue was waited for.
        let copied = unsafe { driver.copy(queue, Route::FromHost, &[region]) };
        // SAFETY: UNS-22: the queue is open.
        copied.and_then(|()| unsafe { scene.pace.synchronize_raw(driver, queue) }).map(|()| to)
    });
    // SAFETY: UNS-22: opened above and not used after this.
    unsafe { driver.close_queue(queue) };
    let spot = match written {
        Ok(spot) => spot,
        Err(error) => {
            // The device may still use both.
            std::mem::forget(bytes);
            return Err(text(error));
        }
    };
    get(&scene.reader, spot, bytes)?.finish(&scene.reader, scene.pace)?;
    // SAFETY: UNS-22: allocated above with this length; the host has waited for all that uses it.
    unsafe { driver.free(spot.base, LEN as u64) };
    Ok(())
}

/// Allocates and frees more than a device has, or at least a lot, a piece at a time.
const PIECE: u64 = 1 << 20;
const PIECES: usize = 128;

fn given_back(scene: &Scene<'_>) -> Verdict {
    let driver = driver(scene.device);
    for number in 0..PIECES {
        // SAFETY: UNS-22: the length is not 0.
        let allocated = unsafe { driver.allocate(PIECE, None) };
        let memory = allocated.map_err(|error| {
            format!("{number} times {PIECE} bytes were freed, and there is no more: {error}")
        })?;
        // SAFETY: UNS-22: allocated just now with this length, and nothing uses it.
        unsafe { driver.free(memory, PIECE) };
    }
    Ok(())
}

fn out_of_memory(scene: &Scene<'_>) -> Verdict {
    let driver = driver(scene.device);
    let len = 1 << 60;
    // SAFETY: UNS-22: the length is not 0.
    match unsafe { driver.allocate(len, None) } {
        Err(error) if error.kind() == ErrorKind::OutOfMemory => Ok(()),
        Err(error) => Err(format!("{error}, which is {:?} and not OutOfMemory", error.kind())),
        Ok(memory) => {
            // SAFETY: UNS-22: allocated just now with this length, and nothing uses it.
            unsafe { driver.free(memory, len) };
            Err("2^60 bytes are said to be there".into())
        }
    }
}

fn parts(scene: &Scene<'_>) -> Result<bool, String> {
    let properties = scene.device.properties();
    if properties.addressing != Addressing::Handle || !properties.parts {
        return Ok(false);
    }
    let (driver, step) = (driver(scene.device), properties.alignment);
    let (_memory, spot) = memory(scene, 4 * step)?;
    let bytes = numbered(4 * step, 22);
    put(&scene.writer, spot, bytes.clone())?;
    scene.pace.synchronize(&scene.writer).map_err(text)?;
    for (offset, len) in [(step, step), (2 * step, step + 3), (0, 5)] {
        // SAFETY: UNS-22: the bytes lie inside the memory, from a multiple of the alignment on.
        let part = unsafe { driver.part(spot.base, offset as u64, len as u64) }.map_err(text)?;
        let read = reads(scene, part, &bytes[offset..offset + len]);
        // SAFETY: UNS-22: the host has waited for what uses it, or the queue leaks what it uses.
        unsafe { driver.free_part(part) };
        read?;
    }
    get(&scene.reader, spot, bytes)?.finish(&scene.reader, scene.pace)?;
    Ok(true)
}

fn reads(scene: &Scene<'_>, base: Raw<Memory>, expected: &[u8]) -> Verdict {
    get(&scene.reader, Spot { base, offset: 0 }, expected.to_vec())?
        .finish(&scene.reader, scene.pace)
}

fn located(scene: &Scene<'_>) -> Result<bool, String> {
    let driver: &dyn Driver = driver(scene.device);
    let (_memory, spot) = memory(scene, LEN)?;
    let locate = |bytes: usize| {
        let base = Raw::from_ptr(spot.base.as_ptr().wrapping_byte_add(bytes));
        // SAFETY: the memory is allocated, and the address is inside it.
        unsafe { driver.locate(base) }.map_err(text)
    };
    let Some(start) = locate(0)? else { return Ok(false) };
    let id = driver.id();
    require(start.device == id, || format!("memory on {id} is said to lie on {}", start.device))?;
    let is_enough = |remaining: u64, bytes: usize| {
        require(remaining >= (LEN - bytes) as u64, || {
            format!("{remaining} bytes are said to be left of {}", LEN - bytes)
        })
    };
    is_enough(start.remaining, 0)?;
    if scene.device.properties().addressing == Addressing::Address {
        let inside = locate(64)?.ok_or("an address inside is said to be of no allocation")?;
        is_enough(inside.remaining, 64)?;
        require(inside.remaining + 64 == start.remaining, || {
            let (one, other) = (start.remaining, inside.remaining);
            format!("{one} bytes are said to be left, and {other} from 64 bytes on")
        })?;
    }
    Ok(true)
}
