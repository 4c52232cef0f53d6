//! Memory of the host and shared memory, beside memory of the device. Each test has a process of
//! its own: one device is opened with several kinds of memory.

use arrow_device::driver::{HostAccess, Raw, Spot};
use arrow_device::{Array, DataType, ErrorKind};
use arrow_device_oneapi::{Kind, open_with};
use arrow_device_testkit::tensors::matrix;
use arrow_device_testkit::trips::imported;
use arrow_device_testkit::{generate, ledger::Ledger, oracle, process};

use crate::support::{self, runtime};

const KINDS: [Kind; 3] = [Kind::Device, Kind::Host, Kind::Shared];

#[test]
fn arbitrary_arrays_come_back_from_each_kind() {
    process::alone(|| {
        for kind in KINDS {
            let Some(device) = support::device_with(0, kind) else { return };
            let queue = device.open_queue().unwrap();
            for sample in generate::samples(40, 5) {
                let array = generate::build(&sample.plan, &Ledger::new()).unwrap();
                let back = array.copy_to(&queue).unwrap().to_host().unwrap();
                let [expected, found] =
                    [&array, &back].map(|array| oracle::plan_of(array).unwrap());
                oracle::require_equal(&expected, &found).unwrap();
            }
        }
        runtime().assert_no_mistakes();
    });
}

// Requirement: DLP-4
#[test]
fn tensors_of_every_type_come_back_from_each_kind() {
    process::alone(|| {
        for kind in [Kind::Host, Kind::Shared] {
            let Some(device) = support::device_with(0, kind) else { return };
            let queue = device.open_queue().unwrap();
            assert_eq!(matrix::run(&queue, &matrix::DTYPES), 360);
        }
    });
}

#[test]
fn the_host_reads_memory_of_the_host_where_it_lies() {
    process::alone(|| {
        for kind in [Kind::Host, Kind::Shared] {
            let Some(device) = support::device_with(0, kind) else { return };
            let queue = device.open_queue().unwrap();
            let array = Array::from_values(DataType::Int32, [Some(5), None, Some(7)]).unwrap();
            let there = array.copy_to(&queue).unwrap();
            there.wait().unwrap();
            if device.properties().host_access == HostAccess::None {
                assert_eq!(there.host().unwrap_err().kind(), ErrorKind::Unsupported);
                continue;
            }
            let read = there.host().unwrap();
            let bytes = read.buffer(1).unwrap();
            let address = there.on(&queue).unwrap().buffer(1).location().spot().base.bits();
            assert_eq!(bytes.as_ptr().addr(), address);
            assert_eq!(bytes.get(8..12).unwrap(), 7_i32.to_ne_bytes());
        }
    });
}

/// The C struct does not tell the kind, so a driver is also given memory of the other kinds.
// Requirement: DRV-24
#[test]
fn an_imported_array_may_have_any_kind_of_memory() {
    process::alone(|| {
        if !support::is_there() {
            return;
        }
        let devices = KINDS.map(|kind| open_with(0, kind).unwrap());
        let array = Array::from_values(DataType::Int32, (0..1000).map(Some)).unwrap();
        for maker in &devices {
            let made = array.copy_to(&maker.open_queue().unwrap()).unwrap();
            for kind in KINDS {
                // The device that was opened last is the one that an imported array is given to.
                let reader = open_with(0, kind).unwrap();
                let foreign = imported(&made);
                assert!(foreign.to_host().unwrap().equals(&array).unwrap());
                let queue = reader.open_queue().unwrap();
                let again =
                    foreign.copy_with(&queue, &arrow_device::copy::Options::new().always(true));
                assert!(again.unwrap().to_host().unwrap().equals(&array).unwrap());
                if reader.properties().host_access == HostAccess::Mapped {
                    let view = foreign.on(&queue).unwrap();
                    let spot = view.buffer(1).location().spot();
                    foreign.wait().unwrap();
                    let mapped = unsafe { reader.driver().map(spot, 4000) }.unwrap();
                    let last = unsafe { mapped.add(3996).cast::<[u8; 4]>().read() };
                    assert_eq!(i32::from_ne_bytes(last), 999);
                    unsafe { reader.driver().unmap(spot, 4000, mapped) };
                }
            }
        }
        runtime().assert_no_mistakes();
    });
}

// Requirement: DRV-6
#[test]
fn memory_of_others_is_not_said_to_be_mapped_in_place() {
    process::alone(|| {
        if !support::is_there() {
            return;
        }
        let device = open_with(0, Kind::Host).unwrap();
        let queue = device.open_queue().unwrap();
        let mut memory = queue.allocate(64).unwrap();
        let Spot { base, .. } = memory.spot(&queue).unwrap();
        assert!(device.driver().maps_in_place(base));
        assert!(device.driver().maps_in_place(Raw::from_ptr(base.as_ptr().wrapping_byte_add(63))));
        assert!(!device.driver().maps_in_place(Raw::from_ptr(base.as_ptr().wrapping_byte_add(64))));
        assert!(!device.driver().maps_in_place(Raw::NULL));
    });
}

/// The host may not touch the shared memory of such a device while work uses any part of it.
#[test]
fn shared_memory_that_the_device_may_be_using_is_copied_for_the_host() {
    process::alone(|| {
        if support::simulated().is_none() {
            return;
        }
        let maker = open_with(1, Kind::Shared).unwrap();
        assert_eq!(maker.properties().host_access, HostAccess::None);
        let queue = maker.open_queue().unwrap();
        let array = Array::from_values(DataType::Int32, [Some(1), None, Some(3)]).unwrap();
        let there = array.copy_to(&queue).unwrap();
        let address = there.on(&queue).unwrap().buffer(1).location().spot();
        let address = address.base.bits() + address.offset as usize;
        let _reader = open_with(1, Kind::Host).unwrap();
        let host = there.host().unwrap();
        let shown = host.buffer(1).unwrap();
        assert_ne!(shown.as_ptr().addr(), address);
        assert_eq!(shown.first(), Some(&1));
    });
}

/// The allocation of memory on the host would end the process there.
#[test]
fn a_device_without_the_kind_of_memory_is_refused() {
    process::alone(|| {
        if support::simulated().is_none() {
            return;
        }
        let listed = arrow_device_oneapi::devices().unwrap();
        assert_eq!(listed[0].kinds, KINDS);
        assert!(listed[2].kinds.is_empty());
        for kind in KINDS {
            let refused = open_with(2, kind).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unsupported);
            assert!(
                refused.message().contains(&format!("no USM of the kind {kind:?}")),
                "{refused}"
            );
        }
    });
}
