//! Whatever is copied between the host, Vulkan and software devices has the values that it had, as
//! a naive reader sees them; streams and tensors over Vulkan too.

use std::pin::Pin;
use std::task::{Context, Poll};

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::async_stream::{
    AsyncProducer, AsyncStream, Blocking, Ending, Outgoing, block_on,
};
use arrow_device::copy::Options;
use arrow_device::{Array, DataType, DeviceType, Queue, Recycler};
use arrow_device_sim::{Kind, Sim};
use arrow_device_testkit::generate::{self, Generated};
use arrow_device_testkit::tensors::{conversions, matrix};
use arrow_device_testkit::trips::{self, assert_is, built, imported, ways_to_copy};
use arrow_device_testkit::{kinds, oracle};
use arrow_device_vulkan::{Placement, open_from};
use futures_core::Stream;

use crate::shader::handles;
use crate::support::Bench;

#[test]
fn arbitrary_arrays_go_from_every_place_to_every_other() {
    let Some(device) = Bench::with(Placement::HostVisible) else { return };
    // The same `VkDevice`, with other memory.
    let handles = handles(device.vulkan());
    let unseen = unsafe { open_from(handles, Placement::DeviceOnly) }.unwrap();
    let Some(another) = Bench::with(Placement::DeviceOnly) else { return };
    let sims = [Kind::Discrete, Kind::HostReadable, Kind::Handles]
        .map(|kind| Sim::builder().kind(kind).backtraces(false).build());
    let mut places = vec![Queue::host()];
    places.extend([&device, &unseen, &another].map(|device| device.open_queue().unwrap()));
    places.extend(sims.iter().map(|sim| sim.device().open_queue().unwrap()));
    trips::from_every_place_to_every_other(&places, 30);
}

// Requirement: SAF-21
#[test]
fn polled_copies_need_nobody_who_waits() {
    for placement in [Placement::HostVisible, Placement::DeviceOnly] {
        let Some(device) = Bench::with(placement) else { return };
        trips::polled_copies_need_nobody_who_waits(&device.open_queue().unwrap(), 60);
    }
}

#[test]
fn what_the_host_filled_is_there_for_every_queue_at_once() {
    let Some(device) = Bench::with(Placement::HostVisible) else { return };
    // Memory that queues read and wrote before is filled again.
    let recycling = device.with_allocator(Recycler::new(1 << 20));
    let [one, other] = [(); 2].map(|()| recycling.open_queue().unwrap());
    for turn in 0..20 {
        let array = Array::from_values(DataType::Int32, (turn..turn + 1000).map(Some)).unwrap();
        let there = array.copy_to(&one).unwrap();
        let mut c_array = ArrowDeviceArray::empty();
        there.export(&mut c_array).unwrap();
        assert!(c_array.sync_event.is_null());
        let there = unsafe { Array::import(&mut c_array, &array.schema().unwrap()) }.unwrap();
        let copied = there.copy_with(&other, &Options::new().always(true)).unwrap();
        assert!(copied.to_host().unwrap().equals(&array).unwrap(), "turn {turn}");
    }
}

#[test]
fn what_the_host_filled_and_no_queue_used_is_free_at_once() {
    let Some(device) = Bench::with(Placement::HostVisible) else { return };
    let recycler = Recycler::new(1 << 20);
    let queue = device.with_allocator(recycler.clone()).open_queue().unwrap();
    let array = Array::from_values(DataType::Int32, (0..1000).map(Some)).unwrap();
    let copied = array.copy_to(&queue).unwrap();
    assert_eq!(recycler.kept(), 0);
    drop(copied);
    // Nobody was asked whether it is over.
    assert!(recycler.kept() >= 4000);
    // What a queue was told of goes when the queue has passed, and not before.
    let copied = array.copy_to(&queue).unwrap();
    let view = copied.on(&queue).unwrap();
    drop(copied);
    assert_eq!(recycler.kept(), 0);
    drop(view);
    queue.synchronize().unwrap();
    assert!(arrow_device_testkit::release_until(|| recycler.kept() >= 4000));
}

#[test]
fn every_type_in_every_window_goes_there_and_back() {
    let Some(seen) = Bench::with(Placement::HostVisible) else { return };
    let Some(unseen) = Bench::with(Placement::DeviceOnly) else { return };
    let queues = [seen.open_queue().unwrap(), unseen.open_queue().unwrap()];
    for (number, case) in kinds::cases().enumerate().step_by(3) {
        let (array, expected) = built(&case.plan());
        let there = array.copy_with(&queues[number % 2], &ways_to_copy(number)).unwrap();
        assert_is(&there.to_host().unwrap(), &expected, &case.to_string());
    }
}

#[test]
fn arbitrary_arrays_come_back_and_shrink_where_they_do_not() {
    let Some(device) = Bench::with(Placement::DeviceOnly) else { return };
    let (queue, host) = (device.open_queue().unwrap(), Queue::host());
    generate::for_each(300, 11, |generated| {
        let (array, expected) = built(&generated.plan);
        let copy = |array: &Array, queue: &Queue| {
            let copied = array.copy_with(queue, &ways_to_copy(generated.bytes.len()));
            copied.map_err(|error| error.to_string())
        };
        let back = copy(&imported(&copy(&array, &queue)?), &host)?;
        back.validate().map_err(|error| error.to_string())?;
        oracle::require_equal(&expected, &oracle::plan_of(&back)?)
    });
}

#[test]
fn threads_share_a_device() {
    let Some(device) = Bench::new() else { return };
    trips::threads_share_a_device(&device, 25);
}

// Requirement: SAF-5
#[test]
fn threads_read_one_array() {
    for placement in [Placement::HostVisible, Placement::DeviceOnly] {
        let Some(device) = Bench::with(placement) else { return };
        let queue = device.open_queue().unwrap();
        for threads in [2, 8] {
            trips::threads_read_one_array(&queue, threads, 50);
        }
    }
}

#[test]
fn streams_go_through_the_c_struct() {
    let Some(device) = Bench::new() else { return };
    trips::streams_go_through_the_c_struct(&device, 20);
}

/// A stream of what is there already.
struct Ready<I>(I);

impl<I: Iterator<Item = Outgoing> + Unpin> Stream for Ready<I> {
    type Item = arrow_device::Result<Outgoing>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next().map(Ok))
    }
}

#[test]
fn asynchronous_streams_go_through_the_c_struct() {
    let Some(device) = Bench::new() else { return };
    let queue = device.open_queue().unwrap();
    for (number, Generated { plan, .. }) in generate::samples(10, 5).enumerate() {
        let (array, expected) = built(&plan);
        let (schema, source, lane) = (array.schema().unwrap(), array.clone(), queue.clone());
        let work = (0..3).map(move |_| {
            let (array, queue) = (source.clone(), lane.clone());
            Outgoing::later(move || array.copy_to(&queue))
        });
        let (stream, handler) = AsyncStream::new(2);
        let producer = AsyncProducer::new(schema, DeviceType::VULKAN, Ready(work));
        let drive = unsafe { producer.drive(handler.into_raw()) }.unwrap();
        let driving = std::thread::spawn(move || block_on(drive));
        let mut read = 0;
        for task in Blocking::new(stream) {
            let array = task.unwrap().extract().unwrap();
            assert_eq!(array.device(), device.id());
            assert_is(&array.to_host().unwrap(), &expected, &format!("stream {number}"));
            read += 1;
        }
        assert_eq!(read, 3);
        assert_eq!(driving.join().unwrap().unwrap(), Ending::Finished);
    }
}

#[test]
fn tensors_of_every_type_come_back_in_every_layout() {
    let Some(device) = Bench::new() else { return };
    let queue = device.open_queue().unwrap();
    // 20 types, 9 layouts, 2 forms.
    assert_eq!(matrix::run(&queue, &matrix::DTYPES), 360);
}

#[test]
fn arrays_and_tensors_have_the_same_values() {
    let Some(device) = Bench::new() else { return };
    conversions::run(&device.open_queue().unwrap());
}

#[test]
fn a_part_of_a_large_column_moves_little() {
    let Some(device) = Bench::new() else { return };
    trips::a_part_of_a_large_column_moves_little(&device.open_queue().unwrap());
}
