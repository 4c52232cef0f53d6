//! What cannot be built, or read as asked.

use super::assert_fails;
use crate::ErrorKind::{InvalidArgument, LimitExceeded, SchemaMismatch};
use crate::{Array, DataType, Field, IndexType, UnionMode};

#[test]
fn another_rust_type_than_the_one_for_the_type_is_refused() {
    let says = "an array of int64 is not made from i32";
    assert_fails(Array::from_values(DataType::Int64, [Some(1)]), InvalidArgument, says);
    for data_type in
        [DataType::Utf8, DataType::Boolean, DataType::dictionary(IndexType::Int32, DataType::Utf8)]
    {
        assert_fails(Array::from_values(data_type, [Some(1)]), InvalidArgument, "from i32");
    }
    assert_fails(Array::from_texts(DataType::Binary, [Some("a")]), InvalidArgument, "text");
    assert_fails(Array::from_bytes(DataType::Utf8, [Some("a")]), InvalidArgument, "bytes");
    let numbers = Array::from_values(DataType::Int32, [Some(1)]).unwrap().host().unwrap();
    assert_fails(numbers.values::<u32>(), InvalidArgument, "int32 is not read as u32");
    assert_fails(numbers.bools(), InvalidArgument, "booleans");
    assert_fails(numbers.texts(), InvalidArgument, "text");
    assert_fails(numbers.bytes(), InvalidArgument, "bytes");
    assert_fails(numbers.lists(), InvalidArgument, "lists");
    assert_fails(numbers.value(1), InvalidArgument, "no element 1 in an array of 1");
}

#[test]
fn bytes_of_another_size_than_the_fixed_one_are_refused() {
    let array = Array::from_bytes(DataType::FixedSizeBinary(2), [Some("abc")]);
    assert_fails(array, InvalidArgument, "3 bytes are not 2");
}

#[test]
fn lists_that_take_more_than_there_is_are_refused() {
    let items = || Array::from_values(DataType::Int32, [Some(1), Some(2)]).unwrap();
    for lists in [DataType::list, DataType::list_view] {
        let array = Array::from_lists(lists(DataType::Int32), [Some(3)], items());
        assert_fails(array, InvalidArgument, "take 3 elements, and there are 2");
    }
    let pairs = || DataType::fixed_size_list(DataType::Int32, 2);
    assert_fails(Array::from_lists(pairs(), [Some(1)], items()), InvalidArgument, "1 elements");
    assert_fails(Array::from_lists(pairs(), [None, None], items()), InvalidArgument, "take 4");
    let of_text = DataType::list(DataType::Utf8);
    assert_fails(Array::from_lists(of_text, [Some(1)], items()), SchemaMismatch, "root.child[0]");
    let no_list = Array::from_lists(DataType::Int32, [Some(1)], items());
    assert_fails(no_list, InvalidArgument, "not made from lists");
}

#[test]
fn an_offset_that_its_type_does_not_hold_is_refused() {
    let many = || Array::nulls(3 << 30).unwrap();
    for lists in [DataType::list, DataType::list_view] {
        let array = Array::from_lists(lists(DataType::Null), [Some(3 << 30)], many());
        assert_fails(array, LimitExceeded, "an offset of 32 bits cannot be 3221225472");
    }
    for lists in [DataType::large_list, DataType::large_list_view] {
        let array = Array::from_lists(lists(DataType::Null), [Some(3 << 30)], many());
        assert_eq!(array.unwrap().len(), 1);
    }
    let runs = DataType::run_end_encoded(DataType::Int16, DataType::Null);
    let array = Array::from_runs(runs.clone(), [32_768], Array::nulls(1).unwrap());
    assert_fails(array, LimitExceeded, "32768 is more than int16 holds");
    Array::from_runs(runs, [32_767], Array::nulls(1).unwrap()).unwrap();
}

#[test]
fn a_key_that_is_not_there_or_not_held_is_refused() {
    let keys = |index, key| {
        let data_type = DataType::dictionary(index, DataType::Null);
        Array::from_keys(data_type, [Some(key)], Array::nulls(1000).unwrap())
    };
    assert_fails(keys(IndexType::Int16, 1000), InvalidArgument, "not among 1000 values");
    assert_fails(keys(IndexType::Int8, 128), LimitExceeded, "128 is more than int8 holds");
    assert_fails(keys(IndexType::UInt8, 256), LimitExceeded, "256 is more than uint8 holds");
    keys(IndexType::Int8, 127).unwrap();
    keys(IndexType::UInt8, 255).unwrap();
}

#[test]
fn variants_that_are_not_there_are_refused() {
    let fields = [Field::new("a", DataType::Null, true), Field::new("b", DataType::Null, true)];
    for mode in [UnionMode::Sparse, UnionMode::Dense] {
        let variants = |ids: &[i8], lengths: [usize; 2]| {
            let children = lengths.map(|len| Array::nulls(len).unwrap());
            let data_type = DataType::union(mode, fields.clone());
            Array::from_variants(data_type, ids.iter().copied(), children)
        };
        assert_fails(variants(&[2], [1, 1]), InvalidArgument, "no field of type id 2");
        assert_fails(variants(&[-1], [1, 1]), InvalidArgument, "no field of type id -1");
        assert_fails(variants(&[0, 0], [1, 2]), InvalidArgument, "element 1 is number 1");
    }
}

#[test]
fn runs_that_are_empty_or_have_no_value_are_refused() {
    let runs = |lengths: &[usize]| {
        let data_type = DataType::run_end_encoded(DataType::Int32, DataType::Null);
        Array::from_runs(data_type, lengths.iter().copied(), Array::nulls(2).unwrap())
    };
    assert_fails(runs(&[1, 0]), InvalidArgument, "a run is not empty");
    assert_fails(runs(&[1]), InvalidArgument, "1 runs do not have 2 values");
    runs(&[1, 1]).unwrap();
}

#[test]
fn fields_that_are_too_short_are_refused() {
    let data_type = DataType::struct_([Field::new("a", DataType::Null, true)]);
    let array = Array::from_fields(data_type, [true; 3], [Array::nulls(2).unwrap()]);
    assert_fails(array, InvalidArgument, "2 elements do not cover the 3");
    assert_fails(Array::from_fields(DataType::Null, [], []), InvalidArgument, "fields");
}
