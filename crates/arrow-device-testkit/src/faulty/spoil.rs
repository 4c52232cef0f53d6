//! Lists of copies as a fault spoils them. A spoiled list stays inside the memory that the caller
//! named or that the wrapper knows.

use arrow_device::Memory;
use arrow_device::driver::{Properties, Raw, Region, Route, Spot};

use super::Fault;
use super::blocks::Blocks;

/// The bytes behind a copy from the host whose length is rounded up.
static PADDING: [u8; 64] = [0xee; 64];

/// The length to which a faulty driver rounds: four bytes, or two units of a device that copies
/// whole units.
fn word_of(properties: &Properties) -> u64 {
    match properties.copy_unit {
        1 => 4,
        unit => (2 * unit).min(PADDING.len() as u64),
    }
}

/// How many bytes of a region arrive where only the first chunk does.
const CHUNK: u64 = 64 << 10;

/// Whether the source and the target of a route are on a device.
fn sides(route: &Route<'_>) -> (bool, bool) {
    (!matches!(route, Route::FromHost), !matches!(route, Route::ToHost))
}

/// Returns the list as a driver with this fault copies it.
pub(super) fn spoiled(
    fault: Option<Fault>,
    route: &Route<'_>,
    regions: &[Region],
    blocks: &Blocks,
    properties: &Properties,
) -> Vec<Region> {
    let (addressing, word) = (properties.addressing, word_of(properties));
    let is_lost = match fault {
        Some(Fault::CopyIn) => matches!(route, Route::FromHost),
        Some(Fault::CopyOut) => matches!(route, Route::ToHost),
        Some(Fault::CopyWithin) => matches!(route, Route::Within),
        Some(Fault::CopyPeer) => matches!(route, Route::FromPeer(_)),
        _ => false,
    };
    if is_lost {
        return Vec::new();
    }
    let (from_device, to_device) = sides(route);
    let remaining =
        |spot: Spot| blocks.place(spot, addressing).map_or(0, |place| place.remaining());
    let mut left = regions.to_vec();
    let first = regions.first().map_or(0, |region| region.len);
    match fault {
        Some(Fault::RoundedUp) if to_device => {
            for region in regions {
                let Region { from, to, len } = *region;
                let missing = len.next_multiple_of(word) - len;
                let room = remaining(to).saturating_sub(len);
                let behind = |spot: Spot| Spot { offset: spot.offset + len, ..spot };
                let (from, room) = if from_device {
                    (behind(from), room.min(remaining(from).saturating_sub(len)))
                } else {
                    (Spot { base: address_of(&PADDING), offset: 0 }, room)
                };
                left.push(Region { from, to: behind(to), len: missing.min(room) });
            }
        }
        Some(Fault::RoundedDown) => {
            let down = |spot: Spot| {
                let begin = blocks.place(spot, addressing).map_or(0, |place| place.begin);
                back(spot, begin % word)
            };
            for region in &mut left {
                if from_device {
                    region.from = down(region.from);
                }
                if to_device {
                    region.to = down(region.to);
                }
            }
        }
        Some(Fault::Shifted) => {
            for region in left.iter_mut().filter(|region| region.len > 1) {
                region.to.offset += 1;
                region.len -= 1;
            }
        }
        Some(Fault::TornTail) => left.iter_mut().for_each(|region| region.len -= region.len % word),
        Some(Fault::FirstChunk) => {
            left.iter_mut().for_each(|region| region.len = region.len.min(CHUNK));
        }
        Some(Fault::FirstRegion) => left.truncate(1),
        Some(Fault::RegionLengths) => {
            left.iter_mut().for_each(|region| region.len = region.len.min(first));
        }
        _ => {}
    }
    left.retain(|region| region.len > 0);
    left
}

fn address_of(bytes: &'static [u8]) -> Raw<Memory> {
    Raw::from_ptr(bytes.as_ptr().cast_mut().cast())
}

/// Returns the spot `bytes` bytes before another one.
fn back(spot: Spot, bytes: u64) -> Spot {
    match spot.offset.checked_sub(bytes) {
        Some(offset) => Spot { offset, ..spot },
        None => {
            let base = spot.base.as_ptr().wrapping_byte_sub((bytes - spot.offset) as usize);
            Spot { base: Raw::from_ptr(base), offset: 0 }
        }
    }
}
