//! A device of one's own, from outside the library: `lab.rs` is its driver, this is a program that
//! uses it.
//!
//! A producer fills an array on the device and hands it over before the device has even begun. The
//! consumer knows nothing but the C structs and the device that they name. It submits its own work
//! at once and lets go of the array; the order of the work and the life of the memory take care of
//! themselves.
//!
//! `cargo run --example own_device`

pub(crate) mod lab;

use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{
    Array, DataType, Device, DeviceId, DeviceType, Error, ErrorKind, Ready, Result, Schema,
};

const VALUES: [i64; 4] = [1, 2, 3, 4];
const SIZE: u64 = size_of_val(&VALUES) as u64;
/// Long enough for something to go wrong, and for something to come to its end.
const PAUSE: Duration = Duration::from_millis(30);
const LONG: Duration = Duration::from_secs(10);

pub(crate) fn main() -> Result<()> {
    let device = lab::open(7);
    println!("opened {device:?}");
    assert!(Device::find(DeviceId::new(DeviceType::EXT_DEV, lab::TAG + 7)).is_some());

    // Both sides' work stops at a gate, so that it takes as long as it is told to.
    let (open_first, first_gate) = mpsc::channel::<()>();
    let (open_second, second_gate) = mpsc::channel::<()>();
    let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    produce(&device, first_gate, &mut c_schema, &mut c_array)?;
    assert!(!c_array.sync_event.is_null());
    println!("the producer has handed over an array that is not computed yet");

    let (started, sum) = consume(&mut c_schema, &mut c_array, second_gate)?;
    assert!(c_array.is_released());
    println!("the consumer has submitted its work and dropped the array");

    // Everybody has let go of the memory. The producer's queue still writes to it, and the
    // consumer's waits for that.
    assert!(started.recv_timeout(PAUSE).is_err());
    println!("{} bytes are kept for the producer's work", kept());
    assert_eq!(kept(), SIZE);

    // The producer is done. The consumer has begun, and its queue keeps the memory.
    let _ = open_first.send(());
    assert!(started.recv_timeout(LONG).is_ok());
    std::thread::sleep(PAUSE);
    println!("{} bytes are kept for the consumer's", kept());
    assert_eq!(kept(), SIZE);

    let _ = open_second.send(());
    let sum = sum.recv_timeout(LONG).unwrap_or_default();
    println!("the sum of the doubled values is {sum}");
    assert_eq!(sum, 20);

    // The queues have passed, so the memory is free. Any later call into the library would have
    // noticed as well.
    arrow_device::deferred::wait_until_released(LONG)?;
    println!("{} bytes are kept now", kept());
    assert_eq!(kept(), 0);
    Ok(())
}

/// How many bytes of the device are allocated, once the library has freed what it can.
fn kept() -> u64 {
    arrow_device::deferred::release_finished();
    lab::allocated()
}

/// Copies values to the device, doubles them there, and exports them with an event that stands for
/// the end of that.
fn produce(
    device: &Device,
    gate: Receiver<()>,
    c_schema: &mut ArrowSchema,
    c_array: &mut ArrowDeviceArray,
) -> Result<()> {
    let queue = device.open_queue()?;
    let mut memory = queue.allocate(SIZE)?;
    memory.write(&queue, &VALUES.map(i64::to_ne_bytes).concat())?;

    let spot = memory.spot(&queue)?;
    let double = move || {
        // The producer's end of the gate may be gone, which opens it too.
        let _ = gate.recv();
        for index in 0..VALUES.len() {
            let value = spot.base.as_ptr().cast::<i64>().wrapping_add(index);
            // SAFETY: the memory holds this many values, and nobody else touches them before the
            // event recorded below.
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

/// Adds the values up on a queue of its own. What comes back tells when the device begins with
/// that, and the sum.
fn consume(
    c_schema: &mut ArrowSchema,
    c_array: &mut ArrowDeviceArray,
    gate: Receiver<()>,
) -> Result<(Receiver<()>, Receiver<i64>)> {
    // SAFETY: both structs were filled by a producer that keeps to the interface and to what `lab`
    // says of its events.
    let schema = unsafe { Schema::import(c_schema) }?;
    // SAFETY: both structs were filled by a producer that keeps to the interface and to what `lab`
    // says of its events.
    let array = unsafe { Array::import(c_array, &schema) }?;
    let device = Device::find(array.device()).ok_or_else(|| {
        Error::new(ErrorKind::DeviceMissing, "nobody has opened it").on_device(array.device())
    })?;
    let queue = device.open_queue()?;

    // From here on the queue waits for the array's event; this thread does not.
    let view = array.on(&queue)?;
    let (spot, len) = (view.buffer(1).location().spot(), array.len());
    let ((begin, begun), (send, sum)) = (mpsc::channel(), mpsc::channel());
    let add = move || {
        let _ = begin.send(());
        let _ = gate.recv();
        let values = spot.base.as_ptr().cast::<i64>();
        // SAFETY: the view keeps the array's `len` values until this queue has passed this work,
        // and it starts after the event, behind which nobody writes to them.
        let total = (0..len).map(|index| unsafe { *values.wrapping_add(index) }).sum();
        let _ = send.send(total);
    };
    lab::launch(&queue, add)?;
    drop(view);
    Ok((begun, sum))
}
