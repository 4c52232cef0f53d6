//! Makes the messages of a batch, none of them larger than a receiver accepts.
//!
//! A batch whose body is too large is halved, and each half again, until its parts fit or have one
//! row. Halving takes the lengths of the bodies, which the headers have, and reads no column. The
//! dictionaries were sent before the first part, and the encoder leaves them out of the others.

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
        Ok(Self { encoder: Encoder::new(schema, options)?, max_body: MAX_BODY })
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
            let is_too_large =
                encoded.last().is_some_and(|last| last.body_len() > self.max_body) && rows > 1;
            if is_too_large {
                encoded.pop();
                let half = rows / 2;
                // The stack gives the first half first.
                parts.push(part.slice(half, rows - half)?);
                parts.push(part.slice(0, half)?);
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
    fn a_larger_one_is_halved_until_its_parts_fit() {
        assert_eq!(cut(&numbers(32), 64).len(), 4);
        assert!(cut(&numbers(33), 64).iter().all(|(_, len)| *len <= 64));
    }

    #[test]
    fn a_row_is_not_cut() {
        assert_eq!(cut(&numbers(3), 1).len(), 3);
    }
}
