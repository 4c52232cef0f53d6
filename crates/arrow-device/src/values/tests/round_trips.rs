//! What was built is what is read.

use super::examples::examples;
use super::{texts, unaligned};
use crate::abi::ArrowDeviceArray;
use crate::{Array, DataType, IndexType, Value};

#[test]
fn every_type_reads_as_it_was_built() {
    for example in examples() {
        assert_eq!(texts(&example.array), example.texts, "{}", example.array.data_type());
    }
}

#[test]
fn every_part_of_every_type_reads_as_that_part() {
    for example in examples() {
        for start in 0..=example.texts.len() {
            for len in 0..=example.texts.len() - start {
                let part = example.array.slice(start, len).unwrap();
                let expected = &example.texts[start..start + len];
                assert_eq!(texts(&part), expected, "{}", part.data_type());
            }
        }
    }
}

#[test]
fn a_part_of_a_part_of_every_type_reads_in_unaligned_memory() {
    for example in examples() {
        let len = example.texts.len();
        let part = example.array.slice(1, len - 1).unwrap().slice(0, len - 2).unwrap();
        assert_eq!(texts(&unaligned(&part)), example.texts[1..len - 1], "{}", part.data_type());
    }
}

#[test]
fn every_type_reads_the_same_after_it_went_through_c() {
    for example in examples() {
        let schema = example.array.schema().unwrap();
        let mut c_array = ArrowDeviceArray::empty();
        example.array.export(&mut c_array).unwrap();
        // SAFETY: filled by `export` just now.
        let again = unsafe { Array::import(&mut c_array, &schema) }.unwrap();
        assert_eq!(texts(&again), example.texts, "{}", again.data_type());
    }
}

#[test]
fn every_null_is_counted_and_none_where_there_is_no_bitmap() {
    for example in examples() {
        let array = &example.array;
        let nulls = example.texts.iter().filter(|text| **text == "null").count();
        let host = array.host().unwrap();
        for (index, text) in example.texts.iter().enumerate() {
            let is_null = text.ends_with("null") && !text.contains('{');
            assert_eq!(host.is_null(index).unwrap(), is_null, "{}: {text}", array.data_type());
        }
        let known = match array.data_type() {
            // A key and a value are null; only the first is said here.
            DataType::Dictionary { .. } => 1,
            // Their values are null, not they.
            DataType::RunEndEncoded { .. } | DataType::Union { .. } => 0,
            _ => nulls,
        };
        assert_eq!(array.null_count(), Some(known), "{}", array.data_type());
    }
}

#[test]
fn what_has_no_null_has_no_bitmap() {
    let numbers = Array::from_values(DataType::Int8, [Some(1_i8), Some(2)]).unwrap();
    let bits = Array::from_bools([Some(true)]).unwrap();
    let words = Array::from_texts(DataType::Utf8View, [Some("a")]).unwrap();
    let lists = DataType::list(DataType::Int8);
    let lists = Array::from_lists(lists, [Some(1)], numbers.clone()).unwrap();
    for array in [numbers, bits, words, lists] {
        assert!(array.node().buffer(0).is_null(), "{}", array.data_type());
        assert_eq!(array.null_count(), Some(0));
    }
}

#[test]
fn every_type_can_be_empty() {
    for example in examples() {
        let data_type = example.array.data_type();
        let none = example.array.slice(0, 0).unwrap();
        let host = none.host().unwrap();
        assert_eq!((none.len(), none.null_count()), (0, Some(0)), "{data_type}");
        assert!(host.value(0).is_err());
        let schema = none.schema().unwrap();
        let mut c_array = ArrowDeviceArray::empty();
        none.export(&mut c_array).unwrap();
        // SAFETY: filled by `export` just now.
        unsafe { Array::import(&mut c_array, &schema) }.unwrap();
        let made = Array::empty(&schema).unwrap();
        made.validate().unwrap();
        assert_eq!((made.schema().unwrap(), made.len()), (schema, 0));
        assert!(made.equals(&none).unwrap(), "{data_type}");
        for child in 0..made.child_count() {
            assert_eq!(made.child(child).unwrap().len(), 0, "{data_type}");
        }
    }
    let none = || None::<Option<i32>>;
    let numbers = Array::from_values(DataType::Int32, none()).unwrap();
    assert_eq!(numbers.host().unwrap().values::<i32>().unwrap().as_slice(), Some(&[][..]));
    for data_type in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
        let texts = Array::from_texts(data_type, None::<Option<&str>>).unwrap();
        assert!(texts.host().unwrap().texts().unwrap().is_empty());
    }
    for data_type in [DataType::list, DataType::list_view] {
        let lists = data_type(DataType::Int32);
        let lists = Array::from_lists(lists, None, numbers.clone()).unwrap();
        assert!(lists.host().unwrap().lists().unwrap().is_empty());
    }
    let runs = DataType::run_end_encoded(DataType::Int16, DataType::Int32);
    assert!(Array::from_runs(runs, None, numbers).unwrap().is_empty());
}

#[test]
fn long_strings_share_a_data_buffer_and_short_ones_need_none() {
    let buffers = |words: [&str; 3]| {
        let array = Array::from_texts(DataType::Utf8View, words.map(Some)).unwrap();
        // Validity, views, data buffers, and their sizes.
        array.buffer_count() - 3
    };
    assert_eq!(buffers(["a", "", "twelve bytes"]), 0);
    assert_eq!(buffers(["thirteen byte", "another that is long", "a"]), 1);
}

#[test]
fn numbers_come_as_numbers() {
    let array = Array::from_values(DataType::Int64, [Some(7_i64), None, Some(9)]).unwrap();
    let host = array.slice(1, 2).unwrap().host().unwrap();
    let values = host.values::<i64>().unwrap();
    assert_eq!(values.iter().collect::<Vec<_>>(), [None, Some(9)]);
    assert_eq!((values.get(1), values.get(2), values.len()), (Some(9), None, 2));
    assert_eq!(values.as_slice(), Some(&[0, 9][..]));
}

#[test]
fn unaligned_numbers_are_no_slice_and_can_be_read() {
    let array = unaligned(&Array::from_values(DataType::Int64, [Some(7_i64), None]).unwrap());
    let host = array.host().unwrap();
    let values = host.values::<i64>().unwrap();
    assert_eq!(values.as_slice(), None);
    assert_eq!(values.iter().collect::<Vec<_>>(), [Some(7), None]);
}

#[test]
fn keys_of_a_dictionary_come_as_numbers() {
    let values = Array::from_bools([Some(true), Some(false)]).unwrap();
    let data_type = DataType::dictionary(IndexType::UInt8, DataType::Boolean);
    let array = Array::from_keys(data_type, [Some(1), None, Some(0)], values).unwrap();
    let host = array.host().unwrap();
    let keys = host.values::<u8>().unwrap();
    assert_eq!(keys.iter().collect::<Vec<_>>(), [Some(1), None, Some(0)]);
}

#[test]
fn built_buffers_are_aligned_as_the_format_recommends() {
    for example in examples() {
        let array = &example.array;
        let layout = array.schema_node().layout;
        for index in 0..array.buffer_count() {
            let is_sizes = layout.is_variadic() && index + 1 == array.buffer_count();
            let address = array.node().buffer(index).addr();
            assert!(is_sizes || address.is_multiple_of(64), "{}", array.data_type());
        }
    }
}

#[test]
fn a_few_bytes_that_claim_many_nulls_are_no_value() {
    let nulls = Array::nulls(1 << 30).unwrap();
    let lists = DataType::large_list(DataType::Null);
    let array = Array::from_lists(lists, [Some(1 << 30)], nulls).unwrap();
    let host = array.host().unwrap();
    // A million nulls take Miri many minutes.
    if !cfg!(miri) {
        let says = "more than 1048576 parts";
        super::assert_fails(host.value(0), crate::ErrorKind::LimitExceeded, says);
    }
    assert_eq!(host.preview(0, 2).unwrap(), Value::List(vec![Value::Null, Value::Null]));
    assert!(array.equals(&array).unwrap());
}
