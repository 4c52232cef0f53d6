//! Copies through staging buffers of a bounded size, for drivers whose queues cannot reach plain
//! host memory.
//!
//! [`staged_groups`] goes through the regions of a copy in their order and fills one staging buffer
//! after the other. A region that does not fit into what is left of a buffer is cut: its first part
//! fills the buffer, and the rest goes on in the next. No bytes are left out, and nothing is copied
//! here.

use super::driver::{Region, Spot};

/// Regions that pass through one staging buffer: see [`staged_groups`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StagedGroup {
    /// The regions, each with the place of its bytes in the staging buffer.
    pub regions: Vec<(Region, u64)>,
    /// How many bytes of the staging buffer are used: whole units.
    pub len: u64,
}

/// Divides the regions of a copy among staging buffers of at most `limit` bytes.
///
/// The bytes of each region begin in the staging buffer at a multiple of `unit`. Regions that are
/// too long are cut, at multiples of the unit. Regions without bytes are left out. `unit` is at
/// least 1, and `limit` is a multiple of it. A place that lies behind the last address counts from
/// address 0, as if it had wrapped around.
///
/// ```
/// use arrow_device::driver::{Raw, Region, Spot, staged_groups};
///
/// let at = |offset| Spot { base: Raw::from_bits(64), offset };
/// let region = |offset, len| Region { from: at(offset), to: at(offset + 100), len };
/// let groups = staged_groups(&[region(0, 5), region(8, 21)], 16, 4);
/// assert_eq!(groups[0].regions, [(region(0, 5), 0), (region(8, 8), 8)]);
/// assert_eq!(groups[1].regions, [(region(16, 13), 0)]);
/// assert_eq!(groups[1].len, 16);
/// ```
pub fn staged_groups(regions: &[Region], limit: u64, unit: u64) -> Vec<StagedGroup> {
    let unit = unit.max(1);
    let limit = (limit - limit % unit).max(unit);
    let (mut groups, mut group) = (Vec::new(), StagedGroup::default());
    for region in regions {
        let mut done = 0;
        while done < region.len {
            if group.len >= limit {
                groups.push(std::mem::take(&mut group));
            }
            let len = (region.len - done).min(limit - group.len);
            let behind = |spot: Spot| Spot { offset: spot.offset.wrapping_add(done), ..spot };
            let part = Region { from: behind(region.from), to: behind(region.to), len };
            group.regions.push((part, group.len));
            group.len += len.next_multiple_of(unit);
            done += len;
        }
    }
    if !group.regions.is_empty() {
        groups.push(group);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::driver::Raw;

    fn region(offset: u64, len: u64) -> Region {
        let at = |bits, offset| Spot { base: Raw::from_bits(bits), offset };
        Region { from: at(64, offset), to: at(4096, offset + 3), len }
    }

    /// Lists of regions, limits and units, with edges among them.
    fn for_each(check: impl Fn(&[Region], u64, u64)) {
        let lens = [0, 1, 3, 4, 5, 16, 17, 100];
        for unit in [1, 4, 16] {
            for limit in [unit, 2 * unit, 48] {
                for (first, second) in lens.iter().flat_map(|one| lens.map(|two| (*one, two))) {
                    let regions = [region(0, first), region(7, 0), region(200, second)];
                    check(&regions, limit, unit);
                }
            }
        }
    }

    #[test]
    fn every_byte_is_in_one_group_and_in_its_order() {
        for_each(|regions, limit, unit| {
            let bytes = |region: &Region| {
                let (from, to) = (region.from.offset, region.to.offset);
                (0..region.len).map(move |at| (from + at, to + at)).collect::<Vec<_>>()
            };
            let groups = staged_groups(regions, limit, unit);
            let parts = groups.iter().flat_map(|group| &group.regions);
            let found: Vec<_> = parts.flat_map(|(part, _)| bytes(part)).collect();
            let expected: Vec<_> = regions.iter().flat_map(bytes).collect();
            assert_eq!(found, expected, "{regions:?} {limit} {unit}");
        });
    }

    #[test]
    fn numbers_at_the_ends_of_their_range_are_no_panic() {
        let ends = [0, 1, 3, u64::MAX - 1, u64::MAX];
        for (len, limit, unit) in [(20, 16, 4), (20, 18, 4), (20, 0, 0), (1 << 40, u64::MAX, 7)] {
            for offset in ends {
                let at = |bits| Spot { base: Raw::from_bits(bits), offset };
                let region = Region { from: at(64), to: at(4096), len };
                let groups = staged_groups(&[region], limit, unit);
                let parts = groups.iter().flat_map(|group| &group.regions);
                assert_eq!(parts.map(|(part, _)| part.len).sum::<u64>(), len);
            }
        }
        let large = Region { len: u64::MAX, ..region(0, 0) };
        assert_eq!(staged_groups(&[large], u64::MAX, 1).len(), 1);
    }

    #[test]
    fn places_in_a_group_are_units_apart_and_within_the_limit() {
        for_each(|regions, limit, unit| {
            for group in staged_groups(regions, limit, unit) {
                let mut end = 0;
                for (part, place) in &group.regions {
                    assert!(part.len > 0 && *place == end, "{regions:?} {limit} {unit}");
                    end += part.len.next_multiple_of(unit);
                }
                assert!(group.len == end && end <= limit, "{regions:?} {limit} {unit}");
            }
        });
    }

    #[test]
    fn no_group_is_begun_before_the_last_one_is_full() {
        for_each(|regions, limit, unit| {
            let groups = staged_groups(regions, limit, unit);
            let full = groups.iter().rev().skip(1);
            assert!(full.into_iter().all(|group| group.len == limit), "{regions:?} {limit} {unit}");
        });
    }
}
