//! Streams: batches of `int64` columns through the C structs, from a producer to a consumer of the
//! same implementation.
//!
//! Streams are open while they are timed and have no end, so a turn is a batch: the producer shares
//! its buffers once more, the consumer takes the batch over and lets it go. Implementations differ
//! in what a consumer has then: nanoarrow a view, whose buffer sizes it worked out, all others
//! arrays of their own. Asynchronous streams run for [`BATCHES`] batches in each turn.

mod asynchronous;
mod synchronous;

#[cfg(feature = "peers")]
mod arrow_cpp;
#[cfg(feature = "peers")]
mod arrow_rs;
#[cfg(feature = "peers")]
mod nanoarrow;

use arrow_device::{Array, Batch, DataType};

use crate::case::Case;
use crate::meter::{ALLOCATED, ALLOCATIONS, Counted};

/// How many columns.
const COLUMNS: [u64; 4] = [1, 10, 100, 1000];
/// How many columns batches of asynchronous streams have.
const ASYNC_COLUMNS: [u64; 3] = [1, 10, 100];
/// How many batches an asynchronous stream may be asked for ahead, and what that is called.
const WINDOWS: [(usize, &str); 3] = [(1, "queue 1"), (5, "queue 5"), (64, "queue 64")];
/// How many batches of an asynchronous stream are timed at once, and how many come before them.
const BATCHES: usize = 1000;
const WARM: usize = 200;
/// How many rows, and the value in the last one.
const ROWS: i64 = 1024;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = synchronous::cases();
    cases.extend(asynchronous::cases());
    #[cfg(feature = "peers")]
    {
        cases.extend(arrow_rs::cases());
        cases.extend(arrow_cpp::cases());
        cases.extend(nanoarrow::cases());
    }
    cases
}

/// Nothing is allocated for a batch once a stream is under way.
const NOTHING: &[(&str, u64)] = &[(ALLOCATIONS, 0), (ALLOCATED, 0)];

pub(super) const COUNTED: &[Counted] = &[
    Counted {
        name: "poll of an arrow-rs reader/1000 polls without an array",
        promised: NOTHING,
        run: asynchronous::count_polls,
    },
    Counted { name: "stream/device batch/1", promised: NOTHING, run: |m| synchronous::count(1, m) },
    Counted {
        name: "stream/device batch/10",
        promised: NOTHING,
        run: |m| synchronous::count(10, m),
    },
    Counted {
        name: "stream/device batch/100",
        promised: NOTHING,
        run: |m| synchronous::count(100, m),
    },
    Counted {
        name: "stream/device batch/1000",
        promised: NOTHING,
        run: |m| synchronous::count(1000, m),
    },
    Counted {
        name: "stream/host batch/10",
        promised: NOTHING,
        run: |m| synchronous::count_host(10, m),
    },
    Counted {
        name: "stream/forwarded batch/10",
        promised: NOTHING,
        run: |m| synchronous::count_forwarded(10, m),
    },
    Counted {
        name: "stream/forwarded batch/1000",
        promised: NOTHING,
        run: |m| synchronous::count_forwarded(1000, m),
    },
    Counted {
        name: "async inline/100 of batch/1",
        promised: NOTHING,
        run: |m| asynchronous::count(1, m),
    },
    Counted {
        name: "async inline/100 of batch/10",
        promised: NOTHING,
        run: |m| asynchronous::count(10, m),
    },
    Counted {
        name: "async inline/100 of batch/100",
        promised: NOTHING,
        run: |m| asynchronous::count(100, m),
    },
];

/// A batch of so many columns of numbers, some of them null.
fn batch(columns: u64) -> Batch {
    let column = |index| {
        let values = (0..ROWS).map(|row| (row % 7 != 0).then_some(row));
        (format!("c{index}"), Array::from_values::<i64>(DataType::Int64, values).unwrap())
    };
    Batch::from_columns((0..columns).map(column)).unwrap()
}

/// What is in the last row of the last column.
#[cfg(test)]
fn last(batch: &Array) -> i64 {
    let column = batch.child(batch.child_count() - 1).unwrap();
    let host = column.host().unwrap();
    host.values::<i64>().unwrap().iter().last().unwrap().unwrap()
}

#[cfg(feature = "peers")]
mod exported {
    use arrow_device::Batch;
    use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};

    /// The structs of a batch, for a peer to work on the same buffers.
    pub(super) fn structs(batch: &Batch) -> (ArrowSchema, ArrowDeviceArray) {
        let (mut schema, mut array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
        batch.schema().unwrap().export(&mut schema).unwrap();
        batch.export(&mut array).unwrap();
        (schema, array)
    }
}
