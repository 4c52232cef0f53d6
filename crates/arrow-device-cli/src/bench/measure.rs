//! Copies, and how long they take.

use std::time::{Duration, Instant};

use arrow_device::copy::Options;
use arrow_device::{Array, Buffer, DataType, Queue, Result};

use crate::backends::{Name, Opened};

/// So many copies are made at least, however long they take.
const FEWEST: usize = 3;
/// And so many at most, which is more than a median needs.
const MOST: usize = 10_000;

/// All sizes from one device to another.
pub(super) struct Line {
    pub(super) from: Name,
    pub(super) to: Name,
    /// By size.
    pub(super) points: Vec<Point>,
}

/// One size.
pub(super) struct Point {
    pub(super) bytes: u64,
    /// The median.
    pub(super) time: Duration,
    pub(super) copies: usize,
}

impl Line {
    /// What a copy costs that has next to nothing to move.
    pub(super) fn call(&self) -> Duration {
        self.points.first().map_or(Duration::ZERO, |point| point.time)
    }
}

impl Point {
    /// Bytes in a second.
    pub(super) fn rate(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64().max(1e-9)
    }
}

/// Every device with every one, itself too.
pub(super) fn all(opened: &[Opened], sizes: &[u64], time: Duration) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for from in opened {
        for to in opened {
            let queues = (from.device.open_queue()?, to.device.open_queue()?);
            let points = sizes.iter().map(|size| measure(&queues, *size, time));
            let points = points.collect::<Result<Vec<Point>>>()?;
            lines.push(Line { from: from.name, to: to.name, points });
        }
    }
    Ok(lines)
}

fn measure((from, to): &(Queue, Queue), bytes: u64, time: Duration) -> Result<Point> {
    let len = usize::try_from(bytes).unwrap_or(usize::MAX);
    let values = Buffer::from(vec![0x5a_u8; len]);
    let source = Array::builder(DataType::UInt8).len(len).buffers([None, Some(values)]);
    let source = source.finish_ready()?.copy_to(from)?;
    source.wait()?;
    let options = Options::new().always(true).through(from);
    let copy = || -> Result<Duration> {
        let start = Instant::now();
        let copy = source.copy_with(to, &options)?;
        copy.wait()?;
        drop(copy);
        Ok(start.elapsed())
    };
    // The first one finds cold memory, and drivers that are not awake yet.
    copy()?;
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < FEWEST || (start.elapsed() < time && times.len() < MOST) {
        times.push(copy()?);
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    Ok(Point { bytes, time: median, copies: times.len() })
}
