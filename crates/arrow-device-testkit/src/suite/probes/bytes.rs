//! Probes of copies at odd places and of odd lengths inside one allocation. Every byte that should
//! be copied has to be copied, and no other.

use arrow_device::driver::{Region, Route, Spot};
use arrow_device::{Memory, Queue};

use super::super::checks::Scene;
use super::super::data::{Landing, text};
use super::{
    Probe, behind, copy_within, get, host, memory, numbered, once, once_where, probe, put,
    write_slowly,
};
use crate::{Verdict, require};

pub(super) const PROBES: &[Probe] = &[
    once("odd copies from the host leave their neighbours", into_device),
    once("odd copies to the host leave their neighbours", out_of_device),
    once_where("odd copies within the device leave their neighbours", within),
    once_where("odd copies from another device leave their neighbours", from_peer),
    once("a list of many regions is copied", many_regions),
    once("a large region is copied", large_region),
    probe("two copies from the host are two", two_copies),
];

/// A copy: where it reads, where it writes, how many bytes.
type OddCopy = (usize, usize, usize);

/// Returns copies whose targets do not overlap, though they come as close as one byte, or as one
/// unit where copies have whole units.
fn odd_copies(unit: usize) -> Vec<OddCopy> {
    let lens = [1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 31, 32, 33, 63, 64, 65, 100, 127];
    let (mut from, mut to) = (3, 1);
    let copies = lens.into_iter().enumerate().map(|(number, len)| {
        let copy = (from * unit, to * unit, len * unit);
        from += len + number % 5;
        to += len + 1 + number % 4;
        copy
    });
    copies.collect()
}

/// The length of the memory in units.
const LEN: usize = 1024;

/// Returns the expected bytes after the copies.
fn copied(before: &[u8], source: &[u8], copies: &[OddCopy]) -> Vec<u8> {
    let mut after = before.to_vec();
    for (from, to, len) in copies {
        after[*to..to + len].copy_from_slice(&source[*from..from + len]);
    }
    after
}

fn regions(source: Spot, target: Spot, copies: &[OddCopy]) -> Vec<Region> {
    let region = |(from, to, len): &OddCopy| Region {
        from: behind(source, *from),
        to: behind(target, *to),
        len: *len as u64,
    };
    copies.iter().map(region).collect()
}

/// Returns the name of the copies for complaints.
fn named(copies: &[OddCopy]) -> String {
    match copies {
        [(from, to, len)] => format!("{len} bytes from byte {from} to byte {to}"),
        _ => format!("{} copies in one list", copies.len()),
    }
}

/// Checks all copies in one list, and then each by itself.
fn each_way(unit: usize, mut check: impl FnMut(&[OddCopy]) -> Verdict) -> Verdict {
    let copies = odd_copies(unit);
    check(&copies)?;
    copies.iter().try_for_each(|copy| check(&[*copy]))
}

fn into_device(scene: &Scene<'_>) -> Verdict {
    let queue = &scene.writer;
    let unit = scene.pace.unit(queue);
    let len = LEN * unit;
    let (_memory, spot) = memory(scene, len)?;
    let (before, source) = (numbered(len, 1), numbered(len, 2));
    each_way(unit, |copies| {
        put(queue, spot, before.clone())?;
        let regions = regions(host(&source, 0), spot, copies);
        // SAFETY: UNS-21: both sides are as long, and the source is kept until the queue was waited
        // for.
        let submitted = unsafe { queue.copy(Route::FromHost, &regions) };
        let landing = submitted
            .map_err(text)
            .and_then(|()| get(queue, spot, copied(&before, &source, copies)));
        queue.keep_until_done(source.clone());
        landing?
            .finish(queue, scene.pace)
            .map_err(|complaint| format!("{}: {complaint}", named(copies)))
    })
}

fn out_of_device(scene: &Scene<'_>) -> Verdict {
    let queue = &scene.writer;
    let unit = scene.pace.unit(queue);
    let len = LEN * unit;
    let (_memory, spot) = memory(scene, len)?;
    let (before, source) = (numbered(len, 3), numbered(len, 4));
    put(queue, spot, source.clone())?;
    each_way(unit, |copies| {
        let landing = Landing::around(before.clone(), copied(&before, &source, copies));
        let regions = regions(spot, landing.spot(), copies);
        // SAFETY: UNS-21: both sides are as long, and the landing keeps the target until the queue
        // has passed.
        unsafe { queue.copy(Route::ToHost, &regions) }.map_err(text)?;
        landing
            .finish(queue, scene.pace)
            .map_err(|complaint| format!("{}: {complaint}", named(copies)))
    })
}

fn within(scene: &Scene<'_>) -> Result<bool, String> {
    let queue = &scene.writer;
    let unit = scene.pace.unit(queue);
    let len = LEN * unit;
    let (_memory, spot) = memory(scene, 2 * len)?;
    let (before, source) = (numbered(len, 5), numbered(len, 6));
    let target = behind(spot, len);
    put(queue, spot, source.clone())?;
    let mut is_made = true;
    each_way(unit, |copies| {
        put(queue, target, before.clone())?;
        is_made &= copy_within(queue, &regions(spot, target, copies))?;
        if !is_made {
            return Ok(());
        }
        let all = [source.clone(), copied(&before, &source, copies)].concat();
        let landing = get(queue, spot, all)?;
        landing
            .finish(queue, scene.pace)
            .map_err(|complaint| format!("{}: {complaint}", named(copies)))
    })?;
    Ok(is_made)
}

fn from_peer(scene: &Scene<'_>) -> Result<bool, String> {
    let Some(queue) = &scene.elsewhere else { return Ok(false) };
    if queue.reaches(scene.device.id()).is_err() {
        return Ok(false);
    }
    let unit = scene.pace.unit(queue).max(scene.pace.unit(&scene.writer));
    let len = LEN * unit;
    let (_memory, spot) = memory(scene, len)?;
    let (before, source) = (numbered(len, 7), numbered(len, 8));
    let mut target: Memory = queue.allocate(len as u64).map_err(text)?;
    let there = target.spot(queue).map_err(text)?;
    put(&scene.writer, spot, source.clone())?;
    scene.pace.synchronize(&scene.writer).map_err(text)?;
    each_way(unit, |copies| {
        put(queue, there, before.clone())?;
        let route = Route::FromPeer(&**scene.device.driver());
        // SAFETY: UNS-21: both sides have as many bytes, and the host waits for the queue below.
        unsafe { queue.copy(route, &regions(spot, there, copies)) }.map_err(text)?;
        let landing = get(queue, there, copied(&before, &source, copies))?;
        landing
            .finish(queue, scene.pace)
            .map_err(|complaint| format!("{}: {complaint}", named(copies)))
    })?;
    Ok(true)
}

fn many_regions(scene: &Scene<'_>) -> Verdict {
    let queue = &scene.writer;
    let unit = scene.pace.unit(queue);
    let copy = |number: usize| (number * 7 * unit, number * 5 * unit, 3 * unit);
    let copies: Vec<OddCopy> = (0..500).map(copy).collect();
    let len = 500 * 7 * unit;
    let (_memory, spot) = memory(scene, len)?;
    let (before, source) = (numbered(len, 9), numbered(len, 10));
    put(queue, spot, before.clone())?;
    let regions = regions(host(&source, 0), spot, &copies);
    let after = copied(&before, &source, &copies);
    // SAFETY: UNS-21: both sides are as long, and the source is kept until the queue has passed.
    let submitted = unsafe { queue.copy(Route::FromHost, &regions) };
    queue.keep_until_done(source);
    submitted.map_err(text)?;
    get(queue, spot, after)?.finish(queue, scene.pace)
}

/// More bytes than fit into one piece, if a driver cuts copies into pieces.
const LARGE: usize = (300 << 10) + 13;

fn large_region(scene: &Scene<'_>) -> Verdict {
    let queue = &scene.writer;
    let len = scene.pace.whole(queue, LARGE);
    let ((_one, first), (_two, second)) = (memory(scene, len)?, memory(scene, len)?);
    let bytes = numbered(len, 11);
    put(queue, first, bytes.clone())?;
    let region = Region { from: first, to: second, len: len as u64 };
    if !copy_within(queue, &[region])? {
        put(queue, second, bytes.clone())?;
    }
    for spot in [first, second] {
        get(queue, spot, bytes.clone())?.finish(queue, scene.pace)?;
    }
    Ok(())
}

/// Checks two copies in flight, which may share the driver's staging memory.
fn two_copies(scene: &Scene<'_>) -> Verdict {
    let queue: &Queue = &scene.writer;
    let ((_one, first), (_two, second)) = (memory(scene, LEN)?, memory(scene, LEN)?);
    let (one, two) = (numbered(LEN, 12), numbered(LEN, 13));
    write_slowly(scene, first, &one)?;
    put(queue, second, two.clone())?;
    let landings = [get(queue, first, one)?, get(queue, second, two)?];
    scene.pace.synchronize(queue).map_err(text)?;
    let landed = landings.iter().all(Landing::has_landed);
    require(landed, || "two copies that were in flight at once are mixed up".into())?;
    landings.into_iter().try_for_each(|landing| landing.finish(queue, scene.pace))
}
