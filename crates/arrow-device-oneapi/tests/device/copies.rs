//! Copies and tensors. That arrays and streams have their values after a copy to oneAPI from any
//! other device, and back, is tested in `device-pairs`.

use arrow_device_testkit::tensors::{conversions, matrix};
use arrow_device_testkit::trips;

use crate::support;

#[test]
fn threads_share_a_device() {
    let Some(device) = support::device() else { return };
    trips::threads_share_a_device(&device, 25);
}

// Requirement: SAF-21
#[test]
fn polled_copies_need_nobody_who_waits() {
    let Some(device) = support::device() else { return };
    trips::polled_copies_need_nobody_who_waits(&device.open_queue().unwrap(), 60);
}

// Requirement: SAF-5
#[test]
fn threads_read_one_array() {
    let Some(device) = support::device() else { return };
    let queue = device.open_queue().unwrap();
    for threads in [2, 8] {
        trips::threads_read_one_array(&queue, threads, 40);
    }
}

// Requirement: DLP-4
#[test]
fn tensors_of_every_type_come_back_in_every_layout() {
    let Some(device) = support::device() else { return };
    let queue = device.open_queue().unwrap();
    // 20 types, 9 layouts, 2 forms.
    assert_eq!(matrix::run(&queue, &matrix::DTYPES), 360);
}

// Requirement: DLP-4, DLP-5
#[test]
fn arrays_and_tensors_have_the_same_values() {
    let Some(device) = support::device() else { return };
    conversions::run(&device.open_queue().unwrap());
}

#[test]
fn a_part_of_a_large_column_moves_little() {
    let Some(device) = support::device() else { return };
    trips::a_part_of_a_large_column_moves_little(&device.open_queue().unwrap());
}
