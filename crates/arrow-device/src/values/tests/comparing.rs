//! Equal means the same values, wherever they lie.

use super::examples::examples;
use super::unaligned;
use crate::{Array, Batch, Buffer, DataType, Field, IndexType, UnionMode};

#[test]
fn every_type_equals_its_copy_and_none_equals_another() {
    let all = examples();
    for (index, one) in all.iter().enumerate() {
        assert!(one.array.equals(&unaligned(&one.array)).unwrap(), "{}", one.array.data_type());
        for (other_index, other) in all.iter().enumerate() {
            let is_equal = one.array.equals(&other.array).unwrap();
            assert_eq!(
                is_equal,
                index == other_index,
                "{} and {}",
                one.array.data_type(),
                other.array.data_type()
            );
        }
    }
}

#[test]
fn parts_are_equal_where_they_read_the_same() {
    for example in examples() {
        let part = |index| example.array.slice(index, 1).unwrap();
        for (i, one) in example.texts.iter().enumerate() {
            for (j, other) in example.texts.iter().enumerate() {
                let is_equal = part(i).equals(&part(j)).unwrap();
                assert_eq!(is_equal, one == other, "{}: {one}, {other}", part(i).data_type());
            }
        }
    }
}

#[test]
fn what_lies_below_a_null_makes_no_difference() {
    let numbers = |below: i32| {
        let bitmap = Some(Buffer::from(vec![0b101_u8]));
        let values = Some(Buffer::from(vec![1, below, 3]));
        Array::builder(DataType::Int32).len(3).buffers([bitmap, values]).finish_ready().unwrap()
    };
    assert!(numbers(7).equals(&numbers(8)).unwrap());
    let all_there = Array::from_values(DataType::Int32, [Some(1), Some(7), Some(3)]).unwrap();
    assert!(!numbers(7).equals(&all_there).unwrap());
}

#[test]
fn dictionaries_and_runs_are_equal_where_their_values_are() {
    let words = |words: [Option<&str>; 3]| Array::from_texts(DataType::Utf8, words).unwrap();
    let data_type = || DataType::dictionary(IndexType::Int8, DataType::Utf8);
    let forth = [Some(0), Some(1), None, Some(2)];
    let forth = Array::from_keys(data_type(), forth, words([Some("a"), Some("b"), None]));
    let back = [Some(2), Some(1), Some(0), None];
    let back = Array::from_keys(data_type(), back, words([None, Some("b"), Some("a")]));
    assert!(forth.unwrap().equals(&back.unwrap()).unwrap());
    let runs = |lengths: [usize; 3], values| {
        let data_type = DataType::run_end_encoded(DataType::Int16, DataType::Utf8);
        Array::from_runs(data_type, lengths, values).unwrap()
    };
    let one = runs([1, 2, 1], words([Some("a"), Some("a"), None]));
    let other = runs([2, 1, 1], words([Some("a"), Some("a"), None]));
    assert!(one.equals(&other).unwrap());
    assert!(!one.equals(&runs([1, 1, 2], words([Some("a"), Some("a"), None]))).unwrap());
}

#[test]
fn the_same_value_of_another_field_is_not_equal() {
    for mode in [UnionMode::Sparse, UnionMode::Dense] {
        let of_field = |id| {
            let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int8, true));
            let numbers = || Array::from_values(DataType::Int8, [Some(1_i8)]).unwrap();
            let union = DataType::union(mode, fields);
            Array::from_variants(union, [id], [numbers(), numbers()]).unwrap()
        };
        assert!(of_field(0).equals(&of_field(0)).unwrap());
        assert!(!of_field(0).equals(&of_field(1)).unwrap());
    }
}

#[test]
fn a_null_key_is_no_null_of_a_union() {
    let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int8, true));
    let data_type = DataType::union(UnionMode::Sparse, fields);
    let nulls = || Array::from_values(DataType::Int8, [None::<i8>, None]).unwrap();
    let values = Array::builder(data_type.clone()).len(2);
    let values = values.buffers([Some(Buffer::from(vec![0_i8, 1]))]).children([nulls(), nulls()]);
    let values = values.finish_ready().unwrap();
    let of_key = |key: Option<usize>| {
        let data_type = DataType::dictionary(IndexType::Int8, data_type.clone());
        Array::from_keys(data_type, [key], values.clone()).unwrap()
    };
    let all = [None, Some(0), Some(1)].map(of_key);
    for (number, one) in all.iter().enumerate() {
        for (other_number, other) in all.iter().enumerate() {
            assert_eq!(one.equals(other).unwrap(), number == other_number, "{one:?} {other:?}");
        }
    }
}

#[test]
fn floats_are_equal_where_their_bits_are() {
    let of = |value: f64| Array::from_values(DataType::Float64, [Some(value)]).unwrap();
    assert!(of(f64::NAN).equals(&of(f64::NAN)).unwrap());
    assert!(!of(0.0).equals(&of(-0.0)).unwrap());
}

#[test]
fn lists_of_different_lengths_and_types_of_other_names_are_not_equal() {
    let items = || Array::from_values(DataType::Int8, [Some(1_i8), Some(1)]).unwrap();
    let lists = |lengths: [Option<usize>; 2]| {
        Array::from_lists(DataType::list(DataType::Int8), lengths, items()).unwrap()
    };
    assert!(!lists([Some(1), Some(0)]).equals(&lists([Some(0), Some(1)])).unwrap());
    assert!(!lists([Some(1), Some(0)]).equals(&lists([Some(1), None])).unwrap());
    let named = |name: &str| {
        let data_type = DataType::struct_([Field::new(name, DataType::Int8, true)]);
        Array::from_fields(data_type, [true; 2], [items()]).unwrap()
    };
    assert!(named("a").equals(&named("a")).unwrap());
    assert!(!named("a").equals(&named("b")).unwrap());
    assert!(!items().equals(&items().slice(0, 1).unwrap()).unwrap());
}

/// The types of which more elements can be than any loop reaches, because none takes a byte.
fn types_without_width() -> Vec<DataType> {
    let nothing = |name: &str, data_type| Field::new(name, data_type, true);
    let pair = [nothing("a", DataType::Null), nothing("b", DataType::FixedSizeBinary(0))];
    vec![
        DataType::Null,
        DataType::FixedSizeBinary(0),
        DataType::struct_([]),
        DataType::struct_(pair),
        DataType::fixed_size_list(DataType::Int32, 0),
        DataType::fixed_size_list(DataType::Null, 2),
        DataType::fixed_size_list(DataType::FixedSizeBinary(0), 2),
    ]
}

fn without_width(data_type: &DataType, len: usize, validity: Option<Vec<u8>>) -> Array {
    let validity = validity.map(Buffer::from);
    let builder = Array::builder(data_type.clone()).len(len);
    let built = match data_type {
        DataType::Null => builder,
        DataType::FixedSizeBinary(_) => builder.buffers([validity, Some(Vec::<u8>::new().into())]),
        DataType::FixedSizeList(item, size) => builder
            .buffers([validity])
            .children([without_width(item.data_type(), len * *size as usize, None)]),
        DataType::Struct(fields) => builder
            .buffers([validity])
            .children(fields.iter().map(|field| without_width(field.data_type(), len, None))),
        DataType::Int32 => builder.buffers([None, Some(Vec::<u8>::new().into())]),
        other => panic!("{other} is not made here"),
    };
    built.finish_ready().unwrap()
}

#[test]
fn elements_without_width_are_not_compared_one_by_one() {
    let len = 1 << (usize::BITS - 6);
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for data_type in types_without_width() {
            let [one, other] = [0; 2].map(|_| without_width(&data_type, len, None));
            let one = one.slice(3, len - 5).unwrap();
            assert!(!one.equals(&other).unwrap(), "{data_type}");
            assert!(one.equals(&other.slice(0, len - 5).unwrap()).unwrap(), "{data_type}");
            sender.send(data_type).unwrap();
        }
        let lists = [0; 2].map(|_| {
            let items = without_width(&DataType::FixedSizeBinary(0), len, None);
            let offsets = Some(vec![0_i64, 7, len as i64].into());
            let builder = Array::builder(lists_without_width())
                .len(2)
                .buffers([None, offsets])
                .children([items]);
            builder.finish_ready().unwrap()
        });
        assert!(lists[0].equals(&lists[1]).unwrap());
        sender.send(lists[0].data_type().clone()).unwrap();
    });
    // Each takes microseconds; a loop over so many elements takes years.
    for data_type in types_without_width().into_iter().chain([lists_without_width()]) {
        let compared = receiver.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(compared, Ok(data_type));
    }
}

#[test]
fn runs_are_not_compared_element_by_element() {
    let long = 1 << (usize::BITS - 6);
    let runs = |lengths: [usize; 3], values: [Option<i32>; 3]| {
        let data_type = DataType::run_end_encoded(DataType::Int64, DataType::Int32);
        let values = Array::from_values(DataType::Int32, values).unwrap();
        Array::from_runs(data_type, lengths, values).unwrap()
    };
    let shapes: [fn(Array) -> Array; 4] = [
        |runs| runs,
        |runs| Batch::from_columns([("runs", runs)]).unwrap().into(),
        |runs| {
            let data_type = DataType::fixed_size_list(runs.data_type().clone(), 4);
            let builder = Array::builder(data_type).len(runs.len() / 4).buffers([None]);
            builder.children([runs]).finish_ready().unwrap()
        },
        |runs| {
            let data_type = DataType::large_list(runs.data_type().clone());
            let offsets = Some(vec![0_i64, 5, runs.len() as i64].into());
            let builder = Array::builder(data_type).len(2).buffers([None, offsets]);
            builder.children([runs]).finish_ready().unwrap()
        },
    ];
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for shape in shapes {
            let one = shape(runs([long, long, 4], [Some(1), Some(1), None]));
            let same = shape(runs([2 * long - 8, 8, 4], [Some(1), Some(1), None]));
            let other = shape(runs([long, long + 1, 3], [Some(1), Some(1), None]));
            sender.send((one.equals(&same).unwrap(), one.equals(&other).unwrap())).unwrap();
        }
    });
    for _ in shapes {
        // Each takes microseconds; a loop over so many elements takes years.
        let compared = receiver.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(compared, Ok((true, false)));
    }
}

/// Two list views that each cover all of these items.
fn both_of_all(items: Array) -> Array {
    let data_type = DataType::list_view(items.data_type().clone());
    let len = items.len() as i32;
    let (starts, sizes) = (Some(vec![0_i32, 0].into()), Some(vec![len, len].into()));
    let builder = Array::builder(data_type).len(2).buffers([None, starts, sizes]);
    builder.children([items]).finish_ready().unwrap()
}

#[test]
fn list_views_that_share_their_items_are_compared() {
    let numbers = || Array::from_values(DataType::Int32, [Some(1), Some(2)]).unwrap();
    let nested = |levels: usize| (0..levels).fold(numbers(), |items, _| both_of_all(items));
    assert!(nested(8).equals(&nested(8)).unwrap());
    assert!(nested(60).equals(&nested(60)).unwrap());
    let of_all = |count: usize| {
        let items = Array::from_values(DataType::Int32, vec![Some(7); count]).unwrap();
        let (starts, sizes) = (vec![0_i32; count], vec![count as i32; count]);
        let buffers = [None, Some(starts.into()), Some(sizes.into())];
        let builder = Array::builder(DataType::list_view(DataType::Int32)).len(count);
        builder.buffers(buffers).children([items]).finish_ready().unwrap()
    };
    assert!(of_all(100).equals(&of_all(100)).unwrap());
    assert!(of_all(20_000).equals(&of_all(20_000)).unwrap());
}

fn lists_without_width() -> DataType {
    DataType::large_list(DataType::FixedSizeBinary(0))
}

#[test]
fn nulls_among_elements_without_width_are_compared() {
    for data_type in types_without_width() {
        if data_type == DataType::Null {
            continue;
        }
        let with = |bits: u8| without_width(&data_type, 3, Some(vec![bits]));
        assert!(with(0b101).equals(&with(0b101)).unwrap(), "{data_type}");
        assert!(!with(0b101).equals(&with(0b011)).unwrap(), "{data_type}");
        assert!(with(0b111).equals(&without_width(&data_type, 3, None)).unwrap(), "{data_type}");
        assert!(!with(0b101).equals(&without_width(&data_type, 3, None)).unwrap(), "{data_type}");
    }
}
