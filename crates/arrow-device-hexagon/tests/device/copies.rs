//! Copies and tensors. That arrays and streams have their values after a copy from any other
//! device, and back, is tested in `device-pairs`.

use arrow_device::{Array, DataType, Device, ErrorKind, copy::Options};
use arrow_device_testkit::process::alone;
use arrow_device_testkit::tensors::{conversions, matrix};
use arrow_device_testkit::trips;
use simulated_hexagon::Work;

use crate::support;

/// A device without a ring, and one with a ring that is busy.
fn each(test: impl Fn(&Device)) {
    test(&support::device());
    let Some((dsp, device)) = support::with_ring() else { return };
    dsp.submit(Work::Spin(1_000_000));
    test(&device);
}

#[test]
fn threads_share_a_device() {
    each(|device| trips::threads_share_a_device(device, 25));
}

// Requirement: SAF-5
#[test]
fn threads_read_one_array() {
    each(|device| trips::threads_read_one_array(&device.open_queue().unwrap(), 4, 40));
}

// Requirement: SAF-21
#[test]
fn polled_copies_need_nobody_who_waits() {
    alone(|| {
        let queue = support::device().open_queue().unwrap();
        trips::polled_copies_need_nobody_who_waits(&queue, 60);
    });
}

#[test]
fn polled_copies_to_a_ring_are_refused() {
    let Some((_dsp, device)) = support::with_ring() else { return };
    let queue = device.open_queue().unwrap();
    let array = Array::from_values(DataType::Int32, [Some(1), Some(2)]).unwrap();
    let refused = array.copy_polled(&queue, &Options::new()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
}

// Requirement: DLP-4
#[test]
fn tensors_of_every_type_come_back_in_every_layout() {
    // 20 types, 9 layouts, 2 forms.
    each(|device| {
        assert_eq!(matrix::run(&device.open_queue().unwrap(), &matrix::DTYPES), 360);
    });
}

// Requirement: DLP-4, DLP-5
#[test]
fn arrays_and_tensors_have_the_same_values() {
    each(|device| conversions::run(&device.open_queue().unwrap()));
}

#[test]
fn a_part_of_a_large_column_moves_little() {
    each(|device| {
        trips::a_part_of_a_large_column_moves_little(&device.open_queue().unwrap());
    });
}
