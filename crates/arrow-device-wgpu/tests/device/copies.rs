//! Copies and tensors on devices of wgpu. That arrays and streams have their values after a copy
//! from any other device, and back, is tested in `device-pairs`.

use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device_testkit::tensors::{conversions, matrix};
use arrow_device_testkit::trips;

use crate::support;

#[test]
fn threads_share_a_device() {
    let Some((device, _)) = support::bench() else { return };
    trips::threads_share_a_device(&device, 25);
}

// Requirement: SAF-21
#[test]
fn polled_copies_need_nobody_who_waits() {
    let Some((_, queue)) = support::bench() else { return };
    trips::polled_copies_need_nobody_who_waits(&queue, 60);
}

// Requirement: SAF-5
#[test]
fn threads_read_one_array() {
    let Some((_, queue)) = support::bench() else { return };
    for threads in [2, 8] {
        trips::threads_read_one_array(&queue, threads, 40);
    }
}

// Requirement: DLP-4
#[test]
fn tensors_of_every_type_come_back_in_every_layout() {
    let Some((_, queue)) = support::bench() else { return };
    // 20 types, 9 layouts, 2 forms.
    assert_eq!(matrix::run(&queue, &matrix::DTYPES), 360);
}

// Requirement: DLP-4, DLP-5
#[test]
fn arrays_and_tensors_have_the_same_values() {
    let Some((_, queue)) = support::bench() else { return };
    conversions::run(&queue);
}

#[test]
fn a_part_of_a_large_column_moves_little() {
    let Some((_, queue)) = support::bench() else { return };
    trips::a_part_of_a_large_column_moves_little(&queue);
}

/// Every place and length within two units, from and to the host, and within one buffer.
#[test]
fn any_bytes_are_copied() {
    let Some((_, queue)) = support::bench() else { return };
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
            }
        }
    }
}

/// Pieces that lie behind one another on both sides, and pieces with gaps in between, twice: the
/// second list finds the staging buffer of the first.
#[test]
fn a_list_of_pieces_fills_its_places_and_nothing_in_between() {
    let Some((_, queue)) = support::bench() else { return };
    const PIECES: [(usize, usize); 7] =
        [(0, 8), (8, 4), (12, 4), (24, 8), (32, 8), (40, 4), (48, 4)];
    let mut memory = queue.allocate(64).unwrap();
    for round in [100, 0] {
        memory.write(&queue, &[0xEE; 64]).unwrap();
        let bytes: Vec<u8> = (round..round + 64).collect();
        let here = Spot { base: Raw::from_ptr(bytes.as_ptr().cast_mut().cast()), offset: 0 };
        let there = memory.spot(&queue).unwrap();
        let at = |spot: Spot, offset: usize| Spot { offset: spot.offset + offset as u64, ..spot };
        let region = |(offset, len)| Region {
            from: at(here, offset),
            to: at(there, offset),
            len: len as u64,
        };
        // SAFETY: the bytes are kept until the queue was waited for, and the memory has room.
        unsafe { queue.copy(Route::FromHost, &PIECES.map(region)) }.unwrap();
        let mut back = [0_u8; 64];
        let to = Spot { base: Raw::from_ptr(back.as_mut_ptr().cast()), offset: 0 };
        // SAFETY: the bytes are kept until the queue was waited for.
        unsafe { queue.copy(Route::ToHost, &[Region { from: there, to, len: 64 }]) }.unwrap();
        queue.synchronize().unwrap();
        let mut expected = [0xEE_u8; 64];
        for (offset, len) in PIECES {
            expected[offset..offset + len].copy_from_slice(&bytes[offset..offset + len]);
        }
        assert_eq!(back, expected);
    }
}

/// The staging buffers of a list of 40 MiB hold 16 MiB each.
#[test]
fn a_list_that_is_longer_than_a_staging_buffer_arrives() {
    let Some((_, queue)) = support::bench() else { return };
    trips::check_long_list(&queue, |copy| copy());
}

/// More than one staging buffer holds, with a length that is no whole unit.
#[test]
fn a_large_copy_comes_back_in_pieces() {
    let Some((_, queue)) = support::bench() else { return };
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
