//! Reading Arrow IPC: to the host beside arrow-rs, and onto devices beside one copy of as many
//! bytes. Writing Arrow IPC from the host, beside arrow-rs.
//!
//! A reader begins with the schema, and so does each turn of reading: the schema and eight batches.
//! Writing is timed batch by batch, by a writer that has written the schema, into memory that has
//! room already.

use std::io::{self, Cursor, Write};
use std::sync::Arc;

use arrow_device::{Array, Batch, Buffer, DataType, Device, IndexType, Memory, Queue, Recycler};
use arrow_device_arrow::v60::ToArrow;
use arrow_device_ipc::{ReadOptions, StreamReader, StreamWriter, WriteOptions};
use arrow_ipc::reader::{StreamDecoder, StreamReader as RsReader};
use arrow_ipc::writer::StreamWriter as RsWriter;
use simulated_gpu_drivers::Vendor;

use super::copies::{count_on_device, count_on_simulated, integers, settle, texts};
use crate::case::{Case, Peer, WorkloadKey};
use crate::meter::{ALLOCATIONS, Counted, DRIVER_CALLS, Meter};

const LARGE: &str = "8 columns of int64";
const WIDE: &str = "1000 columns of int64";
/// Batches of a stream that goes to the host.
const BATCHES: usize = 8;

pub(super) const COUNTED: &[Counted] = &[
    Counted {
        name: "schema of an IPC stream/int64 batch/1000",
        promised: &[(ALLOCATIONS, 2100)],
        run: schema_counted,
    },
    Counted {
        name: "read IPC in memory/int64 batch of 16 rows/1000",
        promised: &[(ALLOCATIONS, 20)],
        run: |meter| in_memory_counted(&integers(1000, 16), meter),
    },
    Counted {
        name: "read IPC in memory/text batch of 16 rows/1000",
        promised: &[(ALLOCATIONS, 20)],
        run: |meter| in_memory_counted(&texts(1000, 16), meter),
    },
    Counted {
        name: "read IPC in memory/dictionary batch of 16 rows with its dictionaries/1000",
        promised: &[(ALLOCATIONS, 14_100)],
        run: |meter| in_memory_counted(&dictionaries(1000, 16), meter),
    },
    Counted {
        name: "read IPC, a column in two/int64 batch of 16 rows/1000",
        promised: &[(ALLOCATIONS, 20)],
        run: |meter| half_counted(&integers(1000, 16), meter),
    },
    Counted {
        name: "write IPC/int64 batch of 16 rows/1000",
        promised: &[(ALLOCATIONS, 100)],
        run: |meter| writing_counted(&integers(1000, 16), meter),
    },
    Counted {
        name: "write IPC/text batch of 16 rows/1000",
        promised: &[(ALLOCATIONS, 1100)],
        run: |meter| writing_counted(&texts(1000, 16), meter),
    },
    Counted {
        name: "read IPC onto CUDA/int64 batch of 1024 rows/1000",
        promised: &[(DRIVER_CALLS, 22)],
        run: |meter| onto_simulated(&integers(1000, 1024), 0, meter),
    },
    Counted {
        name: "read IPC at an odd address onto CUDA/int64 batch of 1024 rows/1000",
        promised: &[(DRIVER_CALLS, 22)],
        run: |meter| onto_simulated(&integers(1000, 1024), 1, meter),
    },
    Counted {
        name: "read IPC at an odd address onto CUDA/text batch of 1024 rows/1000",
        promised: &[(DRIVER_CALLS, 22)],
        run: |meter| onto_simulated(&texts(1000, 1024), 1, meter),
    },
    Counted {
        name: "read IPC onto OpenCL/int64 batch of 512 rows/1000",
        promised: &[("submissions", 2), ("handles", 0)],
        run: |meter| {
            let (batch, bytes) = (integers(1000, 512), of_one(&integers(1000, 512)));
            count_on_device(arrow_device_opencl::open(0), &batch, meter, |queue| {
                first_on(queue, &bytes)
            });
        },
    },
];

/// A stream of this batch, so many times.
fn stream(batch: &Batch, times: usize) -> Vec<u8> {
    let schema = batch.schema().unwrap();
    let mut writer = StreamWriter::new(Vec::new(), &schema, WriteOptions::new()).unwrap();
    (0..times).for_each(|_| writer.write(batch).unwrap());
    writer.finish().unwrap()
}

/// A stream of one batch, at an odd address, as it lies in a packet.
fn of_one(batch: &Batch) -> Buffer {
    at(&stream(batch, 1), 1)
}

/// Bytes that begin so many bytes behind a multiple of 8.
fn at(bytes: &[u8], place: u64) -> Buffer {
    let words = vec![0_u64; bytes.len() / 8 + 2];
    let mut all: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
    let start = all.as_ptr().align_offset(8) + place as usize;
    all[start..start + bytes.len()].copy_from_slice(bytes);
    Buffer::from(all).slice(start as u64, bytes.len() as u64).unwrap()
}

fn first_on(queue: &Queue, bytes: &Buffer) -> Batch {
    let reader = StreamReader::in_memory(bytes.clone(), ReadOptions::new()).unwrap();
    reader.on(queue).into_batches().next().unwrap().unwrap()
}

/// The batch after the first one, which finds what a batch leaves behind.
fn second_counted(batch: &Batch, options: &ReadOptions, columns: usize, meter: &mut Meter) {
    let bytes = at(&stream(batch, 1), 1);
    let mut readers =
        (0..2).map(|_| StreamReader::in_memory(bytes.clone(), options.clone()).unwrap());
    readers.next().unwrap().for_each(|batch| drop(batch.unwrap()));
    let mut reader = readers.next().unwrap();
    let batch = meter.measure(|| reader.next().unwrap().unwrap());
    assert_eq!(batch.column_count(), columns);
}

fn in_memory_counted(batch: &Batch, meter: &mut Meter) {
    second_counted(batch, &ReadOptions::new(), 1000, meter);
}

fn half_counted(batch: &Batch, meter: &mut Meter) {
    let options = ReadOptions::new().columns((0..1000).step_by(2));
    second_counted(batch, &options, 500, meter);
}

fn schema_counted(meter: &mut Meter) {
    let bytes = at(&stream(&integers(1000, 16), 1), 0);
    let open = || StreamReader::in_memory(bytes.clone(), ReadOptions::new()).unwrap();
    drop(open());
    let reader = meter.measure(open);
    assert_eq!(reader.schema().columns().len(), 1000);
}

fn writing_counted(batch: &Batch, meter: &mut Meter) {
    let schema = batch.schema().unwrap();
    let mut writer = StreamWriter::new(io::sink(), &schema, WriteOptions::new()).unwrap();
    (0..2).for_each(|_| writer.write(batch).unwrap());
    meter.measure(|| writer.write(batch).unwrap());
}

/// Columns of indices into two texts.
fn dictionaries(columns: usize, rows: usize) -> Batch {
    let values = Array::from_texts(DataType::Utf8, [Some("low"), Some("high")]).unwrap();
    let column = |index: usize| {
        let indices: Vec<i8> = (0..rows).map(|row| ((row + index) % 2) as i8).collect();
        let data_type = DataType::dictionary(IndexType::Int8, DataType::Utf8);
        let column = Array::builder(data_type).len(rows).buffers([None, Some(indices.into())]);
        (format!("c{index}"), column.dictionary(values.clone()).finish_ready().unwrap())
    };
    Batch::from_columns((0..columns).map(column)).unwrap()
}

fn onto_simulated(batch: &Batch, address: u64, meter: &mut Meter) {
    let bytes = at(&stream(batch, 1), address);
    count_on_simulated(Vendor::Cuda, batch, meter, |queue| first_on(queue, &bytes));
}

pub(super) fn cases() -> Vec<Case> {
    let sizes = [(8, 1 << 10, LARGE), (8, 1 << 17, LARGE), (1000, 512, WIDE)];
    let mut cases: Vec<Case> = sizes.into_iter().flat_map(to_host).collect();
    cases.extend(sizes.into_iter().flat_map(writing));
    let devices = [
        ("read IPC onto OpenCL", arrow_device_opencl::open(0)),
        ("read IPC onto Vulkan", arrow_device_vulkan::open(0)),
    ];
    for (read, device) in devices {
        let Ok(device) = device else { continue };
        for (columns, rows, shape) in [(8, 1 << 17, LARGE), (1000, 512, WIDE)] {
            cases.extend(onto((read, shape, rows as u64), &device, columns, rows));
        }
    }
    cases
}

/// All batches of a stream, each from memory that a reader copies from, and from memory where they
/// may stay.
fn to_host((columns, rows, shape): (usize, usize, &'static str)) -> Vec<Case> {
    let bytes = stream(&integers(columns, rows), BATCHES);
    let moved = (columns * rows * 8 * BATCHES) as u64;
    let size = rows as u64;
    let (read, mapped) = (("read IPC", shape, size), ("read IPC in memory", shape, size));
    // A reader owns its input, and a share of these bytes is an input.
    let ours: Arc<[u8]> = bytes.clone().into();
    let theirs = ours.clone();
    let (here, there) = (Buffer::from(bytes.clone()), arrow_buffer_60::Buffer::from(bytes));
    let read_ours = move || {
        let reader = StreamReader::new(Cursor::new(ours.clone()), ReadOptions::new()).unwrap();
        assert_eq!(reader.map(Result::unwrap).count(), BATCHES);
    };
    let read_theirs = move || {
        let reader = RsReader::try_new(Cursor::new(theirs.clone()), None).unwrap();
        assert_eq!(reader.map(Result::unwrap).count(), BATCHES);
    };
    let mapped_ours = move || {
        let reader = StreamReader::in_memory(here.clone(), ReadOptions::new()).unwrap();
        assert_eq!(reader.map(Result::unwrap).count(), BATCHES);
    };
    let mapped_theirs = move || {
        let (mut decoder, mut rest) = (StreamDecoder::new(), there.clone());
        let mut count = 0;
        while let Some(batch) = decoder.decode(&mut rest).unwrap() {
            drop(batch);
            count += 1;
        }
        assert_eq!(count, BATCHES);
    };
    vec![
        Case::whole(read, Peer::ArrowDevice, read_ours).moving(moved),
        Case::whole(read, Peer::ArrowRs, read_theirs).moving(moved),
        Case::whole(mapped, Peer::ArrowDevice, mapped_ours),
        Case::whole(mapped, Peer::ArrowRs, mapped_theirs),
    ]
}

/// A batch written to memory that has room already.
fn writing((columns, rows, shape): (usize, usize, &'static str)) -> Vec<Case> {
    let batch = integers(columns, rows);
    let moved = columns * rows * 8;
    let key = ("write IPC", shape, rows as u64);
    let theirs = batch.to_arrow().unwrap();
    let schema = batch.schema().unwrap();
    let mut ours = StreamWriter::new(Bounded::new(moved), &schema, WriteOptions::new()).unwrap();
    let mut rs = RsWriter::try_new(Bounded::new(moved), &theirs.schema()).unwrap();
    vec![
        Case::whole(key, Peer::ArrowDevice, move || ours.write(&batch).unwrap())
            .moving(moved as u64),
        Case::whole(key, Peer::ArrowRs, move || rs.write(&theirs).unwrap()).moving(moved as u64),
    ]
}

/// Memory that is written again and again from its beginning.
struct Bounded {
    bytes: Vec<u8>,
    at: usize,
}

impl Bounded {
    fn new(len: usize) -> Self {
        Self { bytes: vec![0; 2 * len + (1 << 20)], at: 0 }
    }
}

impl Write for Bounded {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        if self.bytes.len() - self.at < from.len() {
            self.at = 0;
        }
        let room = &mut self.bytes[self.at..];
        let len = from.len().min(room.len());
        room[..len].copy_from_slice(&from[..len]);
        self.at += len;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A batch from a stream in memory, and one copy of as many bytes.
fn onto(what: WorkloadKey, device: &Device, columns: usize, rows: usize) -> [Case; 2] {
    let moved = columns * rows * 8;
    let queue = || {
        let device = device.with_allocator(Recycler::new(256 << 20));
        device.open_queue().unwrap()
    };
    let bytes = of_one(&integers(columns, rows));
    let reading = queue();
    let read = move |()| {
        let there = first_on(&reading, &bytes);
        there.as_array().wait().unwrap();
        there
    };
    let copying = queue();
    let len = moved;
    let plain = Array::from_values(DataType::UInt8, (0..len).map(|byte| Some(byte as u8))).unwrap();
    let plain = plain.host().unwrap();
    let copy = move |()| {
        let mut memory = copying.allocate(len as u64).unwrap();
        let bytes = plain.buffer(1).unwrap();
        memory.write(&copying, bytes.get(..len).unwrap()).unwrap();
        copying.synchronize().unwrap();
        memory
    };
    let done = |there: Batch| {
        drop(there);
        settle();
    };
    let copied = |memory: Memory| {
        drop(memory);
        settle();
    };
    [
        Case::step(what, Peer::ArrowDevice, || (), read, done).moving(moved as u64),
        Case::step(what, Peer::ByHand("one plain copy"), || (), copy, copied).moving(moved as u64),
    ]
}
