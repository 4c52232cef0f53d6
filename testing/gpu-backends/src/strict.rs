//! The same on a driver that is as unkind as the vendors' documents permit.

use std::collections::BTreeSet;

use arrow_device::driver::Raw;
use arrow_device::{Array, DataType};
use simulated_gpu_drivers::Vendor;

use crate::{Bench, Kind, Machine, calls, copies, deleters, exchange, memory};

pub fn bench(vendor: Vendor) -> Bench {
    Bench::with(vendor, simulated_gpu_drivers::Builder::strict)
}

/// An integrated or coherent machine (GH200): the device reads ordinary memory, so that copies of
/// such memory go on after the call.
pub fn coherent(vendor: Vendor) -> Bench {
    Bench::with(vendor, |builder| builder.coherent(true).pageable_waits(false))
}

/// Arrays, streams and tensors, on all kinds of memory.
pub fn everything_is_exchanged(machine: &Machine) {
    copies::from_every_place_to_every_other(machine.queues(), 6);
    copies::every_type(&machine.queues_of(0));
    copies::streams(&machine.queues_of(0));
    copies::async_streams(&machine.queues_of(0));
    copies::tensors(&machine.queues_of(0));
    copies::threads(&machine.queues_of(0)[0]);
    copies::columns_in_many_chunks(&machine.queues_of(0)[0]);
    calls::calls_of_a_copy(machine, &calls::texts());
}

/// The same in little, with columns that go over in many pieces.
pub fn ordinary_memory_is_copied(machine: &Machine) {
    copies::from_every_place_to_every_other(machine.queues(), 2);
    copies::threads(&machine.queues_of(0)[0]);
    calls::calls_of_a_copy(machine, &calls::texts());
}

/// What a consumer does with tensors, and what lies at addresses.
pub fn memory_is_kept_and_found(machine: &Machine) {
    deleters::on_a_stream_that_was_named(machine);
    deleters::on_the_default_stream(machine);
    deleters::on_the_default_stream_of_another_thread(machine);
    deleters::on_a_stream_that_is_destroyed_after_the_tensor(machine);
    memory::memory_of_an_allocator_is_filled_in_the_order_of_its_queue(machine);
    memory::mixed_copies_reuse_pinned_memory(machine);
    memory::recycled_memory_is_given_back(machine);
    memory::sizes_of_views_may_lie_on_the_device(machine);
}

/// Ordinary memory is the host's, also where the driver tells its type.
pub fn ordinary_memory_is_the_hosts(machine: &Machine) {
    let device = machine.open(0, Kind::Device);
    let plain = [0_u8; 64];
    let address = Raw::from_ptr(plain.as_ptr().cast_mut().cast());
    let found = unsafe { device.driver().locate(address) }.unwrap();
    assert!(found.is_none(), "{found:?}");
}

/// The conformance suite.
pub fn the_suite_passes(machine: &Machine) {
    exchange::suite(machine, Kind::Device).assert();
}

/// Where pinned memory is refused, data goes through plain memory, which the driver reads and
/// writes after the call has returned.
pub fn plain_memory_stays_until_it_is_read(machine: &Machine) {
    let name = machine.name("cuMemHostAlloc", "hipHostMalloc");
    for round in 0..10_i64 {
        let device = machine.open(0, Kind::Device);
        let queue = device.open_queue().unwrap();
        for _ in 0..4 {
            machine.sim.fail(name, 1, 304);
        }
        // What the second one passes through must not be what the first is still read from.
        let copies = [0, 1].map(|more| {
            let values = (0..50_000 + round).map(|value| Some(value + more));
            let array = Array::from_values(DataType::Int64, values).unwrap();
            let there = array.copy_to(&queue).unwrap();
            (array, there)
        });
        for (array, there) in &copies {
            calls::compare(array, there);
        }
        drop((copies, queue, device));
        crate::settle();
    }
}

/// The handle of a queue that was closed is that of another one soon, and nobody takes one for the
/// other.
pub fn handles_are_used_again(machine: &Machine) {
    let device = machine.open(0, Kind::Device);
    let mut seen = BTreeSet::new();
    let mut is_seen_again = false;
    for _ in 0..20 {
        let (one, two) = (device.open_queue().unwrap(), device.open_queue().unwrap());
        is_seen_again |= !seen.insert(one.raw().bits());
        let there = crate::numbers().copy_to(&one).unwrap();
        let view = there.on(&two).unwrap();
        let stream = two.raw().bits() as u64;
        assert_eq!(machine.sim.kernel("late").launch(stream, |_| {}), 0);
        drop((view, two, one));
        // The array and its event are of queues that are gone.
        let three = device.open_queue().unwrap();
        drop(there.on(&three).unwrap());
        crate::assert_numbers(&there);
        drop(there);
    }
    assert!(is_seen_again, "{seen:?}");
    crate::settle();
}
