//! Memory: descriptors, mappings for the DSP, and errors.

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::driver::{Addressing, HostAccess, Raw, Readiness, Spot, WaitingCopies};
use arrow_device::{Array, Batch, DataType, Device, ErrorKind};
use arrow_device_hexagon::{Mapping, Opening, domain, open_with, place_of};
use arrow_device_testkit::process::alone;
use arrow_device_testkit::{consumer, release_until};
use simulated_hexagon::memory::{self, rpcmem_to_fd};

use crate::support;

#[test]
fn a_device_says_what_it_is_like() {
    let device = support::device();
    assert_eq!(device.id().to_string(), "hexagon:3");
    let properties = device.properties();
    assert_eq!(properties.addressing, Addressing::Address);
    assert_eq!(properties.host_access, HostAccess::Mapped);
    assert_eq!(properties.readiness, Readiness::HostWait);
    assert!(properties.separate);
    assert_eq!(properties.waiting_copies, WaitingCopies::None);
    assert!(Device::find(device.id()).is_some());
    let Some((_dsp, device)) = support::with_ring() else { return };
    assert_eq!(device.properties().waiting_copies, WaitingCopies::All);
}

#[test]
fn a_number_that_no_domain_has_is_refused() {
    let error = open_with(Opening::new(u32::MAX)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

#[test]
fn each_buffer_of_an_exported_array_has_a_descriptor_of_its_own() {
    let queue = support::device().open_queue().unwrap();
    let words = [Some("a word"), Some("another word"), None];
    let array = Array::from_texts(DataType::Utf8, words).unwrap();
    let there = array.copy_to(&queue).unwrap();
    let mut c_array = ArrowDeviceArray::empty();
    there.export(&mut c_array).unwrap();
    assert!(c_array.sync_event.is_null());
    assert_eq!((c_array.device_type, c_array.device_id), (16, i64::from(domain::CDSP)));
    let buffers = unsafe { std::slice::from_raw_parts(c_array.array.buffers, 3) };
    let mut descriptors: Vec<i32> =
        buffers.iter().map(|buffer| rpcmem_to_fd(buffer.cast_mut())).collect();
    descriptors.sort_unstable();
    descriptors.dedup();
    assert_eq!(descriptors.len(), 3);
    assert!(descriptors[0] >= 0, "{descriptors:?}");
    consumer::release(c_array.array).unwrap();
}

#[test]
fn a_place_inside_of_memory_has_the_descriptor_and_the_offset() {
    let queue = support::device().open_queue().unwrap();
    let mut memory = queue.allocate(1000).unwrap();
    let spot = memory.spot(&queue).unwrap();
    let place = place_of(spot).unwrap();
    assert_eq!((place.offset, place.remaining), (0, 1000));
    assert_eq!(place.descriptor, rpcmem_to_fd(spot.base.as_ptr()));
    let inside = place_of(Spot { offset: 996, ..spot }).unwrap();
    assert_eq!((inside.offset, inside.remaining), (996, 4));
    assert_eq!(inside.descriptor, place.descriptor);
    // The library knows the beginning only.
    assert_eq!(rpcmem_to_fd(spot.base.as_ptr().cast::<u8>().wrapping_add(8).cast()), -1);
    for other in [
        Spot { offset: 1000, ..spot },
        Spot { offset: u64::MAX, ..spot },
        Spot { base: Raw::NULL, offset: 0 },
        Spot { base: Raw::from_bits(usize::MAX), offset: 0 },
    ] {
        assert_eq!(place_of(other), None, "{other:?}");
    }
}

#[test]
fn the_driver_tells_how_long_memory_is() {
    let device = support::device();
    let queue = device.open_queue().unwrap();
    let mut memory = queue.allocate(1000).unwrap();
    let base = memory.spot(&queue).unwrap().base;
    let located = |base| unsafe { device.driver().locate(base) }.unwrap();
    assert_eq!(
        located(base).map(|found| (found.device, found.remaining)),
        Some((device.id(), 1000))
    );
    assert_eq!(located(Raw::from_bits(base.bits() + 600)).unwrap().remaining, 400);
    assert_eq!(located(Raw::from_bits(base.bits() + 1000)), None);
}

#[test]
fn more_than_there_is_is_out_of_memory() {
    let device = support::device();
    for len in [1 << 50, u64::MAX] {
        let error = device.allocate(len).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        assert_eq!(error.device(), Some(device.id()));
    }
}

#[test]
fn memory_is_mapped_for_the_dsp_as_long_as_it_is_allocated() {
    alone(|| {
        let opened = |mapping| open_with(support::opening().with_mapping(mapping)).unwrap();
        let own = opened(Mapping::ByTheApplication).allocate(64).unwrap();
        assert_eq!((memory::counts().allocations, memory::counts().mappings), (1, 0));
        let mapped = opened(Mapping::WhileAllocated).allocate(64).unwrap();
        assert_eq!((memory::counts().allocations, memory::counts().mappings), (2, 1));
        drop((own, mapped));
        assert!(release_until(|| memory::counts().allocations == 0));
        assert_eq!(memory::counts().mistakes, 0);
    });
}

#[test]
fn memory_that_cannot_be_mapped_is_freed_and_the_error_has_the_code() {
    alone(|| {
        let opening = support::opening().with_mapping(Mapping::WhileAllocated);
        let device = open_with(opening).unwrap();
        for (code, kind) in [(2, ErrorKind::OutOfMemory), (0x27, ErrorKind::Driver)] {
            memory::fail_mappings(Some(code));
            let error = device.allocate(64).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert_eq!(error.vendor().unwrap().code, i64::from(code));
            assert!(error.to_string().contains("session"), "{error}");
            assert_eq!(memory::counts().allocations, 0);
        }
        memory::fail_mappings(None);
        device.allocate(64).unwrap();
    });
}

#[test]
fn an_array_is_read_in_place() {
    let queue = support::device().open_queue().unwrap();
    let array = Array::from_values(DataType::Int32, [Some(5), None, Some(7)]).unwrap();
    let there = array.copy_to(&queue).unwrap();
    let bytes = there.host().unwrap();
    let spot = there.on(&queue).unwrap().buffer(1).location().spot();
    assert_eq!(bytes.buffer(1).unwrap().as_ptr().addr(), spot.base.bits() + spot.offset as usize);
    assert_eq!(bytes.buffer(1).unwrap().get(8..12).unwrap(), 7_i32.to_ne_bytes());
}

/// Consumers that look for a descriptor find one only where an allocation begins.
#[test]
fn a_part_of_memory_is_no_buffer_of_an_array() {
    let queue = support::device().open_queue().unwrap();
    let whole = support::filled(&queue, &[1, 2, 3, 4]).into_buffer();
    let part = whole.slice(8, 8).unwrap();
    let built = |buffer| {
        let builder = Array::builder(DataType::Int32).len(2).buffers([None, Some(buffer)]);
        builder.finish_on(&queue).and_then(|array| array.export(&mut ArrowDeviceArray::empty()))
    };
    let error = built(part).unwrap_err();
    assert!(error.to_string().contains("allocation"), "{error}");
    built(whole).unwrap();
}

#[test]
fn columns_of_a_batch_are_copied_into_memory_of_their_own() {
    alone(|| {
        let queue = support::device().open_queue().unwrap();
        let column = |first| Array::from_values(DataType::Int32, [Some(first), Some(2)]).unwrap();
        let batch = Batch::from_columns([("a", column(1)), ("b", column(3))]).unwrap();
        let there = batch.copy_to(&queue).unwrap();
        assert_eq!(memory::counts().allocations, 2);
        drop(there);
        assert!(release_until(|| memory::counts().allocations == 0));
    });
}
