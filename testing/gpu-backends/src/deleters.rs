//! Tensors whose deleter is called while a stream of the consumer's still reads them.
//!
//! The simulated driver runs a kernel as late as the order allows, and reports memory that is freed
//! before that.

use arrow_device::abi::dlpack::DLManagedTensorVersioned;
use arrow_device::deferred::{held_back, release_finished};
use arrow_device::dlpack::{Conversion, CopyPolicy, Managed, Order};
use arrow_device::driver::Raw;
use arrow_device::{Array, DataType, Device, Queue};

use crate::{Kind, Machine, settle};

/// Handles that both vendors have.
const DEFAULT: usize = 0;
const OF_THREAD: usize = 2;

/// Numbers on a device, which are there.
fn numbers(queue: &Queue) -> Array {
    let numbers = Array::from_values(DataType::Int32, (0..64).map(Some)).unwrap();
    let there = numbers.copy_to(queue).unwrap();
    there.wait().unwrap();
    there
}

/// What another library has of an array: nothing else keeps the memory.
fn hand_over(array: Array, order: Order<'_>) -> Managed<DLManagedTensorVersioned> {
    let tensor = array.to_tensor(&Conversion::new()).unwrap();
    drop(array);
    tensor.export(order, CopyPolicy::Never).unwrap()
}

/// Launches a kernel that reads the tensor.
fn read(machine: &Machine, managed: &Managed<DLManagedTensorVersioned>, stream: usize) {
    let tensor = unsafe { &(*managed.as_ptr()).dl_tensor };
    let kernel = machine.sim.kernel("read").reads(tensor.data as u64, 256);
    let launched = machine.entered(|| kernel.launch(stream as u64, |_| {}));
    assert_eq!(launched, 0);
}

/// Deletes it as an object that dies on another thread: nobody has waited.
fn delete(managed: Managed<DLManagedTensorVersioned>) {
    std::thread::spawn(move || drop(managed)).join().unwrap();
    // The driver reports what is freed before its use has ended.
    release_finished();
}

fn open(machine: &Machine) -> (Device, Queue) {
    settle();
    let device = machine.open(0, Kind::Device);
    let queue = device.open_queue().unwrap();
    (device, queue)
}

/// Nothing was reported, and in the end everything is released.
fn end(machine: &Machine, queue: &Queue) {
    assert_eq!(machine.take_mistakes(), [""; 0]);
    queue.synchronize().unwrap();
    settle();
    assert_eq!(machine.take_mistakes(), [""; 0]);
}

/// The stream that the consumer named.
pub fn on_a_stream_that_was_named(machine: &Machine) {
    let (device, queue) = open(machine);
    let consumer = device.open_queue().unwrap();
    let managed = hand_over(numbers(&queue), Order::On(&consumer));
    read(machine, &managed, consumer.raw().bits());
    delete(managed);
    end(machine, &consumer);
}

/// No stream was named: the default stream, and every stream that is ordered with it.
pub fn on_the_default_stream(machine: &Machine) {
    let (device, queue) = open(machine);
    for order in [Order::Host, Order::Unordered] {
        for is_blocking in [false, true] {
            let mut stream = DEFAULT;
            if is_blocking {
                let create = machine.name("cuStreamCreate", "hipStreamCreateWithFlags");
                let out = std::ptr::from_mut(&mut stream) as u64;
                assert_eq!(machine.entered(|| machine.raw(create, &[out, 0])), 0);
            }
            let managed = hand_over(numbers(&queue), order);
            read(machine, &managed, stream);
            delete(managed);
            end(machine, &unsafe { device.adopt_queue(Raw::from_bits(stream)) });
            if is_blocking {
                let destroy = machine.name("cuStreamDestroy_v2", "hipStreamDestroy");
                assert_eq!(machine.entered(|| machine.raw(destroy, &[stream as u64])), 0);
            }
        }
    }
}

/// The default stream of a thread that is not the one of the deleter.
pub fn on_the_default_stream_of_another_thread(machine: &Machine) {
    let (device, queue) = open(machine);
    let consumer = unsafe { device.adopt_queue(Raw::from_bits(OF_THREAD)) };
    let managed = hand_over(numbers(&queue), Order::On(&consumer));
    read(machine, &managed, OF_THREAD);
    delete(managed);
    end(machine, &consumer);
}

/// The consumer destroys its stream after its tensor: the work still runs.
pub fn on_a_stream_that_is_destroyed_after_the_tensor(machine: &Machine) {
    let (device, queue) = open(machine);
    let consumer = device.open_queue().unwrap();
    let managed = hand_over(numbers(&queue), Order::On(&consumer));
    read(machine, &managed, consumer.raw().bits());
    let after = device.open_queue().unwrap();
    after
        .wait(&{
            let event = consumer.record().unwrap();
            drop(consumer);
            event
        })
        .unwrap();
    delete(managed);
    end(machine, &after);
}

/// The consumer destroys its stream before its tensor, against its obligation: the memory is kept
/// for good, since nobody can tell when the work has ended.
pub fn on_a_stream_that_is_gone(machine: &Machine) {
    let (device, queue) = open(machine);
    let consumer = device.open_queue().unwrap();
    let stream = consumer.raw();
    let named = unsafe { device.adopt_queue(stream) };
    let managed = hand_over(numbers(&queue), Order::On(&named));
    drop(named);
    read(machine, &managed, stream.bits());
    drop(consumer);
    let before = held_back().in_use;
    std::thread::spawn(move || drop(managed)).join().unwrap();
    release_finished();
    assert_eq!(held_back().in_use, before + 1);
    let mistakes = machine.take_mistakes();
    assert!(mistakes.iter().all(|mistake| mistake == "StreamDestroyed"), "{mistakes:?}");
}

/// The consumer captures a graph when its tensor dies: nothing of the deletion ends the capture,
/// and the memory is released afterwards.
pub fn in_a_capture(machine: &Machine) {
    let (device, queue) = open(machine);
    for is_default in [false, true] {
        let managed;
        let stream;
        let consumer = device.open_queue().unwrap();
        if is_default {
            // The default stream would wait for this one.
            let mut blocking = 0_usize;
            let create = machine.name("cuStreamCreate", "hipStreamCreateWithFlags");
            let out = std::ptr::from_mut(&mut blocking) as u64;
            assert_eq!(machine.entered(|| machine.raw(create, &[out, 0])), 0);
            stream = blocking;
            managed = hand_over(numbers(&queue), Order::Host);
        } else {
            stream = consumer.raw().bits();
            managed = hand_over(numbers(&queue), Order::On(&consumer));
        }
        read(machine, &managed, stream);
        let capture = |name, more| {
            machine.entered(|| assert_eq!(machine.raw(name, &[stream as u64, more]), 0, "{name}"));
        };
        capture(machine.name("cuStreamBeginCapture_v2", "hipStreamBeginCapture"), 0);
        machine.take_mistakes();
        let before = held_back().in_use;
        std::thread::spawn(move || drop(managed)).join().unwrap();
        release_finished();
        assert_eq!(held_back().in_use, before + 1, "released without an event");
        let mut graph = 0_u64;
        let end = machine.name("cuStreamEndCapture", "hipStreamEndCapture");
        capture(end, std::ptr::from_mut(&mut graph) as u64);
        let mistakes = machine.take_mistakes();
        assert!(mistakes.iter().all(|mistake| mistake == "Capture"), "{mistakes:?}");
        unsafe { device.adopt_queue(Raw::from_bits(stream)) }.synchronize().unwrap();
        settle();
        assert_eq!(machine.take_mistakes(), [""; 0]);
    }
}
