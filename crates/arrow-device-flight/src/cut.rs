//! Makes the messages of a batch, none larger than a receiver accepts unless dividing is of no use.
//!
//! A batch whose body is too large is divided into as many parts of equal length as its body would
//! fill messages, and a part that is still too large is divided again, until each fits or has one
//! row. So most batches are encoded twice at most, which matters where bodies are compressed. The
//! data of views is cut to what the rows of a part name: each part would have the data of all rows
//! otherwise, however often it is divided. The dictionaries were sent before the first part, and
//! the encoder leaves them out of the others.
//!
//! Parts may have more bytes together than the rows that were divided. All rows of a run share one
//! value. Lists that lie apart in a list view are sent with all that lies between them. Each part
//! has a header, and in each part the buffers of all columns are filled up to whole units. Two
//! rules bound what is sent, whatever the rows are:
//!
//! 1. A division is made only if the parts have together at most one and a half times the bytes of
//!    what is divided. Where more than two parts would have more bytes, two parts are tried.
//! 2. All divisions of a batch add at most as many bytes as the batch has in one message. So the
//!    parts that are sent have together at most twice the bytes of the batch in one message.
//!
//! A part that the rules leave whole is sent as it is. In both rules, a header counts only with
//! what it has above `max_body` and above [`FREE_HEADER`].
//!
//! One step divides one part, or gives one message. The message of a part is kept until the part is
//! sent or divided, and the bytes of a body are read when the message is sent. A division that
//! breaks a rule ends with the part that breaks the rule. So a step encodes about five times the
//! bytes of the batch at most, and the messages that are kept have at most twice these bytes.

use std::collections::VecDeque;

use arrow_device::{Batch, Result, Schema};
use arrow_device_ipc::{EncodedMessage, Encoder, WriteOptions};

/// The most bytes of a body, if nothing else was said: the half of what tonic accepts.
const MAX_BODY: u64 = 2 << 20;
/// A header of at most this many bytes does not count, however small bodies have to be.
const FREE_HEADER: u64 = 4 << 10;
/// The most parts of one division. Each keeps an encoded message, which is more than an empty body.
const MOST_PARTS: u64 = 1024;

pub(crate) struct Cutter {
    encoder: Encoder,
    max_body: u64,
    /// Messages that are sent next.
    made: VecDeque<EncodedMessage>,
    /// What is left of the last batch, the first part at the end.
    parts: Vec<Part>,
    /// How many bytes the divisions of the last batch may still add.
    spare: u64,
}

/// Rows of a batch and their message.
struct Part {
    rows: Batch,
    message: EncodedMessage,
    /// The most parts into which the rows are divided: two, where more had too many bytes before.
    ways: u64,
}

/// What one call of [`Cutter::step`] did.
pub(crate) enum Step {
    Made(EncodedMessage),
    /// A part was divided, and there is more to do.
    Divided,
    /// All messages of the last batch were given.
    Done,
}

impl Cutter {
    pub(crate) fn new(schema: &Schema, options: WriteOptions) -> Result<Self> {
        let encoder = Encoder::new(schema, options.cut_views(true))?;
        let (made, parts) = (VecDeque::new(), Vec::new());
        Ok(Self { encoder, max_body: MAX_BODY, made, parts, spare: 0 })
    }

    pub(crate) fn set_max_body(&mut self, bytes: u64) {
        self.max_body = bytes;
    }

    pub(crate) fn schema_message(&self) -> Result<Vec<u8>> {
        self.encoder.schema_message()
    }

    /// Takes a batch, whose messages the next steps give. The batch before has to be done.
    pub(crate) fn cut(&mut self, batch: Batch) -> Result<()> {
        if let Some(whole) = self.encoded(batch, MOST_PARTS)? {
            self.spare = self.size(&whole.message);
            self.parts.push(whole);
        }
        Ok(())
    }

    /// Divides one part, or gives one message.
    pub(crate) fn step(&mut self) -> Result<Step> {
        if let Some(message) = self.made.pop_front() {
            return Ok(Step::Made(message));
        }
        let Some(part) = self.parts.pop() else { return Ok(Step::Done) };
        let body = part.message.body_len();
        if body > self.max_body && part.rows.row_count() > 1 {
            let fitting = body.div_ceil(self.max_body.max(1)).clamp(2, MOST_PARTS);
            let ways = fitting.min(part.ways);
            let parts = match self.divided(&part, ways, MOST_PARTS)? {
                None if ways > 2 => self.divided(&part, 2, 2)?,
                parts => parts,
            };
            if let Some(parts) = parts {
                self.parts.extend(parts.into_iter().rev());
                return Ok(Step::Divided);
            }
        }
        Ok(Step::Made(part.message))
    }

    /// Divides a part into `ways` parts, each of which may later be divided into `ways_then`.
    /// Returns `None` where the parts would break a rule.
    fn divided(&mut self, whole: &Part, ways: u64, ways_then: u64) -> Result<Option<Vec<Part>>> {
        let count = whole.rows.row_count();
        let ways_then = ways_then.min(whole.ways);
        let size = count.div_ceil(usize::try_from(ways).unwrap_or(count)).min(count - 1);
        let before = self.size(&whole.message);
        let most = before.saturating_add(self.spare.min(before / 2));
        let (mut after, mut parts) = (0_u64, Vec::new());
        for start in (0..count).step_by(size) {
            let rows = whole.rows.slice(start, size.min(count - start))?;
            let Some(part) = self.encoded(rows, ways_then)? else { return Ok(None) };
            after = after.saturating_add(self.size(&part.message));
            if after > most {
                return Ok(None);
            }
            parts.push(part);
        }
        self.spare -= after.saturating_sub(before);
        Ok(Some(parts))
    }

    /// Encodes rows, and puts messages of dictionaries among those that are sent next.
    fn encoded(&mut self, rows: Batch, ways: u64) -> Result<Option<Part>> {
        let mut messages = self.encoder.encode(&rows)?;
        let message = messages.pop();
        self.made.extend(messages);
        Ok(message.map(|message| Part { rows, message, ways }))
    }

    /// Returns how many bytes of a message count.
    fn size(&self, message: &EncodedMessage) -> u64 {
        let header = message.header().len() as u64;
        let above = header.saturating_sub(self.max_body.max(FREE_HEADER));
        message.body_len().saturating_add(above)
    }
}

#[cfg(test)]
mod tests {
    use arrow_device::{Array, Buffer, DataType, Field, UnionMode};

    use super::*;

    fn cut(batch: &Batch, max_body: u64) -> Vec<(bool, u64)> {
        let mut cutter = Cutter::new(&batch.schema().unwrap(), WriteOptions::new()).unwrap();
        cutter.set_max_body(max_body);
        cutter.cut(batch.clone()).unwrap();
        let mut messages = Vec::new();
        loop {
            match cutter.step().unwrap() {
                Step::Made(message) => messages.push((message.is_dictionary(), message.body_len())),
                Step::Divided => {}
                Step::Done => break messages,
            }
        }
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
        let texts = Array::from_texts(DataType::Utf8, vec![Some("x".repeat(1000)); 3]).unwrap();
        assert_eq!(cut(&Batch::from_columns([("t", texts)]).unwrap(), 1).len(), 3);
    }

    fn total(messages: &[(bool, u64)]) -> u64 {
        messages.iter().map(|(_, len)| len).sum()
    }

    /// The batch that has one column with the length, the buffers and the children.
    fn built<const N: usize>(
        data_type: DataType,
        len: usize,
        buffers: [Option<Buffer>; N],
        children: impl IntoIterator<Item = Array>,
    ) -> Batch {
        let array = Array::builder(data_type).len(len).buffers(buffers).children(children);
        Batch::from_columns([("c", array.finish_ready().unwrap())]).unwrap()
    }

    #[test]
    fn rows_of_one_run_are_not_divided() {
        let text = Array::from_texts(DataType::Utf8, ["x".repeat(1000)].map(Some)).unwrap();
        let ends = Array::from_values(DataType::Int64, [Some(1_i64 << 12)]).unwrap();
        let runs = DataType::run_end_encoded(DataType::Int64, DataType::Utf8);
        assert_eq!(cut(&built(runs, 1 << 12, [], [ends, text]), 512).len(), 1);
    }

    #[test]
    fn lists_that_lie_apart_are_not_sent_with_all_of_their_data_again_and_again() {
        let items = || Array::from_values(DataType::Int64, (0..4000_i64).map(Some)).unwrap();
        let places: Vec<i32> = (0..4000).map(|row| row * 1571 % 4000).collect();
        let (places, sizes) = (|| Some(places.clone().into()), vec![1_i32; 4000]);
        let lists = DataType::list_view(DataType::Int64);
        let lists = built(lists, 4000, [None, places(), Some(sizes.into())], [items()]);
        let fields = [Field::new("a", DataType::Int64, true)];
        let union = DataType::union(UnionMode::Dense, fields);
        let union = built(union, 4000, [Some(vec![0_u8; 4000].into()), places()], [items()]);
        for batch in [lists, union] {
            let (whole, parts) = (cut(&batch, u64::MAX), cut(&batch, 8192));
            assert!(total(&parts) <= 2 * total(&whole), "{whole:?} {parts:?}");
            assert!(parts.len() < 32, "{parts:?}");
        }
    }

    #[test]
    fn lists_that_lie_in_order_are_divided() {
        let items = Array::from_values(DataType::Int64, (0..4000_i64).map(Some)).unwrap();
        let (places, sizes): (Vec<i32>, _) = ((0..4000).collect(), vec![1_i32; 4000]);
        let buffers = [None, Some(places.into()), Some(sizes.into())];
        let parts = cut(&built(DataType::list_view(DataType::Int64), 4000, buffers, [items]), 8192);
        assert!(parts.iter().all(|(_, len)| *len <= 8192), "{parts:?}");
        assert!(parts.len() < 16, "{parts:?}");
    }

    #[test]
    fn wide_batches_are_not_cut_into_padding() {
        let column = Array::from_values(DataType::Int8, (0..1000).map(|row| Some(row as i8)));
        let column = column.unwrap();
        let columns = (0..140).map(|number| (format!("c{number}"), column.clone()));
        let wide = Batch::from_columns(columns).unwrap();
        let whole = total(&cut(&wide, u64::MAX));
        for max_body in [1, 64, 4096, 8192, 8960, 10_000, 50_000] {
            let parts = cut(&wide, max_body);
            assert!(total(&parts) <= 2 * whole, "{max_body}: {} of {whole}", total(&parts));
            let most = parts.iter().map(|(_, len)| *len).max();
            assert!(most <= Some(max_body.max(140 * 64)), "{max_body}: {most:?}");
        }
    }

    /// A header is sent with each part, and the body of a column of nulls is empty.
    #[test]
    fn headers_count_where_they_are_large() {
        let numbers = Array::from_values(DataType::Int64, (0..1_i64 << 15).map(Some)).unwrap();
        let nulls = Array::nulls(1 << 15).unwrap();
        let nulls = (0..2000).map(|number| (format!("c{number}"), nulls.clone()));
        let columns = nulls.chain([("n".to_owned(), numbers)]);
        let batch = Batch::from_columns(columns).unwrap();
        let count = cut(&batch, 1024).len();
        assert!((4..32).contains(&count), "{count}");
    }

    #[test]
    fn rows_of_unlike_sizes_are_divided_until_they_fit() {
        for at in [0, 500, 998] {
            let size = |row: usize| if (at..at + 2).contains(&row) { 6000 } else { 1 };
            let texts = (0..1000).map(|row| Some("x".repeat(size(row))));
            let texts = Array::from_texts(DataType::Utf8, texts.collect::<Vec<_>>()).unwrap();
            let batch = Batch::from_columns([("t", texts)]).unwrap();
            let parts = cut(&batch, 8192);
            assert!(parts.iter().all(|(_, len)| *len <= 8192), "{at}: {parts:?}");
            assert!(parts.len() < 32, "{at}: {parts:?}");
        }
    }
}
