//! Data that tests of several crates begin with.

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
