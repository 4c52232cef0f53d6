//! A device of one's own, from outside the library: `lab.rs` is its driver, this is a program that uses it.
//!
//! A producer fills an array on the device and hands it over before the device has even begun. The consumer
//! knows nothing but the C structs and the device that they name. It submits its own work at once and lets go of
//! the array; the order of the work and the life of the memory take care of themselves.
//!
//! `cargo run --example own_device`

mod lab;

use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{
    Array, DataType, Device, DeviceId, DeviceType, Error, ErrorKind, Ready, Result, Schema,
};

const VALUES: [i64; 4] = [1, 2, 3, 4];

pub(crate) fn main() -> Result<()> {
    let device = lab::open(7);
    println!("opened {device:?}");
    assert!(Device::find(DeviceId::new(DeviceType::EXT_DEV, lab::TAG + 7)).is_some());

    // The device will not go past this gate before it is opened.
    let (open_gate, gate) = mpsc::channel::<()>();
    let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    produce(&device, gate, &mut c_schema, &mut c_array)?;
    assert!(!c_array.sync_event.is_null());
    println!("the producer has handed over an array that is not computed yet");

    let sum = consume(&mut c_schema, &mut c_array)?;
    assert!(c_array.is_released());
    println!("the consumer has submitted its work and dropped the array");

    // Nothing happens on the device. Everybody has let go of the memory, and the queues still need it.
    assert!(sum.recv_timeout(Duration::from_millis(50)).is_err());
    arrow_device::reclaim();
    assert_eq!(lab::allocated(), size_of_val(&VALUES) as u64);
    println!("{} bytes are kept for it", lab::allocated());

    let _ = open_gate.send(());
    let sum = sum.recv_timeout(Duration::from_secs(10)).unwrap_or_default();
    println!("the sum of the doubled values is {sum}");
    assert_eq!(sum, 20);

    // The queues have passed, so the memory is free. Any later call into the library would have noticed as well.
    arrow_device::drain(Duration::from_secs(10))?;
    assert_eq!(lab::allocated(), 0);
    println!("{} bytes are kept now", lab::allocated());
    Ok(())
}

/// Copies values to the device, doubles them there, and exports them with an event that stands for the end of
/// that.
fn produce(
    device: &Device,
    gate: Receiver<()>,
    c_schema: &mut ArrowSchema,
    c_array: &mut ArrowDeviceArray,
) -> Result<()> {
    let queue = device.open_queue()?;
    let mut memory = queue.allocate(size_of_val(&VALUES) as u64)?;
    memory.write(&queue, &VALUES.map(i64::to_ne_bytes).concat())?;

    let spot = memory.spot(&queue)?;
    let double = move || {
        // The producer's end of the gate may be gone, which opens it too.
        let _ = gate.recv();
        for index in 0..VALUES.len() {
            let value = spot.base.as_ptr().cast::<i64>().wrapping_add(index);
            // SAFETY: the memory holds this many values, and nobody else touches them before the event recorded
            // below.
            unsafe { *value *= 2 };
        }
    };
    lab::launch(&queue, double)?;

    let array = Array::builder(DataType::Int64)
        .len(VALUES.len())
        .buffers([None, Some(memory.into_buffer())])
        .finish_on(&queue)?;
    assert_eq!((array.ready(), array.is_ready()?), (Ready::AfterEvent, false));
    array.schema()?.export(c_schema)?;
    array.export(c_array)
}

/// Adds the values up on a queue of its own. The sum arrives when the device has done so.
fn consume(c_schema: &mut ArrowSchema, c_array: &mut ArrowDeviceArray) -> Result<Receiver<i64>> {
    // SAFETY: both structs were filled by a producer that keeps to the interface and to what `lab` says of its
    // events.
    let schema = unsafe { Schema::import(c_schema) }?;
    // SAFETY: as above.
    let array = unsafe { Array::import(c_array, &schema) }?;
    let device = Device::find(array.device()).ok_or_else(|| {
        Error::new(ErrorKind::DeviceMissing, "nobody has opened it").on_device(array.device())
    })?;
    let queue = device.open_queue()?;

    // From here on the queue waits for the array's event; this thread does not.
    let view = array.on(&queue)?;
    let (spot, len) = (view.buffer(1).location().spot(), array.len());
    let (send, sum) = mpsc::channel();
    let add = move || {
        let values = spot.base.as_ptr().cast::<i64>();
        // SAFETY: the view keeps the array's `len` values until this queue has passed this work, and it starts
        // after the event, behind which nobody writes to them.
        let total = (0..len).map(|index| unsafe { values.wrapping_add(index).read() }).sum();
        let _ = send.send(total);
    };
    lab::launch(&queue, add)?;
    drop(view);
    Ok(sum)
}
