//! What the data level of validation refuses, each beside what it takes.

use arrow_device::{Array, DataType, ErrorKind, Field, IndexType, UnionMode};
use arrow_device_testkit::recipe::*;
use proptest::prelude::*;

/// What is wrong, as the message says it, and nothing where all is right.
fn flaw(recipe: ArrayRecipe) -> String {
    let array = recipe.build().unwrap();
    match array.validate() {
        Ok(()) => String::new(),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
            format!("{}: {}", error.place().unwrap(), error.message())
        }
    }
}

fn utf8(offsets: [i32; 4], bytes: &[u8], bits: Option<u8>) -> ArrayRecipe {
    let bits = bits.map(|bits| vec![bits]);
    ArrayRecipe::new(DataType::Utf8, 3, [bits, offsets.bytes(), Some(bytes.to_vec())])
}

#[test]
fn every_sample_is_valid_and_so_is_each_of_its_slices() {
    for recipe in samples() {
        let array = recipe.build().unwrap();
        array.validate().unwrap_or_else(|error| panic!("{:?}: {error}", recipe.data_type));
        recipe.read_all();
        for offset in 0..=array.len() {
            for len in 0..=array.len() - offset {
                array.slice(offset, len).unwrap().validate().unwrap();
            }
        }
    }
}

// Requirement: SYS-2
#[test]
fn offsets_that_run_backwards_are_refused_with_their_element() {
    assert_eq!(flaw(utf8([0, 2, 2, 3], b"abc", None)), "");
    assert_eq!(flaw(utf8([0, 2, 1, 3], b"abc", None)), "root: element 1: offset 1 is before 2");
    // Those of nulls too.
    assert_eq!(
        flaw(utf8([0, 2, 1, 3], b"abc", Some(0b101))),
        "root: element 1: offset 1 is before 2"
    );
}

#[test]
fn a_negative_first_offset_is_refused() {
    assert_eq!(flaw(utf8([1, 1, 2, 3], b"abc", None)), "");
    assert_eq!(flaw(utf8([-1, 1, 2, 3], b"abc", None)), "root: element 0: offset -1 is negative");
}

// Requirement: SYS-2, ARR-17
#[test]
fn an_offset_past_the_end_of_the_bytes_is_refused() {
    assert_eq!(flaw(utf8([0, 1, 2, 3], b"abc", None)), "");
    assert_eq!(
        flaw(utf8([0, 1, 2, 4], b"abc", None)),
        "root: element 2: offset 4 is past the end, which is 3"
    );
    let none = ArrayRecipe::new(DataType::Binary, 1, [None, [0_i32, 1].bytes(), None]);
    assert_eq!(flaw(none), "root: element 0: offset 1 is past the end, which is 0");
}

#[test]
fn wide_offsets_are_refused_as_narrow_ones_are() {
    let large = |offsets: [i64; 3]| {
        ArrayRecipe::new(DataType::LargeBinary, 2, [None, offsets.bytes(), Some(vec![0xff; 5])])
    };
    assert_eq!(flaw(large([1, 1, 5])), "");
    assert_eq!(flaw(large([1, 0, 5])), "root: element 0: offset 0 is before 1");
    assert_eq!(flaw(large([1, 1, 6])), "root: element 1: offset 6 is past the end, which is 5");
    assert_eq!(
        flaw(large([1, 1, i64::MAX])),
        format!("root: element 1: offset {} is past the end, which is 5", i64::MAX)
    );
    assert_eq!(
        flaw(large([i64::MIN, 1, 2])),
        format!("root: element 0: offset {} is negative", i64::MIN)
    );
}

#[test]
fn text_that_is_not_utf8_is_refused_and_bytes_are_not() {
    assert_eq!(flaw(utf8([0, 1, 2, 3], b"abc", None)), "");
    assert_eq!(
        flaw(utf8([0, 1, 3, 3], b"a\xffc", None)),
        "root: element 1: not UTF-8 from byte 0 of 2 on"
    );
    let bytes = ArrayRecipe { data_type: DataType::Binary, ..utf8([0, 1, 3, 3], b"a\xffc", None) };
    assert_eq!(flaw(bytes), "");
}

#[test]
fn a_character_that_spans_two_elements_is_refused() {
    assert_eq!(flaw(utf8([0, 2, 4, 4], "äö".as_bytes(), None)), "");
    assert_eq!(
        flaw(utf8([0, 1, 4, 4], "äö".as_bytes(), None)),
        "root: element 0: not UTF-8 from byte 0 of 1 on"
    );
}

#[test]
fn text_of_nulls_and_outside_the_window_may_be_anything() {
    assert_eq!(flaw(utf8([0, 1, 2, 3], b"a\xffc", Some(0b101))), "");
    assert_eq!(
        flaw(utf8([0, 1, 2, 3], b"a\xffc", Some(0b010))),
        "root: element 1: not UTF-8 from byte 0 of 1 on"
    );
    let array = utf8([0, 1, 2, 3], b"\xffbc", None).build().unwrap();
    assert!(array.validate().is_err());
    array.slice(1, 2).unwrap().validate().unwrap();
    // Elements are counted from the beginning of the slice.
    let array = utf8([0, 1, 2, 3], b"ab\xff", None).build().unwrap();
    let message = array.slice(1, 2).unwrap().validate().unwrap_err();
    assert_eq!(message.message(), "element 1: not UTF-8 from byte 0 of 1 on");
}

#[test]
fn list_offsets_stay_within_the_child() {
    let lists = |offsets: [i32; 3]| {
        let list = DataType::list(DataType::Int32);
        ArrayRecipe::new(list, 2, [None, offsets.bytes()]).children([numbers()])
    };
    assert_eq!(flaw(lists([0, 4, 4])), "");
    assert_eq!(flaw(lists([0, 5, 5])), "root: element 0: offset 5 is past the end, which is 4");
    assert_eq!(flaw(lists([2, 1, 4])), "root: element 0: offset 1 is before 2");
    assert_eq!(flaw(lists([5, 5, 5])), "root: element 0: offset 5 is past the end, which is 4");
    assert_eq!(flaw(lists([-4, 0, 4])), "root: element 0: offset -4 is negative");
}

#[test]
fn list_views_stay_within_the_child_nulls_included() {
    let lists = |start: i32, size: i32, bits| {
        let list = DataType::list_view(DataType::Int32);
        ArrayRecipe::new(list, 1, [Some(vec![bits]), [start].bytes(), [size].bytes()])
            .children([numbers()])
    };
    let message = |start: i64, size: i64| {
        format!("root: element 0: offset {start} and size {size} are not within the 4 of the child")
    };
    for (start, size) in [(0, 4), (4, 0), (2, 2)] {
        assert_eq!(flaw(lists(start, size, 1)), "");
    }
    for (start, size) in [(-1, 1), (1, -1), (5, 0), (1, 4), (i32::MAX, i32::MAX)] {
        assert_eq!(flaw(lists(start, size, 1)), message(start.into(), size.into()));
        assert_eq!(flaw(lists(start, size, 0)), message(start.into(), size.into()));
    }
    let wide = |start: i64, size: i64| {
        let list = DataType::large_list_view(DataType::Int32);
        ArrayRecipe::new(list, 1, [None, [start].bytes(), [size].bytes()]).children([numbers()])
    };
    assert_eq!(flaw(wide(1, 3)), "");
    assert_eq!(flaw(wide(1, i64::MAX)), message(1, i64::MAX));
}

#[test]
fn views_are_resolved() {
    let data = "a text of thirty bytes or so..".as_bytes();
    let with = |view: Vec<u8>, valid: bool| {
        let buffers = [Some(vec![u8::from(valid)]), Some(view), Some(data.to_vec())];
        ArrayRecipe::new(DataType::Utf8View, 1, buffers)
    };
    let mut padded = short_view(b"tea");
    padded[15] = 1;
    let mut negative = short_view(b"");
    negative[..4].copy_from_slice(&(-1_i32).to_ne_bytes());
    let mut prefix = long_view(data, 0, 0);
    prefix[7] = b'x';
    assert_eq!(flaw(with(short_view(b"twelve bytes"), true)), "");
    assert_eq!(flaw(with(long_view(data, 0, 0), true)), "");
    assert_eq!(flaw(with(long_view(&data[17..], 0, 17), true)), "");
    for (view, message) in [
        (padded, "the view of 3 bytes is not filled up with zeros"),
        (negative, "the length of the view is -1"),
        (prefix, "the prefix in the view is not how the data begins"),
        (long_view(data, 1, 0), "the view is into buffer 1 of 1"),
        (long_view(data, -1, 0), "the view is into buffer -1 of 1"),
        (long_view(data, 0, 1), "bytes 1+30 are not within the 30 of data buffer 0"),
        (long_view(data, 0, -1), "bytes -1+30 are not within the 30 of data buffer 0"),
        (short_view(b"\xff"), "not UTF-8 from byte 0 of 1 on"),
    ] {
        assert_eq!(flaw(with(view.clone(), true)), format!("root: element 0: {message}"));
        assert_eq!(flaw(with(view, false)), "", "a null may be anything");
    }
    let bytes = ArrayRecipe { data_type: DataType::BinaryView, ..with(short_view(b"\xff"), true) };
    assert_eq!(flaw(bytes), "");
}

#[test]
fn keys_point_into_the_dictionary() {
    let with = |index: IndexType, keys: Option<Vec<u8>>, bits: u8| {
        ArrayRecipe::new(DataType::dictionary(index, DataType::Int32), 2, [Some(vec![bits]), keys])
            .dictionary(numbers())
    };
    let wrong =
        |key: &str| format!("root: element 1: key {key} is not within the 4 of the dictionary");
    for (index, right, high, low) in [
        (IndexType::Int8, [0_i8, 3].bytes(), [0_i8, 4].bytes(), [0_i8, -1].bytes()),
        (IndexType::Int16, [0_i16, 3].bytes(), [0_i16, 4].bytes(), [0_i16, -1].bytes()),
        (IndexType::Int32, [0_i32, 3].bytes(), [0_i32, 4].bytes(), [0_i32, -1].bytes()),
        (IndexType::Int64, [0_i64, 3].bytes(), [0_i64, 4].bytes(), [0_i64, -1].bytes()),
    ] {
        assert_eq!(flaw(with(index, right, 3)), "");
        assert_eq!(flaw(with(index, high.clone(), 3)), wrong("4"));
        assert_eq!(flaw(with(index, low.clone(), 3)), wrong("-1"));
        assert_eq!(flaw(with(index, high, 1)), "", "a null key may be anything");
        assert_eq!(flaw(with(index, low, 1)), "");
    }
    for (index, right, high, most) in [
        (IndexType::UInt8, [0_u8, 3].bytes(), [0, u8::MAX].bytes(), "255"),
        (IndexType::UInt16, [0_u16, 3].bytes(), [0, u16::MAX].bytes(), "65535"),
        (IndexType::UInt32, [0_u32, 3].bytes(), [0, u32::MAX].bytes(), "4294967295"),
        (IndexType::UInt64, [0_u64, 3].bytes(), [0, u64::MAX].bytes(), "18446744073709551615"),
    ] {
        assert_eq!(flaw(with(index, right, 3)), "");
        assert_eq!(flaw(with(index, high.clone(), 3)), wrong(most));
        assert_eq!(flaw(with(index, high, 1)), "");
    }
}

fn union(mode: UnionMode, ids: [i8; 3], offsets: Option<[i32; 3]>) -> ArrayRecipe {
    let fields: [Field; 2] = ["a", "b"].map(|name| Field::new(name, DataType::Int32, true));
    let union = DataType::Union { mode, type_ids: [7, 127].into(), fields: fields.into() };
    let buffers: Vec<_> =
        [ids.bytes()].into_iter().chain(offsets.map(|offsets| offsets.bytes())).collect();
    ArrayRecipe::new(union, 3, buffers).children([numbers(), numbers()])
}

#[test]
fn type_ids_are_those_of_the_union() {
    for wrong in [0, -1, 8] {
        let message = format!("root: element 2: type id {wrong} is none of the union");
        assert_eq!(flaw(union(UnionMode::Sparse, [7, 127, wrong], None)), message);
        assert_eq!(flaw(union(UnionMode::Dense, [7, 127, wrong], Some([0; 3]))), message);
    }
    assert_eq!(flaw(union(UnionMode::Sparse, [7, 127, 7], None)), "");
}

#[test]
fn dense_offsets_are_within_the_child_and_do_not_go_back() {
    let dense = |ids, offsets| flaw(union(UnionMode::Dense, ids, Some(offsets)));
    assert_eq!(dense([7, 7, 127], [1, 3, 0]), "");
    assert_eq!(dense([7, 127, 7], [3, 0, 3]), "");
    assert_eq!(
        dense([7, 7, 127], [0, 4, 0]),
        "root: element 1: offset 4 is not within the 4 of child 0"
    );
    assert_eq!(
        dense([7, 7, 127], [0, 1, -1]),
        "root: element 2: offset -1 is not within the 4 of child 1"
    );
    assert_eq!(
        dense([7, 127, 7], [3, 0, 2]),
        "root: element 2: offset 2 into child 0 is before 3, which came earlier"
    );
}

fn run_ends(ends: [i32; 3], bits: Option<u8>) -> ArrayRecipe {
    let ends = ArrayRecipe::new(DataType::Int32, 3, [bits.map(|bits| vec![bits]), ends.bytes()]);
    ArrayRecipe::new(DataType::run_end_encoded(DataType::Int32, DataType::Int32), 5, [])
        .offset(2)
        .children([ends, numbers()])
}

#[test]
fn run_ends_are_positive_increase_and_cover_the_array() {
    assert_eq!(flaw(run_ends([1, 3, 7], None)), "");
    assert_eq!(flaw(run_ends([1, 3, 7], Some(0b111))), "");
    assert_eq!(flaw(run_ends([0, 3, 7], None)), "root: run 0: it ends at 0, and begins at 0");
    assert_eq!(flaw(run_ends([-1, 3, 7], None)), "root: run 0: it ends at -1, and begins at 0");
    assert_eq!(flaw(run_ends([3, 3, 7], None)), "root: run 1: it ends at 3, and begins at 3");
    assert_eq!(flaw(run_ends([1, 3, 2], None)), "root: run 2: it ends at 2, and begins at 3");
    assert_eq!(flaw(run_ends([1, 3, 6], None)), "root: the last run ends at 6, and the array at 7");
    assert_eq!(flaw(run_ends([1, 3, 7], Some(0b101))), "root: run 1: its end is null");
}

#[test]
fn run_ends_of_every_width_are_read() {
    let runs = |index: DataType, ends| {
        let child = ArrayRecipe::new(index.clone(), 2, [None, ends]);
        ArrayRecipe::new(DataType::run_end_encoded(index, DataType::Int32), 300, [])
            .children([child, numbers()])
    };
    assert_eq!(flaw(runs(DataType::Int16, [299_i16, 300].bytes())), "");
    assert_eq!(flaw(runs(DataType::Int64, [299_i64, 300].bytes())), "");
    assert_eq!(
        flaw(runs(DataType::Int16, [300_i16, 299].bytes())),
        "root: run 1: it ends at 299, and begins at 300"
    );
    assert_eq!(
        flaw(runs(DataType::Int64, [1_i64, 299].bytes())),
        "root: the last run ends at 299, and the array at 300"
    );
}

#[test]
fn a_null_count_is_that_of_the_bitmap() {
    assert_eq!(flaw(numbers()), "");
    assert_eq!(flaw(numbers().nulls(1)), "");
    assert_eq!(flaw(numbers().nulls(2)), "root: null count is 2, and 1 elements are null");
    assert_eq!(flaw(numbers().nulls(0)), "root: null count is 0, and 1 elements are null");
    assert_eq!(
        flaw(list(numbers().nulls(3))),
        "root.child[0]: null count is 3, and 1 elements are null"
    );
}

#[test]
fn keys_and_entries_of_a_map_are_not_null() {
    let maps = |bits: u8, entry_bits: u8, key_bits: u8| {
        let mut map = map();
        map.buffers[0] = Some(vec![bits]);
        map.children[0].buffers[0] = Some(vec![entry_bits]);
        map.children[0].children[0].buffers[0] = Some(vec![key_bits]);
        flaw(map)
    };
    // The entries begin at 1: their first bit, and that of the keys, belong to none.
    assert_eq!(maps(0b11, 0b1110, 0b1110), "");
    assert_eq!(maps(0b11, 0b1110, 0b1100), "root: element 0: key of entry 0 is null");
    assert_eq!(maps(0b11, 0b1110, 0b0110), "root: element 1: key of entry 2 is null");
    assert_eq!(maps(0b11, 0b1010, 0b1110), "root: element 1: entry 1 is null");
    assert_eq!(maps(0b01, 0b1010, 0b1110), "", "what belongs to a null may be anything");
    assert_eq!(maps(0b01, 0b1110, 0b0110), "");
}

#[test]
fn nulls_in_a_field_that_is_not_nullable_are_no_error() {
    let fields = [Field::new("x", DataType::Int32, false)];
    assert_eq!(
        flaw(ArrayRecipe::new(DataType::struct_(fields), 4, [None]).children([numbers()])),
        ""
    );
}

#[test]
fn the_place_of_a_flaw_is_counted_from_the_array_that_was_asked() {
    let wrong = utf8([0, 2, 1, 3], b"abc", None);
    let list = ArrayRecipe::new(DataType::list(DataType::Utf8), 1, [None, [0_i32, 3].bytes()])
        .children([wrong]);
    let keys = [None, [0_i8].bytes()];
    let nested =
        ArrayRecipe::new(DataType::dictionary(IndexType::Int8, list.data_type.clone()), 1, keys)
            .dictionary(list);
    let array = nested.build().unwrap();
    let place = |array: &Array| array.validate().unwrap_err().place().unwrap().to_string();
    assert_eq!(place(&array), "root.dictionary.child[0]");
    assert_eq!(place(&array.dictionary().unwrap()), "root.child[0]");
    assert_eq!(place(&array.dictionary().unwrap().child(0).unwrap()), "root");
}

// Requirement: SYS-2
#[test]
fn layout_is_checked_for_what_was_built_here() {
    let ends = ArrayRecipe::new(DataType::Int32, 0, [None, None]);
    let runs = ArrayRecipe::new(DataType::run_end_encoded(DataType::Int32, DataType::Int32), 5, [])
        .children([ends, numbers()]);
    let error = runs.build().unwrap_err();
    assert_eq!(
        (error.kind(), error.message()),
        (ErrorKind::InvalidArgument, "there are no run ends for 5 elements")
    );
    assert_eq!(error.place().unwrap().to_string(), "root.child[0]");
    for recipe in samples() {
        recipe.build().unwrap().validate_layout().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 20 } else { 4000 }, failure_persistence: None, ..ProptestConfig::default() })]

    // Requirement: SYS-2
    #[test]
    fn whatever_the_bytes_are_what_is_valid_can_be_read(
        sample in 0..samples().len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u8>(), 0_u8..6]), 1..4),
    ) {
        let mut recipe = samples().swap_remove(sample);
        let mut bytes = recipe.bytes_mut();
        for (index, value) in changes {
            let count = bytes.len();
            if count > 0 {
                *bytes[index.index(count)] = value;
            }
        }
        let array = recipe.build().unwrap();
        if array.validate().is_ok() {
            recipe.read_all();
        }
    }
}
