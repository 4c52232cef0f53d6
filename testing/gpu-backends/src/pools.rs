//! The pools that memory comes from which is allocated in the order of queues.

use arrow_device::abi::{ArrowArray, ArrowDeviceArray};
use arrow_device::{Array, DataType};

use crate::{Kind, Machine, assert_numbers, numbers, settle};

/// Allocating again and again, with a wait of the host each time, takes memory of the device a few
/// times and not each time.
pub fn memory_of_queues_is_kept(machine: &Machine) {
    const ROUNDS: u64 = 50;
    let queue = machine.open(0, Kind::Device).open_queue().unwrap();
    let before = machine.sim.pool_growths();
    for _ in 0..ROUNDS {
        let there = numbers().copy_to(&queue).unwrap();
        assert_numbers(&there);
        drop(there);
        settle();
        queue.synchronize().unwrap();
    }
    let grown = machine.sim.pool_growths() - before;
    assert!(grown < ROUNDS / 10, "{grown} of {ROUNDS} allocations took memory of the device");
}

/// What a pool keeps is there for an allocation that needs it, of whatever kind.
pub fn what_is_kept_is_given_back(machine: &Machine) {
    let device = machine.open(0, Kind::Device);
    let queue = device.open_queue().unwrap();
    let keep = |bytes| {
        drop(queue.allocate(bytes).unwrap());
        settle();
    };
    keep(150 << 20);
    // The device has 256 MiB.
    drop(device.allocate(200 << 20).unwrap());
    keep(150 << 20);
    if machine.is_cuda() {
        drop(machine.open(0, Kind::Managed).allocate(200 << 20).unwrap());
    }
    settle();
}

/// A pool that the program has made and chosen for a device: its handle.
fn choose_a_pool(machine: &Machine, device: u64) -> u64 {
    let (mut pool, mut properties) = (0_u64, [0_u64; 11]);
    // Memory of a device, of this one, and nothing else.
    properties[0] = 1;
    properties[1] = 1 | device << 32;
    let out = std::ptr::from_mut(&mut pool) as u64;
    let create = machine.name("cuMemPoolCreate", "hipMemPoolCreate");
    assert_eq!(machine.raw(create, &[out, properties.as_ptr() as u64]), 0);
    let choose = machine.name("cuDeviceSetMemPool", "hipDeviceSetMemPool");
    assert_eq!(machine.raw(choose, &[device, pool]), 0);
    pool
}

unsafe extern "C" fn release(array: *mut ArrowArray) {
    // SAFETY: the consumer gives the struct itself.
    unsafe { (*array).release = None };
}

/// Memory that a program has allocated on another device, from a pool that it has chosen there, is
/// in reach of whoever is told that the other device is.
pub fn the_pool_that_a_program_has_chosen_is_reached(machine: &Machine) {
    let here = machine.open(0, Kind::Device).open_queue().unwrap();
    let there = machine.open(1, Kind::Device).open_queue().unwrap();
    choose_a_pool(machine, 1);
    let (mut address, stream) = (0_u64, there.raw().bits() as u64);
    let out = std::ptr::from_mut(&mut address) as u64;
    let allocate = machine.name("cuMemAllocAsync", "hipMallocAsync");
    let copy = machine.name("cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync");
    let values = [1_i32, 2, 3];
    machine.entered(|| {
        assert_eq!(machine.raw(allocate, &[out, 12, stream]), 0);
        assert_eq!(machine.raw(copy, &[address, values.as_ptr() as u64, 12, stream]), 0);
    });
    there.synchronize().unwrap();
    let mut table = [0, address];
    let mut c_array = ArrowDeviceArray::empty();
    c_array.device_type = machine.device_type(Kind::Device).0;
    c_array.device_id = 1;
    c_array.array.length = 3;
    c_array.array.n_buffers = 2;
    c_array.array.buffers = table.as_mut_ptr().cast();
    c_array.array.release = Some(release);
    let schema = arrow_device::Schema::try_from(DataType::Int32).unwrap();
    let foreign = unsafe { Array::import(&mut c_array, &schema) }.unwrap();
    let view = foreign.on(&here).unwrap();
    let kernel = machine.sim.kernel("read").reads(address, 12);
    let launched = machine.entered(|| kernel.launch(here.raw().bits() as u64, |_| {}));
    assert_eq!(launched, 0);
    here.synchronize().unwrap();
    assert_eq!(machine.take_mistakes(), [""; 0]);
    drop(view);
    // The library's own memory there is reached as well.
    let ours = numbers().copy_to(&there).unwrap();
    let view = ours.on(&here).unwrap();
    let address = view.buffer(1).location().address() as u64;
    let kernel = machine.sim.kernel("read").reads(address, 12);
    assert_eq!(machine.entered(|| kernel.launch(here.raw().bits() as u64, |_| {})), 0);
    here.synchronize().unwrap();
    drop((view, ours, foreign));
    settle();
}

/// A device whose pool cannot be reached is no peer: data goes by way of the host.
pub fn a_pool_that_is_refused_is_not_reached(machine: &Machine) {
    let name = machine.name("cuMemPoolSetAccess", "hipMemPoolSetAccess");
    machine.sim.fail(name, 1, 2);
    let here = machine.open(0, Kind::Device).open_queue().unwrap();
    let there = machine.open(1, Kind::Device).open_queue().unwrap();
    let ours = numbers().copy_to(&there).unwrap();
    let error = ours.on(&here).unwrap_err();
    assert_eq!(error.kind(), arrow_device::ErrorKind::NotReachable, "{error}");
    let copied = ours.copy_to(&here).unwrap();
    crate::assert_numbers(&copied);
    drop((ours, copied, here, there));
    settle();
}
