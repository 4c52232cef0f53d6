//! A page whose GPU is the host's memory, for other targets than WebAssembly.
//!
//! Writes are taken when they are submitted, as `writeBuffer` takes them. All work is done, in
//! order, in the next [`turn`], and marks are reached at its end.

use std::collections::{HashMap, VecDeque};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::driver::{PageRegion, Way};

/// Work of a device.
enum Work {
    Write { bytes: Vec<u8>, to: u64, at: u64 },
    Copy(PageRegion),
    Read(PageRegion),
    Mark(u64),
    Destroy(u32),
}

#[derive(Default)]
struct StandIn {
    made: u32,
    marks: u64,
    /// The last mark of each device behind which nothing was submitted.
    latest: HashMap<u32, u64>,
    buffers: HashMap<u64, Vec<u8>>,
    work: VecDeque<(u32, Work)>,
}

static PAGE: LazyLock<Mutex<StandIn>> = LazyLock::new(Mutex::default);

fn page() -> MutexGuard<'static, StandIn> {
    PAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn create(_device: u32, size: f64) -> u32 {
    let mut page = page();
    page.made += 1;
    let number = page.made;
    // Not zeros, so that a missing copy shows.
    page.buffers.insert(number.into(), vec![0xa5; size as usize]);
    number
}

pub(crate) fn destroy(buffer: u32) {
    page().work.push_back((0, Work::Destroy(buffer)));
}

pub(crate) fn size(buffer: u32) -> f64 {
    page().buffers.get(&u64::from(buffer)).map_or(-1.0, |bytes| bytes.len() as f64)
}

pub(crate) fn mark(device: u32) -> f64 {
    let mut page = page();
    page.marks += 1;
    let mark = page.marks;
    page.work.push_back((device, Work::Mark(mark)));
    page.latest.insert(device, mark);
    mark as f64
}

pub(crate) fn latest(device: u32) -> f64 {
    let latest = page().latest.get(&device).copied();
    latest.map_or_else(|| mark(device), |mark| mark as f64)
}

/// Submits copies.
///
/// # Safety
/// UNS-21 and UNS-22 hold for the regions.
pub(crate) unsafe fn copy(device: u32, way: Way, regions: *const PageRegion, count: usize) {
    // SAFETY: the caller gives a table of this many regions.
    let regions = unsafe { std::slice::from_raw_parts(regions, count) };
    for region in regions {
        let work = match way {
            Way::Up => {
                let from = host_address(region.from, region.from_offset);
                // SAFETY: UNS-21, which the caller keeps: the source has `len` bytes.
                let bytes = unsafe { std::slice::from_raw_parts(from, region.len as usize) };
                Work::Write { bytes: bytes.to_vec(), to: region.to, at: region.to_offset }
            }
            Way::Down => Work::Read(*region),
            Way::Within => Work::Copy(*region),
        };
        let mut page = page();
        page.work.push_back((device, work));
        page.latest.remove(&device);
    }
}

fn host_address(base: u64, offset: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut((base + offset) as usize)
}

/// Does the work of this device that was submitted by now, and of other devices in front of it.
/// Returns the last mark of the device.
pub(crate) fn turn(device: u32) -> Option<u64> {
    let mut page = page();
    let mut last = None;
    while let Some((of, work)) = page.work.pop_front() {
        match work {
            Work::Write { bytes, to, at } => page.write(to, at, &bytes),
            Work::Copy(region) => {
                let bytes = page.part(region.from, region.from_offset, region.len);
                page.write(region.to, region.to_offset, &bytes);
            }
            Work::Read(region) => {
                let bytes = page.part(region.from, region.from_offset, region.len);
                let to = host_address(region.to, region.to_offset);
                // SAFETY: UNS-21, which the caller of `copy` keeps: the destination has `len` bytes
                // until the queue has passed the copy.
                unsafe { bytes.as_ptr().copy_to_nonoverlapping(to, bytes.len()) };
            }
            Work::Mark(mark) if of == device => last = Some(mark),
            Work::Mark(_) => {}
            Work::Destroy(buffer) => {
                page.buffers.remove(&buffer.into());
            }
        }
    }
    last
}

/// How many buffers there are.
pub(crate) fn buffer_count() -> usize {
    page().buffers.len()
}

impl StandIn {
    fn part(&self, buffer: u64, at: u64, len: u64) -> Vec<u8> {
        assert_eq!(at % 4, 0, "a copy begins between two units");
        self.buffers[&buffer][at as usize..(at + len) as usize].to_vec()
    }

    fn write(&mut self, buffer: u64, at: u64, bytes: &[u8]) {
        assert_eq!(at % 4, 0, "a copy begins between two units");
        let buffer = self.buffers.get_mut(&buffer).expect("a buffer that was made");
        buffer[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }
}
