//! Arrays as other libraries export and take them: the default device by -1, addresses, and no
//! event.

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::copy::Way;
use arrow_device::{Array, DataType, Device, DeviceId, DeviceType, ErrorKind};
use arrow_device_metal::open_for;
use metal_stand_in::Gate;

use crate::support::Bench;

const DEFAULT: DeviceId = DeviceId::new(DeviceType::METAL, -1);

/// The array as the other library has it: in memory of this device, complete, under the other id.
fn as_they_export(bench: &Bench, array: &Array) -> Array {
    let there = array.copy_to(&bench.open_queue().unwrap()).unwrap();
    let mut c_array = ArrowDeviceArray::empty();
    there.export_settled(&mut c_array).unwrap();
    assert!(c_array.sync_event.is_null());
    assert_eq!(c_array.device_id, bench.id().id);
    c_array.device_id = -1;
    unsafe { Array::import(&mut c_array, &there.schema().unwrap()) }.unwrap()
}

#[test]
fn the_device_of_an_array_is_found_by_its_id() {
    let Some(bench) = Bench::new() else { return };
    assert_eq!(open_for(bench.id().id).unwrap().id(), bench.id());
    assert_eq!(open_for(-1).unwrap().id(), DEFAULT);
    assert_eq!(open_for(7).unwrap_err().kind(), ErrorKind::DeviceMissing);
}

// Requirement: ARR-5
#[test]
fn the_default_device_is_known_by_minus_one() {
    let Some(bench) = Bench::new() else { return };
    let array = Array::from_values(DataType::Int64, [Some(5_i64), None, Some(7)]).unwrap();
    let theirs = as_they_export(&bench, &array);
    assert_eq!(theirs.device(), DEFAULT);
    assert!(theirs.is_ready().unwrap());
    assert!(theirs.to_host().unwrap().equals(&array).unwrap());
    // Queues of the device use the memory directly, and copy from it without the host.
    let queue = bench.open_queue().unwrap();
    drop(theirs.on(&queue).unwrap());
    let plan = theirs.plan_copy(&queue, &arrow_device::copy::Options::new()).unwrap();
    assert_eq!(plan.hops()[0].way, Way::FromPeer, "{plan}");
    let moved = plan.run().unwrap();
    assert_eq!(moved.device(), bench.id());
    assert!(moved.to_host().unwrap().equals(&array).unwrap());
    // And the other way: what was made for that id can be used by the device.
    let named = Device::find(DEFAULT).unwrap().open_queue().unwrap();
    let made = array.copy_to(&named).unwrap();
    drop(made.on(&queue).unwrap());
    assert!(made.to_host().unwrap().equals(&array).unwrap());
    assert!(Device::find(DEFAULT).unwrap().open_queue().unwrap().reaches(bench.id()).is_ok());
    let second = arrow_device_metal::open(1).unwrap();
    assert!(second.open_queue().unwrap().reaches(DEFAULT).is_err());
}

/// Their memory is not known here: it is pages.
// Requirement: ARR-20
#[test]
fn memory_of_nobody_known_is_copied_by_the_device() {
    let Some(bench) = Bench::new() else { return };
    let array = Array::from_values(DataType::Int32, (0..3000).map(Some)).unwrap();
    let layout = std::alloc::Layout::from_size_align(12_288, 4096).unwrap();
    let pages = unsafe { std::alloc::alloc_zeroed(layout) };
    let values: Vec<u8> = (0..3000_i32).flat_map(i32::to_ne_bytes).collect();
    unsafe { pages.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
    let mut c_array = ArrowDeviceArray::empty();
    array.export_settled(&mut c_array).unwrap();
    (c_array.device_type, c_array.device_id) = (DeviceType::METAL.0, -1);
    // The values lie behind four bytes of something else.
    unsafe { *c_array.array.buffers.add(1) = pages.cast() };
    let theirs = unsafe { Array::import(&mut c_array, &array.schema().unwrap()) }.unwrap();
    let queue = bench.open_queue().unwrap();
    let copies = bench.stand_in.copies();
    let mut gate = Gate::new();
    unsafe { gate.before(queue.raw().as_ptr()) };
    let moved = theirs.slice(1, 2998).unwrap().copy_to(&queue).unwrap();
    gate.open();
    assert!(moved.to_host().unwrap().equals(&array.slice(1, 2998).unwrap()).unwrap());
    assert!(bench.stand_in.copies() > copies);
    drop((theirs, moved));
    queue.synchronize().unwrap();
    unsafe { std::alloc::dealloc(pages, layout) };
}

/// Consumers that refuse an event get the array once its data is there.
// Requirement: SAF-10
#[test]
fn an_array_for_who_knows_no_events_is_settled_first() {
    let Some(bench) = Bench::new() else { return };
    let queue = bench.open_queue().unwrap();
    let array = Array::from_values(DataType::Int32, [Some(1), None]).unwrap();
    let mut gate = Gate::new();
    unsafe { gate.before(queue.raw().as_ptr()) };
    let there = array.copy_to(&queue).unwrap().copy_to(&queue).unwrap();
    let event = queue.record().unwrap();
    std::thread::scope(|scope| {
        let exported = scope.spawn(|| {
            let mut c_array = ArrowDeviceArray::empty();
            there.export_settled(&mut c_array).unwrap();
            assert!(c_array.sync_event.is_null());
            unsafe { Array::import(&mut c_array, &there.schema().unwrap()) }.unwrap()
        });
        gate.open();
        let theirs = exported.join().unwrap();
        assert!(theirs.is_ready().unwrap());
        assert!(theirs.to_host().unwrap().equals(&array).unwrap());
    });
    event.synchronize().unwrap();
}
