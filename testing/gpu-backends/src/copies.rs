//! Values stay what they are on every way between all places, as a naive reader sees them.

use std::sync::mpsc;

use arrow_device::async_stream::{AsyncProducer, AsyncStream, Blocking, block_on, feed};
use arrow_device::copy::{Job, Options};
use arrow_device::{Array, DataType, Queue};
use arrow_device_sim::{Kind as SimKind, Sim};
use arrow_device_testkit::generate::{self, Generated};
use arrow_device_testkit::tensors::{conversions, matrix};
use arrow_device_testkit::trips::{self, assert_is, built, ways_to_copy};
use arrow_device_testkit::{kinds, oracle};

/// From every place to every other: the host, a software device, all kinds of memory of two
/// devices.
pub fn from_every_place_to_every_other(queues: Vec<Queue>, samples: usize) {
    let sim = Sim::builder().kind(SimKind::Discrete).backtraces(false).build();
    let mut places = vec![Queue::host(), sim.device().open_queue().unwrap()];
    places.extend(queues);
    trips::from_every_place_to_every_other(&places, samples);
}

/// Every type in every window, there and back.
pub fn every_type(queues: &[Queue]) {
    for (turn, queue) in queues.iter().enumerate() {
        for (number, case) in kinds::cases().enumerate().skip(turn).step_by(19) {
            let (array, expected) = built(&case.plan());
            let there = array.copy_with(queue, &ways_to_copy(number)).unwrap();
            assert_is(&there.to_host().unwrap(), &expected, &case.to_string());
        }
    }
}

/// Threads that share a device.
pub fn threads(queue: &Queue) {
    trips::threads_share_a_device(queue.device(), 15);
}

/// Streams of arrays, through the C struct.
pub fn streams(queues: &[Queue]) {
    for device in queues.iter().map(Queue::device) {
        trips::streams_go_through_the_c_struct(device, 8);
    }
}

/// Arrays that are pushed, made on one queue and used on another while they are being written.
pub fn async_streams(queues: &[Queue]) {
    for device in queues.iter().map(Queue::device) {
        let [made_on, used_on] = [(); 2].map(|()| device.open_queue().unwrap());
        let Generated { plan, .. } = generate::samples(1, 5).next().unwrap();
        let (array, expected) = built(&plan);
        let schema = array.schema().unwrap();
        let (stream, handler) = AsyncStream::new(4);
        let arrays = (0..50).map(move |_| array.copy_to(&made_on));
        let (feeder, arrays) = feed(arrays, 2);
        let producer = AsyncProducer::new(schema, device.id().device_type, arrays);
        let drive = unsafe { producer.drive(handler.into_raw()) }.unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| feeder.run());
            threads.spawn(|| block_on(drive));
            let mut count = 0;
            for array in Blocking::new(stream.arrays()) {
                let again = array.unwrap().copy_with(&used_on, &Options::new().always(true));
                assert_is(
                    &again.unwrap().to_host().unwrap(),
                    &expected,
                    "an array that was pushed",
                );
                count += 1;
            }
            assert_eq!(count, 50);
        });
    }
}

/// DLPack: tensors of every type in every layout.
pub fn tensors(queues: &[Queue]) {
    for queue in queues {
        // 20 types, 9 layouts, 2 forms.
        assert_eq!(matrix::run(queue, &matrix::DTYPES), 360, "{queue:?}");
        conversions::run(queue);
    }
}

/// Columns that are longer than what passes at a time, offsets that begin at another number
/// included.
pub fn columns_in_many_chunks(queue: &Queue) {
    let numbers = Array::from_values(DataType::Int64, (0..5000_i64).map(Some)).unwrap();
    let texts = (0..2000).map(|row| Some(format!("text {row}")));
    let texts = Array::from_texts(DataType::Utf8, texts).unwrap().slice(500, 1000).unwrap();
    for array in [numbers, texts] {
        let expected = oracle::plan_of(&array).unwrap();
        for chunk in [64, 1000, 4096] {
            let there = array.copy_with(queue, &Options::new().chunk(chunk)).unwrap();
            assert_is(&there.to_host().unwrap(), &expected, &format!("chunks of {chunk}"));
        }
    }
}

/// A copy that waits for its first chunks is an executor's, and one of two chunks is not.
pub fn an_executor_waits_for_chunks(queue: &Queue) {
    let options = Options::new().chunk(64 << 10);
    let (sender, jobs) = mpsc::channel::<Job>();
    for (bytes, is_waited_for) in [(500 << 10, false), (600 << 10, true)] {
        let array = Array::from_values(DataType::Int64, (0..bytes / 8_i64).map(Some)).unwrap();
        let sender = sender.clone();
        let plan = array.plan_copy(queue, &options).unwrap();
        let copying = plan.start(&move |job: Job| sender.send(job).unwrap());
        assert_eq!(copying.is_done(), !is_waited_for, "{bytes} bytes");
        jobs.try_iter().for_each(|job| job());
        let expected = oracle::plan_of(&array).unwrap();
        assert_is(&copying.wait().unwrap().to_host().unwrap(), &expected, "what was started");
    }
}
