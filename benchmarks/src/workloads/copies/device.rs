//! From the host to OpenCL and to Vulkan, beside those who do it by hand with the same driver.
//!
//! Everybody fills memory that was used before, since fresh memory costs more in page faults than
//! the copy does, and ends when the data is there. Only some make a handle for each column, which
//! an array needs and a copy does not; it is said of those who do. This library keeps them with the
//! memory, and makes them where it is divided otherwise than before.

use arrow_device::{Batch, Device, Recycler};

use super::{integers, opencl, settle, vulkan};
use crate::case::{Case, Peer, WorkloadKey};

const COLUMNS: usize = 1000;

pub(super) fn cases() -> Vec<Case> {
    let shape = "1000 columns of int64";
    let mut cases = Vec::new();
    if let Ok(device) = arrow_device_opencl::open(0) {
        for rows in [512, 8192] {
            let what = ("copy host to OpenCL", shape, rows as u64);
            cases.extend(ours(what, &device, rows));
            cases.extend(opencl::by_hand(what, move || integers(COLUMNS, rows)));
        }
    }
    if let Ok(device) = arrow_device_vulkan::open(0) {
        for rows in [512, 8192] {
            let what = ("copy host to Vulkan", shape, rows as u64);
            cases.extend(ours(what, &device, rows));
            cases.extend(vulkan::by_hand(what, &device, move || integers(COLUMNS, rows)));
        }
    }
    let bytes = |case: Case| {
        let bytes = COLUMNS as u64 * case.size * 8;
        case.moving(bytes)
    };
    cases.into_iter().map(bytes).collect()
}

/// Batches of as many rows each time, as a stream has them; and the same where each has a row more
/// or less than the one before, so that no handle fits again.
fn ours(what: WorkloadKey, device: &Device, rows: usize) -> [Case; 2] {
    let changing = Peer::ArrowDeviceFrom("other handles each time");
    [(Peer::ArrowDevice, [rows, rows]), (changing, [rows, rows - 1])].map(|(peer, rows)| {
        let device = device.with_allocator(Recycler::new(256 << 20));
        let queue = device.open_queue().unwrap();
        let (mut made, mut turn) = ([None, None], 0);
        let batch = move || {
            turn = usize::from(turn == 0 && rows[1] != rows[0]);
            made[turn].get_or_insert_with(|| integers(COLUMNS, rows[turn])).clone()
        };
        let timed = move |batch: Batch| {
            let there = batch.copy_to(&queue).unwrap();
            there.as_array().wait().unwrap();
            there
        };
        let after = |there| {
            drop(there);
            settle();
        };
        Case::step(what, peer, batch, timed, after)
    })
}
