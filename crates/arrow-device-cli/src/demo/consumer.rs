//! The consumer: takes C structs from a producer that it knows nothing of.

use std::ops::Range;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::copy::Options;
use arrow_device::{Batch, Device, Error, ErrorKind, Queue, Result, Schema};

/// Somebody who was handed a record batch, on whatever device.
pub(crate) struct Consumer {
    batch: Batch,
    queue: Queue,
}

impl Consumer {
    /// Takes what a producer exported. Both structs are released afterwards. Reads nothing and
    /// waits for nothing.
    ///
    /// # Safety
    /// Both hold what the C data and C device interfaces say.
    pub(crate) unsafe fn take(
        schema: &mut ArrowSchema,
        array: &mut ArrowDeviceArray,
    ) -> Result<Self> {
        // SAFETY: both hold what the C data and C device interfaces say, as the caller promises.
        let schema = unsafe { Schema::import(schema) }?;
        // SAFETY: both hold what the C data and C device interfaces say, as the caller promises.
        let batch = unsafe { Batch::import(array, &schema) }?;
        // Its own queue on whatever device the array names.
        let device = Device::find(batch.device()).ok_or_else(|| {
            Error::new(ErrorKind::DeviceMissing, "nobody opened it").on_device(batch.device())
        })?;
        Ok(Self { batch, queue: device.open_queue()? })
    }

    /// What it was handed.
    pub(crate) fn batch(&self) -> &Batch {
        &self.batch
    }

    /// The same on the host: its queue waits for the data and copies it.
    pub(crate) fn fetch(&self) -> Result<Batch> {
        self.batch.copy_with(&Queue::host(), &Options::new().through(&self.queue))
    }

    /// Exports some rows of one column, where they are.
    pub(crate) fn hand_back(
        &self,
        column: &str,
        rows: Range<usize>,
        schema: &mut ArrowSchema,
        array: &mut ArrowDeviceArray,
    ) -> Result<()> {
        let part = self.batch.column_by_name(column)?.slice(rows.start, rows.len())?;
        part.schema()?.export(schema)?;
        part.export(array)
    }
}

/// Looks at all the data: offsets, text, keys, runs, null counts. Import has looked at the
/// structure already. Says how many values there are.
pub(crate) fn validate(batch: &Batch) -> Result<usize> {
    batch.as_array().validate()?;
    Ok(batch.column_count() * batch.row_count())
}

#[cfg(test)]
mod tests {
    use arrow_device::{Array, DataType, ErrorKind, IndexType};

    use super::*;

    #[test]
    fn a_value_that_leads_outside_is_found() {
        let with_key = |key: i8| {
            let array = Array::builder(DataType::dictionary(IndexType::Int8, DataType::Null))
                .len(2)
                .buffers([None, Some(vec![0, key].into())])
                .dictionary(Array::nulls(1).unwrap())
                .finish_ready();
            validate(&Batch::from_columns([("keys", array.unwrap())]).unwrap())
        };
        assert_eq!(with_key(0).unwrap(), 2);
        assert_eq!(with_key(1).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
