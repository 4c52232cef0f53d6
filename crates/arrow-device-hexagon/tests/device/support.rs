//! What the tests share: devices on the stand-in, with a ring and without.

use std::sync::Arc;

use arrow_device::{Array, DataType, Device, Memory, Queue};
use arrow_device_hexagon::{Mapping, Opening, Place, domain, open_with, place_of};
use arrow_device_testkit::required::skip;
use simulated_hexagon::{Dsp, memory};

/// What a device of these tests is opened with: the stand-in's functions.
pub(crate) fn opening() -> Opening {
    // SAFETY: UNS-29, UNS-31: the functions are those of the stand-in, which is linked.
    unsafe { Opening::new(domain::CDSP).with_functions(memory::functions()) }
}

/// A device without a ring.
pub(crate) fn device() -> Device {
    open_with(opening()).unwrap()
}

/// A DSP, and a device with its ring; `None` where a tool is missing.
pub(crate) fn with_ring() -> Option<(Arc<Dsp>, Device)> {
    let dsp = dsp()?;
    let opening = opening().with_ring(dsp.clone()).with_mapping(Mapping::WhileAllocated);
    Some((dsp, open_with(opening).unwrap()))
}

/// A DSP; `None` where a tool is missing.
pub(crate) fn dsp() -> Option<Arc<Dsp>> {
    let started = Dsp::start();
    if let Err(why) = &started {
        skip(if Dsp::is_emulated() { "qemu-hexagon" } else { "cc" }, why);
    }
    started.ok()
}

/// Where memory lies, as the DSP is told.
pub(crate) fn place(memory: &mut Memory, queue: &Queue) -> Place {
    place_of(memory.spot(queue).unwrap()).unwrap()
}

/// Allocates memory of the device and writes these integers into it.
pub(crate) fn filled(queue: &Queue, values: &[i32]) -> Memory {
    let mut memory = queue.allocate(size_of_val(values) as u64).unwrap();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    memory.write(queue, &bytes).unwrap();
    memory
}

/// An array of the integers that work on this queue writes.
pub(crate) fn array_of(memory: Memory, len: usize, queue: &Queue) -> Array {
    let buffers = [None, Some(memory.into_buffer())];
    Array::builder(DataType::Int32).len(len).buffers(buffers).finish_on(queue).unwrap()
}

/// The integers of an array, read on the host.
pub(crate) fn values_of(array: &Array) -> Vec<i32> {
    let host = array.to_host().unwrap();
    let view = host.host().unwrap();
    let bytes = view.buffer(1).unwrap();
    bytes.chunks_exact(4).map(|value| i32::from_ne_bytes(value.try_into().unwrap())).collect()
}
