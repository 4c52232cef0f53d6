//! Arrays as arrow-rs makes them: sliced buffer by buffer, with bitmaps that begin anywhere.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_device::{Array, Batch, DataType, ErrorKind, Schema};
use arrow_device_testkit::consumer::Seen;
use arrow_device_testkit::{Verdict, release_until, require};

use super::arrow::array::builder::StringDictionaryBuilder;
use super::arrow::array::types::Int32Type;
use super::arrow::array::{
    Array as _, ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, RecordBatchOptions,
    StringArray,
};
use super::arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use super::arrow::schema as rs;
use super::ours::{FromArrow, ToArrow as _};
use super::samples::{Sample, samples, seen};

/// That no buffer lies elsewhere but bitmaps that had to be moved.
fn stays(array: &Array, seen: &Seen, sample: &Sample) -> Verdict {
    if seen.length == 0 {
        return Ok(());
    }
    let may_move = matches!(array.data_type(), DataType::Struct(_) | DataType::FixedSizeList(..));
    let count = seen.buffers.len();
    // arrow-rs does not keep the sizes of data buffers, so they are new.
    let kept = if array.data_type().to_string().ends_with("_view") { count - 1 } else { count };
    for (index, address) in seen.buffers.iter().enumerate().take(kept) {
        let is_there = *address <= 128 || sample.holds(*address) || (may_move && index == 0);
        require(is_there, || format!("buffer {index} of a {} moved", array.data_type()))?;
    }
    for (index, child) in seen.children.iter().enumerate() {
        stays(&array.child(index).unwrap(), child, sample)?;
    }
    let dictionary = array.dictionary().zip(seen.dictionary.as_deref());
    dictionary.map_or(Ok(()), |(array, seen)| stays(&array, seen, sample))
}

fn check(sample: &Sample, theirs: &ArrayRef, offset: usize, length: usize) -> Verdict {
    let theirs = theirs.slice(offset, length);
    let expected = sample.array.slice(offset, length).unwrap();
    let array = Array::from_arrow(theirs.clone()).map_err(|error| error.to_string())?;
    array.validate().map_err(|error| error.to_string())?;
    require(array.equals(&expected).unwrap(), || "the values changed".into())?;
    // To arrow-rs an array of the null type has none that a bitmap would show.
    let is_all_null = matches!(array.data_type(), DataType::Null);
    let nulls = if is_all_null { length } else { theirs.null_count() };
    require(array.null_count() == Some(nulls), || "the null count changed".into())?;
    stays(&array, &seen(&array), sample)?;
    let again = array.to_arrow().map_err(|error| error.to_string())?;
    require(*again == *theirs, || "arrow-rs sees something else".into())
}

#[test]
fn every_type_is_taken_over_wherever_it_is_sliced() {
    for sample in samples() {
        let Ok(theirs) = sample.array.to_arrow() else {
            assert!(sample.name.contains("extension"), "{}", sample.name);
            continue;
        };
        for (offset, length) in
            [(0, 21), (0, 9), (1, 20), (3, 5), (8, 13), (9, 12), (20, 1), (7, 0)]
        {
            let outcome = check(&sample, &theirs, offset, length);
            assert_eq!(outcome, Ok(()), "{} sliced {offset}+{length}", sample.name);
        }
        drop(theirs);
        let name = sample.name.clone();
        assert_eq!(sample.settle(), Ok(()), "{name}");
    }
}

#[test]
fn every_type_is_a_column_wherever_the_batch_is_sliced() {
    for sample in samples() {
        let Ok(theirs) = sample.array.to_arrow() else { continue };
        let numbers: ArrayRef = Arc::new((0..theirs.len() as i64).collect::<Int64Array>());
        let columns = [("beside", numbers, true), ("x", theirs, true)];
        let whole = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let schema = Schema::from_arrow(&*whole.schema()).unwrap();
        for (offset, length) in [(0, 21), (1, 20), (8, 13), (3, 5), (7, 0)] {
            let part = whole.slice(offset, length);
            let ours = Batch::from_arrow((&schema, part.clone())).unwrap();
            ours.as_array().validate().unwrap();
            assert_eq!(ours.to_arrow().unwrap(), part, "{} {offset}+{length}", sample.name);
            let mut c_array = arrow_device::abi::ArrowDeviceArray::empty();
            ours.export(&mut c_array).unwrap();
            let again = unsafe { Batch::import(&mut c_array, &schema) }.unwrap();
            assert!(again.as_array().equals(ours.as_array()).unwrap(), "{}", sample.name);
        }
        drop(whole);
        let name = sample.name.clone();
        assert_eq!(sample.settle(), Ok(()), "{name}");
    }
}

#[test]
fn an_array_of_nearly_the_same_type_is_refused() {
    use rs::DataType::{
        Binary, Decimal128, Dictionary, FixedSizeBinary, FixedSizeList, Int8, Int32, Int64, List,
        RunEndEncoded, Struct, Time32, Timestamp, Union, Utf8, Utf8View,
    };
    use rs::TimeUnit::{Millisecond, Second};
    let item = |of: &rs::DataType| Arc::new(rs::Field::new("item", of.clone(), true));
    let members = |ids: [i8; 2]| {
        let fields = [("a", Int32), ("b", Utf8)].map(|(name, of)| rs::Field::new(name, of, true));
        ids.into_iter().zip(fields.map(Arc::new)).collect::<rs::UnionFields>()
    };
    let runs = |of| RunEndEncoded(Arc::new(rs::Field::new("run_ends", of, false)), item(&Int64));
    let pairs = [
        (Int32, Int64),
        (Utf8, Binary),
        (Utf8, Utf8View),
        (Decimal128(10, 2), Decimal128(10, 3)),
        (Timestamp(Second, None), Timestamp(Second, Some("UTC".into()))),
        (Timestamp(Second, None), Timestamp(Millisecond, None)),
        (Time32(Second), Time32(Millisecond)),
        (FixedSizeBinary(3), FixedSizeBinary(4)),
        (FixedSizeList(item(&Int32), 2), FixedSizeList(item(&Int32), 3)),
        (List(item(&Int32)), List(item(&Int64))),
        (Struct([item(&Int32)].into()), Struct([item(&Int64)].into())),
        (Struct([item(&Int32)].into()), Struct([item(&Int32), item(&Int32)].into())),
        (Dictionary(Int8.into(), Utf8.into()), Dictionary(Int32.into(), Utf8.into())),
        (Dictionary(Int8.into(), Utf8.into()), Dictionary(Int8.into(), Binary.into())),
        (
            Union(members([0, 1]), rs::UnionMode::Dense),
            Union(members([0, 2]), rs::UnionMode::Dense),
        ),
        (
            Union(members([0, 1]), rs::UnionMode::Dense),
            Union(members([0, 1]), rs::UnionMode::Sparse),
        ),
        (runs(Int32), runs(rs::DataType::Int16)),
    ];
    for (one, other) in pairs {
        for (of, given) in [(&one, &other), (&other, &one)] {
            let field = rs::Field::new("x", of.clone(), true);
            let array = super::arrow::array::new_empty_array(given);
            let alike = super::arrow::array::new_empty_array(of);
            assert!(<Array as FromArrow<_>>::from_arrow((&field, alike)).is_ok(), "{of}");
            let error = <Array as FromArrow<_>>::from_arrow((&field, array)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{given} as {of}: {error}");
        }
    }
}

/// 13 elements, some of them null, as a bitmap that begins with this bit of a byte.
fn nulls(first_bit: usize) -> NullBuffer {
    let bits =
        BooleanBuffer::collect_bool(first_bit + 13, |bit| (bit - first_bit.min(bit)) % 3 != 1);
    NullBuffer::new(bits.slice(first_bit, 13))
}

#[test]
fn a_bitmap_that_begins_elsewhere_than_its_data_is_moved_alone() {
    for first_bit in [0, 1, 7, 8, 11] {
        let values: ScalarBuffer<i32> = (0..13).collect();
        let bits = BooleanBuffer::collect_bool(20, |bit| bit % 2 == 0);
        let text = StringArray::from_iter_values((0..13).map(|number| number.to_string()));
        let (offsets, bytes, _) = text.into_parts();
        let theirs: [ArrayRef; 4] = [
            Arc::new(Int32Array::new(values, Some(nulls(first_bit)))),
            Arc::new(StringArray::new(offsets, bytes, Some(nulls(first_bit)))),
            Arc::new(BooleanArray::new(bits.slice(5, 13), Some(nulls(first_bit)))),
            Arc::new(BooleanArray::new(bits.slice(0, 13), Some(nulls(first_bit)))),
        ];
        for theirs in theirs {
            let ours = Array::from_arrow(theirs.clone()).unwrap();
            ours.validate().unwrap();
            assert_eq!(ours.null_count(), Some(4), "{first_bit}");
            assert_eq!(&ours.to_arrow().unwrap(), &theirs, "{first_bit}");
            let data = theirs.to_data();
            assert_eq!(
                seen(&ours).buffers.last(),
                Some(&data.buffers().last().unwrap().as_ptr().addr()),
                "{first_bit}: the data moved"
            );
        }
    }
}

fn batch(rows: i64) -> RecordBatch {
    let mut words = StringDictionaryBuilder::<Int32Type>::new();
    (0..rows).for_each(|row| words.append_value(["a", "b", "c"][row as usize % 3]));
    let dictionary =
        rs::DataType::Dictionary(rs::DataType::Int32.into(), rs::DataType::Utf8.into());
    let schema = rs::Schema::new_with_metadata(
        vec![
            rs::Field::new("id", rs::DataType::Int64, false),
            rs::Field::new("word", dictionary, true).with_dict_is_ordered(true),
        ],
        HashMap::from([("made by".to_owned(), "a test".to_owned())]),
    );
    let id: Int64Array = (0..rows).collect();
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(id), Arc::new(words.finish())]).unwrap()
}

#[test]
fn a_record_batch_keeps_its_schema_with_flags_and_metadata() {
    let theirs = batch(9);
    let ours = Batch::from_arrow(theirs.clone()).unwrap();
    let schema = ours.schema().unwrap();
    assert_eq!(schema.metadata().get("made by"), Some(&b"a test"[..]));
    assert!(matches!(ours.fields()[1].data_type(), DataType::Dictionary { ordered: true, .. }));
    assert!(!ours.fields()[0].is_nullable());
    assert_eq!(ours.to_arrow().unwrap(), theirs);
    assert_eq!(schema.to_arrow().unwrap(), theirs.schema());
    let part = ours.slice(3, 4).unwrap();
    assert_eq!(part.to_arrow().unwrap(), theirs.slice(3, 4));
    let back = Batch::from_arrow(theirs.slice(3, 4)).unwrap();
    assert!(back.as_array().equals(part.as_array()).unwrap());
}

#[test]
fn a_batch_of_no_columns_keeps_its_rows() {
    let options = RecordBatchOptions::new().with_row_count(Some(7));
    let empty = Arc::new(rs::Schema::empty());
    let theirs = RecordBatch::try_new_with_options(empty, vec![], &options).unwrap();
    let ours = Batch::from_arrow(theirs.clone()).unwrap();
    assert_eq!((ours.row_count(), ours.column_count()), (7, 0));
    assert_eq!(ours.to_arrow().unwrap(), theirs);
}

#[test]
fn a_schema_is_converted_once_for_many_batches_of_its_type_and_no_others() {
    let schema = Schema::from_arrow(&*batch(0).schema()).unwrap();
    for rows in [0, 1, 100] {
        let ours = Batch::from_arrow((&schema, batch(rows))).unwrap();
        assert_eq!(ours.to_arrow().unwrap(), batch(rows));
    }
    let others = [batch(5).project(&[1, 0]).unwrap(), batch(5).project(&[0]).unwrap()];
    for other in others {
        let error = Batch::from_arrow((&schema, other)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
    }
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let field = rs::Field::new("x", rs::DataType::Int64, false);
    let error = <Array as FromArrow<_>>::from_arrow((&field, numbers)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
}

#[test]
fn a_column_that_may_not_be_null_and_is_makes_no_record_batch() {
    let field = arrow_device::Field::new("x", DataType::Int32, false);
    let column = Array::from_values(DataType::Int32, [Some(1), None]).unwrap();
    let array = Array::builder(Schema::batch([field.with_nullable(true)]).unwrap())
        .len(2)
        .buffers([None])
        .children([column.clone()])
        .finish_ready();
    let ours = Batch::try_from(array.unwrap()).unwrap();
    assert_eq!(ours.to_arrow().unwrap().column(0).null_count(), 1);

    let strict = arrow_device::Field::new("x", DataType::Int32, false);
    let mut c_array = arrow_device::abi::ArrowDeviceArray::empty();
    ours.export(&mut c_array).unwrap();
    let schema = Schema::batch([strict]).unwrap();
    let ours = unsafe { Batch::import(&mut c_array, &schema) }.unwrap();
    let error = ours.to_arrow().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
}

#[test]
fn what_is_shared_is_released_last_whoever_that_is() {
    // Every order in which five holders of one memory can go, by turns on another thread.
    for order in (0..120).step_by(if cfg!(miri) { 50 } else { 1 }) {
        let theirs = batch(50);
        let watched = theirs.column(0).clone();
        let before = Arc::strong_count(&watched);
        let ours = Batch::from_arrow(theirs).unwrap();
        let column = ours.column(0).unwrap();
        let back = ours.to_arrow().unwrap();
        let again = Batch::from_arrow(back.clone()).unwrap();
        let mut holders: Vec<Box<dyn Send>> = vec![
            Box::new(ours),
            Box::new(column),
            Box::new(back),
            Box::new(again),
            Box::new(watched.clone()),
        ];
        let mut code = order;
        for left in (1..=5).rev() {
            let holder = holders.swap_remove(code % left);
            code /= left;
            if left % 2 == 0 {
                std::thread::spawn(move || drop(holder)).join().unwrap();
            } else {
                drop(holder);
            }
        }
        release_until(|| Arc::strong_count(&watched) < before);
        assert_eq!(Arc::strong_count(&watched), 1, "order {order}");
        assert_eq!(watched.len(), 50);
    }
}
