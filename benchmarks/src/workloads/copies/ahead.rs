//! Streams of batches from the host to a device: one batch after the other, with the next ones on
//! their way, and by a double buffer that is written by hand with the copies of this library.
//!
//! A stream has no end, and a turn is a batch: whoever gets it waits until its data is there, reads
//! one column of it on the host, and lets go of it.

use arrow_device::{Array, ArrayStream, Batch, Device, Queue, Recycler};

use super::integers;
use crate::case::{Case, Peer};

const COLUMNS: usize = 10;
const ROWS: [usize; 2] = [8192, 1 << 18];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let devices = [
        ("stream to OpenCL", arrow_device_opencl::open(0)),
        ("stream to Vulkan", arrow_device_vulkan::open(0)),
    ];
    for (workload, device) in devices {
        let Ok(device) = device else { continue };
        for rows in ROWS {
            cases.extend(of_device(workload, &device, rows));
        }
    }
    cases
}

fn of_device(workload: &'static str, device: &Device, rows: usize) -> [Case; 3] {
    let what = (workload, "10 columns of int64", rows as u64);
    let ways = [
        (Peer::ArrowDevice, Way::Prefetch),
        (Peer::ArrowDeviceFrom("one at a time"), Way::OneAtATime),
        (Peer::ByHand("double buffer"), Way::DoubleBuffer),
    ];
    ways.map(|(peer, way)| {
        let device = device.with_allocator(Recycler::new(256 << 20));
        let queue = device.open_queue().unwrap();
        let mut next = None;
        let once = move || {
            let next = next.get_or_insert_with(|| way.moved(rows, &queue));
            used(&next());
        };
        Case::whole(what, peer, once).moving((COLUMNS * rows * 8) as u64)
    })
}

/// How the batches of a stream come to a device.
#[derive(Clone, Copy)]
enum Way {
    Prefetch,
    OneAtATime,
    DoubleBuffer,
}

impl Way {
    /// What gives the next batch on the device.
    fn moved(self, rows: usize, queue: &Queue) -> Box<dyn FnMut() -> Array> {
        let first = integers(COLUMNS, rows);
        let schema = first.schema().unwrap();
        let columns = integers(COLUMNS, rows).into_iter().map(|(_, column)| column);
        let second = Batch::new(schema, columns).unwrap();
        let batches = [first, second].map(Array::from);
        let mut batches = batches.into_iter().cycle();
        if matches!(self, Self::DoubleBuffer) {
            let queue = queue.clone();
            let mut copied = move || batches.next().map(|batch| batch.copy_to(&queue).unwrap());
            let mut waiting = copied();
            return Box::new(move || std::mem::replace(&mut waiting, copied()).unwrap());
        }
        let stream = ArrayStream::from_first(batches.map(Ok::<_, arrow_device::Error>)).unwrap();
        let stream = stream.copy_to(queue);
        let mut stream = match self {
            Self::Prefetch => stream.prefetch(1),
            _ => stream,
        };
        Box::new(move || stream.next().unwrap().unwrap())
    }
}

/// Waits for the data, and reads one column of it on the host.
fn used(array: &Array) {
    array.wait().unwrap();
    let column = array.child(0).unwrap().to_host().unwrap();
    let view = column.host().unwrap();
    assert_eq!(view.buffer(1).unwrap().len(), array.len() * 8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_gives_the_batches_in_turn() {
        for way in [Way::Prefetch, Way::OneAtATime, Way::DoubleBuffer] {
            let mut next = way.moved(8, &Queue::host());
            for _ in 0..5 {
                let array = next();
                used(&array);
                assert!(array.equals(integers(COLUMNS, 8).as_array()).unwrap());
            }
        }
    }
}
