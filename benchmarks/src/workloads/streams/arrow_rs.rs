//! Streams by arrow-rs: `FFI_ArrowArrayStream` to `RecordBatchStreamReader`.

use std::sync::Arc;

use arrow_array_60::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array_60::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array_60::{RecordBatch, RecordBatchIterator, StructArray};

use super::exported::structs;
use super::{COLUMNS, batch};
use crate::case::{Case, Peer};

pub(super) fn cases() -> Vec<Case> {
    let case = |columns| {
        let mut reader = reader(&theirs(columns));
        let once = move || drop(reader.next().unwrap().unwrap());
        Case::whole(("stream", "host batch", columns), Peer::ArrowRs, once)
    };
    COLUMNS.into_iter().map(case).collect()
}

/// The batch over the same buffers.
fn theirs(columns: u64) -> RecordBatch {
    let (mut schema, mut array) = structs(&batch(columns));
    // SAFETY: it was filled just now; what is left behind is forgotten, as nothing of it has a
    // destructor.
    let array = unsafe { FFI_ArrowArray::from_raw((&raw mut array.array).cast()) };
    // SAFETY: it was filled just now; what is left behind is forgotten, as nothing of it has a
    // destructor.
    let schema = unsafe { FFI_ArrowSchema::from_raw((&raw mut schema).cast()) };
    // SAFETY: both are good.
    let data = unsafe { from_ffi(array, &schema) }.unwrap();
    StructArray::from(data).into()
}

fn reader(batch: &RecordBatch) -> RecordBatchStreamReader {
    let schema = Arc::clone(batch.schema_ref());
    let batches = RecordBatchIterator::new(std::iter::repeat(batch.clone()).map(Ok), schema);
    RecordBatchStreamReader::try_new(FFI_ArrowArrayStream::new(Box::new(batches))).unwrap()
}

#[cfg(test)]
mod tests {
    use arrow_array_60::Int64Array;

    use super::*;
    use crate::workloads::streams::ROWS;

    #[test]
    fn what_comes_out_is_what_went_in() {
        let read = reader(&theirs(10)).nth(2).unwrap().unwrap();
        assert_eq!((read.num_rows() as i64, read.num_columns()), (ROWS, 10));
        let column = read.column(9).as_any().downcast_ref::<Int64Array>().unwrap();
        assert_eq!(column.value(column.len() - 1), ROWS - 1);
    }
}
