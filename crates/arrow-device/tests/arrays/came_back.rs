//! Arrays that were exported here and came back: the lengths of their data are known as before, so
//! offsets of somebody who is not trusted lead nowhere else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_device::abi::{ArrowArray, ArrowDeviceArray};
use arrow_device::copy::Options;
use arrow_device::{
    Array, Batch, Buffer, DataType, ErrorKind, Extent, Field, IndexType, Queue, Result, Schema,
};
use arrow_device_testkit::consumer::{handed_on, move_out, release};

/// How often arrays go and come back. An interpreter takes seconds for a few ways.
const TIMES: std::ops::Range<usize> = if cfg!(miri) { 2..3 } else { 1..4 };

/// Three texts over two bytes. The offset in the middle leads out of the two bytes. Another process
/// may send such an array, because only the last offset is compared with the number of bytes.
fn wrong(data_type: DataType) -> Array {
    let offsets = match data_type {
        DataType::LargeBinary | DataType::LargeUtf8 => vec![0_i64, 1, 4000, 2].into(),
        _ => vec![0_i32, 1, 4000, 2].into(),
    };
    let buffers = [None, Some(offsets), Some(vec![b'a', b'b'].into())];
    Array::builder(data_type).len(3).buffers(buffers).finish_ready().unwrap()
}

/// Two texts over two bytes, of which the last one ends far behind them. The offset of the array
/// leaves one more text out.
fn wrong_at_the_end() -> Array {
    let offsets = Some(vec![0_i32, 0, 1, 1 << 30].into());
    let buffers = [None, offsets, Some(vec![b'a', b'b'].into())];
    Array::builder(DataType::Binary).offset(1).len(2).buffers(buffers).finish_ready().unwrap()
}

/// The array after `times` ways through a C struct.
fn came_back(array: &Array, times: usize) -> Array {
    (0..times).fold(array.clone(), |array, _| {
        let mut c_array = ArrowDeviceArray::empty();
        array.export(&mut c_array).unwrap();
        unsafe { Array::import(&raw mut c_array, &array.schema().unwrap()) }.unwrap()
    })
}

/// That the bytes of a part are not read, on any way that would read them.
fn is_refused(part: &Array) {
    let is_invalid = |outcome: Result<()>| {
        let error = outcome.expect_err("the offset leads outside");
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    };
    assert_eq!(part.extent(2), Extent::Exact(2), "{part:?}");
    is_invalid(part.host().unwrap().buffer(2).map(drop));
    let always = Options::new().always(true);
    is_invalid(part.copy_with(&Queue::host(), &always).map(drop));
    let batch = Batch::from_columns([("c", part.clone())]).unwrap();
    is_invalid(batch.as_array().copy_with(&Queue::host(), &always).map(drop));
    is_invalid(part.validate());
}

// Requirement: SAF-41
#[test]
fn a_column_that_came_back_knows_how_long_its_data_is() {
    let types = [DataType::Binary, DataType::LargeUtf8, DataType::Utf8, DataType::LargeBinary];
    for data_type in types.into_iter().take(if cfg!(miri) { 2 } else { 4 }) {
        for times in TIMES {
            let array = came_back(&wrong(data_type.clone()), times);
            is_refused(&array.slice(0, 2).unwrap());
            assert_eq!(array.slice(2, 1).unwrap().extent(2), Extent::Exact(2));
            is_refused(&came_back(&array.slice(0, 2).unwrap(), times));
        }
    }
    is_refused(&came_back(&wrong_at_the_end(), 1));
    is_refused(&came_back(&wrong_at_the_end(), 2));
}

// Requirement: SAF-41
#[test]
fn each_column_of_a_tree_that_came_back_knows_how_long_its_data_is() {
    let list = Array::builder(DataType::list(DataType::Binary))
        .len(1)
        .buffers([None, Some(vec![0_i32, 3].into())])
        .children([wrong(DataType::Binary)])
        .finish_ready()
        .unwrap();
    let codes = Array::builder(DataType::dictionary(IndexType::Int8, DataType::Binary))
        .len(1)
        .buffers([None, Some(vec![1_u8].into())])
        .dictionary(wrong(DataType::Binary))
        .finish_ready()
        .unwrap();
    let number = Array::from_values(DataType::Int64, [Some(1_i64)]).unwrap();
    let text = wrong(DataType::Binary).slice(1, 1).unwrap();
    let columns = [("list", list), ("codes", codes), ("n", number), ("text", text)];
    let batch = Batch::from_columns(columns).unwrap();
    for times in TIMES {
        let array = came_back(batch.as_array(), times);
        let values = array.child(0).unwrap().child(0).unwrap();
        let dictionary = array.child(1).unwrap().dictionary().unwrap();
        let text = array.child(3).unwrap();
        is_refused(&text);
        for column in [values, dictionary] {
            is_refused(&column.slice(0, 2).unwrap());
            is_refused(&came_back(&column.slice(0, 2).unwrap(), times));
        }
        // A batch without its first row goes out with the rows of its columns.
        let rest = came_back(&array.slice(0, 1).unwrap().child(0).unwrap(), 1);
        is_refused(&rest.child(0).unwrap().slice(0, 2).unwrap());
    }
}

/// Two columns of one tree: their tables of buffers lie side by side.
fn columns_side_by_side() -> Array {
    let offsets = |of: [i32; 4]| of.iter().flat_map(|end| end.to_ne_bytes()).collect::<Vec<u8>>();
    let mut bytes = offsets([0, 1, 4000, 3]);
    bytes.extend(offsets([0, 1, 4000, 2]));
    bytes.extend(*b"abcde");
    let fields = ["a", "b"].map(|name| Field::new(name, DataType::Binary, true));
    let schema = Schema::batch(fields).unwrap();
    let mut builder = Array::builder_within(&schema, Buffer::from(bytes));
    builder.node(3, 0, [None]).unwrap();
    builder.node(3, 0, [None, Some(0..16), Some(32..35)]).unwrap();
    builder.node(3, 0, [None, Some(16..32), Some(35..37)]).unwrap();
    builder.finish_ready().unwrap()
}

#[test]
fn columns_whose_tables_lie_side_by_side_know_their_own_lengths() {
    let array = columns_side_by_side();
    for times in TIMES {
        for whole in [came_back(&array, times), array.clone()] {
            let columns = [0, 1].map(|index| came_back(&whole.child(index).unwrap(), times));
            assert_eq!(
                columns.each_ref().map(|column| column.extent(2)),
                [3, 2].map(Extent::Exact)
            );
            is_refused(&columns[1].slice(0, 2).unwrap());
        }
    }
}

#[test]
fn a_child_that_was_moved_out_knows_no_more_than_its_struct_says() {
    for release_first in [false, true] {
        let mut c_array = ArrowDeviceArray::empty();
        columns_side_by_side().export(&mut c_array).unwrap();
        let mut child: ArrowArray = move_out(unsafe { *c_array.array.children.add(1) });
        let mut parent = Some(move_out(&raw mut c_array.array));
        let schema = Schema::new(Field::new("b", DataType::Binary, true)).unwrap();
        if release_first {
            parent.take().map(release).transpose().unwrap();
        }
        let array = unsafe { Array::import_host(&raw mut child, &schema) }.unwrap();
        for array in [came_back(&array, 1), came_back(&array, 2), array] {
            assert_eq!(array.extent(2), Extent::Unknown);
            assert_eq!(array.slice(0, 1).unwrap().host().unwrap().buffer(2).unwrap()[..], *b"d");
        }
        parent.take().map(release).transpose().unwrap();
    }
}

/// Exchanges two children of a struct, which leaves each child what it is.
fn with_children_exchanged(array: &Array) -> Array {
    let mut c_array = ArrowDeviceArray::empty();
    array.export(&mut c_array).unwrap();
    unsafe { c_array.array.children.swap(c_array.array.children.add(1)) };
    unsafe { Array::import(&raw mut c_array, &array.schema().unwrap()) }.unwrap()
}

#[test]
fn exchanged_children_know_their_own_lengths_or_none() {
    let array = columns_side_by_side();
    let (mut there, mut lengths) = (array, [3, 2]);
    for step in 0..40 {
        let is_exchanged = step % 3 == 1;
        there = if is_exchanged { with_children_exchanged(&there) } else { came_back(&there, 1) };
        if is_exchanged {
            lengths.reverse();
        }
        for (index, length) in lengths.into_iter().enumerate() {
            let extent = there.child(index).unwrap().extent(2);
            let is_right = [Extent::Exact(length), Extent::Unknown].contains(&extent);
            assert!(is_right, "{extent} and not {length} at step {step}");
        }
    }
}

#[test]
fn lengths_of_what_came_back_very_often_are_found_at_once() {
    let (times, levels) = if cfg!(miri) { (3, 3) } else { (20_000, 40) };
    let list = |values: Array| {
        Array::builder(DataType::list(values.data_type().clone()))
            .len(1)
            .buffers([None, Some(vec![0_i32, 3].into())])
            .children([values])
            .finish_ready()
            .unwrap()
    };
    let (leaf, tree) = (wrong(DataType::Binary), list(wrong(DataType::Binary)));
    let mut parts = (0..levels).fold(tree.clone(), |array, _| list(came_back(&array, 2)));
    let (mut leaf, mut tree) = (came_back(&leaf, 1), came_back(&tree, 1));
    let start = Instant::now();
    for _ in 0..times {
        (leaf, tree) = (came_back(&leaf, 1), came_back(&tree, 1));
        let values = tree.child(0).unwrap();
        assert_eq!((leaf.extent(2), values.extent(2)), (Extent::Exact(2), Extent::Exact(2)));
    }
    // A step for each time before would take half a minute.
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    is_refused(&leaf.slice(0, 2).unwrap());
    is_refused(&tree.child(0).unwrap().slice(0, 2).unwrap());
    // Each part begins a new row.
    parts = came_back(&parts, 3);
    while parts.child_count() > 0 {
        parts = came_back(&parts.child(0).unwrap(), 3);
    }
    is_refused(&parts.slice(0, 2).unwrap());
}

#[test]
fn sizes_of_list_views_are_as_long_as_their_own_window_needs() {
    let numbers = Array::from_values(DataType::Int8, [Some(1_i8)]).unwrap();
    let item = Arc::new(Field::new("item", DataType::Int8, true));
    let lists = Array::builder(DataType::ListView(item))
        .len(100)
        .buffers([None, Some(vec![0_i32; 100].into()), Some(vec![1_i32; 100].into())])
        .children([numbers])
        .finish_ready()
        .unwrap();
    assert_eq!(came_back(&lists, 2).extent(2), Extent::Exact(400));
    let mut c_array = ArrowArray::empty();
    lists.export_host(&mut c_array).unwrap();
    let (mut other, schema) = (handed_on(c_array), lists.schema().unwrap());
    let other = unsafe { Array::import_host(&raw mut other, &schema) }.unwrap();
    let parts = [("a", other.slice(0, 2).unwrap()), ("b", other.slice(8, 2).unwrap())];
    let batch = Batch::from_columns(parts).unwrap();
    let batch = came_back(&with_children_exchanged(batch.as_array()), 1);
    for (index, needed) in [(0, 10), (1, 2)] {
        let column = batch.child(index).unwrap();
        assert_eq!(column.offset() + column.len(), needed);
        assert_eq!(column.extent(2), Extent::AtLeast(4 * needed as u64));
    }
}

#[test]
fn an_array_of_another_library_knows_no_more_than_its_struct_says() {
    let mut c_array = ArrowArray::empty();
    let array = Array::from_texts(DataType::Utf8, [Some("one"), Some("two")]).unwrap();
    array.export_host(&mut c_array).unwrap();
    let mut handed_on = handed_on(c_array);
    let schema = array.schema().unwrap();
    let again = unsafe { Array::import_host(&raw mut handed_on, &schema) }.unwrap();
    assert_eq!(again.extent(2), Extent::Unknown);
    assert!(again.equals(&array).unwrap());
}
