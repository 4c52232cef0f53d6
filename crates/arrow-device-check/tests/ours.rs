//! What this project makes and takes is right, on every device there is: the host, the software device of each kind, OpenCL.
#![cfg(all(unix, not(miri)))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]

mod support;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use arrow_device::abi::{ArrowAsyncDeviceStreamHandler, ArrowDeviceArray, ArrowSchema};
use arrow_device::async_stream::{AsyncProducer, AsyncStream, feed};
use arrow_device::dlpack::{Conversion, Copying, Order, Tensor};
use arrow_device::{
    Array, ArrayStream, Batch, DataType, Device, DeviceType, Error, ErrorKind, Queue, Result,
    Schema,
};
use arrow_device_check::{
    Advance, Bench, Entry, Kind, Peer, Side, Where, child_with, usual_places,
};
use arrow_device_sim::Sim;
use arrow_device_testkit::relay::{Ours, Relay};
use arrow_device_testkit::required::skip;

#[test]
fn the_child_of_the_other_tests() {
    child_with(peer);
}

fn batch() -> Result<Array> {
    let numbers = Array::from_values(DataType::Int64, [Some(1_i64), None, Some(3)])?;
    let text = Array::from_texts(DataType::Utf8, [Some("tea"), Some("coffee"), None])?;
    let views = [Some("longer than a view can hold"), None, Some("short")];
    let views = Array::from_texts(DataType::Utf8View, views)?;
    Ok(Batch::from_columns([("n", numbers), ("t", text), ("v", views)])?.as_array().clone())
}

/// The queue that something on this bench uses.
fn queue(bench: &Bench) -> Option<&Queue> {
    match bench {
        Bench::Device(opened) => Some(&opened.queue),
        _ => None,
    }
}

/// A batch in the place of a bench.
fn made(bench: &Bench) -> Result<Array> {
    match queue(bench) {
        Some(queue) => batch()?.copy_to(queue),
        None => batch(),
    }
}

unsafe fn export(
    bench: &Bench,
    schema: *mut ArrowSchema,
    out: *mut ArrowDeviceArray,
) -> Result<()> {
    let array = made(bench)?;
    let mut given = ArrowDeviceArray::empty();
    array.export(&mut given)?;
    unsafe { array.schema()?.export_to(schema) }?;
    unsafe { out.write(given) };
    Ok(())
}

/// Takes a batch, waits for it on a device's queue, reads all of it, and lets go.
unsafe fn consume(schema: *mut ArrowSchema, array: *mut ArrowDeviceArray) -> Result<()> {
    let known = unsafe { Schema::import(schema) };
    let known = match known {
        Ok(known) => known,
        Err(error) => {
            // The schema was wrong, so that the array is still there.
            support::release(array);
            return Err(error);
        }
    };
    let array = unsafe { Array::import(array, &known) }?;
    array.to_host()?.validate()
}

fn stream(bench: &Bench, fails: bool) -> Result<ArrayStream> {
    let arrays = (0..3).map(|_| made(bench)).collect::<Result<Vec<_>>>()?;
    let first = arrays.first().unwrap().clone();
    let last = fails.then(|| Err(Error::new(ErrorKind::Driver, "the cable was pulled")));
    let device_type = first.device().device_type;
    Ok(ArrayStream::new(first.schema()?, device_type, arrays.into_iter().map(Ok).chain(last)))
}

fn stream_entry(fails: bool) -> Entry {
    Entry::ProduceStream(Box::new(move |bench, out| {
        support::code(stream(bench, fails).map(|stream| stream.export(unsafe { &mut *out })))
    }))
}

fn async_entry(fails: bool) -> Entry {
    Entry::ProduceAsync(Box::new(move |_, handler: *mut ArrowAsyncDeviceStreamHandler| {
        let last = fails.then(|| Err(Error::new(ErrorKind::Driver, "the cable was pulled")));
        let (feeder, fed) = feed((0..4).map(|_| batch()).chain(last), 8);
        feeder.run();
        let schema = batch().unwrap().schema().unwrap();
        let producer = AsyncProducer::new(schema, DeviceType::CPU, fed);
        let drive = std::cell::RefCell::new(Box::pin(unsafe { producer.drive(handler) }.unwrap()));
        let is_done = std::cell::Cell::new(false);
        let advance = move || {
            let before = is_done.get();
            if !before {
                let polled =
                    drive.borrow_mut().as_mut().poll(&mut Context::from_waker(Waker::noop()));
                is_done.set(polled.is_ready());
            }
            Some(false)
        };
        (0, Box::new(advance) as Advance)
    }))
}

fn async_consumer() -> Peer {
    use futures_core::Stream;
    let entry = Entry::ConsumeAsync(Box::new(|_, out| {
        let (stream, handler) = AsyncStream::new(2);
        unsafe { out.write(handler.into_raw()) };
        let arrays = std::cell::RefCell::new(Some(Box::pin(stream.arrays())));
        let advance = move || {
            let mut arrays = arrays.borrow_mut();
            let Some(stream) = arrays.as_mut() else { return Some(false) };
            let polled = Pin::new(stream).poll_next(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(None | Some(Err(_))) = polled {
                *arrays = None;
            }
            Some(polled.is_ready())
        };
        (0, Box::new(advance) as Advance)
    }));
    Peer::new(entry, usual_places(false, false))
}

fn tensor(bench: &Bench) -> Result<Tensor> {
    let numbers = Array::from_values(DataType::Int64, [Some(1_i64), Some(2), Some(3)])?;
    let numbers = match queue(bench) {
        Some(queue) => numbers.copy_to(queue)?,
        None => numbers,
    };
    numbers.to_tensor(&Conversion::new())
}

fn entry(name: &str) -> Option<Peer> {
    let open = usual_places(true, true);
    let entry = match name {
        "array producer" => Entry::ProduceArray(Box::new(|bench, schema, array| {
            support::code(unsafe { export(bench, schema, array) })
        })),
        "array consumer" => Entry::ConsumeArray(Box::new(|_, schema, array| {
            support::code(unsafe { consume(schema, array) })
        })),
        "array relay" => {
            Entry::RelayArray(Box::new(|_, schema, array, out_schema, out| {
                match Ours.relay(unsafe { &mut *schema }, unsafe { &mut *array }) {
                    Ok((made_schema, made)) => {
                        unsafe { out_schema.write(made_schema) };
                        unsafe { out.write(made) };
                        0
                    }
                    Err(_) => {
                        support::release(array);
                        22
                    }
                }
            }))
        }
        "stream producer" => {
            return Some(Peer::new(stream_entry(false), open).with_failing(stream_entry(true)));
        }
        "stream consumer" => Entry::ConsumeStream(Box::new(|_, stream| {
            let read = unsafe { ArrayStream::import(stream) }
                .and_then(|mut arrays| arrays.try_for_each(|array| array.map(drop)));
            support::code(read)
        })),
        "stream relay" => Entry::RelayStream(Box::new(|_, stream, out| {
            let handed_on = unsafe { ArrayStream::import(stream) };
            support::code(handed_on.map(|stream| stream.export(unsafe { &mut *out })))
        })),
        "async producer" => {
            return Some(Peer::new(async_entry(false), open).with_failing(async_entry(true)));
        }
        "async consumer" => return Some(async_consumer()),
        "dlpack producer" => Entry::ProduceTensor(Box::new(|bench, out| {
            let made = tensor(bench).and_then(|tensor| tensor.export(Order::Host, Copying::Never));
            support::code(made.map(|made| unsafe { out.write(made.into_raw()) }))
        })),
        "dlpack consumer" => Entry::ConsumeTensor(Box::new(|_, tensor| {
            support::code(unsafe { Tensor::import(tensor, Order::Host) })
        })),
        "dlpack-legacy consumer" => Entry::ConsumeLegacy(Box::new(|_, tensor| {
            support::code(unsafe { Tensor::import(tensor, Order::Host) })
        })),
        _ => return None,
    };
    Some(Peer::new(entry, open))
}

/// A peer of ours, and behind an `@` the device.
fn peer(name: &str) -> Option<Peer> {
    let (name, device) = name.split_once('@').unwrap_or((name, "software"));
    let device = device.to_owned();
    let peer = entry(name)?;
    if device == "software" {
        return Some(peer);
    }
    let open = move |place| match place {
        Where::Host | Where::Anywhere => Ok(Bench::Host),
        Where::Device => Bench::device(named(&device)).map_err(|error| error.to_string()),
        Where::WithoutEvents => Err("it has events".into()),
    };
    Some(Peer { open: arrow_device_check::Opener(Box::new(open)), ..peer })
}

fn named(device: &str) -> Device {
    let sim = |kind| {
        let sim = Sim::builder().kind(kind).backtraces(false).build();
        let device = sim.device();
        // What it sees at its end would panic in a child, which shows.
        std::mem::forget(sim);
        device
    };
    match device {
        "host-readable" => sim(arrow_device_sim::Kind::HostReadable),
        "handles" => sim(arrow_device_sim::Kind::Handles),
        _ => arrow_device_opencl::open(0).unwrap(),
    }
}

const PEERS: [(&str, Kind, Side); 11] = [
    ("array producer", Kind::Array, Side::Producer),
    ("array consumer", Kind::Array, Side::Consumer),
    ("array relay", Kind::Array, Side::Relay),
    ("stream producer", Kind::Stream, Side::Producer),
    ("stream consumer", Kind::Stream, Side::Consumer),
    ("stream relay", Kind::Stream, Side::Relay),
    ("async producer", Kind::Async, Side::Producer),
    ("async consumer", Kind::Async, Side::Consumer),
    ("dlpack producer", Kind::Dlpack, Side::Producer),
    ("dlpack consumer", Kind::Dlpack, Side::Consumer),
    ("dlpack-legacy consumer", Kind::DlpackLegacy, Side::Consumer),
];

#[test]
fn what_is_ours_is_right_on_the_host_and_the_software_device() {
    for (name, kind, side) in PEERS {
        println!("{}", support::assert_right(name, kind, side));
    }
}

/// Those that use the device of the bench.
const ON_DEVICES: [(&str, Kind, Side); 4] = [PEERS[0], PEERS[1], PEERS[2], PEERS[3]];

fn is_right_on(device: &str) {
    for (name, kind, side) in ON_DEVICES {
        let peer = format!("{name}@{device}");
        let tried = [
            "an array on a device",
            "a batch on a device",
            "a stream on a device",
            "an array on a device whose children are moved out",
        ];
        let report = support::report_of(&peer, kind, side, &tried);
        assert!(report.failed().is_empty(), "{report}");
        let passed = report
            .findings()
            .filter(|finding| finding.verdict == arrow_device_check::Verdict::Pass);
        assert!(passed.count() > 3, "{report}");
    }
}

#[test]
fn what_is_ours_is_right_on_memory_that_the_host_can_read() {
    is_right_on("host-readable");
}

#[test]
fn what_is_ours_is_right_on_devices_with_handles() {
    is_right_on("handles");
}

#[test]
fn what_is_ours_is_right_on_opencl() {
    if let Err(reason) = arrow_device_opencl::is_available() {
        skip("opencl", &reason.to_string());
        return;
    }
    is_right_on("opencl");
}
