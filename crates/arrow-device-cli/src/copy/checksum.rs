//! A number for all that an array says: XXH3 with 64 bits over the buffers of all its nodes, and
//! their lengths and offsets.
//!
//! Two arrays of the same shape, node by node, have the same number if they hold the same bytes,
//! wherever they lie. A bitmap that says of no element that it is null is as good as none.

use std::hash::Hasher as _;

use arrow_device::{Array, BufferKind, HostArray, Result};
use twox_hash::XxHash3_64;

/// The number, and how many bytes the buffers have. Waits for the array, which the host has to be
/// able to read.
pub(super) fn of(array: &Array) -> Result<(u64, u64)> {
    let mut sum = XxHash3_64::new();
    let mut bytes = 0;
    add(&mut sum, &mut bytes, &array.host()?)?;
    Ok((sum.finish(), bytes))
}

fn add(sum: &mut XxHash3_64, bytes: &mut u64, node: &HostArray) -> Result<()> {
    let array = node.array();
    sum.write_u64(array.len() as u64);
    sum.write_u64(array.offset() as u64);
    for index in 0..array.buffer_count() {
        let is_validity = array.buffer_kind(index) == Some(BufferKind::Validity);
        if is_validity && array.null_count() == Some(0) {
            continue;
        }
        let buffer = node.buffer(index)?;
        sum.write_u64(buffer.len() as u64);
        sum.write(&buffer);
        *bytes += buffer.len() as u64;
    }
    for index in 0..array.child_count() {
        add(sum, bytes, &node.child(index)?)?;
    }
    match node.dictionary() {
        Some(values) => add(sum, bytes, &values),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use arrow_device::DataType;

    use super::*;

    fn words(words: &[Option<&str>]) -> Array {
        Array::from_texts(DataType::Utf8, words.iter().copied()).unwrap()
    }

    #[test]
    fn every_byte_counts_and_its_place_does() {
        let sum = |array: &Array| of(array).unwrap().0;
        let one = sum(&words(&[Some("ab"), None]));
        assert_eq!(one, sum(&words(&[Some("ab"), None])));
        for other in [&[Some("ac"), None][..], &[Some("ab"), Some("")], &[Some("a"), Some("b")]] {
            assert_ne!(one, sum(&words(other)), "{other:?}");
        }
        let (whole, part) = (words(&[Some("ab"), None]), words(&[Some("x"), Some("ab"), None]));
        assert_ne!(sum(&whole), sum(&part.slice(1, 2).unwrap()));
    }
}
