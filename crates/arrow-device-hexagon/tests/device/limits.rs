//! Sizes at the edges of pages, addresses of others, and the descriptors of a process.

use std::ffi::c_void;
use std::ptr;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray};
use arrow_device::driver::{Raw, Spot};
use arrow_device::{Array, DataType, DeviceId, DeviceType, ErrorKind, Recycler, Schema, deferred};
use arrow_device_hexagon::{domain, place_of};
use arrow_device_testkit::process::{alone, descriptors};
use arrow_device_testkit::release_until;
use simulated_hexagon::{Work, memory};

use crate::support::{self, array_of, filled, place, values_of};

/// One integer, in two buffers.
fn one() -> Array {
    Array::from_values(DataType::Int32, [Some(1), None]).unwrap()
}

#[test]
fn commands_reach_the_last_byte_of_memory_of_any_size() {
    alone(|| {
        let Some((dsp, device)) = support::with_ring() else { return };
        let queue = device.open_queue().unwrap();
        for len in [1_u64, 2, 127, 128, 129, 4095, 4096, 4097, 8191, 8193, 65_535, 65_537] {
            let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let mut from = queue.allocate(len).unwrap();
            from.write(&queue, &bytes).unwrap();
            let mut to = queue.allocate(len).unwrap();
            let places = [&mut from, &mut to].map(|memory| place(memory, &queue));
            assert_eq!(places.map(|place| (place.offset, place.remaining)), [(0, len); 2]);
            dsp.submit(Work::Copy(places[0], places[1], len as u32));
            // SAFETY: UNS-33: the command writes all of it.
            unsafe { to.assume_written(len) };
            let buffers = [None, Some(to.into_buffer())];
            let builder = Array::builder(DataType::UInt8).len(len as usize).buffers(buffers);
            let back = builder.finish_on(&queue).unwrap().to_host().unwrap();
            assert_eq!(back.host().unwrap().buffer(1).unwrap().get(..len as usize), Some(&*bytes));
        }
        assert!(release_until(|| memory::counts().allocations == 0), "{:?}", memory::counts());
        assert_eq!(memory::counts().mistakes, 0);
    });
}

#[test]
fn ten_thousand_small_arrays_leave_no_descriptor() {
    alone(|| {
        let device = support::device();
        let queue = device.open_queue().unwrap();
        drop(one().copy_to(&queue).unwrap());
        assert!(release_until(|| memory::counts().allocations == 0));
        let before = descriptors();
        let host = one();
        for _ in 0..10_000 {
            assert_eq!(host.copy_to(&queue).unwrap().len(), 2);
        }
        assert!(release_until(|| memory::counts().allocations == 0));
        assert_eq!(descriptors(), before);
    });
}

#[test]
fn a_recycler_uses_the_allocations_of_small_arrays_again() {
    alone(|| {
        let recycler = Recycler::new(1 << 20);
        let device = support::device().with_allocator(recycler.clone());
        let queue = device.open_queue().unwrap();
        let host = one();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            let there = host.copy_to(&queue).unwrap();
            let view = there.on(&queue).unwrap();
            for index in 0..2 {
                let place = place_of(view.buffer(index).location().spot()).unwrap();
                assert_eq!(place.offset, 0);
                seen.insert(place.descriptor);
            }
        }
        assert_eq!(seen.len(), 2, "{seen:?}");
        recycler.clear();
        assert!(release_until(|| memory::counts().allocations == 0));
    });
}

/// Sets how many descriptors this process may have.
fn limit_descriptors(count: usize) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    limit.rlim_cur = count as libc::rlim_t;
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

#[test]
fn arrays_for_which_no_descriptor_is_left_are_out_of_memory_until_others_are_dropped() {
    alone(|| {
        let queue = support::device().open_queue().unwrap();
        let host = one();
        limit_descriptors(descriptors() + 60);
        for _ in 0..3 {
            let mut kept = Vec::new();
            let error = loop {
                match host.copy_to(&queue) {
                    Ok(array) => kept.push(array),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
            assert!(error.to_string().contains("descriptor"), "{error}");
            assert!(kept.len() >= 20, "{}", kept.len());
            // What is there works as before.
            assert_eq!(
                kept.iter().map(|array| values_of(array)[0]).sum::<i32>(),
                kept.len() as i32
            );
            drop(kept);
            assert!(release_until(|| memory::counts().allocations == 0));
        }
    });
}

unsafe extern "C" fn release(array: *mut ArrowArray) {
    unsafe { (*array).release = None };
}

/// Imports integers at any address, as somebody else's array on the compute DSP.
fn imported(id: DeviceId, address: *const c_void, len: i64) -> arrow_device::Result<Array> {
    let buffers = Box::leak(Box::new([ptr::null(), address]));
    let mut array = ArrowDeviceArray::empty();
    array.array.length = len;
    array.array.n_buffers = 2;
    array.array.buffers = buffers.as_mut_ptr();
    array.array.release = Some(release);
    (array.device_type, array.device_id) = (id.device_type.0, id.id);
    let schema = Schema::try_from(DataType::Int32).unwrap();
    // SAFETY: UNS-5: the struct is whole; where the memory is read below, the memory is there.
    unsafe { Array::import(&mut array, &schema) }
}

#[test]
fn memory_of_others_has_no_place_and_is_read_where_it_lies() {
    let device = support::device();
    let queue = device.open_queue().unwrap();
    let bytes: Vec<u8> = (0..4096_u32).flat_map(u32::to_ne_bytes).collect();
    for misaligned in [0, 1, 2, 3, 7] {
        let address = bytes.as_ptr().wrapping_add(misaligned).cast();
        let array = imported(device.id(), address, 100).unwrap();
        let view = array.on(&queue).unwrap();
        assert_eq!(place_of(view.buffer(1).location().spot()), None);
        drop(view);
        let expected: Vec<i32> = bytes[misaligned..misaligned + 400]
            .chunks_exact(4)
            .map(|value| i32::from_ne_bytes(value.try_into().unwrap()))
            .collect();
        assert_eq!(values_of(&array), expected);
        assert_eq!(values_of(&array.copy_to(&queue).unwrap()), expected);
        // A copy of the bytes is memory of its own, and has a place.
        let elsewhere = array.slice(1, 50).unwrap().to_host().unwrap().copy_to(&queue).unwrap();
        let view = elsewhere.on(&queue).unwrap();
        assert!(place_of(view.buffer(1).location().spot()).is_some());
    }
}

#[test]
fn addresses_that_point_nowhere_are_handed_on_unread() {
    let device = support::device();
    let queue = device.open_queue().unwrap();
    for bits in [8, 4097, usize::MAX - 7, usize::MAX] {
        let address = ptr::without_provenance(bits);
        let array = imported(device.id(), address, 100).unwrap();
        let view = array.on(&queue).unwrap();
        let spot = view.buffer(1).location().spot();
        assert_eq!(spot.base.bits() + spot.offset as usize, bits);
        assert_eq!(place_of(spot), None);
        let sliced = array.slice(90, 10).unwrap();
        sliced.export(&mut ArrowDeviceArray::empty()).unwrap();
    }
    let empty = imported(device.id(), ptr::null(), 0).unwrap();
    assert_eq!(values_of(&empty), [0; 0]);
    let beyond = Spot { base: Raw::from_bits(8), offset: u64::MAX - 3 };
    assert_eq!(place_of(beyond), None);
}

/// Two domains share an address space, so memory tells by itself to which device it belongs.
#[test]
fn memory_of_another_domain_says_so() {
    let mut memory = filled(&support::device().open_queue().unwrap(), &[1, 2]);
    let queue = memory.device().open_queue().unwrap();
    let base = memory.spot(&queue).unwrap().base;
    let opening = arrow_device_hexagon::Opening::new(domain::ADSP);
    // SAFETY: UNS-29, UNS-31: the functions are those of the stand-in, which is linked.
    let opening = unsafe { opening.with_functions(memory::functions()) };
    let other = arrow_device_hexagon::open_with(opening).unwrap();
    let found = unsafe { other.driver().locate(base) }.unwrap().unwrap();
    assert_eq!(found.device, DeviceId::new(DeviceType::HEXAGON, i64::from(domain::CDSP)));
}

/// The application drops memory that a command of its own still uses, without a word about it.
// Requirement: SAF-13
#[test]
fn memory_that_is_dropped_under_a_command_stays_until_the_command_is_done() {
    alone(|| {
        let Some((dsp, device)) = support::with_ring() else { return };
        let queue = device.open_queue().unwrap();
        let (mut from, mut to) = (filled(&queue, &[1, 2, 3, 4]), filled(&queue, &[0; 4]));
        dsp.close_gate();
        let places = [place(&mut from, &queue), place(&mut to, &queue)];
        dsp.submit(Work::Add(places[0], places[1], 4, 10));
        drop(from);
        deferred::release_finished();
        assert_eq!(memory::counts().allocations, 2);
        dsp.open_gate();
        assert_eq!(values_of(&array_of(to, 4, &queue)), [11, 12, 13, 14]);
        assert!(release_until(|| memory::counts().allocations == 0), "{:?}", memory::counts());
    });
}
