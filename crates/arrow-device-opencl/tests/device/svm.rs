//! Shared virtual memory. Each test has a process of its own: one device is opened with one kind of
//! memory.

use arrow_device::copy::Options;
use arrow_device::driver::Addressing;
use arrow_device::{Device, ErrorKind, Queue};
use arrow_device_opencl::Kind;
use arrow_device_testkit::generate;
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::oracle;
use arrow_device_testkit::process;
use arrow_device_testkit::suite::{Check, Suite};
use arrow_device_testkit::tensors::matrix;

use crate::support;

/// Opens it, where the driver has it.
fn device() -> Option<Device> {
    support::device_with(Kind::Svm)
}

// Requirement: SYS-1, ARR-5, ARR-16, ARR-20
#[test]
fn shared_virtual_memory_passes() {
    process::alone(|| {
        let Some(device) = device() else { return };
        assert_eq!(device.properties().addressing, Addressing::Address);
        let report = Suite::new(&device).run();
        report.assert();
        let skipped: Vec<Check> = report.skipped().map(|(check, _)| check).collect();
        assert_eq!(skipped, [Check::AnotherDevice]);
        assert_eq!(report.cases(), 8 * 1598 + 32);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn shared_virtual_memory_that_other_processes_can_open_passes() {
    process::alone(|| {
        let Some(device) = support::shareable_with(Kind::Svm) else { return };
        let report = Suite::new(&device).run();
        report.assert();
        let skipped: Vec<Check> = report.skipped().map(|(check, _)| check).collect();
        assert_eq!(skipped, [Check::AnotherDevice]);
        assert_eq!(report.cases(), 8 * 1598 + 32);
    });
}

#[test]
fn arbitrary_arrays_come_back() {
    process::alone(|| {
        let Some(device) = device() else { return };
        let queue = device.open_queue().unwrap();
        for sample in generate::samples(60, 5) {
            let array = generate::build(&sample.plan, &Ledger::new()).unwrap();
            let there = array.copy_to(&queue).unwrap();
            let again = there.copy_with(&queue, &Options::new().always(true)).unwrap();
            let back = again.copy_to(&Queue::host()).unwrap();
            let [expected, found] = [&array, &back].map(|array| oracle::plan_of(array).unwrap());
            oracle::require_equal(&expected, &found).unwrap();
        }
    });
}

// Requirement: DLP-4
#[test]
fn tensors_of_every_type_come_back_in_every_layout() {
    process::alone(|| {
        let Some(device) = device() else { return };
        let queue = device.open_queue().unwrap();
        assert_eq!(matrix::run(&queue, &matrix::DTYPES), 360);
    });
}

#[test]
fn a_process_opens_a_device_with_one_kind_of_memory() {
    process::alone(|| {
        let Some(_device) = device() else { return };
        let refused = arrow_device_opencl::open(0).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.message().contains("Svm"), "{refused}");
    });
}

#[test]
fn more_than_there_is_is_out_of_memory() {
    process::alone(|| {
        let Some(device) = device() else { return };
        assert_eq!(device.allocate(1 << 50).unwrap_err().kind(), ErrorKind::OutOfMemory);
    });
}
