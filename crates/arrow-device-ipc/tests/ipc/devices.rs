//! Streams and files onto the software device and back.

use std::fs;
use std::io::Cursor;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_device::copy::Options;
use arrow_device::{Array, Batch, Buffer, DataType, DeviceId, ErrorKind, IndexType};
use arrow_device_ipc::{
    Compression, Decoded, Decoder, Encoder, FileReader, FileWriter, MessageApart, ReadOptions,
    StreamReader, WriteOptions,
};
use arrow_device_sim::{Call, Kind, Sim};
use arrow_device_testkit::allocations::peak;
use arrow_device_testkit::golden;
use arrow_device_testkit::tally::watch;

use crate::support::{read, read_at, written};

#[test]
fn golden_streams_go_onto_devices_and_back() {
    for kind in [Kind::Discrete, Kind::Handles, Kind::HostReadable] {
        let sim = Sim::builder().kind(kind).build();
        let queue = sim.device().open_queue().unwrap();
        for path in golden::streams() {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let bytes = fs::read(&path).unwrap();
            let (schema, expected) = read(&bytes).unwrap();
            let odd = [&[0_u8][..], &bytes].concat();
            let odd = Buffer::from(odd).slice(1, bytes.len() as u64).unwrap();
            let reader = StreamReader::in_memory(odd, ReadOptions::new()).unwrap();
            let there = reader.on(&queue).into_batches().collect::<Result<Vec<Batch>, _>>();
            let there = there.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(there.iter().all(|batch| batch.device() == sim.device().id()), "{name}");
            let back = written(&schema, &there, WriteOptions::new());
            let (_, found) = read(&back).unwrap();
            assert_eq!(found.len(), expected.len(), "{name}");
            for (found, expected) in found.iter().zip(&expected) {
                assert!(found.as_array().equals(expected.as_array()).unwrap(), "{name}");
            }
            // Slices on the device are cut there.
            let slices: Vec<Batch> = there
                .iter()
                .map(|batch| batch.slice(batch.row_count() / 2, batch.row_count() / 3).unwrap())
                .collect();
            let (_, found) = read(&written(&schema, &slices, WriteOptions::new())).unwrap();
            for (found, whole) in found.iter().zip(&expected) {
                let rows = whole.row_count();
                let expected = whole.slice(rows / 2, rows / 3).unwrap();
                assert!(found.as_array().equals(expected.as_array()).unwrap(), "{name}");
            }
        }
        drop(queue);
        let reports = sim.finish();
        assert!(reports.is_empty(), "{reports:?}");
    }
}

#[test]
fn a_batch_is_one_allocation_and_one_copy_from_where_it_lies() {
    let texts: Vec<Option<String>> = (0..500).map(|number| Some(number.to_string())).collect();
    let column = |number: i64| {
        let array = if number % 2 == 0 {
            Array::from_values(DataType::Int64, (0..500).map(|row| Some(row * number))).unwrap()
        } else {
            Array::from_texts(DataType::Utf8, texts.iter().map(|text| text.as_deref())).unwrap()
        };
        (format!("c{number}"), array)
    };
    let batch = Batch::from_columns((0..100).map(column)).unwrap();
    let schema = batch.schema().unwrap();
    let stream = written(&schema, &[batch.clone(), batch.clone()], WriteOptions::new());
    let mut writer = FileWriter::new(Vec::new(), &schema, WriteOptions::new()).unwrap();
    writer.write(&batch).unwrap();
    let file = writer.finish().unwrap();

    let sim = Sim::builder().log(true).build();
    let queue = sim.device().open_queue().unwrap();
    let in_memory = read_at(&stream, 1).unwrap().1;
    let plan = in_memory[0].as_array().plan_copy(&queue, &Options::new()).unwrap();
    assert_eq!((plan.submissions(), plan.allocations()), (1, 1), "{plan}");
    drop(plan);
    let reader = StreamReader::in_memory(Buffer::from(stream), ReadOptions::new()).unwrap();
    let mut on_device = reader.on(&queue).into_batches();
    let file = FileReader::in_memory(Buffer::from(file), ReadOptions::new()).unwrap();
    let mut of_file = file.on(&queue).into_batches();
    on_device.next().unwrap().unwrap();
    for of_stream in [true, false] {
        // A second allocation would fail, and the batch with it.
        sim.fail(Call::Allocate, 2);
        let next = if of_stream { on_device.next() } else { of_file.next() };
        let there = next.unwrap().unwrap();
        assert!(there.to_host().unwrap().as_array().equals(batch.as_array()).unwrap());
        assert!(sim.device().allocate(64).is_err(), "the second allocation was still to come");
    }
}

#[test]
fn compressed_streams_go_onto_the_device_too() {
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    let numbers = Array::from_values(DataType::Int32, (0..10_000).map(|row| Some(row % 7)));
    let batch = Batch::from_columns([("n", numbers.unwrap())]).unwrap();
    for compression in [Compression::Lz4, Compression::Zstd { level: 3 }] {
        let there = batch.copy_to(&queue).unwrap();
        let options = WriteOptions::new().compression(Some(compression));
        let bytes = written(&batch.schema().unwrap(), &[there], options);
        let reader = StreamReader::new(Cursor::new(bytes), ReadOptions::new()).unwrap();
        let found = reader.on(&queue).into_batches().next().unwrap().unwrap();
        assert!(found.to_host().unwrap().as_array().equals(batch.as_array()).unwrap());
    }
}

#[test]
fn reading_onto_a_device_is_one_copy_of_each_byte_and_takes_no_host_memory() {
    let rows = 20_000_i64;
    let texts: Vec<String> = (0..rows).map(|number| number.to_string()).collect();
    let column = |number: i64| {
        let values = (0..rows).map(|row| (row % 5 > 0).then_some(row * number));
        let array = match number % 2 {
            0 => Array::from_values(DataType::Int64, values).unwrap(),
            _ => Array::from_texts(DataType::Utf8, texts.iter().map(|text| Some(&**text))).unwrap(),
        };
        (format!("c{number}"), array)
    };
    let batch = Batch::from_columns((0..20).map(column)).unwrap();
    let batches = vec![batch.clone(); 3];
    let schema = batch.schema().unwrap();
    let stream = written(&schema, &batches, WriteOptions::new());
    let mut writer = FileWriter::new(Vec::new(), &schema, WriteOptions::new()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    let file = writer.finish().unwrap();
    // From an odd address, where nothing can be used as it is.
    let odd = |bytes: &[u8]| {
        let moved = Buffer::from([&[0_u8][..], bytes].concat());
        moved.slice(1, bytes.len() as u64).unwrap()
    };
    for kind in [Kind::Discrete, Kind::Handles] {
        let sim = Sim::builder().kind(kind).parts(true).backtraces(false).build();
        let (device, tally) = watch(&sim.device());
        let queue = device.open_queue().unwrap();
        let in_memory = StreamReader::in_memory(odd(&stream), ReadOptions::new()).unwrap();
        let in_file = FileReader::in_memory(odd(&file), ReadOptions::new()).unwrap();
        let live = in_file.batch(0).unwrap();
        let live = live.as_array().plan_copy(&queue, &Options::new()).unwrap().bytes();
        for stream in [in_memory.on(&queue), in_file.on(&queue)] {
            for there in stream.into_batches() {
                let there = there.unwrap();
                let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
                let counts = [&tally.copies, &tally.moved, &tally.allocations].map(count);
                assert_eq!(counts, [1, live, 1], "{kind:?}");
                assert!(there.to_host().unwrap().as_array().equals(batch.as_array()).unwrap());
                drop(there);
                tally.clear();
            }
        }
        // Between the bytes that lie there and the copy, only what names them is made.
        let mut on = StreamReader::in_memory(odd(&stream), ReadOptions::new()).unwrap();
        let (heap, read) = peak(|| on.next().unwrap().unwrap());
        assert!(heap < 64 << 10, "{heap} bytes for a batch of {live}");
        let (heap, plan) = peak(|| read.as_array().plan_copy(&queue, &Options::new()).unwrap());
        assert!(heap < 64 << 10, "{heap} bytes to plan its copy");
        drop((plan, read));
        assert_eq!(device.held().staging, 0);
        // One that is read piece by piece has its body once.
        let input = Cursor::new(stream.clone());
        let (heap, read) = peak(|| StreamReader::new(input, ReadOptions::new()).unwrap().next());
        let body = stream.len() / 3;
        assert!(read.unwrap().is_ok() && heap < body + body / 8, "{heap} bytes for {body}");
    }
}

#[test]
fn a_dictionary_on_another_device_than_its_batch_is_a_fault_of_the_caller() {
    let values = Array::from_texts(DataType::Utf8, [Some("a")]).unwrap();
    let data_type = DataType::dictionary(IndexType::Int8, DataType::Utf8);
    let keys = Array::from_keys(data_type, [Some(0), None], values).unwrap();
    let batch = Batch::from_columns([("d", keys)]).unwrap();
    let mut encoder = Encoder::new(&batch.schema().unwrap(), WriteOptions::new()).unwrap();
    let schema = encoder.schema_message().unwrap();
    let messages = encoder.encode_apart(&batch).unwrap();
    let sim = Sim::builder().backtraces(false).build();
    let queue = sim.device().open_queue().unwrap();
    let decoded = |decoder: &mut Decoder, message: &MessageApart, device: DeviceId| {
        let buffers = message.buffers().iter().map(|buffer| {
            let buffer = buffer.as_ref()?;
            let host = buffer.array().host().unwrap();
            let bytes = host.buffer(buffer.index()).unwrap()[..buffer.len() as usize].to_vec();
            if device == DeviceId::CPU {
                return Some(Buffer::from(bytes));
            }
            let mut memory = queue.allocate(bytes.len() as u64).unwrap();
            memory.write(&queue, &bytes).unwrap();
            Some(memory.into_buffer())
        });
        decoder.decode_apart(message.header(), buffers.collect(), device)
    };
    let [dictionary, whole] = &messages[..] else { panic!("{} messages", messages.len()) };
    for (one, other) in [(sim.device().id(), DeviceId::CPU), (DeviceId::CPU, sim.device().id())] {
        let mut decoder = Decoder::new(ReadOptions::new());
        decoder.decode(&schema, Buffer::from(Vec::<u8>::new())).unwrap();
        decoded(&mut decoder, dictionary, one).unwrap();
        let error = decoded(&mut decoder, whole, other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("dictionary 0 lies on"), "{error}");
        // The refused batch affects nothing.
        let Decoded::Batch { batch: again, .. } = decoded(&mut decoder, whole, one).unwrap() else {
            panic!("no batch")
        };
        let again = again.to_host().unwrap();
        assert!(again.as_array().equals(batch.as_array()).unwrap());
    }
    drop(queue);
    sim.finish();
}
