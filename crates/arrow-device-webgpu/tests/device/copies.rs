//! Copies and tensors on WebGPU. That arrays and streams have their values after a copy to WebGPU
//! from any other device, and back, is tested in `device-pairs`.

use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device::{Array, Batch, DataType, Field, Schema};
use arrow_device_testkit::tensors::{conversions, matrix};
use arrow_device_testkit::{process, trips};

use crate::{hooks, support};

#[test]
fn threads_share_a_device() {
    let Some(device) = support::device() else { return };
    trips::threads_share_a_device(&device, 25);
}

// Requirement: SAF-21
#[test]
fn polled_copies_need_nobody_who_waits() {
    let Some(device) = support::device() else { return };
    trips::polled_copies_need_nobody_who_waits(&device.open_queue().unwrap(), 60);
}

// Requirement: SAF-5
#[test]
fn threads_read_one_array() {
    let Some(device) = support::device() else { return };
    let queue = device.open_queue().unwrap();
    for threads in [2, 8] {
        trips::threads_read_one_array(&queue, threads, 40);
    }
}

#[test]
fn threads_share_a_device_of_dawn() {
    support::with_dawn(|| {
        let device = support::device().unwrap();
        trips::threads_share_a_device(&device, 10);
        trips::threads_read_one_array(&device.open_queue().unwrap(), 4, 20);
    });
}

// Requirement: DLP-4
#[test]
fn tensors_of_every_type_come_back_in_every_layout() {
    let Some(device) = support::device() else { return };
    let queue = device.open_queue().unwrap();
    // 20 types, 9 layouts, 2 forms.
    assert_eq!(matrix::run(&queue, &matrix::DTYPES), 360);
}

// Requirement: DLP-4, DLP-5
#[test]
fn arrays_and_tensors_have_the_same_values() {
    let Some(device) = support::device() else { return };
    conversions::run(&device.open_queue().unwrap());
}

#[test]
fn a_part_of_a_large_column_moves_little() {
    let Some(device) = support::device() else { return };
    trips::a_part_of_a_large_column_moves_little(&device.open_queue().unwrap());
}

/// Every place and length within two units, from and to the host, and within one buffer.
#[test]
fn any_bytes_are_copied() {
    let Some(device) = support::device() else { return };
    let queue = device.open_queue().unwrap();
    const SIZE: usize = 32;
    let host =
        |bytes: &mut [u8]| Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset: 0 };
    let at = |spot: Spot, offset: usize| Spot { offset: spot.offset + offset as u64, ..spot };
    for from in 0..8 {
        for to in 16..24 {
            for len in [1, 3, 4, 5, 8] {
                let mut expected: Vec<u8> = (1..=SIZE as u8).collect();
                let mut memory = queue.allocate(SIZE as u64).unwrap();
                memory.write(&queue, &expected).unwrap();
                let spot = memory.spot(&queue).unwrap();
                let inside = Region { from: at(spot, from), to: at(spot, to), len: len as u64 };
                // SAFETY: both places lie in the memory and do not overlap.
                unsafe { queue.copy(Route::Within, &[inside]) }.unwrap();
                expected.copy_within(from..from + len, to);
                let mut back = [0_u8; SIZE];
                let region = Region { from: spot, to: host(&mut back), len: SIZE as u64 };
                // SAFETY: the bytes are kept until the queue was waited for.
                unsafe { queue.copy(Route::ToHost, &[region]) }.unwrap();
                queue.synchronize().unwrap();
                assert_eq!(back, *expected, "{len} bytes from {from} to {to}");
                let mut part = [0_u8; 8];
                let region = Region { from: at(spot, to), to: host(&mut part), len: len as u64 };
                // SAFETY: the bytes are kept until the queue was waited for.
                unsafe { queue.copy(Route::ToHost, &[region]) }.unwrap();
                queue.synchronize().unwrap();
                assert_eq!(part[..len], expected[to..to + len], "{len} bytes at {to}");
                assert_eq!(part[len..], [0_u8; 8][len..], "nothing behind {len} bytes");
            }
        }
    }
}

/// More than one staging buffer holds, with a length that is no whole unit.
#[test]
fn a_large_copy_comes_back_in_pieces() {
    let Some(device) = support::device() else { return };
    let queue = device.open_queue().unwrap();
    let bytes: Vec<u8> = (0..(40 << 20) + 3_u32).map(|index| (index % 251) as u8).collect();
    let mut memory = queue.allocate(bytes.len() as u64).unwrap();
    memory.write(&queue, &bytes).unwrap();
    let mut back = vec![0_u8; bytes.len()];
    let to = Spot { base: Raw::from_ptr(back.as_mut_ptr().cast()), offset: 0 };
    let region = Region { from: memory.spot(&queue).unwrap(), to, len: bytes.len() as u64 };
    // SAFETY: the bytes are kept until the queue was waited for.
    unsafe { queue.copy(Route::ToHost, &[region]) }.unwrap();
    queue.synchronize().unwrap();
    assert!(back == bytes);
}

#[test]
fn a_thousand_columns_are_few_submissions() {
    process::alone(|| {
        let Some((_web, device)) = hooks::opened() else { return };
        let queue = device.open_queue().unwrap();
        let column = |number: i32| {
            Array::from_values(DataType::Int32, (0..1024).map(|row| Some(number + row))).unwrap()
        };
        let columns: Vec<Array> = (0..1000).map(column).collect();
        let fields = (0..1000).map(|number| Field::new(format!("{number}"), DataType::Int32, true));
        let schema = Schema::batch(fields).unwrap();
        let batch = Batch::new(schema, columns).unwrap();
        hooks::submissions();
        let there = batch.as_array().copy_to(&queue).unwrap();
        there.wait().unwrap();
        let together = hooks::submissions();
        let back = there.to_host().unwrap();
        let back_together = hooks::submissions();
        assert!(back.equals(batch.as_array()).unwrap());
        println!("{together} there, {back_together} back");
        assert!((1..=5).contains(&together) && (1..=5).contains(&back_together));
    });
}

/// Three staging buffers hold the bytes.
#[test]
fn each_buffer_of_a_long_list_is_submitted_before_the_next_one_is_filled() {
    process::alone(|| {
        let Some((_web, device)) = hooks::opened() else { return };
        let queue = device.open_queue().unwrap();
        trips::check_long_list(&queue, |copy| {
            hooks::submissions();
            copy();
            assert_eq!((hooks::submissions(), hooks::most_unmapped()), (3, 1));
        });
    });
}

/// What the host writes is submitted with the next commands, or when somebody asks.
#[test]
fn copies_from_the_host_wait_for_the_next_submission() {
    process::alone(|| {
        let Some((_web, device)) = hooks::opened() else { return };
        let queue = device.open_queue().unwrap();
        let mut memory = queue.allocate(64).unwrap();
        let spot = memory.spot(&queue).unwrap();
        hooks::submissions();
        let mut bytes = [0_u8; 4];
        for round in 0..10 {
            bytes = [round; 4];
            let from = Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset: 0 };
            let to = Spot { offset: spot.offset + 4 * u64::from(round), ..spot };
            // SAFETY: the bytes are taken in the call, and the memory has room.
            unsafe { queue.copy(Route::FromHost, &[Region { from, to, len: 4 }]) }.unwrap();
        }
        assert_eq!(bytes, [9; 4]);
        let event = queue.record().unwrap();
        assert_eq!(hooks::submissions(), 0);
        event.synchronize().unwrap();
        assert_eq!(hooks::submissions(), 1);
    });
}
