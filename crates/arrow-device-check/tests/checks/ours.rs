//! What this project makes and takes is right, on every device there is: the host, the software
//! device of each kind, OpenCL, Vulkan, and CUDA and ROCm on simulated drivers.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use arrow_device::abi::{ArrowAsyncDeviceStreamHandler, ArrowDeviceArray, ArrowSchema};
use arrow_device::async_stream::{AsyncProducer, AsyncStream, feed};
use arrow_device::dlpack::{Conversion, CopyPolicy, Order, Tensor};
use arrow_device::{
    Array, ArrayStream, Batch, DataType, DeviceType, Error, ErrorKind, Queue, Result, Schema,
};
use arrow_device_check::{
    Advance, Bench, Entry, Kind, Peer, Side, Verdict, Where, child_with, usual_places,
};
use arrow_device_sim::Sim;
use arrow_device_testkit::relay::{Ours, Relay};
use arrow_device_testkit::required::skip;
use simulated_gpu_drivers::{Simulated, Vendor};

use crate::support;

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
    let entry =
        match name {
            "array producer" => Entry::ProduceArray(Box::new(|bench, schema, array| {
                support::code(unsafe { export(bench, schema, array) })
            })),
            "array consumer" => Entry::ConsumeArray(Box::new(|_, schema, array| {
                support::code(unsafe { consume(schema, array) })
            })),
            "array relay" => Entry::RelayArray(Box::new(|_, schema, array, out_schema, out| {
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
            })),
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
                let made =
                    tensor(bench).and_then(|tensor| tensor.export(Order::Host, CopyPolicy::Never));
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
    // Dropped with the peer, when all is released.
    let driver = std::cell::RefCell::new(None);
    let open = move |place| match place {
        Where::Host | Where::Anywhere => Ok(Bench::Host),
        Where::Device => named(&device, &driver).map_err(|error| error.to_string()),
        Where::WithoutEvents => Err("it has events".into()),
    };
    Some(Peer { open: arrow_device_check::Opener(Box::new(open)), ..peer })
}

/// A simulated driver. What it has to report at its end ends the child, which is found.
struct Driver(Simulated);

impl Drop for Driver {
    fn drop(&mut self) {
        let reports = self.0.take_reports();
        if !reports.is_empty() {
            eprintln!("{}", reports.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
            std::process::abort();
        }
    }
}

/// The driver of a vendor, where its backend looks for it.
fn loaded(vendor: Vendor, variable: &str) -> Option<Driver> {
    let simulated = Simulated::builder(vendor).memory(256 << 20).load();
    // SAFETY: nobody else reads the environment: in a child one test runs, and the backend is asked
    // for the first time below.
    unsafe { std::env::set_var(variable, simulated.path()) };
    Some(Driver(simulated))
}

fn named(device: &str, driver: &std::cell::RefCell<Option<Driver>>) -> Result<Bench> {
    let sim = || Sim::builder().backtraces(false);
    let cuda = |kind| {
        driver.replace(loaded(Vendor::Cuda, "ARROW_DEVICE_CUDA_LIBRARY"));
        Bench::device(arrow_device_cuda::open_with(0, kind)?)
    };
    let rocm = |kind| {
        driver.replace(loaded(Vendor::Hip, "ARROW_DEVICE_HIP_LIBRARY"));
        Bench::device(arrow_device_rocm::open_with(0, kind)?)
    };
    match device {
        "host-readable" => {
            Bench::simulated(sim().kind(arrow_device_sim::Kind::HostReadable).build())
        }
        "handles" => Bench::simulated(sim().kind(arrow_device_sim::Kind::Handles).build()),
        "parts" => {
            Bench::simulated(sim().kind(arrow_device_sim::Kind::Handles).parts(true).build())
        }
        "peers" => Bench::simulated(sim().peers(2).build()),
        "cuda" => cuda(arrow_device_cuda::Kind::Device),
        "cuda-host" => cuda(arrow_device_cuda::Kind::Host),
        "cuda-managed" => cuda(arrow_device_cuda::Kind::Managed),
        "rocm" => rocm(arrow_device_rocm::Kind::Device),
        "rocm-host" => rocm(arrow_device_rocm::Kind::Host),
        "vulkan" => Bench::device(arrow_device_vulkan::open(0)?),
        _ => Bench::device(arrow_device_opencl::open(0)?),
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
const ON_DEVICES: [(&str, Kind, Side); 6] =
    [PEERS[0], PEERS[1], PEERS[2], PEERS[3], PEERS[5], PEERS[8]];

const TRIED: [&str; 10] = [
    "an array on a device",
    "an array on a device whose children are moved out",
    "a batch of numbers on a device",
    "a batch on a device",
    "a batch on a device whose nulls nobody has counted",
    "a batch on a device, some of whose buffers are null",
    "arrays of every type of device",
    "a stream on a device",
    "a stream on a device whose nulls nobody has counted",
    "a tensor on a device",
];

fn is_right_on(device: &str) {
    for (name, kind, side) in ON_DEVICES {
        let peer = format!("{name}@{device}");
        let report = support::report_of(&peer, kind, side, &TRIED);
        assert!(report.failed().is_empty(), "{report}");
        let mut found = report.findings();
        // What was left out was not looked at.
        let skipped = found.find(|finding| finding.verdict == Verdict::NotApplicable);
        assert!(skipped.is_none(), "{report}");
        assert!(report.findings().count() > 3, "{report}");
    }
}

#[test]
fn what_is_ours_is_right_on_memory_that_the_host_can_read() {
    is_right_on("host-readable");
}

#[test]
fn what_is_ours_is_right_on_devices_with_handles() {
    is_right_on("handles");
    is_right_on("parts");
}

#[test]
fn what_is_ours_is_right_on_devices_with_peers() {
    is_right_on("peers");
}

#[test]
fn what_is_ours_is_right_on_opencl() {
    if let Err(reason) = arrow_device_opencl::is_available() {
        skip("opencl", &reason.to_string());
        return;
    }
    is_right_on("opencl");
}

#[test]
fn what_is_ours_is_right_on_vulkan() {
    if let Err(reason) = arrow_device_vulkan::is_available() {
        skip("vulkan", &reason.to_string());
        return;
    }
    is_right_on("vulkan");
}

#[test]
fn what_is_ours_is_right_on_cuda() {
    ["cuda", "cuda-host", "cuda-managed"].into_iter().for_each(is_right_on);
}

#[test]
fn what_is_ours_is_right_on_rocm() {
    ["rocm", "rocm-host"].into_iter().for_each(is_right_on);
}
