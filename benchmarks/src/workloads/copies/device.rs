//! From the host to OpenCL, Vulkan and WebGPU, beside those who do it by hand with the same driver.
//!
//! Everybody fills memory that was used before, since fresh memory costs more in page faults than
//! the copy does, and ends when the data is there. Only some make a handle for each column, which
//! an array needs and a copy does not; it is said of those who do. This library keeps them with the
//! memory, and makes them where it is divided otherwise than before.

use arrow_device::{Batch, Device, Recycler};

use super::{integers, opencl, settle, vulkan, webgpu};
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
    if let Some(device) = wgpu_native() {
        for rows in [512, 8192] {
            let what = ("copy host to WebGPU", shape, rows as u64);
            cases.extend(ours(what, &device, rows));
            cases.extend(webgpu::fills(what, &device, move || integers(COLUMNS, rows)));
            let what = ("copy WebGPU to host", shape, rows as u64);
            cases.push(back(what, &device, rows));
            cases.extend(webgpu::reads(what, &device, move || integers(COLUMNS, rows)));
        }
    }
    let bytes = |case: Case| {
        let bytes = COLUMNS as u64 * case.size * 8;
        case.moving(bytes)
    };
    cases.into_iter().map(bytes).collect()
}

/// The first device of wgpu-native, whose own functions the others use.
fn wgpu_native() -> Option<Device> {
    let named = std::env::var("ARROW_DEVICE_WEBGPU_LIBRARY");
    let is_other = named.is_ok_and(|named| !named.contains("wgpu"));
    if is_other { None } else { arrow_device_webgpu::open(0).ok() }
}

/// A copy of the batch from the device to the host.
fn back(what: WorkloadKey, device: &Device, rows: usize) -> Case {
    let queue = device.open_queue().unwrap();
    let mut made = None;
    let there = move || {
        let there = || integers(COLUMNS, rows).copy_to(&queue).unwrap();
        made.get_or_insert_with(there).clone()
    };
    let timed = |there: Batch| there.as_array().to_host().unwrap();
    Case::step(what, Peer::ArrowDevice, there, timed, drop)
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
