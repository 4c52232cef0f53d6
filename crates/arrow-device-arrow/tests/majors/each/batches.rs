//! Record batches of several shapes, and streams of them that count who asks.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_core::Stream;

use super::arrow::array::builder::StringDictionaryBuilder;
use super::arrow::array::types::{Int16Type, Int32Type};
use super::arrow::array::{
    Array as _, ArrayRef, BooleanArray, Int64Array, ListArray, RecordBatch, RecordBatchOptions,
    StringArray, StructArray,
};
use super::arrow::schema::{Field, Schema, SchemaRef};

fn columns(rows: i64) -> Vec<(&'static str, ArrayRef)> {
    let mut words = StringDictionaryBuilder::<Int16Type>::new();
    for row in 0..rows {
        words.append_option(["red", "green", ""].get(row as usize % 4));
    }
    let lists = (0..rows).map(|row| {
        (row % 5 > 0).then(|| (0..row % 3).map(move |item| (item > 0).then_some(row as i32)))
    });
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
    let flags: ArrayRef =
        Arc::new((0..rows).map(|row| Some(row % 2 == 0)).collect::<BooleanArray>());
    let texts = (0..rows).map(|row| (row % 3 > 0).then(|| format!("text {row}")));
    let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
    let members = [("lists", lists), ("flags", flags), ("texts", texts)];
    let members = members.map(|(name, member)| {
        (Arc::new(Field::new(name, member.data_type().clone(), true)), member)
    });
    vec![
        ("id", Arc::new((0..rows).collect::<Int64Array>())),
        ("word", Arc::new(words.finish())),
        ("nested", Arc::new(StructArray::from(Vec::from(members)))),
    ]
}

fn metadata(key: &str, value: &str) -> HashMap<String, String> {
    HashMap::from([(key.to_owned(), value.to_owned())])
}

/// With metadata of its own and of a field.
pub fn schema() -> SchemaRef {
    let fields = columns(0).into_iter().map(|(name, column)| {
        let field = Field::new(name, column.data_type().clone(), name != "id");
        if name == "word" { field.with_metadata(metadata("unit", "colour")) } else { field }
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), metadata("made by", "a test")))
}

/// Numbers, a dictionary with nulls, lists and texts inside a struct.
pub fn batch(rows: i64) -> RecordBatch {
    let columns = columns(rows).into_iter().map(|(_, column)| column).collect();
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// Whole ones, sliced ones, empty ones.
pub fn batches() -> Vec<RecordBatch> {
    let long = batch(40);
    vec![batch(7), long.slice(3, 9), batch(0), long.slice(8, 0), long.slice(17, 23), long, batch(1)]
}

/// Rows and nothing in them.
pub fn no_columns(rows: usize) -> RecordBatch {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap()
}

/// The items of an iterator as a stream that has each one only at the second poll. As long as it
/// is there, it has a share of `asked`.
pub struct Given<I> {
    items: I,
    is_ready: bool,
    asked: Arc<AtomicUsize>,
}

impl<I> Given<I> {
    pub fn new(items: impl IntoIterator<IntoIter = I>) -> Self {
        Self { items: items.into_iter(), is_ready: false, asked: Arc::default() }
    }

    /// How often it was polled.
    pub fn asked(&self) -> Arc<AtomicUsize> {
        self.asked.clone()
    }
}

impl<I: Iterator + Unpin> Stream for Given<I> {
    type Item = I::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<I::Item>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.is_ready = !self.is_ready;
        if self.is_ready {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.items.next())
    }
}
