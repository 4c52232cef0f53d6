//! What is copied here.

use arrow_device::{Array, DataType};

/// So many words, from `0` to `word 17`, of different lengths.
pub(crate) fn words(count: usize) -> Array {
    let word = |index: usize| match index % 3 {
        0 => index.to_string(),
        _ => format!("word {}", index % 20),
    };
    Array::from_texts(DataType::Utf8, (0..count).map(|index| Some(word(index)))).unwrap()
}
