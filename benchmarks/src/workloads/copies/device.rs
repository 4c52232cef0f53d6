//! From the host to OpenCL and to Vulkan, beside those who do it by hand with the same driver.
//!
//! Everybody fills memory that was used before, since fresh memory costs more in page faults than the copy does, and ends when
//! the data is there. Only some make a handle for each column, which an array needs and a copy does not; it is said of those
//! who do. This library makes them.

use arrow_device::{Batch, Device, Recycler};

use super::{integers, opencl, settle, vulkan};
use crate::case::{Case, Peer};

const COLUMNS: usize = 1000;

/// A workload, its shape and how many rows.
pub(super) type What = (&'static str, &'static str, u64);

pub(super) fn cases() -> Vec<Case> {
    let shape = "1000 columns of int64";
    let mut cases = Vec::new();
    if let Ok(device) = arrow_device_opencl::open(0) {
        for rows in [512, 8192] {
            let what = ("copy host to OpenCL", shape, rows as u64);
            cases.push(ours(what, device.clone(), rows));
            cases.extend(opencl::by_hand(what, move || integers(COLUMNS, rows)));
        }
    }
    if let Ok(device) = arrow_device_vulkan::open(0) {
        for rows in [512, 8192] {
            let what = ("copy host to Vulkan", shape, rows as u64);
            cases.push(ours(what, device.clone(), rows));
            cases.extend(vulkan::by_hand(what, &device, move || integers(COLUMNS, rows)));
        }
    }
    let bytes = |case: Case| {
        let bytes = COLUMNS as u64 * case.size * 8;
        case.moving(bytes)
    };
    cases.into_iter().map(bytes).collect()
}

fn ours(what: What, device: Device, rows: usize) -> Case {
    let queue = device.with_allocator(Recycler::new(256 << 20)).open_queue().unwrap();
    let mut made = None;
    let batch = move || made.get_or_insert_with(|| integers(COLUMNS, rows)).clone();
    let timed = move |batch: Batch| {
        let there = batch.copy_to(&queue).unwrap();
        there.as_array().wait().unwrap();
        there
    };
    let after = |there| {
        drop(there);
        settle();
    };
    Case::step(what, Peer::ArrowDevice, batch, timed, after)
}
