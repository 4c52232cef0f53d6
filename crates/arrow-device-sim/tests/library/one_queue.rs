//! Devices with one queue, in whose order arrays are ready.

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::driver::Readiness;
use arrow_device::{Array, Batch, DataType, ErrorKind, Queue, Ready};
use arrow_device_sim::{Kind, Mistake, Sim};

use crate::support::seeds;

fn on_every_seed(test: impl Fn(&Sim)) {
    Sim::builder().kind(Kind::OneQueue).sweep(seeds(200), test);
}

/// Numbers that a kernel still has to write.
fn pending_numbers(sim: &Sim, queue: &Queue) -> Array {
    let mut memory = queue.allocate(64).unwrap();
    let spot = memory.spot(queue).unwrap();
    let kernel = sim.kernel("produce").writes(spot, 64);
    kernel.launch(queue, |memory| memory.set_values(0, &[1_i64, 2, 3, 4, 5, 6, 7, 8])).unwrap();
    unsafe { memory.assume_written(64) };
    let buffers = [None, Some(memory.into_buffer())];
    Array::builder(DataType::Int64).len(8).buffers(buffers).finish_on(queue).unwrap()
}

fn expected() -> Array {
    Array::from_values(DataType::Int64, (1..9_i64).map(Some)).unwrap()
}

#[test]
fn each_opening_of_a_queue_gives_the_one_there_is() {
    on_every_seed(|sim| {
        let [one, two] = [(); 2].map(|()| sim.device().open_queue().unwrap());
        assert!(one.is_same(&two));
        drop(one);
        sim.kernel("work").launch(&two, |_| {}).unwrap();
        two.synchronize().unwrap();
        let raw = two.raw();
        drop(two);
        assert_eq!(sim.device().open_queue().unwrap().raw(), raw, "it is there all the time");
    });
}

#[test]
fn the_queue_counts_as_closed_after_the_last_close() {
    let sim = Sim::builder().kind(Kind::OneQueue).build();
    let driver = sim.device().driver().clone();
    let [one, two] = [(); 2].map(|()| driver.open_queue().unwrap());
    unsafe { driver.close_queue(one) };
    unsafe { driver.synchronize(two) }.unwrap();
    unsafe { driver.close_queue(two) };
    assert!(unsafe { driver.synchronize(two) }.is_err());
    // Open again, and never closed.
    driver.open_queue().unwrap();
    drop(driver);
    let kinds: Vec<Mistake> = sim.finish().iter().map(|report| report.kind).collect();
    assert_eq!(kinds, [Mistake::QueueClosed, Mistake::LeakedQueue]);
}

#[test]
fn arrays_travel_without_an_event_and_are_in_the_order_of_the_queue() {
    on_every_seed(|sim| {
        let queue = sim.device().open_queue().unwrap();
        assert_eq!(sim.device().properties().readiness, Readiness::QueueOrder);
        let array = pending_numbers(sim, &queue);
        assert_eq!(array.ready(), Ready::Now);
        let batch = Batch::from_columns([("n", array)]).unwrap();
        let schema = batch.schema().unwrap();
        let mut c_array = ArrowDeviceArray::empty();
        batch.as_array().export(&mut c_array).unwrap();
        assert!(c_array.sync_event.is_null());
        drop(batch);
        let imported = unsafe { Array::import(&raw mut c_array, &schema) }.unwrap();
        let again = sim.device().open_queue().unwrap();
        let view = imported.on(&again).unwrap();
        let place = view.child(0).unwrap().buffer(1).location().spot();
        let kernel = sim.kernel("consume").reads(place, 64);
        let check = |memory: &mut arrow_device_sim::KernelMemory| {
            assert_eq!(memory.values::<i64>(0), [1, 2, 3, 4, 5, 6, 7, 8]);
        };
        kernel.launch(&again, check).unwrap();
        drop((view, imported));
    });
}

#[test]
fn copies_there_and_within_and_back_need_no_event() {
    on_every_seed(|sim| {
        let queue = sim.device().open_queue().unwrap();
        let copy = pending_numbers(sim, &queue).copy_to(&queue).unwrap();
        assert!(copy.to_host().unwrap().equals(&expected()).unwrap());
        let there = expected().copy_to(&queue).unwrap();
        assert!(there.to_host().unwrap().equals(&expected()).unwrap());
    });
}

#[test]
fn there_is_no_event_to_show_and_none_to_read() {
    let sim = Sim::builder().kind(Kind::OneQueue).build();
    let queue = sim.device().open_queue().unwrap();
    let event = queue.record().unwrap();
    assert_eq!(event.sync_event().unwrap_err().kind(), ErrorKind::Unsupported);
    let driver = sim.device().driver().clone();
    let mut word = 0_u64;
    let address = std::ptr::NonNull::from(&mut word).cast();
    let read = unsafe { driver.read_sync_event(address) };
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Unsupported);
    event.synchronize().unwrap();
}
