//! Copies of whole batches: on the host, to devices, between devices.
//!
//! A case of a device is timed until the data is there and the host knows. What a copy leaves to be
//! released is released afterwards, untimed, as it is for those who do it by hand.

mod ahead;
mod by_hand;
mod counted;
mod device;
mod host;
#[cfg(feature = "peers")]
mod native;
mod opencl;
mod pairs;
mod vulkan;
mod webgpu;

pub(super) use counted::{COUNTED, count_on_device, count_on_simulated};

use arrow_device::{Array, Batch, DataType};

use crate::case::Case;

pub(super) fn cases() -> Vec<Case> {
    [host::cases(), device::cases(), ahead::cases(), pairs::cases()].into_iter().flatten().collect()
}

/// Columns of numbers, no two of the same memory: what occurs twice would move once.
pub(super) fn integers(columns: usize, rows: usize) -> Batch {
    let column = |index: usize| {
        let values = (0..rows).map(|row| Some((index * rows + row) as i64));
        (format!("c{index}"), Array::from_values(DataType::Int64, values).unwrap())
    };
    Batch::from_columns((0..columns).map(column)).unwrap()
}

/// Columns of short texts, cut out of longer ones so that their offsets have to change.
pub(super) fn texts(columns: usize, rows: usize) -> Batch {
    let column = |index: usize| {
        let values = (0..rows + 2).map(|row| Some(format!("{index}, {row}")));
        let column = Array::from_texts(DataType::Utf8, values).unwrap();
        (format!("c{index}"), column.slice(1, rows).unwrap())
    };
    Batch::from_columns((0..columns).map(column)).unwrap()
}

/// Releases all that waited for its last use, so that the next turn begins as this one did.
pub(super) fn settle() {
    while !arrow_device::deferred::held_back().is_nothing() {
        arrow_device::deferred::release_finished();
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests;
