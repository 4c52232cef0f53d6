//! Probes of memory that the host reads and writes in place.

use std::ptr::NonNull;

use arrow_device::Event;
use arrow_device::driver::{Filled, HostAccess, Spot};

use super::super::checks::Scene;
use super::super::data::text;
use super::{
    Probe, behind, driver, get, memory, numbered, once_where, probe_where, put, write_slowly,
};
use crate::{Verdict, require};

pub(super) const PROBES: &[Probe] = &[
    probe_where("a mapping shows what work wrote", shows_what_work_wrote),
    once_where("a mapping begins where it was to begin", begins_where_named),
    once_where("a mapping goes on when another ends", others_go_on),
    probe_where("what the host wrote to a mapping is there when it was to be", filled),
];

const LEN: usize = 512;

/// Returns the bytes of a mapping.
///
/// # Safety
/// The mapping has as many bytes and has not ended.
unsafe fn shown(address: NonNull<u8>, len: usize) -> Vec<u8> {
    // SAFETY: DRV-24 and DRV-25: the host may read as many bytes until the mapping ends.
    unsafe { std::slice::from_raw_parts(address.as_ptr(), len) }.to_vec()
}

/// Maps memory, reads it, and unmaps it.
fn mapped(scene: &Scene<'_>, spot: Spot, len: usize) -> Result<Vec<u8>, String> {
    let driver = driver(scene.device);
    // SAFETY: UNS-22: the bytes lie inside memory for which the host has waited.
    let address = unsafe { driver.map(spot, len as u64) }.map_err(text)?;
    // SAFETY: DRV-24: it was mapped with this length just now.
    let bytes = unsafe { shown(address, len) };
    // SAFETY: UNS-22: mapped above with this length, and not used after this.
    unsafe { driver.unmap(spot, len as u64, address) };
    Ok(bytes)
}

fn require_shown(found: &[u8], expected: &[u8]) -> Verdict {
    require(found == expected, || {
        let at = found.iter().zip(expected).position(|(found, expected)| found != expected);
        let at = at.unwrap_or(0);
        format!("a mapping shows {:x?} at byte {at} and not {:x?}", found[at], expected[at])
    })
}

fn is_mapped(scene: &Scene<'_>) -> bool {
    scene.device.properties().host_access == HostAccess::Mapped
}

fn shows_what_work_wrote(scene: &Scene<'_>) -> Result<bool, String> {
    if !is_mapped(scene) {
        return Ok(false);
    }
    let (_memory, spot) = memory(scene, LEN)?;
    for seed in 1..3 {
        let bytes = numbered(LEN, seed);
        write_slowly(scene, spot, &bytes)?;
        let event = scene.writer.record().map_err(text)?;
        scene.pace.wait_for(&event).map_err(text)?;
        require_shown(&mapped(scene, spot, LEN)?, &bytes)?;
    }
    Ok(true)
}

fn begins_where_named(scene: &Scene<'_>) -> Result<bool, String> {
    if !is_mapped(scene) {
        return Ok(false);
    }
    let (_memory, spot) = memory(scene, LEN)?;
    let bytes = numbered(LEN, 3);
    put(&scene.writer, spot, bytes.clone())?;
    scene.pace.synchronize(&scene.writer).map_err(text)?;
    for (offset, len) in [(0, LEN), (3, 13), (64, 1), (129, 128), (LEN - 1, 1)] {
        let found = mapped(scene, behind(spot, offset), len)?;
        require_shown(&found, &bytes[offset..offset + len])?;
    }
    Ok(true)
}

fn others_go_on(scene: &Scene<'_>) -> Result<bool, String> {
    if !is_mapped(scene) {
        return Ok(false);
    }
    let (_memory, spot) = memory(scene, LEN)?;
    let bytes = numbered(LEN, 4);
    put(&scene.writer, spot, bytes.clone())?;
    scene.pace.synchronize(&scene.writer).map_err(text)?;
    let driver = driver(scene.device);
    // SAFETY: UNS-22: the bytes lie inside memory for which the host has waited.
    let first = unsafe { driver.map(spot, LEN as u64) }.map_err(text)?;
    // The second mapping begins inside the first.
    let found = mapped(scene, behind(spot, 16), LEN - 32);
    // SAFETY: DRV-24: mappings end by themselves, and this one has not ended.
    let still = unsafe { shown(first, LEN) };
    // SAFETY: UNS-22: mapped above with this length, and not used after this.
    unsafe { driver.unmap(spot, LEN as u64, first) };
    require_shown(&found?, &bytes[16..LEN - 16])?;
    require_shown(&still, &bytes)?;
    Ok(true)
}

fn filled(scene: &Scene<'_>) -> Result<bool, String> {
    let queue = &scene.writer;
    let mut memory = queue.allocate(LEN as u64).map_err(text)?;
    let spot = memory.spot(queue).map_err(text)?;
    let driver = driver(scene.device);
    let bytes = numbered(LEN, 5);
    // SAFETY: UNS-22: the memory was just allocated for this queue, and nothing was submitted for
    // it.
    let mapping = unsafe { driver.map_to_fill(queue.raw(), spot, LEN as u64) }.map_err(text)?;
    let Some(address) = mapping else { return Ok(false) };
    // SAFETY: DRV-25: the host may write as many bytes there until the mapping ends.
    unsafe { address.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), LEN) };
    // SAFETY: UNS-22: mapped above with this length, and not used after this.
    let filled = unsafe { driver.unmap_filled(queue.raw(), spot, LEN as u64, address) };
    match filled.map_err(text)? {
        Filled::InOrder => get(queue, spot, bytes)?.finish(queue, scene.pace)?,
        Filled::Now => {
            if is_mapped(scene) {
                require_shown(&mapped(scene, spot, LEN)?, &bytes)?;
            }
            let reader = &scene.reader;
            let landing = get(reader, spot, bytes.clone())?;
            landing.finish(reader, scene.pace)?;
            get(queue, spot, bytes)?.finish(queue, scene.pace)?;
        }
        Filled::After(event) => {
            // SAFETY: UNS-19: the driver gave the event away, and the guard destroys it after its
            // last use.
            let passed = unsafe { Event::adopt(scene.device, event) };
            let waited = scene.reader.wait(&passed);
            let landing =
                waited.map_err(text).and_then(|()| get(&scene.reader, spot, bytes.clone()));
            let finished = landing.and_then(|landing| landing.finish(&scene.reader, scene.pace));
            drop(passed);
            // SAFETY: UNS-22: the driver gave it away, and it is destroyed once.
            unsafe { driver.destroy_event(event) };
            finished?;
            get(queue, spot, bytes)?.finish(queue, scene.pace)?;
        }
    }
    Ok(true)
}
