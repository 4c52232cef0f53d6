//! Makes the messages of a batch, none of them larger than a receiver accepts.
//!
//! A batch whose body is too large is divided into as many parts of equal length as its body would
//! fill messages, and a part that is still too large is divided again, until each fits or has one
//! row. So most batches are encoded twice at most, which matters where bodies are compressed. The
//! data of views is cut to what the rows of a part name: each part would have the data of all rows
//! otherwise, however often it is divided. The dictionaries were sent before the first part, and
//! the encoder leaves them out of the others.

use std::collections::VecDeque;

use arrow_device::{Batch, Result, Schema};
use arrow_device_ipc::{EncodedMessage, Encoder, WriteOptions};

/// The most bytes of a body, if nothing else was said: the half of what tonic accepts.
const MAX_BODY: u64 = 2 << 20;

pub(crate) struct Cutter {
    encoder: Encoder,
    max_body: u64,
}

impl Cutter {
    pub(crate) fn new(schema: &Schema, options: WriteOptions) -> Result<Self> {
        let encoder = Encoder::new(schema, options.cut_views(true))?;
        Ok(Self { encoder, max_body: MAX_BODY })
    }

    pub(crate) fn set_max_body(&mut self, bytes: u64) {
        self.max_body = bytes;
    }

    pub(crate) fn schema_message(&self) -> Result<Vec<u8>> {
        self.encoder.schema_message()
    }

    /// Appends the messages of a batch.
    pub(crate) fn cut(
        &mut self,
        batch: &Batch,
        messages: &mut VecDeque<EncodedMessage>,
    ) -> Result<()> {
        let mut parts = vec![batch.clone()];
        while let Some(part) = parts.pop() {
            let mut encoded = self.encoder.encode(&part)?;
            let rows = part.row_count();
            let len = encoded.last().map_or(0, EncodedMessage::body_len);
            if len > self.max_body && rows > 1 {
                encoded.pop();
                let count = len.div_ceil(self.max_body.max(1));
                let size = rows.div_ceil(usize::try_from(count).unwrap_or(rows)).min(rows - 1);
                // The stack gives the first part first.
                for start in (0..rows).step_by(size).rev() {
                    parts.push(part.slice(start, size.min(rows - start))?);
                }
            }
            messages.extend(encoded);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow_device::{Array, DataType};

    use super::*;

    fn cut(batch: &Batch, max_body: u64) -> Vec<(bool, u64)> {
        let mut cutter = Cutter::new(&batch.schema().unwrap(), WriteOptions::new()).unwrap();
        cutter.set_max_body(max_body);
        let mut messages = VecDeque::new();
        cutter.cut(batch, &mut messages).unwrap();
        messages.iter().map(|message| (message.is_dictionary(), message.body_len())).collect()
    }

    fn numbers(count: i64) -> Batch {
        let numbers = Array::from_values(DataType::Int64, (0..count).map(Some)).unwrap();
        Batch::from_columns([("n", numbers)]).unwrap()
    }

    #[test]
    fn a_batch_that_fits_is_one_message() {
        assert_eq!(cut(&numbers(8), 64), [(false, 64)]);
    }

    #[test]
    fn a_larger_one_is_divided_until_its_parts_fit() {
        assert_eq!(cut(&numbers(32), 64).len(), 4);
        assert!(cut(&numbers(33), 64).iter().all(|(_, len)| *len <= 64));
    }

    #[test]
    fn a_part_has_no_more_data_than_its_views_name() {
        let text = "x".repeat(1000);
        for order in [|row: usize| row, |row| row * 37 % 64] {
            let texts = (0..64).map(|row| format!("{:02}{text}", order(row))).collect::<Vec<_>>();
            let texts = Array::from_texts(DataType::Utf8View, texts.iter().map(Some)).unwrap();
            let batch = Batch::from_columns([("text", texts)]).unwrap();
            let parts = cut(&batch, 8192);
            assert!(parts.iter().all(|(_, len)| *len <= 8192), "{parts:?}");
            assert!(parts.len() < 16, "{parts:?}");
        }
    }

    #[test]
    fn a_row_is_not_cut() {
        assert_eq!(cut(&numbers(3), 1).len(), 3);
    }
}
