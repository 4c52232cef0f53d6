//! Devices with one queue, in whose order arrays are ready.

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::abi::dlpack::DLManagedTensorVersioned;
use arrow_device::deferred::wait_until_released;
use arrow_device::dlpack::{Conversion, CopyPolicy, Managed, Order};
use arrow_device::driver::Readiness;
use arrow_device::{Array, Batch, DataType, ErrorKind, Event, HostArray, Queue, Ready};
use arrow_device_sim::{KernelMemory, Kind, Mistake, Schedule, Sim};
use arrow_device_testkit::process::alone;

use crate::support::seeds;

const KINDS: [Kind; 2] = [Kind::OneQueue, Kind::OneQueueReadable];

fn on_every_seed(test: impl Fn(&Sim)) {
    for kind in KINDS {
        Sim::builder().kind(kind).sweep(seeds(100), &test);
    }
}

/// On devices of which the host can read the memory in place.
fn where_the_host_reads(test: impl Fn(&Sim)) {
    Sim::builder().kind(Kind::OneQueueReadable).peers(2).sweep(seeds(200), test);
}

/// The same array by way of the C interface, where nothing but a null event travels with it.
fn travelled(array: Array) -> Array {
    let schema = array.schema().unwrap();
    let mut c_array = ArrowDeviceArray::empty();
    array.export(&mut c_array).unwrap();
    assert!(c_array.sync_event.is_null());
    // SAFETY: exported just now.
    unsafe { Array::import(&raw mut c_array, &schema) }.unwrap()
}

/// Reads the numbers where they are: `node` is the array that they are the values of.
fn assert_host_reads(array: &Array, node: impl Fn(&HostArray) -> HostArray) {
    let host = array.host().unwrap();
    let bytes: Vec<u8> = (1..9_i64).flat_map(i64::to_ne_bytes).collect();
    assert_eq!(*node(&host).buffer(1).unwrap(), *bytes);
}

/// Work on the queue that reads the numbers.
fn read_on(sim: &Sim, queue: &Queue, array: &Array) {
    let view = array.on(queue).unwrap();
    let kernel = sim.kernel("consume").reads(view.buffer(1).location().spot(), 64);
    let check = |memory: &mut KernelMemory| {
        assert_eq!(memory.values::<i64>(0), [1, 2, 3, 4, 5, 6, 7, 8]);
    };
    kernel.launch(queue, check).unwrap();
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
        assert_eq!(array.ready(), Ready::AfterEvent);
        let batch = Batch::from_columns([("n", array)]).unwrap();
        let schema = batch.schema().unwrap();
        let mut c_array = ArrowDeviceArray::empty();
        batch.as_array().export(&mut c_array).unwrap();
        assert!(c_array.sync_event.is_null());
        drop(batch);
        let imported = unsafe { Array::import(&raw mut c_array, &schema) }.unwrap();
        let again = sim.device().open_queue().unwrap();
        read_on(sim, &again, &imported.child(0).unwrap());
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

// Requirement: SAF-6, SAF-10
#[test]
fn the_host_waits_for_what_the_queue_still_writes() {
    where_the_host_reads(|sim| {
        let queue = sim.device().open_queue().unwrap();
        for array in [
            pending_numbers(sim, &queue),
            travelled(pending_numbers(sim, &queue)),
            expected().copy_to(&queue).unwrap(),
            travelled(pending_numbers(sim, &queue)).copy_to(&queue).unwrap(),
        ] {
            assert_eq!(array.ready(), Ready::AfterEvent);
            assert_host_reads(&array, Clone::clone);
            assert!(array.is_ready().unwrap());
        }
    });
}

// Requirement: SAF-6
#[test]
fn what_was_not_waited_for_is_not_ready() {
    for kind in KINDS {
        let sim = Sim::builder().kind(kind).schedule(Schedule::Late).build();
        let queue = sim.device().open_queue().unwrap();
        let [mine, came] = [pending_numbers(&sim, &queue), pending_numbers(&sim, &queue)];
        let came = travelled(came);
        for array in [&mine, &came] {
            assert!(!array.is_ready().unwrap());
        }
        // Later work has nothing to do with them.
        came.wait().unwrap();
        sim.kernel("more").launch(&queue, |_| {}).unwrap();
        for array in [&mine, &came] {
            assert!(array.is_ready().unwrap());
        }
    }
}

// Requirement: SAF-6, SAF-7
#[test]
fn arrays_of_arrays_and_tensors_wait_as_what_they_are_made_of() {
    where_the_host_reads(|sim| {
        let queue = sim.device().open_queue().unwrap();
        let batch = || {
            let columns = [
                ("made", pending_numbers(sim, &queue)),
                ("came", travelled(pending_numbers(sim, &queue))),
            ];
            Batch::from_columns(columns).unwrap().as_array().clone()
        };
        for array in [batch(), travelled(batch())] {
            assert_host_reads(&array, |host| host.child(1).unwrap());
            assert_host_reads(&array, |host| host.child(0).unwrap());
        }
        for array in [pending_numbers(sim, &queue), travelled(pending_numbers(sim, &queue))] {
            let there = array.to_tensor(&Conversion::new()).unwrap();
            assert_host_reads(&there.to_array(&Conversion::new()).unwrap(), Clone::clone);
            let again: Managed<DLManagedTensorVersioned> = array
                .to_tensor(&Conversion::new())
                .unwrap()
                .export(Order::Host, CopyPolicy::Never)
                .unwrap();
            drop((array, again));
        }
    });
}

// Requirement: SAF-6, SAF-7
#[test]
fn the_queue_of_another_device_waits() {
    for kind in KINDS {
        Sim::builder().kind(kind).peers(2).sweep(seeds(100), |sim| {
            let queue = sim.device().open_queue().unwrap();
            let other = sim.device_number(1).open_queue().unwrap();
            read_on(sim, &other, &pending_numbers(sim, &queue));
            read_on(sim, &other, &travelled(pending_numbers(sim, &queue)));
            let columns = [("came", travelled(pending_numbers(sim, &queue)))];
            let batch = Batch::from_columns(columns).unwrap();
            read_on(sim, &other, &batch.as_array().child(0).unwrap());
            let mut there = pending_numbers(sim, &queue).copy_to(&other).unwrap();
            read_on(sim, &queue, &there);
            there = travelled(there);
            assert!(there.to_host().unwrap().equals(&expected()).unwrap());
        });
    }
}

// Requirement: SAF-13, SAF-14
#[test]
fn memory_is_kept_for_the_queue_though_no_event_travels() {
    // In a process of its own: what other tests hold back is waited for as well.
    alone(|| {
        on_every_seed(|sim| {
            let queue = sim.device().open_queue().unwrap();
            drop(pending_numbers(sim, &queue));
            drop(travelled(pending_numbers(sim, &queue)));
            let came = travelled(pending_numbers(sim, &queue));
            read_on(sim, &queue, &came);
            drop(came);
            wait_until_released(std::time::Duration::from_secs(10)).unwrap();
            assert_eq!(sim.allocated(), 0);
        });
    });
}

/// An event of the runtime that is adopted under the id of one device may be of another one.
// Requirement: SAF-7, SAF-10
#[test]
fn an_adopted_event_of_another_device_is_waited_for() {
    Sim::builder().kind(Kind::OneQueueReadable).peers(2).sweep(seeds(100), |sim| {
        let (device, other) = (sim.device(), sim.device_number(1));
        let (queue, writer) = (device.open_queue().unwrap(), other.open_queue().unwrap());
        let mut memory = device.allocate(64).unwrap();
        let spot = memory.spot(&writer).unwrap();
        let write = |memory: &mut KernelMemory| memory.set_values(0, &[7_i64; 8]);
        sim.kernel("produce").writes(spot, 64).launch(&writer, write).unwrap();
        let theirs = writer.record().unwrap();
        // SAFETY: UNS-19: an event of the runtime, which its owner keeps.
        let adopted = unsafe { Event::adopt_of(&device, theirs.raw(), theirs.clone()) };
        unsafe { memory.assume_written(64) };
        let buffers = [None, Some(memory.into_buffer())];
        let builder = Array::builder(DataType::Int64).len(8).buffers(buffers);
        // SAFETY: UNS-32: the event passes after the work that writes the buffer.
        let array = unsafe { builder.finish_after(adopted.clone()) }.unwrap();
        let read = |memory: &mut KernelMemory| assert_eq!(memory.values::<i64>(0), [7; 8]);
        queue.wait(&adopted).unwrap();
        sim.kernel("consume").reads(spot, 64).launch(&queue, read).unwrap();
        let another = device.open_queue().unwrap();
        let view = array.on(&another).unwrap();
        let place = view.buffer(1).location().spot();
        sim.kernel("consume").reads(place, 64).launch(&another, read).unwrap();
        // Nobody who is shown nothing would wait for it.
        let mut c_array = ArrowDeviceArray::empty();
        assert!(array.export(&mut c_array).is_err() && c_array.is_released());
        array.export_on(&queue, &mut c_array).unwrap();
        // SAFETY: exported just now.
        drop(unsafe { Array::import(&raw mut c_array, &array.schema().unwrap()) }.unwrap());
    });
}

// Requirement: SAF-27
#[cfg(all(unix, not(miri)))]
#[test]
fn a_child_of_fork_is_not_told_that_data_is_ready() {
    use arrow_device_testkit::process::{alone, forked};
    alone(|| {
        let sim = Sim::builder().kind(Kind::OneQueueReadable).schedule(Schedule::Late).build();
        let queue = sim.device().open_queue().unwrap();
        let came = travelled(pending_numbers(&sim, &queue));
        let asked = travelled(pending_numbers(&sim, &queue));
        assert!(!asked.is_ready().unwrap());
        forked(|| {
            for array in [&came, &asked] {
                let mut c_array = ArrowDeviceArray::empty();
                let answers = [
                    array.is_ready().map(|_| ()),
                    array.wait(),
                    array.export_settled(&mut c_array),
                ];
                if array.ready() == Ready::Now || answers.iter().any(Result::is_ok) {
                    return Err(format!("{:?}, {answers:?}", array.ready()));
                }
            }
            Ok(())
        });
    });
}
