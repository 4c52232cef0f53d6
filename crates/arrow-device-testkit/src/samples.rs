//! Data that tests of several crates begin with.

use std::ops::Range;

use arrow_device::{Array, Batch, DataType, IndexType};

fn texts(texts: &[Option<&str>]) -> Array {
    Array::from_texts(DataType::Utf8, texts.to_vec()).unwrap()
}

/// A batch of three rows with a bit of everything: numbers, texts, a dictionary, lists and views.
/// `values` are the values of the dictionary, at least two.
///
/// # Panics
/// Panics if there are fewer than two values.
pub fn mixed_batch(values: &[Option<&str>]) -> Batch {
    let coded = Array::builder(DataType::dictionary(IndexType::Int8, DataType::Utf8))
        .len(3)
        .buffers([None, Some(vec![1_i8, 0, 1].into())])
        .dictionary(texts(values))
        .finish_ready()
        .unwrap();
    let lists = Array::builder(DataType::list(DataType::Int32))
        .len(3)
        .buffers([None, Some(vec![0_i32, 2, 2, 3].into())])
        .children([Array::from_values(DataType::Int32, [Some(1), None, Some(3)]).unwrap()])
        .finish_ready()
        .unwrap();
    let views =
        Array::from_texts(DataType::Utf8View, [Some("a long text, not inline"), None, None]);
    let numbers = Array::from_values(DataType::Int64, [Some(1_i64), None, Some(3)]).unwrap();
    let columns = [
        ("n", numbers),
        ("t", texts(&[Some("first"), None, Some("")])),
        ("d", coded),
        ("l", lists),
        ("v", views.unwrap()),
    ];
    Batch::from_columns(columns).unwrap()
}

/// A column of one row, whose dictionary has a word of a thousand bytes for each of these numbers.
/// The row is the last of the words.
///
/// # Panics
/// Panics if there is no number.
pub fn last_of(words: Range<usize>) -> Array {
    let last = words.len() - 1;
    let words = words.map(|number| Some(format!("{number:01000}")));
    let values = Array::from_texts(DataType::Utf8, words).unwrap();
    let keys = DataType::dictionary(IndexType::Int32, DataType::Utf8);
    Array::from_keys(keys, [Some(last)], values).unwrap()
}

/// Twenty batches of one column, `w`. The dictionary of each batch has a word of a thousand bytes
/// more than that of the batch before.
pub fn growing_dictionaries() -> Vec<Batch> {
    (1..=20).map(|end| Batch::from_columns([("w", last_of(0..end))]).unwrap()).collect()
}
