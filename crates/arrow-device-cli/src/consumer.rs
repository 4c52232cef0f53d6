//! The consumer: takes C structs from a producer that it knows nothing of.

use std::ops::Range;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Batch, Result, Schema};

/// Somebody who was handed a record batch.
pub(crate) struct Consumer {
    batch: Batch,
}

impl Consumer {
    /// Takes what a producer exported. Both structs are released afterwards.
    ///
    /// # Safety
    /// Both hold what the C data and C device interfaces say.
    pub(crate) unsafe fn take(
        schema: &mut ArrowSchema,
        array: &mut ArrowDeviceArray,
    ) -> Result<Self> {
        // SAFETY: promised by the caller.
        let schema = unsafe { Schema::import(schema) }?;
        // SAFETY: promised by the caller.
        let batch = unsafe { Batch::import(array, &schema) }?;
        Ok(Self { batch })
    }

    /// What it was handed.
    pub(crate) fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Exports some rows of one column.
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

/// Looks at all the data: offsets, text, keys, runs, null counts. Import has looked at the structure already. Says how many
/// values there are.
pub(crate) fn validate(batch: &Batch) -> Result<usize> {
    batch.as_array().validate()?;
    Ok(batch.column_count() * batch.row_count())
}

#[cfg(test)]
mod tests {
    use arrow_device::{Array, DataType, ErrorKind};

    use super::*;

    #[test]
    fn a_value_that_leads_outside_is_found() {
        let with_key = |key: i8| {
            let array = Array::builder(DataType::dictionary(DataType::Int8, DataType::Null))
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
