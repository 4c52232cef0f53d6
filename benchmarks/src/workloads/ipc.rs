//! Reading Arrow IPC: to the host beside arrow-rs, and onto devices beside one copy of as many
//! bytes.

use std::io::Cursor;
use std::sync::Arc;

use arrow_device::{Array, Batch, Buffer, DataType, Device, Memory, Queue, Recycler};
use arrow_device_ipc::{ReadOptions, StreamReader, StreamWriter, WriteOptions};
use arrow_ipc::reader::{StreamDecoder, StreamReader as RsReader};

use super::copies::{count_on_device, integers, settle};
use crate::case::{Case, Peer, WorkloadKey};
use crate::meter::{ALLOCATIONS, Counted, Meter};

const LARGE: &str = "8 columns of int64";
const WIDE: &str = "1000 columns of int64";
/// Batches of a stream that goes to the host.
const BATCHES: usize = 8;

pub(super) const COUNTED: &[Counted] = &[
    Counted {
        name: "read IPC in memory/int64 batch of 16 rows/1000",
        promised: &[(ALLOCATIONS, 8100)],
        run: in_memory_counted,
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
    let bytes = [&[0][..], &stream(batch, 1)].concat();
    let len = bytes.len() as u64 - 1;
    Buffer::from(bytes).slice(1, len).unwrap()
}

fn first_on(queue: &Queue, bytes: &Buffer) -> Batch {
    let reader = StreamReader::in_memory(bytes.clone(), ReadOptions::new()).unwrap();
    reader.on(queue).into_batches().next().unwrap().unwrap()
}

fn in_memory_counted(meter: &mut Meter) {
    let bytes = of_one(&integers(1000, 16));
    let mut readers =
        (0..2).map(|_| StreamReader::in_memory(bytes.clone(), ReadOptions::new()).unwrap());
    readers.next().unwrap().for_each(|batch| drop(batch.unwrap()));
    let mut reader = readers.next().unwrap();
    let batch = meter.measure(|| reader.next().unwrap().unwrap());
    assert_eq!(batch.column_count(), 1000);
}

pub(super) fn cases() -> Vec<Case> {
    let sizes = [(8, 1 << 10, LARGE), (8, 1 << 17, LARGE), (1000, 512, WIDE)];
    let mut cases: Vec<Case> = sizes.into_iter().flat_map(to_host).collect();
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
