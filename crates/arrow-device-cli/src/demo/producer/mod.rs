//! The producer: builds a record batch of many types in memory of its own, and hands it to whoever
//! wants it.

mod columns;
mod memory;

use std::ops::Range;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::copy::Options;
use arrow_device::{Array, Batch, Error, ErrorKind, Metadata, Queue, Result, Schema};

use memory::CountedMemory;

/// The column that it wants a part of back.
pub(crate) const RETURNED_COLUMN: &str = "tags";
/// The part.
pub(crate) const RETURNED_ROWS: Range<usize> = 1..4;

/// Somebody who has data.
#[derive(Default)]
pub(crate) struct Producer {
    memory: CountedMemory,
}

impl Producer {
    /// Builds a record batch on the host, has a queue copy it to its device, and exports it there
    /// without waiting for the copy: the event goes along. Nothing of it stays here.
    pub(crate) fn hand_over(
        &self,
        queue: &Queue,
        schema: &mut ArrowSchema,
        array: &mut ArrowDeviceArray,
    ) -> Result<()> {
        let (fields, columns): (Vec<_>, Vec<_>) = columns::all()?.into_iter().unzip();
        let metadata = Metadata::from_pairs([("made by", "arrow-device demo")])?;
        let batch_schema =
            Schema::new(Schema::batch(fields)?.field().clone().with_metadata(metadata))?;
        let columns = columns
            .iter()
            .map(|column| self.memory.keep(column))
            .collect::<Result<Vec<Array>>>()?;
        let batch = Batch::new(batch_schema, columns)?;
        let there = batch.as_array().copy_with(queue, &Options::new().always(true))?;
        there.schema()?.export(schema)?;
        there.export(array)
    }

    /// Takes a part of a column back, copies it to the host, compares it with what it was, and
    /// releases it.
    ///
    /// # Safety
    /// Both structs hold what the C data and C device interfaces say.
    pub(crate) unsafe fn take_back(
        &self,
        queue: &Queue,
        schema: &mut ArrowSchema,
        array: &mut ArrowDeviceArray,
    ) -> Result<()> {
        // SAFETY: both structs hold what the C data and C device interfaces say, as the caller
        // promises.
        let schema = unsafe { Schema::import(schema) }?;
        // SAFETY: both structs hold what the C data and C device interfaces say, as the caller
        // promises.
        let part = unsafe { Array::import(array, &schema) }?;
        let part = part.copy_with(&Queue::host(), &Options::new().through(queue))?;
        let original = columns::tags()?.slice(RETURNED_ROWS.start, RETURNED_ROWS.len())?;
        if !part.equals(&original)? {
            return Err(Error::new(ErrorKind::InvalidData, "the column came back changed"));
        }
        Ok(())
    }

    /// How many buffers it has built.
    pub(crate) fn buffers_made(&self) -> usize {
        self.memory.buffers_made()
    }

    /// How many of its buffers somebody still uses.
    pub(crate) fn buffers_alive(&self) -> usize {
        self.memory.buffers_alive()
    }
}
