//! Reading Parquet in batches of about the same number of bytes.
//!
//! arrow-rs counts a batch in rows, and what the file says of its bytes is how many they are
//! encoded: a column of one long text that repeats is next to nothing in the file. So the first
//! rows of each group are looked at before it is read.

use std::fs::File;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};

use super::careful::not_whole;
use super::position::Position;
use crate::failure::Outcome;

/// How large a batch should be: enough that what a copy costs beside its bytes does not matter.
const BYTES: usize = 8 << 20;
/// How many rows are looked at to learn how large they are.
const PROBE: usize = 64;
/// The most rows of a batch.
const MOST_ROWS: usize = 1 << 20;

/// A file, row group by row group.
pub(super) struct Groups {
    file: File,
    metadata: ArrowReaderMetadata,
    next: usize,
    current: Option<ParquetRecordBatchReader>,
    position: Position,
}

impl Groups {
    pub(super) fn open(file: File) -> Outcome<Self> {
        let metadata = ArrowReaderMetadata::load(&file, Default::default())
            .map_err(|error| not_whole("it begins as a Parquet file and", error))?;
        let rows = metadata.metadata().file_metadata().num_rows();
        let position = Position::of(u64::try_from(rows).unwrap_or(0));
        Ok(Self { file, metadata, next: 0, current: None, position })
    }

    pub(super) fn schema(&self) -> Arc<Schema> {
        self.metadata.schema().clone()
    }

    pub(super) fn position(&self) -> Position {
        self.position.clone()
    }

    /// A reader of one row group.
    fn read(&self, group: usize) -> Result<ParquetRecordBatchReader, ArrowError> {
        let builder = || -> Result<_, ArrowError> {
            let (file, metadata) = (self.file.try_clone()?, self.metadata.clone());
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
            Ok(builder.with_row_groups(vec![group]))
        };
        let mut probe = builder()?.with_batch_size(PROBE).with_limit(PROBE).build()?;
        let rows = match probe.next().transpose()? {
            Some(batch) if batch.num_rows() > 0 => {
                let of_a_row = batch.get_array_memory_size() / batch.num_rows();
                (BYTES / of_a_row.max(1)).clamp(1, MOST_ROWS)
            }
            _ => 1,
        };
        Ok(builder()?.with_batch_size(rows).build()?)
    }
}

impl Iterator for Groups {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.current.as_mut().and_then(Iterator::next) {
                if let Ok(batch) = &batch {
                    self.position.advance(batch.num_rows() as u64);
                }
                return Some(batch);
            }
            if self.next >= self.metadata.metadata().num_row_groups() {
                return None;
            }
            self.next += 1;
            match self.read(self.next - 1) {
                Ok(reader) => self.current = Some(reader),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
