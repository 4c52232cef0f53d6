//! Memory of CUDA and of ROCm in other processes, on the simulated drivers. A process has one
//! simulated driver, so each test has a process of its own.

use arrow_device::driver::Raw;
use arrow_device::{Array, Device, ErrorKind, Recycler};
use arrow_device_share::{Receiver, Sender, open, share, to_shareable};
use arrow_device_testkit::process::alone;
use arrow_device_testkit::release_until;
use gpu_backends::{Bench, Kind, Machine};
use simulated_gpu_drivers::{Builder, Vendor};

use crate::devices;
use crate::processes::{Meeting, PATH, is_second, second};
use crate::support::{
    SOON, batch, connected, connected_with, shareable, trusting_receiver, trusting_sender,
};

/// A driver whose devices have room for all arrays that may be on their way.
fn roomy(builder: Builder) -> Builder {
    builder.memory(4 << 30)
}

/// Two devices as two processes would have them: each has a driver of its own over one library.
fn two(bench: &Machine) -> (Device, Device) {
    let [here, there] = [(); 2].map(|()| bench.open(0, Kind::Device));
    assert_eq!(here.sharing_domain(), there.sharing_domain());
    assert!(here.sharing_domain().is_some() && here.sharing_needs_trust());
    (here, there)
}

/// The names of all copies that were made.
fn copies(bench: &Machine) -> Vec<String> {
    let calls = bench.take_calls().into_iter();
    calls.filter(|name| name.contains("Memcpy")).collect()
}

fn no_byte_moves_between_two_processes(test: &str, vendor: Vendor) {
    const ROWS: i64 = 10_000;
    if let Some(socket) = second() {
        let bench = Bench::with(vendor, roomy);
        let device = bench.open(0, Kind::Device);
        let receiver = Receiver::new(socket, [device.clone()]);
        let mut receiver = trusting_receiver(receiver, &device);
        let array = receiver.receive().unwrap().unwrap();
        let queue = device.open_queue().unwrap();
        let view = array.on(&queue).unwrap();
        assert!(!view.root().child(0).unwrap().buffer(1).location().is_null());
        assert_eq!(copies(&bench), [""; 0], "opening and looking copies nothing");
        drop(view);
        assert!(array.to_host().unwrap().equals(batch(ROWS).as_array()).unwrap());
        return;
    }
    alone(|| {
        let bench = Bench::with(vendor, roomy);
        let device = bench.open(0, Kind::Device);
        let meeting = Meeting::new(&format!("nothing-moves-{vendor:?}"));
        let mut child = meeting.start(test);
        let array = to_shareable(batch(ROWS).as_array(), &device).unwrap();
        let sender = Sender::new(meeting.accept());
        let sender = trusting_sender(sender, &device);
        bench.take_calls();
        sender.send(&array).unwrap();
        assert_eq!(copies(&bench), [""; 0], "sending copies nothing");
        let status = child.wait().unwrap();
        assert!(status.success(), "{status}");
        assert!(sender.wait_until_released(SOON).unwrap());
    });
}

/// Bytes that the sender writes after the receiver has opened the array are seen there: the pages
/// are the same.
fn pages_are_the_same_in_both_processes(test: &str, vendor: Vendor) {
    use std::io::{Read, Write};
    let numbers = |from: i64| {
        let values = (from..from + 1000).map(Some);
        Array::from_values(arrow_device::DataType::Int64, values).unwrap()
    };
    if let Some(socket) = second() {
        let bench = Bench::with(vendor, roomy);
        let device = bench.open(0, Kind::Device);
        let receiver = Receiver::new(socket, [device.clone()]);
        let mut receiver = trusting_receiver(receiver, &device);
        let array = receiver.receive().unwrap().unwrap();
        assert!(array.to_host().unwrap().equals(&numbers(0)).unwrap());
        // Told and answered beside the connection.
        let path = std::env::var_os(PATH).unwrap();
        let mut beside = std::os::unix::net::UnixStream::connect(path).unwrap();
        beside.write_all(b"seen").unwrap();
        let mut answer = [0; 7];
        beside.read_exact(&mut answer).unwrap();
        assert!(array.to_host().unwrap().equals(&numbers(5000)).unwrap());
        return;
    }
    alone(|| {
        let bench = Bench::with(vendor, roomy);
        let device = bench.open(0, Kind::Device);
        let queue = device.open_queue().unwrap();
        let meeting = Meeting::new(&format!("pages-{vendor:?}"));
        let mut child = meeting.start(test);
        let array = to_shareable(&numbers(0), &device).unwrap();
        let sender = Sender::new(meeting.accept());
        let sender = trusting_sender(sender, &device);
        sender.send(&array).unwrap();
        let mut beside = meeting.accept();
        beside.read_exact(&mut [0; 4]).unwrap();
        // The driver's own function, as a program may call it that owns all of the memory.
        let view = array.on(&queue).unwrap();
        let to = view.root().buffer(1).location().spot().base;
        let values: Vec<i64> = (5000..6000).collect();
        bench.entered(|| {
            let name = bench.name("cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync");
            let bytes = std::mem::size_of_val(values.as_slice()) as u64;
            let stream = queue.raw().bits() as u64;
            let code = bench.raw(name, &[to.bits() as u64, values.as_ptr() as u64, bytes, stream]);
            assert_eq!(code, 0);
        });
        queue.synchronize().unwrap();
        drop(view);
        beside.write_all(b"changed").unwrap();
        let status = child.wait().unwrap();
        assert!(status.success(), "{status}");
        assert!(sender.wait_until_released(SOON).unwrap());
    });
}

fn without_trust_nothing_is_sent_and_nothing_is_opened(device: &Device) {
    let array = to_shareable(batch(10).as_array(), device).unwrap();
    let error = share(&array).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("a sender that trusts its receiver"), "{error}");

    let (sender, mut receiver) = connected([device.clone()]);
    let sender = trusting_sender(sender, device);
    sender.send(&array).unwrap();
    let error = receiver.receive().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("a receiver that trusts its sender"), "{error}");
    assert_eq!(sender.held().unwrap(), 0, "what is refused is released");
}

/// Memory that was not made for it, memory of the host, and memory of another device.
fn other_memory_is_refused_by_name(bench: &Machine) {
    let device = bench.open(0, Kind::Device);
    let array = batch(10).as_array().copy_to(&device.open_queue().unwrap()).unwrap();
    let error = share(&array).unwrap_err();
    assert!(error.to_string().contains("`n`: buffer 0 does not lie in memory"), "{error}");

    let (ticket, _sender) = share(&shareable(10)).unwrap();
    let error = open(ticket, [device.clone()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceMissing, "{error}");

    let other = bench.open(1, Kind::Device);
    assert_ne!(other.sharing_domain(), device.sharing_domain());
    let (sender, receiver) = connected([other.clone()]);
    let (sender, mut receiver) =
        (trusting_sender(sender, &device), trusting_receiver(receiver, &other));
    sender.send(&to_shareable(batch(10).as_array(), &device).unwrap()).unwrap();
    let error = receiver.receive().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceMissing, "{error}");
}

/// What was received is read on streams, and the release is told when all of them have passed.
fn a_release_is_told_in_the_order_of_streams(bench: &Machine) {
    let (here, there) = two(bench);
    let array = to_shareable(batch(100).as_array(), &here).unwrap();
    let (sender, mut receiver) = connected_with(&there);
    sender.send(&array).unwrap();
    let opened = receiver.receive().unwrap().unwrap();
    let queue = there.open_queue().unwrap();
    let stream = queue.raw().as_ptr() as u64;
    let view = opened.on(&queue).unwrap();
    let place = view.root().child(0).unwrap().buffer(1).location().spot().base;
    let kernel = bench.sim.kernel("reader").reads(place.bits() as u64, 8);
    assert_eq!(kernel.launch(stream, |_| {}), 0);
    drop((view, opened));
    assert_eq!(sender.held().unwrap(), 1, "the reader has not run");
    queue.synchronize().unwrap();
    assert!(release_until(|| sender.held().unwrap() == 0));
    drop((array, queue, receiver, sender));
    gpu_backends::settle();
}

/// An allocator over memory that can be shared gives parts of it, and gives it again.
fn allocators_divide_and_recycle_memory_that_is_shared(bench: &Machine) {
    let (here, there) = two(bench);
    let device = here.with_allocator(Recycler::new(64 << 20)).shareable().unwrap();
    let queue = device.open_queue().unwrap();
    let mut seen = Vec::new();
    for round in 0..3 {
        let rows = 42 - round;
        let array = batch(rows).as_array().copy_to(&queue).unwrap();
        let part = array.slice(3, 20).unwrap();
        array.wait().unwrap();
        let (sender, mut receiver) = connected_with(&there);
        sender.send(&part).unwrap();
        let opened = receiver.receive().unwrap().unwrap();
        let expected = batch(rows).as_array().slice(3, 20).unwrap();
        assert!(opened.to_host().unwrap().equals(&expected).unwrap());
        let view = array.on(&queue).unwrap();
        let place = view.root().child(0).unwrap().buffer(1).location().spot().base;
        seen.push(here.find_shared(place).unwrap().memory);
        drop((view, opened, receiver));
        assert!(sender.wait_until_released(SOON).unwrap());
        drop((array, part));
        gpu_backends::settle();
    }
    assert!(seen.iter().all(|memory: &Raw<_>| *memory == seen[0]), "{seen:?}");
}

macro_rules! on {
    ($vendor:ident, $kind:expr) => {
        mod $vendor {
            use super::*;

            fn bench() -> Bench {
                Bench::with($kind, roomy)
            }

            /// A device and the driver that it is of, which stays.
            fn device() -> Option<Device> {
                let bench: &'static Bench = Box::leak(Box::new(bench()));
                Some(bench.open(0, Kind::Device))
            }

            #[test]
            fn arrays_of_all_types_come_as_they_were() {
                alone(|| {
                    let bench = bench();
                    let (here, there) = two(&bench);
                    devices::arrays_of_all_types_come_as_they_were(&here, &there, 35);
                });
            }

            #[test]
            fn a_thousand_columns_are_one_descriptor_and_no_byte_moves() {
                alone(|| {
                    let bench = bench();
                    let (here, there) = two(&bench);
                    devices::a_thousand_columns_are_one_descriptor_and_no_byte_moves(&here, &there);
                });
            }

            // Requirement: SAF-41
            #[test]
            fn descriptors_of_other_things_are_refused() {
                alone(|| {
                    let bench = bench();
                    let (here, there) = two(&bench);
                    devices::descriptors_of_other_things_are_refused(&here, &there);
                });
            }

            // Requirement: SAF-41
            #[test]
            fn any_bytes_are_an_array_or_an_error() {
                alone(|| {
                    let bench = bench();
                    let (here, there) = two(&bench);
                    devices::any_bytes_are_an_array_or_an_error(&here, &there);
                });
            }

            #[test]
            fn golden_batches_cross_to_another_process() {
                let test = concat!(
                    "gpu::",
                    stringify!($vendor),
                    "::golden_batches_cross_to_another_process"
                );
                if is_second() {
                    let bench = bench();
                    let device = bench.open(0, Kind::Device);
                    return devices::golden_batches_cross(test, &device);
                }
                alone(|| {
                    let bench = bench();
                    let device = bench.open(0, Kind::Device);
                    devices::golden_batches_cross(test, &device);
                });
            }

            #[test]
            fn no_byte_moves_between_two_processes() {
                let test =
                    concat!("gpu::", stringify!($vendor), "::no_byte_moves_between_two_processes");
                super::no_byte_moves_between_two_processes(test, $kind);
            }

            #[test]
            fn pages_are_the_same_in_both_processes() {
                let test =
                    concat!("gpu::", stringify!($vendor), "::pages_are_the_same_in_both_processes");
                super::pages_are_the_same_in_both_processes(test, $kind);
            }

            // Requirement: SAF-42
            #[test]
            fn a_receiver_that_is_killed_leaves_nothing_behind() {
                let test = concat!(
                    "gpu::",
                    stringify!($vendor),
                    "::a_receiver_that_is_killed_leaves_nothing_behind"
                );
                devices::a_receiver_that_is_killed_leaves_nothing_behind(test, device);
            }

            // Requirement: SAF-42
            #[test]
            fn what_came_from_a_sender_that_was_killed_stays_usable() {
                let test = concat!(
                    "gpu::",
                    stringify!($vendor),
                    "::what_came_from_a_sender_that_was_killed_stays_usable"
                );
                devices::what_came_from_a_sender_that_was_killed_stays_usable(test, device);
            }

            #[test]
            fn without_trust_nothing_is_sent_and_nothing_is_opened() {
                alone(|| {
                    let bench = bench();
                    let (here, _) = two(&bench);
                    super::without_trust_nothing_is_sent_and_nothing_is_opened(&here);
                });
            }

            #[test]
            fn other_memory_is_refused_by_name() {
                alone(|| super::other_memory_is_refused_by_name(&bench()));
            }

            // Requirement: SAF-42
            #[test]
            fn a_release_is_told_in_the_order_of_streams() {
                alone(|| super::a_release_is_told_in_the_order_of_streams(&bench()));
            }

            #[test]
            fn allocators_divide_and_recycle_memory_that_is_shared() {
                alone(|| super::allocators_divide_and_recycle_memory_that_is_shared(&bench()));
            }
        }
    };
}

on!(cuda, Vendor::Cuda);
on!(rocm, Vendor::Hip);
