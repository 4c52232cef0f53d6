//! Which functions of the driver are called, and which are not.

use std::ptr;

use arrow_device::abi::dlpack::DLManagedTensorVersioned;
use arrow_device::abi::{ArrowDeviceArray, ArrowDeviceArrayStream};
use arrow_device::dlpack::{Conversion, CopyPolicy, Order};
use arrow_device::{Array, ArrayStream, Batch, DataType, Queue};

use crate::{Kind, Machine, assert_numbers, numbers, settle};

/// Importing, exporting and looking at an array call nothing; naming a queue makes it wait, once.
pub fn exchanging_calls_nothing(machine: &Machine) {
    for kind in machine.kinds() {
        let queue = machine.open(0, *kind).open_queue().unwrap();
        let there = numbers().copy_to(&queue).unwrap();
        there.wait().unwrap();
        let schema = there.schema().unwrap();
        drop(there.on(&queue).unwrap());
        queue.synchronize().unwrap();
        settle();
        machine.take_calls();
        let mut c_array = ArrowDeviceArray::empty();
        there.export(&mut c_array).unwrap();
        assert!(!c_array.sync_event.is_null());
        let again = unsafe { Array::import(&mut c_array, &schema) }.unwrap();
        assert_eq!((again.len(), again.device()), (3, queue.device().id()));
        let part = again.slice(1, 1).unwrap();
        drop((part, again));
        assert_eq!(machine.take_calls(), [""; 0], "{kind:?}");
        // A stream of it, to a consumer that takes all and looks at each.
        let mut c_stream = ArrowDeviceArrayStream::empty();
        let (of, twice) = (queue.device().id().device_type, [Ok(there.clone()), Ok(there.clone())]);
        ArrayStream::new(schema.clone(), of, twice).export(&mut c_stream);
        let stream = unsafe { ArrayStream::import(&mut c_stream) }.unwrap();
        assert_eq!(stream.map(|array| array.unwrap().len()).sum::<usize>(), 6);
        assert_eq!(machine.take_calls(), [""; 0], "{kind:?}");
        // A tensor, for somebody who has an agreement about order.
        let whole = Array::from_values(DataType::Int32, [Some(1), Some(2)]).unwrap();
        let whole = whole.copy_to(&queue).unwrap();
        whole.wait().unwrap();
        machine.take_calls();
        let tensor = whole.to_tensor(&Conversion::new()).unwrap();
        let managed =
            tensor.export::<DLManagedTensorVersioned>(Order::Unordered, CopyPolicy::IfNeeded);
        assert_eq!(machine.take_calls(), [""; 0], "{kind:?}");
        // The consumer may have submitted work that still reads: one event is recorded behind it.
        drop(managed.unwrap());
        let record = machine.name("cuEventRecord", "hipEventRecord");
        let calls = machine.take_calls();
        assert_eq!(calls.iter().filter(|name| *name == record).count(), 1, "{calls:?}");
        assert!(calls.len() <= 7, "{calls:?}");
        assert!(!calls.iter().any(|name| name.contains("Synchronize")), "{calls:?}");
        drop(whole);
        // One that is still being written, and for another queue.
        let [one, two] = [(); 2].map(|()| queue.device().open_queue().unwrap());
        let there = numbers().copy_to(&one).unwrap();
        machine.take_calls();
        let view = there.on(&two).unwrap();
        let wait = machine.name("cuStreamWaitEvent", "hipStreamWaitEvent");
        let calls = machine.take_calls();
        assert_eq!(calls.iter().filter(|name| *name == wait).count(), 1, "{calls:?}");
        assert!(!calls.iter().any(|name| name.contains("Synchronize")), "{calls:?}");
        drop(view);
        assert_numbers(&there);
    }
}

/// What was used is released by asking events, and nobody waits.
pub fn releasing_waits_for_nothing(machine: &Machine) {
    let queue = machine.open(0, Kind::Device).open_queue().unwrap();
    settle();
    let there = numbers().copy_to(&queue).unwrap();
    drop(there.on(&queue).unwrap());
    machine.take_calls();
    drop(there);
    settle();
    let calls = machine.take_calls();
    let free = machine.name("cuMemFree_v2", "hipFree");
    assert!(calls.iter().any(|name| name == free), "{calls:?}");
    assert!(!calls.iter().any(|name| name.contains("Synchronize")), "{calls:?}");
}

/// Memory that comes into being in the order of a queue is not freed before the queue has come so
/// far.
pub fn memory_of_a_queue_waits_for_the_queue(machine: &Machine) {
    let queue = machine.open(0, Kind::Device).open_queue().unwrap();
    settle();
    let free = machine.name("cuMemFree_v2", "hipFree");
    let stream = queue.raw().as_ptr() as u64;
    assert_eq!(machine.sim.kernel("something before").launch(stream, |_| {}), 0);
    let memory = queue.allocate(64).unwrap();
    machine.take_calls();
    drop(memory);
    settle();
    let calls = machine.take_calls();
    let place = |wanted: &str| calls.iter().position(|name| name == wanted);
    // An event behind what was submitted to the queue says when.
    let record = place(machine.name("cuEventRecord", "hipEventRecord"));
    assert!(record.is_some() && record < place(free), "{calls:?}");
}

/// A list of copies is one call.
pub fn copies_are_batched(machine: &Machine) {
    let queue = machine.open(0, Kind::Device).open_queue().unwrap();
    let there = integers().copy_to(&queue).unwrap();
    there.wait().unwrap();
    machine.take_calls();
    drop(there.to_host().unwrap());
    let calls = machine.take_calls();
    let copies = calls.iter().filter(|name| name.contains("Memcpy"));
    let batch = machine.name("cuMemcpyBatchAsync_v2", "hipMemcpyBatchAsync");
    assert_eq!(copies.collect::<Vec<_>>(), [batch]);
}

/// A thousand columns of host memory that nobody prepared.
fn columns(column: impl Fn(usize) -> Array) -> Array {
    let columns: Vec<(String, Array)> =
        (0..1000).map(|number| (format!("column {number}"), column(number))).collect();
    Batch::from_columns(columns).unwrap().as_array().clone()
}

pub fn integers() -> Array {
    columns(|number| {
        let values = (0..1024).map(|row| Some((number * row) as i64));
        Array::from_values(DataType::Int64, values).unwrap()
    })
}

pub fn texts() -> Array {
    columns(|number| {
        let values = (0..256).map(|row| Some(format!("{number}, {row}")));
        Array::from_texts(DataType::Utf8, values).unwrap()
    })
}

/// The calls of copying a batch to a device: the first time, and when the memory that it passes
/// through is there already.
pub fn calls_of_a_copy(machine: &Machine, batch: &Array) -> [Vec<String>; 2] {
    let queue = machine.open(0, Kind::Device).open_queue().unwrap();
    [(); 2].map(|()| {
        settle();
        machine.take_calls();
        let there = batch.copy_to(&queue).unwrap();
        let calls = machine.take_calls();
        assert_eq!(there.device(), queue.device().id());
        there.wait().unwrap();
        compare(batch, &there);
        calls
    })
}

pub fn compare(expected: &Array, found: &Array) {
    use arrow_device_testkit::oracle;
    let expected = oracle::plan_of(expected).unwrap();
    let found = oracle::plan_of(&found.to_host().unwrap()).unwrap();
    oracle::require_equal(&expected, &found).unwrap();
}

/// A thread that has another device current, or none, has it afterwards, too; and everything works
/// meanwhile.
pub fn threads_keep_what_is_current(machine: &Machine) {
    let work = |queue: &Queue| {
        let there = numbers().copy_to(queue).unwrap();
        assert_numbers(&there);
        drop(there);
        settle();
    };
    let queues = machine.queues();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if machine.is_cuda() {
                let current = || {
                    let mut context = 77_u64;
                    assert_eq!(
                        machine.raw("cuCtxGetCurrent", &[ptr::from_mut(&mut context) as u64]),
                        0
                    );
                    context
                };
                assert_eq!(current(), 0);
                queues.iter().for_each(work);
                assert_eq!(current(), 0);
                let mut primary = 0_u64;
                let out = ptr::from_mut(&mut primary) as u64;
                assert_eq!(machine.raw("cuDevicePrimaryCtxRetain", &[out, 1]), 0);
                assert_eq!(machine.raw("cuCtxSetCurrent", &[primary]), 0);
                queues.iter().for_each(work);
                assert_eq!(current(), primary);
            } else {
                let current = || {
                    let mut device = 77_i32;
                    assert_eq!(
                        machine.raw("hipGetDevice", &[ptr::from_mut(&mut device) as u64]),
                        0
                    );
                    device
                };
                for device in [0, 1] {
                    assert_eq!(machine.raw("hipSetDevice", &[device]), 0);
                    queues.iter().for_each(work);
                    assert_eq!(current(), device as i32);
                }
            }
        });
    });
}
