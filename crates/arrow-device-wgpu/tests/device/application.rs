//! The application's shaders and buffers beside the library's work.

use std::sync::Arc;

use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device::{Array, Batch, DataType, ErrorKind, Field, Schema};
use arrow_device_testkit::application::wgpu::Wgpu;
use arrow_device_testkit::release_until;
use arrow_device_wgpu::{adopt, adopt_with, bound};
use wgpu::BufferUsages;

use crate::support;

const COUNT: usize = 4096;
const DOUBLE: &str = "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) at: vec3<u32>) {
        data[at.x] = data[at.x] * 2u + 1u;
    }";

fn bytes_of(values: impl Iterator<Item = u32>) -> Vec<u8> {
    values.flat_map(u32::to_ne_bytes).collect()
}

/// What the application submits itself is in the order of the queue, on both sides of what the
/// library submits. Writes stay in wgpu until then, and are in order, too.
#[test]
fn work_of_the_application_is_in_the_order_of_the_queue() {
    let Some((application, device)) = support::opened() else { return };
    let queue = device.open_queue().unwrap();
    for round in 0..20 {
        let values = bytes_of((0..COUNT as u32).map(|at| at + round));
        let len = values.len() as u64;
        let mut memory = queue.allocate(len).unwrap();
        memory.write(&queue, &values).unwrap();
        let spot = memory.spot(&queue).unwrap();
        // SAFETY: the memory is not shared, and is kept until the queue was waited for.
        let there = unsafe { bound(&device, spot, len) }.unwrap();
        application.run(DOUBLE, &[there.binding().unwrap()], COUNT as u32 / 64);
        let mut back = vec![0_u8; values.len()];
        let to = Spot { base: Raw::from_ptr(back.as_mut_ptr().cast()), offset: 0 };
        // SAFETY: the bytes are kept until the event has passed.
        unsafe { queue.copy(Route::ToHost, &[Region { from: spot, to, len }]) }.unwrap();
        queue.record().unwrap().synchronize().unwrap();
        let expected = bytes_of((0..COUNT as u32).map(|at| (at + round) * 2 + 1));
        assert!(back == expected, "round {round}");
    }
}

#[test]
fn columns_of_a_batch_lie_in_one_buffer_and_can_be_bound() {
    let Some((application, device)) = support::opened() else { return };
    let queue = device.open_queue().unwrap();
    let fields = ["a", "b", "c"].map(|name| Field::new(name, DataType::Int32, true));
    let column = |add: i32| Array::from_values(DataType::Int32, (0..100).map(|at| Some(at + add)));
    let columns: Vec<Array> = [0, 1000, 2000].map(|add| column(add).unwrap()).into();
    let batch = Batch::new(Schema::batch(fields).unwrap(), columns).unwrap();
    let there = Batch::try_from(batch.as_array().copy_to(&queue).unwrap()).unwrap();
    let view = there.as_array().on(&queue).unwrap();
    let place = |index: usize| view.child(index).unwrap().buffer(1).location().spot();
    let parts = [0, 1, 2].map(|index| unsafe { bound(&device, place(index), 400) }.unwrap());
    assert!(parts[0].buffer == parts[1].buffer && parts[0].buffer == parts[2].buffer);
    let mut sums = queue.allocate(400).unwrap();
    let to = unsafe { bound(&device, sums.spot(&queue).unwrap(), 400) }.unwrap();
    assert!(to.buffer != parts[0].buffer);
    let sum = "@group(0) @binding(0) var<storage, read> a: array<i32>;
        @group(0) @binding(1) var<storage, read> b: array<i32>;
        @group(0) @binding(2) var<storage, read> c: array<i32>;
        @group(0) @binding(3) var<storage, read_write> sums: array<i32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) at: vec3<u32>) {
            if (at.x < 100u) { sums[at.x] = a[at.x] + b[at.x] + c[at.x]; }
        }";
    let [a, b, c] = &parts;
    let bindings = [a, b, c, &to].map(|part| part.binding().unwrap());
    application.run(sum, &bindings, 2);
    drop(view);
    // SAFETY: UNS-33: the shader that was just submitted writes these bytes.
    unsafe { sums.assume_written(400) };
    let sums = Array::builder(DataType::Int32).len(100).buffers([None, Some(sums.into_buffer())]);
    let back = sums.finish_on(&queue).unwrap().to_host().unwrap();
    let expected = Array::from_values(DataType::Int32, (0..100).map(|at| Some(3 * at + 3000)));
    assert!(back.equals(&expected.unwrap()).unwrap());
}

#[test]
fn a_part_that_wgpu_could_not_bind_is_an_error_and_no_panic() {
    let Some((device, queue)) = support::bench() else { return };
    let mut memory = queue.allocate(1024).unwrap();
    let spot = memory.spot(&queue).unwrap();
    let at = |offset: u64, len| unsafe { bound(&device, Spot { offset, ..spot }, len) };
    for (offset, len, why) in [(4, 16, "multiple of"), (0, 0, "no bytes")] {
        let part = at(offset, len).unwrap();
        let error = part.binding().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(why), "{error}");
    }
    assert_eq!(at(0, 1022).unwrap().size, 1024);
    assert_eq!(at(1000, 25).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(at(u64::MAX, 1).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn an_adopted_buffer_is_a_column_without_a_copy() {
    let Some((application, device)) = support::opened() else { return };
    let queue = device.open_queue().unwrap();
    let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC;
    let buffer = application.buffer(&bytes_of(0..64), usage);
    // SAFETY: nobody writes to the buffer any more.
    let data = unsafe { adopt(&device, &buffer, 16, 40) }.unwrap();
    let array = Array::builder(DataType::UInt32).len(10).buffers([None, Some(data)]);
    let array = array.finish_on(&queue).unwrap();
    let view = array.on(&queue).unwrap();
    let part = unsafe { bound(&device, view.buffer(1).location().spot(), 40) }.unwrap();
    assert!(part.buffer == buffer && (part.offset, part.size) == (16, 40));
    drop((view, part, buffer));
    let expected = Array::from_values(DataType::UInt32, (4..14_u32).map(Some)).unwrap();
    assert!(array.to_host().unwrap().equals(&expected).unwrap());
    // From one buffer to another, and to another part of one.
    let copied = array.copy_to(&queue).unwrap();
    assert!(copied.to_host().unwrap().equals(&expected).unwrap());
}

#[test]
fn a_buffer_that_cannot_be_a_column_is_refused() {
    let Some((application, device)) = support::opened() else { return };
    let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC;
    let buffer = application.buffer(&[7; 64], usage);
    for (offset, len) in [(2, 4), (0, 65), (64, 4), (u64::MAX - 3, 8), (0, u64::MAX)] {
        // SAFETY: it is refused.
        let error = unsafe { adopt(&device, &buffer, offset, len) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{offset} {len}");
    }
    let unread = application.buffer(&[7; 64], BufferUsages::STORAGE);
    let error = unsafe { adopt(&device, &unread, 0, 64) }.unwrap_err();
    assert!(error.to_string().contains("COPY_SRC"), "{error}");
    // The buffer of another device, whose instance does not know the number of the buffer.
    let other = Wgpu::new().unwrap();
    let kept: Vec<_> = (0..50).map(|_| other.buffer(&[7; 64], usage)).collect();
    let error = unsafe { adopt(&device, &kept[49], 0, 64) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let queue = device.open_queue().unwrap();
    queue.synchronize().unwrap();
}

/// The bytes of a pool go back to the pool when nothing uses them any more, and not before.
#[test]
fn the_owner_of_adopted_bytes_is_dropped_with_their_column() {
    let Some((application, device)) = support::opened() else { return };
    let queue = device.open_queue().unwrap();
    let buffer = application.buffer(&[7; 64], BufferUsages::STORAGE | BufferUsages::COPY_SRC);
    let owner = Arc::new(());
    // SAFETY: nobody writes to the buffer.
    let data = unsafe { adopt_with(&device, &buffer, 0, 64, owner.clone()) }.unwrap();
    let array = Array::builder(DataType::UInt8).len(64).buffers([None, Some(data)]);
    let array = array.finish_on(&queue).unwrap();
    let copied = array.copy_to(&queue).unwrap();
    assert_eq!(Arc::strong_count(&owner), 2);
    drop((array, copied));
    assert!(release_until(|| Arc::strong_count(&owner) == 1));
    // SAFETY: it is refused.
    assert!(unsafe { adopt_with(&device, &buffer, 2, 4, owner.clone()) }.is_err());
    assert_eq!(Arc::strong_count(&owner), 1);
}

#[test]
fn the_buffer_is_kept_as_long_as_its_column() {
    let Some((application, device)) = support::opened() else { return };
    let queue = device.open_queue().unwrap();
    let buffer = application.buffer(&[7; 64], BufferUsages::STORAGE | BufferUsages::COPY_SRC);
    let data = unsafe { adopt(&device, &buffer, 0, 64) }.unwrap();
    let array = Array::builder(DataType::UInt8).len(64).buffers([None, Some(data)]);
    let array = array.finish_on(&queue).unwrap();
    let base = array.on(&queue).unwrap().buffer(1).location().spot().base;
    // SAFETY: a number is only looked up.
    assert_eq!(unsafe { device.driver().holds(base) }, Some(true));
    drop(array);
    // SAFETY: a number is only looked up.
    assert!(release_until(|| unsafe { device.driver().holds(base) } == Some(false)));
}
