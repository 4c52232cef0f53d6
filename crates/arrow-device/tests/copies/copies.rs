//! Whole arrays go to a device and come back, by a driver that is written here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arrow_device::abi::{ArrowArray, ArrowArrayStream, ArrowDeviceArray};
use arrow_device::copy::{Cut, Options};
use arrow_device::driver::{Filled, Raw};
use arrow_device::{
    Array, ArrayStream, Batch, Buffer, DataType, DeviceId, DeviceType, ErrorKind, Field, HostArray,
    IndexType, Queue, Ready, Recycler,
};
use arrow_device_testkit::consumer::{move_out, release};
use arrow_device_testkit::recipe::*;
use arrow_device_testkit::suite::Suite;
use arrow_device_testkit::{release_until, require};

use crate::device;

/// Whether all windows and all bytes of two arrays are the same.
fn assert_equal(one: &HostArray, other: &HostArray) {
    let (a, b) = (one.array(), other.array());
    assert_eq!(a.data_type(), b.data_type());
    assert_eq!(
        (a.len(), a.offset(), a.null_count()),
        (b.len(), b.offset(), b.null_count()),
        "{a:?}"
    );
    assert_eq!(a.buffer_count(), b.buffer_count());
    for index in 0..a.buffer_count() {
        let (bytes, others) = (one.buffer(index).unwrap(), other.buffer(index).unwrap());
        assert_eq!(bytes[..], others[..], "buffer {index} of {a:?}");
    }
    for index in 0..a.child_count() {
        assert_equal(&one.child(index).unwrap(), &other.child(index).unwrap());
    }
    assert_eq!(a.dictionary().is_some(), b.dictionary().is_some());
    if let (Some(one), Some(other)) = (one.dictionary(), other.dictionary()) {
        assert_equal(&one, &other);
    }
}

/// Nothing is left on the device, and nothing went wrong there.
fn assert_clean(state: &Mutex<device::State>) {
    assert!(release_until(|| state.lock().unwrap().blocks() == 0));
    assert_eq!(state.lock().unwrap().mistakes, Vec::<String>::new());
}

/// Copies and waits so far.
fn counts(state: &Mutex<device::State>) -> (usize, usize) {
    let state = state.lock().unwrap();
    (state.copies, state.waits)
}

/// All samples, and few under Miri, which is a thousand times slower.
fn some_samples() -> impl Iterator<Item = ArrayRecipe> {
    samples().into_iter().step_by(if cfg!(miri) { 5 } else { 1 })
}

/// Copies, and fillings of memory by the host.
fn fills_of(state: &Mutex<device::State>) -> (usize, usize) {
    let state = state.lock().unwrap();
    (state.copies, state.fills)
}

fn is_on(array: &Array, device: DeviceId) -> bool {
    array.device() == device
        && (0..array.child_count()).all(|index| is_on(&array.child(index).unwrap(), device))
        && array.dictionary().is_none_or(|dictionary| is_on(&dictionary, device))
}

// Requirement: SYS-1, ARR-2
#[test]
fn every_sample_and_its_slices_come_back_from_a_device_as_they_were() {
    let (device, state) = device::open(1);
    let queue = device.open_queue().unwrap();
    for recipe in some_samples() {
        let array = recipe.build().unwrap();
        let part = array.slice(array.len() / 3, array.len() / 2).unwrap();
        for array in [array, part] {
            let there = array.copy_to(&queue).unwrap();
            assert!(is_on(&there, device.id()), "{there:?}");
            assert_eq!(there.schema().unwrap(), array.schema().unwrap());
            assert_eq!(there.host().unwrap_err().kind(), ErrorKind::Unsupported);
            assert_eq!(there.validate().unwrap_err().kind(), ErrorKind::Unsupported);
            let back = there.to_host().unwrap();
            assert!(is_on(&back, DeviceId::CPU), "{back:?}");
            assert_eq!(back.ready(), Ready::Now);
            back.validate().unwrap();
            assert!(back.equals(&array).unwrap(), "{array:?}");
            there.validate_on(&queue).unwrap();
            // Without trimming it is the same to the last byte.
            let whole = Options::new().trim(false).through(&queue);
            let there = array.copy_with(&queue, &whole).unwrap();
            let back = there.copy_with(&Queue::host(), &whole).unwrap();
            assert_equal(&array.host().unwrap(), &back.host().unwrap());
        }
    }
    queue.synchronize().unwrap();
    assert_clean(&state);
}

#[test]
fn what_was_imported_from_a_device_comes_back_too() {
    let (device, _state) = device::open(2);
    let queue = device.open_queue().unwrap();
    for recipe in some_samples() {
        let array = recipe.build().unwrap();
        let there = array.copy_to(&queue).unwrap();
        let schema = there.schema().unwrap();
        let mut c_array = ArrowDeviceArray::empty();
        there.export(&mut c_array).unwrap();
        drop(there);
        let imported = unsafe { Array::import(&mut c_array, &schema) }.unwrap();
        imported.validate_on(&queue).unwrap();
        assert!(array.equals(&imported.to_host().unwrap()).unwrap(), "{array:?}");
    }
}

#[test]
fn the_host_waits_once_and_once_more_for_each_level_of_offsets() {
    let (device, state) = device::open(3);
    let queue = device.open_queue().unwrap();
    let cases = [
        (numbers(), 1),
        (list_view(numbers()), 1),
        (views(), 1),
        (list(numbers()), 2),
        (list(list_view(numbers())), 2),
        (map(), 3),
        (list(text()), 3),
        (list_of_one(list(text())), 4),
    ];
    for (recipe, waits) in cases {
        let there = recipe.build().unwrap().copy_to(&queue).unwrap();
        queue.synchronize().unwrap();
        let before = counts(&state);
        there.to_host().unwrap();
        let after = counts(&state);
        assert_eq!(
            (after.0 - before.0, after.1 - before.1),
            (waits, waits),
            "{:?}",
            recipe.data_type
        );
    }
}

// Requirement: ARR-5, ARR-8, SAF-9
#[test]
fn an_array_on_a_device_is_ready_after_its_copy_and_so_is_each_part_of_it() {
    let (device, _state) = device::open(4);
    let queue = device.open_queue().unwrap();
    let there = list(numbers()).build().unwrap().copy_to(&queue).unwrap();
    for array in [&there, &there.child(0).unwrap()] {
        assert_eq!(array.ready(), Ready::AfterEvent);
        assert!(!array.is_ready().unwrap());
    }
    let mut c_array = ArrowDeviceArray::empty();
    there.child(0).unwrap().export(&mut c_array).unwrap();
    assert!(!c_array.sync_event.is_null());
    unsafe { Array::import(&mut c_array, &there.child(0).unwrap().schema().unwrap()) }.unwrap();
    there.wait().unwrap();
    assert!(there.child(0).unwrap().is_ready().unwrap());
}

#[test]
fn a_plain_struct_goes_out_when_its_data_is_there_because_it_has_no_event() {
    let (device, _state) = device::open(6);
    let queue = device.open_queue().unwrap();
    let soon = || {
        // Something to wait for: what is on the host comes from the device.
        numbers().build().unwrap().copy_to(&queue).unwrap();
        let buffers = [None, Some(vec![1_i64, 2].into())];
        let array = Array::builder(DataType::Int64).len(2).buffers(buffers);
        unsafe { array.finish_after(queue.record().unwrap()) }.unwrap()
    };
    let (array, other) = (soon(), soon());
    assert!(!array.is_ready().unwrap() && !other.is_ready().unwrap());
    let error = array.export(&mut ArrowDeviceArray::empty()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReady);
    let mut c_array = ArrowArray::empty();
    array.export_host(&mut c_array).unwrap();
    assert!(array.is_ready().unwrap());
    let again = unsafe { Array::import_host(&mut c_array, &array.schema().unwrap()) }.unwrap();
    assert!(again.equals(&array).unwrap());

    let later = soon();
    let stream = ArrayStream::new(later.schema().unwrap(), DeviceType::CPU, [Ok(later.clone())]);
    let mut c_stream = ArrowArrayStream::empty();
    stream.export_host(&mut c_stream).unwrap();
    let mut stream = unsafe { ArrayStream::import_host(&mut c_stream) }.unwrap();
    assert!(!later.is_ready().unwrap());
    stream.next().unwrap().unwrap();
    assert!(later.is_ready().unwrap());
}

struct Flag(Arc<AtomicBool>, #[expect(dead_code, reason = "kept alive")] Arc<[u8; 64]>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Bytes on the host that tell when they are freed.
fn noted(dropped: &Arc<AtomicBool>) -> Buffer {
    let bytes = Arc::new([7_u8; 64]);
    let address = bytes.as_ptr().cast();
    unsafe { Buffer::foreign(DeviceId::CPU, address, 64, Flag(dropped.clone(), bytes)) }
}

// Requirement: SAF-13
#[test]
fn what_is_still_being_made_is_kept_even_if_nobody_waits_for_it() {
    let (device, _state) = device::open(7);
    let queue = device.open_queue().unwrap();
    let dropped = Arc::new(AtomicBool::new(false));
    numbers().build().unwrap().copy_to(&queue).unwrap();
    let array = Array::builder(DataType::UInt8).len(64).buffers([None, Some(noted(&dropped))]);
    drop(unsafe { array.finish_after(queue.record().unwrap()) }.unwrap());
    arrow_device::deferred::release_finished();
    assert!(!dropped.load(Ordering::SeqCst));
    queue.synchronize().unwrap();
    assert!(release_until(|| dropped.load(Ordering::SeqCst)));
}

// Requirement: ARR-20, SAF-13
#[test]
fn the_source_of_a_copy_is_kept_until_the_queue_has_passed_it() {
    let (device, state) = device::open(5);
    let queue = device.open_queue().unwrap();
    let dropped = Arc::new(AtomicBool::new(false));
    let array = Array::builder(DataType::UInt8)
        .len(64)
        .buffers([None, Some(noted(&dropped))])
        .finish_ready()
        .unwrap();
    let there = array.copy_to(&queue).unwrap();
    drop(array);
    arrow_device::deferred::release_finished();
    assert!(!dropped.load(Ordering::SeqCst));
    // The target, too, is not freed before.
    drop(there);
    arrow_device::deferred::release_finished();
    assert_eq!(state.lock().unwrap().blocks(), 1);
    queue.synchronize().unwrap();
    assert!(release_until(|| dropped.load(Ordering::SeqCst)));
    assert_clean(&state);
}

// Requirement: SYS-2
#[test]
fn wrong_data_on_a_device_is_found_there() {
    let (device, state) = device::open(6);
    let queue = device.open_queue().unwrap();
    let wrong = list(dictionary());
    let mut wrong = ArrayRecipe { buffers: vec![None, [0_i32, 1, 3, 4].bytes()], ..wrong };
    wrong.children[0].buffers[1] = [0_i8, 4, 0, 0].bytes();
    let there = wrong.build().unwrap().copy_to(&queue).unwrap();
    let error = there.validate_on(&queue).unwrap_err();
    let shown = "validate on ext_dev:6: invalid data: root.child[0]: element 1: key 4 is not within the 4 of the dictionary";
    assert_eq!(error.to_string(), shown);
    // An offset that the copy itself stumbles over.
    for offset in [-1, 100] {
        let wrong =
            ArrayRecipe::new(DataType::Utf8, 1, [None, [0, offset].bytes(), Some(b"abc".to_vec())]);
        let array = list_of_one(wrong).build().unwrap();
        assert_eq!(array.copy_to(&queue).unwrap_err().kind(), ErrorKind::InvalidData);
    }
    drop(there);
    queue.synchronize().unwrap();
    assert_clean(&state);
}

pub fn list_of_one(child: ArrayRecipe) -> ArrayRecipe {
    let list = DataType::list(child.data_type.clone());
    ArrayRecipe::new(list, 1, [None, [0_i32, 1].bytes()]).children([child])
}

// Requirement: SAF-2
#[test]
fn a_last_offset_on_a_device_is_not_trusted() {
    let (device, _state) = device::open(7);
    let queue = device.open_queue().unwrap();
    for (offset, message) in
        [(-5, "the last offset is -5"), (9, "the last offset is 9, and buffer 2 has 3 bytes")]
    {
        // Offsets and bytes go there as numbers do, so that nobody looks at them on the way.
        let upload = |bytes: &[u8]| {
            let mut memory = queue.allocate(bytes.len() as u64).unwrap();
            memory.write(&queue, bytes).unwrap();
            memory.into_buffer()
        };
        let offsets = upload(&[0_i32, offset].bytes().unwrap());
        let text = Array::builder(DataType::Utf8).len(1).buffers([
            None,
            Some(offsets),
            Some(upload(b"abc")),
        ]);
        let text = text.finish_ready().unwrap();
        let list = upload(&[0_i32, 1].bytes().unwrap());
        let list = Array::builder(DataType::list(DataType::Utf8))
            .len(1)
            .buffers([None, Some(list)])
            .children([text]);
        let error = list.finish_ready().unwrap().to_host().unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::InvalidData, message));
        assert_eq!(error.place().unwrap().to_string(), "root.child[0]");
    }
}

#[test]
fn what_is_where_it_shall_be_is_not_copied() {
    let (device, state) = device::open(8);
    let queue = device.open_queue().unwrap();
    let array = list(numbers()).build().unwrap();
    assert!(array.to_host().unwrap().is_same(&array));
    assert!(array.copy_to(&Queue::host()).unwrap().is_same(&array));
    assert_eq!(state.lock().unwrap().copies, 0);
    let there = array.copy_to(&queue).unwrap();
    assert!(there.copy_to(&queue).unwrap().is_same(&there));
    let through_the_host = Options::new().through(&Queue::host());
    let error = there.copy_with(&Queue::host(), &through_the_host).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReachable);
    queue.synchronize().unwrap();
}

#[test]
fn where_the_host_can_write_it_fills_the_destination_in_place() {
    let can = device::Abilities { fill: true, ..Default::default() };
    let (device, state) = device::open_with(9, can);
    let queue = device.open_queue().unwrap();
    for recipe in some_samples() {
        let array = recipe.build().unwrap();
        let part = array.slice(array.len() / 2, array.len() - array.len() / 2).unwrap();
        let (copies, fills) = fills_of(&state);
        let there = part.copy_to(&queue).unwrap();
        let after = fills_of(&state);
        assert!(after == (copies, fills + 1) || part.is_empty() || after == (copies, fills));
        assert!(there.to_host().unwrap().equals(&part).unwrap(), "{part:?}");
    }
    assert!(state.lock().unwrap().fills > if cfg!(miri) { 0 } else { 10 });
    queue.synchronize().unwrap();
    assert_clean(&state);
}

#[test]
fn what_the_host_filled_is_ready_when_the_driver_says_so() {
    let array = Array::from_values(DataType::Int32, (0..8).map(Some)).unwrap();
    let ways = [
        (None, 1, false),
        (Some(Filled::InOrder), 1, false),
        (Some(Filled::Now), 0, true),
        (Some(Filled::After(Raw::NULL)), 0, false),
    ];
    for (number, (filled, records, is_now)) in (30..).zip(ways) {
        let (device, state) = device::open_with(
            number,
            device::Abilities { fill: true, filled, ..Default::default() },
        );
        let queue = device.open_queue().unwrap();
        let there = array.copy_to(&queue).unwrap();
        let recorded = state.lock().unwrap().records;
        assert_eq!(recorded, records, "{filled:?}");
        let mut c_array = ArrowDeviceArray::empty();
        there.export(&mut c_array).unwrap();
        assert_eq!(c_array.sync_event.is_null(), is_now, "{filled:?}");
        release(move_out(&mut c_array.array)).unwrap();
        assert!(there.to_host().unwrap().equals(&array).unwrap());
        drop(there);
        drop(queue);
        assert!(release_until(|| state.lock().unwrap().events == 0), "{filled:?}");
        assert_clean(&state);
    }
}

#[test]
fn each_of_several_buffers_in_one_allocation_has_a_handle_of_its_own() {
    let can = device::Abilities { fill: true, ..Default::default() };
    let (device, state) = device::open_with(40, can);
    let queue = device.open_queue().unwrap();
    let column = |index: i32| {
        let values = (0..8).map(|row| Some(index + row));
        (format!("c{index}"), Array::from_values(DataType::Int32, values).unwrap())
    };
    for (columns, parts) in [(1, 0), (2, 2), (3, 3)] {
        let batch = Batch::from_columns((0..columns).map(column)).unwrap();
        let counts = || {
            let state = state.lock().unwrap();
            (state.parts, state.shared)
        };
        let before = counts();
        let there = batch.copy_to(&queue).unwrap();
        // Alone it is the whole allocation.
        assert_eq!(counts(), (before.0 + parts, before.1 + 1), "{columns} columns");
        assert!(there.as_array().to_host().unwrap().equals(batch.as_array()).unwrap());
    }
    queue.synchronize().unwrap();
    assert_clean(&state);
}

#[test]
fn columns_of_several_kinds_beside_each_other_keep_their_values() {
    // All in one tree.
    let can = device::Abilities { fill: true, ..Default::default() };
    let (device, state) = device::open_with(44, can);
    let queue = device.open_queue().unwrap();
    let numbers = Array::from_values(DataType::Int32, (0..20).map(Some)).unwrap();
    let buffers = [None, Some(vec![0_u8, 2, 1, 0, 2, 2, 1, 0, 1, 1].into())];
    let words = Array::from_texts(DataType::Utf8, ["a", "", "ccc"].map(Some)).unwrap();
    let dictionary = DataType::dictionary(IndexType::UInt8, DataType::Utf8);
    let dictionary = Array::builder(dictionary).len(10).buffers(buffers).dictionary(words);
    let buffers = || [None, Some((0..70).collect::<Vec<u8>>().into())];
    let fixed = Array::builder(DataType::FixedSizeBinary(7)).len(10).buffers(buffers());
    let bits = [None, Some(vec![0b0100_1101_u8, 0b10].into())];
    let bits = Array::builder(DataType::Boolean).len(10).buffers(bits);
    let empty = DataType::fixed_size_list(Field::new("item", DataType::Int32, true), 0);
    let empty = Array::builder(empty).len(10).buffers([None]).children([numbers.clone()]);
    let none = Array::builder(DataType::FixedSizeBinary(0)).len(10).buffers([None, None]);
    let some = (0..10_i64).map(|row| (row % 3 > 0).then_some(row));
    let texts = (0..10).map(|row| Some("x".repeat(row)));
    let columns = [
        numbers.slice(5, 10).unwrap(),
        dictionary.finish_ready().unwrap(),
        Array::from_values(DataType::Int64, some).unwrap(),
        // The same memory once more, and a part of it that begins elsewhere.
        numbers.slice(5, 10).unwrap(),
        numbers.slice(0, 10).unwrap(),
        bits.finish_ready().unwrap(),
        fixed.finish_ready().unwrap(),
        none.finish_ready().unwrap(),
        empty.finish_ready().unwrap(),
        Array::from_texts(DataType::Utf8, texts).unwrap(),
    ];
    let names = (0..).map(|index| format!("c{index}"));
    let batch = Batch::from_columns(names.zip(columns)).unwrap();
    for (offset, rows) in [(0, 10), (3, 5), (9, 1), (4, 0)] {
        let part = batch.slice(offset, rows).unwrap();
        for trims in [true, false] {
            let options = Options::new().trim(trims);
            let plan = part.plan_copy(&queue, &options).unwrap();
            assert!(plan.shared_bytes() >= 4 * rows as u64, "{offset}+{rows}: {plan}");
            let cut = Cut::Window { elements: rows as i64, of: 15, kept: 0 };
            let is_noted = plan.notes().iter().any(|note| note.cut() == cut);
            assert_eq!(is_noted, trims && rows > 0, "{offset}+{rows}: {plan}");
            let there = plan.run().unwrap();
            let back = there.to_host().unwrap();
            assert!(back.equals(part.as_array()).unwrap(), "{offset}+{rows}, trims: {trims}");
            // Each by itself, out of the tree of all.
            let there = Batch::try_from(there).unwrap();
            for index in 0..there.column_count() {
                let column = there.column(index).unwrap().to_host().unwrap();
                let expected = part.column(index).unwrap();
                assert!(column.equals(&expected).unwrap(), "{offset}+{rows}, column {index}");
            }
        }
    }
    assert_clean(&state);
}

/// A column of three texts between other columns, with offsets of both widths.
fn beside_texts(offsets: [i64; 4]) -> [Batch; 2] {
    let narrow = offsets.map(|offset| offset as i32).bytes().unwrap();
    let typed = [(DataType::Utf8, narrow), (DataType::LargeUtf8, offsets.bytes().unwrap())];
    typed.map(|(data_type, offsets)| {
        let numbers = Array::from_values(DataType::Int16, (0..3_i16).map(Some)).unwrap();
        let buffers = [None, Some(offsets.into()), Some(b"abcdefgh".to_vec().into())];
        let texts = Array::builder(data_type).len(3).buffers(buffers).finish_ready().unwrap();
        let columns = [("a", numbers.clone()), ("b", texts), ("c", numbers)];
        Batch::from_columns(columns.map(|(name, column)| (name.to_owned(), column))).unwrap()
    })
}

#[test]
fn texts_of_a_batch_on_the_host_are_cut_to_the_rows_that_travel() {
    let options = Options::new().always(true);
    for batch in beside_texts([1, 3, 3, 8]) {
        for (offset, rows, first, reads) in [(0, 3, 1, 7), (1, 2, 3, 5), (1, 1, 3, 0)] {
            let part = batch.slice(offset, rows).unwrap();
            let plan = part.plan_copy(&Queue::host(), &options).unwrap();
            let cuts: Vec<Cut> = plan.notes().iter().map(|note| note.cut()).collect();
            assert!(cuts.contains(&Cut::Rebased { first, bytes: first as u64 }), "{plan}");
            let width = if plan.bytes_read_ahead() == 16 { 8 } else { 4 };
            // The numbers are the same memory.
            let expected = 2 * rows as u64 + width * (rows as u64 + 1) + reads;
            assert_eq!(plan.bytes(), expected, "{plan}");
            let copy = plan.run().unwrap();
            assert!(copy.equals(part.as_array()).unwrap(), "{offset}+{rows}");
        }
    }
}

// Requirement: SAF-2
#[test]
fn offsets_of_a_column_on_the_host_are_not_trusted() {
    let options = Options::new().always(true);
    for (offsets, message) in [
        ([0, 3, 5, -1], "the last offset is -1"),
        ([5, 6, 6, 3], "the first offset is 5, and the last one is 3"),
        ([-2, 0, 3, 3], "the first offset is -2, and the last one is 3"),
        ([0, 3, 5, 9], "the last offset is 9, and buffer 2 has 8 bytes"),
    ] {
        for batch in beside_texts(offsets) {
            let error = batch.plan_copy(&Queue::host(), &options).unwrap_err();
            assert_eq!((error.kind(), error.message()), (ErrorKind::InvalidData, message));
            assert_eq!(error.place().unwrap().to_string(), "root.child[1]");
        }
    }
}

/// Three columns of so many rows and bytes for each.
fn three_columns(rows: i8, widths: [usize; 3]) -> Batch {
    let column = |width| {
        let numbers = || (0..rows).map(|row| Some(i32::from(row)));
        match width {
            1 => Array::from_values(DataType::Int8, (0..rows).map(Some)).unwrap(),
            _ => Array::from_values(DataType::Int32, numbers()).unwrap(),
        }
    };
    let columns = widths.iter().enumerate();
    Batch::from_columns(columns.map(|(index, width)| (format!("c{index}"), column(*width))))
        .unwrap()
}

#[test]
fn recycled_memory_that_is_divided_as_before_needs_no_new_handles() {
    let can = device::Abilities { fill: true, ..Default::default() };
    let (device, state) = device::open_with(41, can);
    let recycler = Recycler::new(1 << 16);
    let queue = device.with_allocator(recycler.clone()).open_queue().unwrap();
    let turns = [
        (17, [4, 4, 1], 3),
        (17, [4, 4, 1], 0),
        // They begin elsewhere.
        (8, [4, 4, 4], 3),
        (8, [4, 4, 4], 0),
        // Two are as they were, whatever comes before or behind them.
        (8, [4, 4, 1], 1),
        (8, [1, 4, 1], 1),
        // They begin where others did, and are shorter.
        (7, [4, 4, 4], 3),
        (17, [4, 4, 1], 3),
    ];
    for (turn, (rows, widths, made)) in turns.into_iter().enumerate() {
        let batch = three_columns(rows, widths);
        let before = state.lock().unwrap().parts;
        let there = batch.copy_to(&queue).unwrap();
        assert_eq!(state.lock().unwrap().parts - before, made, "turn {turn}");
        assert!(there.as_array().to_host().unwrap().equals(batch.as_array()).unwrap());
        drop(there);
        assert!(release_until(|| recycler.kept() > 0), "turn {turn}");
        let state = state.lock().unwrap();
        assert_eq!((state.blocks(), state.parts_alive.len()), (1, 3), "turn {turn}");
    }
    recycler.clear();
    assert_eq!(state.lock().unwrap().parts_alive, Vec::<usize>::new());
    assert_clean(&state);
}

#[test]
fn handles_that_are_kept_go_with_memory_that_is_used_otherwise() {
    let can = device::Abilities { fill: true, ..Default::default() };
    let (device, state) = device::open_with(42, can);
    let recycler = Recycler::new(1 << 16);
    let device = device.with_allocator(recycler.clone());
    let queue = device.open_queue().unwrap();
    let copy = || {
        drop(three_columns(8, [4; 3]).copy_to(&queue).unwrap());
        assert!(release_until(|| recycler.kept() > 0));
    };
    copy();
    // Whoever has the whole of it in between does not take the handles.
    drop(device.allocate(160).unwrap());
    copy();
    assert_eq!(state.lock().unwrap().parts, 3);
    // Where it does not go home, they do not either.
    let memory = device.allocate(160).unwrap();
    drop((recycler, queue, device));
    assert_eq!(state.lock().unwrap().parts_alive.len(), 3);
    drop(memory);
    assert_eq!(state.lock().unwrap().parts_alive, Vec::<usize>::new());
    assert_clean(&state);
}

#[test]
fn a_handle_that_is_refused_leaves_none_behind() {
    for recycled in [false, true] {
        let can = device::Abilities { fill: true, ..Default::default() };
        let (device, state) = device::open_with(43, can);
        let recycler = Recycler::new(1 << 16);
        let queue = device.with_allocator(recycler.clone()).open_queue().unwrap();
        if recycled {
            drop(three_columns(16, [4, 4, 1]).copy_to(&queue).unwrap());
            assert!(release_until(|| recycler.kept() > 0));
        }
        let made = state.lock().unwrap().parts;
        state.lock().unwrap().refused_part = Some(made + 1);
        let error = three_columns(15, [4, 4, 1]).copy_to(&queue).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        assert!(release_until(|| recycler.kept() > 0));
        assert_eq!(state.lock().unwrap().parts_alive.len(), 1);
        recycler.clear();
        assert_eq!(state.lock().unwrap().parts_alive, Vec::<usize>::new());
        assert_clean(&state);
    }
}

#[test]
fn wide_offsets_are_read_as_a_whole() {
    let many = 1_i64 << 33;
    for (first, last) in [(0, many), (many, many + 5), (5, many + 5)] {
        // A vector, since moving a box ends what was pointed into it.
        let offsets = vec![first, last];
        let host = DeviceId::CPU;
        let address = offsets.as_ptr().cast();
        let offsets = unsafe { Buffer::foreign(host, address, 16, offsets) };
        // Nobody has that much, and a plan reads none of it.
        let bytes = std::ptr::without_provenance(1);
        let bytes = unsafe { Buffer::foreign(host, bytes, 2 * many as u64, ()) };
        let buffers = [None, Some(offsets), Some(bytes)];
        let array = Array::builder(DataType::LargeBinary).len(1).buffers(buffers);
        let array = array.finish_ready().unwrap();
        let plan = array.plan_copy(&Queue::host(), &Options::new().always(true));
        if usize::BITS < 64 {
            let error = plan.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
            continue;
        }
        let plan = plan.unwrap();
        assert_eq!(plan.bytes(), 16 + (last - first) as u64, "{first}..{last}");
    }
}

// Requirement: SAF-2
#[test]
fn lengths_that_no_memory_holds_are_refused() {
    let (device, state) = device::open(12);
    let queue = device.open_queue().unwrap();
    let largest = (isize::MAX / 8 - 8) as usize;
    // Nobody has that much; what a struct says is only a number.
    let column = || {
        let bytes = unsafe {
            Buffer::foreign(device.id(), std::ptr::without_provenance(1), largest as u64 * 8, ())
        };
        let buffers = [None, Some(bytes)];
        Array::builder(DataType::Int64).len(largest).buffers(buffers).finish_ready().unwrap()
    };
    let columns: Vec<Array> =
        (0..3).map(|index| column().slice(index, largest - 3).unwrap()).collect();
    let fields = columns.iter().map(|column| column.field().clone());
    let batch = Array::builder(DataType::struct_(fields)).buffers([None]).children(columns);
    let batch = batch.finish_ready().unwrap();
    // Where addresses have 32 bits, 64 bits count all that columns of such lengths could have, and
    // it is the allocation that fails.
    let plans = if usize::BITS < 64 { &[][..] } else { &[false, true] };
    for separate in plans {
        let options = Options::new().separate(*separate);
        let error = batch.plan_copy(&Queue::host(), &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        let error = batch.plan_copy(&queue, &options.always(true)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    }
    assert_clean(&state);
}

#[test]
#[cfg_attr(miri, ignore = "some thousand arrays are too many for an interpreter")]
fn the_device_of_these_tests_passes_the_suite() {
    let (device, state) = device::open(70);
    let watch = || {
        let mistakes = std::mem::take(&mut state.lock().unwrap().mistakes);
        require(mistakes.is_empty(), || mistakes.join("; "))
    };
    Suite::new(&device).watched_by(&watch).run().assert();
    assert_eq!(state.lock().unwrap().blocks(), 0);
}
