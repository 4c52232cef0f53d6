//! Parts of buffers that are read to the host.

use arrow_device::copy::{BufferReader, ReadableBuffer, Reading};
use arrow_device::{Array, DataType, ErrorKind, Queue, Result};
use arrow_device_sim::{Kind, Sim};

use crate::support::seeds;

const COUNT: i64 = 100;

fn bytes_of(numbers: std::ops::Range<i64>) -> Vec<u8> {
    numbers.flat_map(i64::to_ne_bytes).collect()
}

/// Numbers that a kernel writes when it runs, which may be after they are read.
fn produced(sim: &Sim, queue: &Queue) -> Array {
    let mut memory = queue.allocate(8 * COUNT as u64).unwrap();
    let spot = memory.spot(queue).unwrap();
    let numbers: Vec<i64> = (0..COUNT).collect();
    let kernel = sim.kernel("produce").writes(spot, 8 * COUNT as u64);
    kernel.launch(queue, move |memory| memory.set_values(0, &numbers)).unwrap();
    // SAFETY: the kernel writes all of it, in the order of this queue.
    unsafe { memory.assume_written(8 * COUNT as u64) };
    let buffers = [None, Some(memory.into_buffer())];
    let array = Array::builder(DataType::Int64).len(COUNT as usize).buffers(buffers);
    array.finish_on(queue).unwrap()
}

fn check(reading: Reading, expected: &[u8]) {
    assert_eq!(*reading.wait().unwrap(), *expected);
}

#[test]
fn parts_are_read_behind_the_data_and_in_any_order() {
    for kind in Kind::ALL {
        Sim::builder().kind(kind).backtraces(false).sweep(seeds(20), |sim| {
            let queue = sim.device().open_queue().unwrap();
            let array = produced(sim, &queue);
            for reader in [BufferReader::new(&array).unwrap(), BufferReader::through(&queue)] {
                let numbers = reader.buffer(&array, 1).unwrap();
                assert_eq!(numbers.len(), 8 * COUNT as u64);
                let first = reader.read(&[(&numbers, 0..40)]).unwrap();
                // Odd places, twice the same, nothing at all, the last one first.
                let parts =
                    [(&numbers, 792..800), (&numbers, 3..5), (&numbers, 7..7), (&numbers, 3..5)];
                let second = reader.read(&parts).unwrap();
                let all = bytes_of(0..COUNT);
                check(second, &[&all[792..], &all[3..5], &all[3..5]].concat());
                check(first, &all[..40]);
                assert!(reader.read(&[]).unwrap().wait().unwrap().is_empty());
                // A slice's buffer begins where that of the array does.
                let slice = array.slice(90, 5).unwrap();
                let slice = reader.buffer(&slice, 1).unwrap();
                assert_eq!(slice.len(), 8 * 95);
                assert!(reader.buffer(&array, 0).unwrap().is_empty(), "there is no bitmap");
                assert!(reader.buffer(&array, 9).unwrap().is_empty());
            }
        });
    }
}

#[test]
fn what_is_read_is_kept_until_it_is_there_whoever_gives_it_up() {
    for kind in Kind::ALL {
        Sim::builder().kind(kind).backtraces(false).sweep(seeds(20), |sim| {
            let queue = sim.device().open_queue().unwrap();
            let array = produced(sim, &queue);
            let reader = BufferReader::new(&array).unwrap();
            let numbers: ReadableBuffer = reader.buffer(&array, 1).unwrap();
            let kept = reader.read(&[(&numbers, 0..800)]).unwrap();
            // Nobody waits for this one.
            drop(reader.read(&[(&numbers, 0..800)]).unwrap());
            drop((array, numbers, reader, queue));
            check(kept, &bytes_of(0..COUNT));
        });
    }
}

#[test]
fn no_byte_outside_of_a_buffer_is_read() {
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    let array = produced(&sim, &queue);
    let reader = BufferReader::new(&array).unwrap();
    let numbers = reader.buffer(&array, 1).unwrap();
    for part in [0..801, 801..801, u64::MAX - 1..u64::MAX] {
        let error = reader.read(&[(&numbers, 0..1), (&numbers, part)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    #[allow(clippy::reversed_empty_ranges, reason = "what a caller may get wrong")]
    let backwards = reader.read(&[(&numbers, 5..3)]);
    assert_eq!(backwards.unwrap_err().kind(), ErrorKind::InvalidArgument);
    // Memory of another simulator, which the queue does not reach.
    let other = Sim::builder().build();
    let elsewhere = produced(&other, &other.device().open_queue().unwrap());
    let theirs = reader.buffer(&elsewhere, 1).unwrap();
    let error = reader.read(&[(&theirs, 0..8)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReachable, "{error}");
}

#[test]
fn data_buffers_of_views_are_read_and_their_sizes_are_not_memory_of_the_device() {
    let texts = ["a text that is not inline", "and another one, longer than that"];
    let views = Array::from_texts(DataType::Utf8View, texts.map(Some)).unwrap();
    for kind in Kind::ALL {
        let sim = Sim::builder().kind(kind).build();
        let queue = sim.device().open_queue().unwrap();
        let there = views.copy_to(&queue).unwrap();
        let reader = BufferReader::new(&there).unwrap();
        let data = reader.buffer(&there, 2).unwrap();
        assert_eq!(there.buffer_count(), 4);
        check(reader.read(&[(&data, 0..data.len())]).unwrap(), texts.concat().as_bytes());
        assert!(reader.buffer(&there, 3).unwrap().is_empty());
    }
}

#[test]
fn arrays_of_the_host_are_read_too() {
    let numbers = Array::from_values(DataType::Int64, (0..COUNT).map(Some)).unwrap();
    let reader = BufferReader::new(&numbers).unwrap();
    let buffer = reader.buffer(&numbers, 1).unwrap();
    check(reader.read(&[(&buffer, 8..24)]).unwrap(), &bytes_of(1..3));
}

#[test]
fn reads_take_turns_with_little_memory() {
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    let array = produced(&sim, &queue);
    let reader = BufferReader::new(&array).unwrap();
    let numbers = reader.buffer(&array, 1).unwrap();
    let mut before: Option<Reading> = None;
    for length in (1..=800).cycle().step_by(37).take(300) {
        let next = reader.read(&[(&numbers, 0..length)]).unwrap();
        if let Some(before) = before.replace(next) {
            before.wait().unwrap();
        }
    }
    drop(before);
    let held = sim.device().held().staging;
    assert!(held <= 3 * 4096, "{held} bytes");
}

#[test]
fn every_failure_is_an_error_and_leaves_nothing_behind() {
    for kind in [Kind::Discrete, Kind::WholeUnits] {
        let failed = Sim::builder().kind(kind).backtraces(false).for_each_fault(|sim| {
            let read = || -> Result<()> {
                let queue = sim.device().open_queue()?;
                let numbers = Array::from_values(DataType::Int64, (0..COUNT).map(Some))?;
                let there = numbers.copy_to(&queue)?;
                let reader = BufferReader::new(&there)?;
                let numbers = reader.buffer(&there, 1)?;
                let both = [reader.read(&[(&numbers, 8..800)])?, reader.read(&[(&numbers, 1..9)])?];
                let [one, other] = both.map(Reading::wait);
                assert_eq!(*one?, bytes_of(1..COUNT));
                other.map(drop)
            };
            let _ = read();
        });
        assert!(failed > 8, "{failed}");
    }
}
