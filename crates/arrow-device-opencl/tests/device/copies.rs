//! Copies and tensors on OpenCL. That arrays and streams have their values after a copy to OpenCL from any other device, and
//! back, is tested in `device-pairs`.

use crate::support;
use arrow_device::copy::Options;
use arrow_device::{Array, DataType, Queue};
use arrow_device_testkit::generate::{self, Generated};
use arrow_device_testkit::oracle;
use arrow_device_testkit::tensors::{conversions, matrix};
use arrow_device_testkit::trips::{assert_is, built};

#[test]
fn threads_share_a_device() {
    let Some(device) = support::device() else { return };
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let device = &device;
            scope.spawn(move || {
                let queue = device.open_queue().unwrap();
                for Generated { plan, .. } in generate::samples(25, seed) {
                    let (array, expected) = built(&plan);
                    let there = array.copy_to(&queue).unwrap();
                    assert_is(&there.to_host().unwrap(), &expected, &format!("thread {seed}"));
                }
            });
        }
    });
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
    let queue = device.open_queue().unwrap();
    let values = (0..1_000_000).map(Some);
    let column = Array::from_values(DataType::Int32, values).unwrap().copy_to(&queue).unwrap();
    let part = column.slice(777_777, 10).unwrap();
    let plan = part.plan_copy(&Queue::host(), &Options::new()).unwrap();
    assert!(plan.bytes() < 1000, "{plan}");
    let found = plan.run().unwrap();
    let expected = Array::from_values(DataType::Int32, (777_777..777_787).map(Some)).unwrap();
    let expected = oracle::plan_of(&expected).unwrap();
    oracle::require_equal(&expected, &oracle::plan_of(&found).unwrap()).unwrap();
}
