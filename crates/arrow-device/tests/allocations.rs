//! How often the allocator is asked: once for an exported tree however wide, once for an imported
//! batch of flat columns, twice for one that is nested, and not at all where memory is recycled, as
//! in streams. Counted for each thread, so that tests do not disturb each other.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]

use std::ffi::{CStr, CString};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use arrow_device::abi::dlpack::{DLManagedTensor, DLManagedTensorVersioned};
use arrow_device::abi::{ArrowArrayStream, ArrowDeviceArray, ArrowDeviceArrayStream, ArrowSchema};
use arrow_device::async_stream::{AsyncProducer, AsyncStream};
use arrow_device::copy::Options;
use arrow_device::dlpack::{Conversion, CopyPolicy, Dtype, Managed, Order, Tensor};
use arrow_device::{
    Array, ArrayStream, Batch, Buffer, DataType, DeviceType, Error, ErrorKind, Queue, Recycler,
    Schema,
};
use arrow_device_testkit::allocations::{Counting, count, peak};
use arrow_device_testkit::consumer::{move_out, release};
use arrow_device_testkit::kinds::Kind;
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::{Nulls, Plan, Window};
use arrow_device_testkit::producer;
use arrow_device_testkit::relay::{Handwritten, Relay};
use arrow_device_testkit::{Verdict, assert_complaint, require};
use futures_core::Stream as _;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// More columns than anybody expects.
const WIDE: usize = if cfg!(miri) { 50 } else { 1000 };

fn wide() -> Plan {
    let columns = vec![Kind::Fixed("l", 8); WIDE];
    Kind::Struct(columns).plan(Window::WHOLE, Nulls::Counted)
}

/// Columns with something below them, and with dictionaries.
fn nested() -> Plan {
    let column = Kind::Struct(vec![Kind::Fixed("l", 8), Kind::Text("u", 4)]);
    Kind::Struct(vec![column; 10]).plan(Window::WHOLE, Nulls::Counted)
}

fn flat() -> Plan {
    Kind::Text("u", 4).plan(Window::WHOLE, Nulls::Counted)
}

fn schema_of(plan: &Plan) -> Schema {
    unsafe { Schema::import(&mut producer::schema(plan, &Ledger::new())) }.unwrap()
}

fn imported(plan: &Plan) -> Array {
    let mut c_array = producer::device_array(plan, &Ledger::new());
    unsafe { Array::import(&mut c_array, &schema_of(plan)) }.unwrap()
}

/// Something that fills a struct.
type Fill<'a, T> = dyn Fn(&mut T) + 'a;

/// That a struct is filled with so many allocations, that its release needs none, and that the next
/// one needs so many.
fn check_export(fill: &Fill<'_, ArrowDeviceArray>, first: usize, again: usize) -> Verdict {
    let mut out = ArrowDeviceArray::empty();
    for (expected, turn) in [(first, "first"), (again, "second"), (again, "third")] {
        let (allocations, ()) = count(|| fill(&mut out));
        require(allocations == expected, || {
            format!("{allocations} allocations for the {turn} export and not {expected}")
        })?;
        let (allocations, released) = count(|| release(move_out(&mut out.array)));
        released?;
        require(allocations == 0, || format!("{allocations} allocations for a release"))?;
    }
    Ok(())
}

/// Exports something small, so that what a thread does once is done.
fn warm_up() {
    let plan = Kind::Struct(vec![Kind::Fixed("l", 8)]).plan(Window::WHOLE, Nulls::None);
    let array = imported(&plan);
    let mut out = ArrowDeviceArray::empty();
    array.export(&mut out).unwrap();
    release(move_out(&mut out.array)).unwrap();
}

#[test]
fn a_copy_takes_few_allocations_however_wide_and_few_bytes_for_each_column() {
    let options = Options::new().always(true).allocator(Recycler::new(1 << 20));
    for kind in [Kind::Fixed("l", 8), Kind::Text("u", 4)] {
        let array = imported(&Kind::Struct(vec![kind; WIDE]).plan(Window::SLICED, Nulls::Counted));
        let copy = || array.copy_with(&Queue::host(), &options).unwrap();
        drop(copy());
        let (allocations, copied) = count(copy);
        assert!(allocations <= 24, "{allocations} allocations for {WIDE} columns");
        assert_eq!(copied.len(), array.len());
        let (allocations, ()) = count(|| drop(copied));
        assert_eq!(allocations, 0);
    }
}

#[test]
fn an_exported_tree_is_one_allocation_and_a_recycled_one_or_a_flat_array_none() {
    warm_up();
    for (plan, first) in [(wide(), 1), (nested(), 1), (flat(), 0)] {
        // Elsewhere, so that no block that the import is done with lies here for the first export.
        let array = std::thread::scope(|scope| scope.spawn(|| imported(&plan)).join().unwrap());
        let export = |out: &mut ArrowDeviceArray| array.export(out).unwrap();
        assert_eq!(check_export(&export, first, 0), Ok(()));
    }
}

#[test]
#[cfg_attr(miri, ignore = "wrong peers leak, which Miri reports")]
fn an_exporter_with_an_allocation_for_each_node_is_found_out() {
    let plan = wide();
    let naive = |out: &mut ArrowDeviceArray| {
        *out = producer::device_array(&plan, &Ledger::new());
    };
    assert_complaint(check_export(&naive, 1, 0), "allocations for the first export and not 1");
    let allocates_again = |out: &mut ArrowDeviceArray| {
        *out = producer::device_array(&flat(), &Ledger::new());
    };
    let (first, ()) = count(|| allocates_again(&mut ArrowDeviceArray::empty()));
    assert_complaint(check_export(&allocates_again, first, 0), "for the second export and not 0");
}

/// An importer: takes an array over, and says what keeps it.
type Take<'a> = dyn Fn(&mut ArrowDeviceArray) -> Box<dyn FnOnce()> + 'a;

/// That an import asks for memory so often where nothing can be used again, and not at all after
/// the last one was dropped. The box of the result is one more.
fn check_import(take: &Take<'_>, plan: &Plan, expected: usize) -> Verdict {
    let ledger = Ledger::new();
    // Whatever was free is in use now.
    let keep_first = take(&mut producer::device_array(plan, &ledger));
    for (expected, turn) in [(expected, "first"), (0, "second"), (0, "third")] {
        let mut c_array = producer::device_array(plan, &ledger);
        let (allocations, keep) = count(|| take(&mut c_array));
        let allocations = allocations - 1;
        require(allocations == expected, || {
            format!("{allocations} allocations for the {turn} import and not {expected}")
        })?;
        let (allocations, ()) = count(keep);
        require(allocations == 0, || format!("{allocations} allocations for the last drop"))?;
    }
    keep_first();
    ledger.settle(4)
}

#[test]
fn an_import_of_flat_columns_is_one_allocation_and_of_nested_ones_two_and_a_later_one_none() {
    for (plan, expected) in [(wide(), 1), (nested(), 2), (flat(), 1)] {
        let check = || {
            let schema = schema_of(&plan);
            let take = |array: &mut ArrowDeviceArray| -> Box<dyn FnOnce()> {
                let array = unsafe { Array::import(array, &schema) }.unwrap();
                Box::new(move || drop(array))
            };
            check_import(&take, &plan, expected)
        };
        // A thread of its own has nothing that can be used again.
        let verdict = std::thread::scope(|threads| threads.spawn(check).join().unwrap());
        assert_eq!(verdict, Ok(()));
    }
}

#[test]
#[cfg_attr(miri, ignore = "what is refused is not released by the check")]
fn an_importer_that_copies_every_node_is_found_out() {
    let naive = |array: &mut ArrowDeviceArray| -> Box<dyn FnOnce()> {
        let mut schema = producer::schema(&flat(), &Ledger::new());
        let (_, c_array) = Handwritten(None).relay(&mut schema, array).unwrap();
        Box::new(move || release(c_array.array).unwrap())
    };
    assert_complaint(check_import(&naive, &wide(), 1), "for the first import and not 1");
}

// Requirement: SCH-6
#[test]
fn a_schema_that_was_exported_before_is_one_allocation() {
    warm_up();
    let schema = schema_of(&wide());
    let mut out = ArrowSchema::empty();
    schema.export(&mut out).unwrap();
    let mut other = ArrowSchema::empty();
    // The first export's block is still in use.
    let (allocations, ()) = count(|| schema.export(&mut other).unwrap());
    assert_eq!(allocations, 1);
    for exported in [out, other] {
        let (allocations, released) = count(|| release(exported));
        assert_eq!((allocations, released), (0, Ok(())));
    }
    let mut again = ArrowSchema::empty();
    let (allocations, ()) = count(|| schema.export(&mut again).unwrap());
    assert_eq!(allocations, 0, "recycled");
    release(again).unwrap();
}

#[test]
fn a_clone_a_slice_and_a_child_are_no_allocation() {
    let array = imported(&wide());
    let (allocations, parts) =
        count(|| (array.clone(), array.slice(1, 2).unwrap(), array.child(7).unwrap(), array.len()));
    assert_eq!(allocations, 0);
    drop(parts);
}

/// Asks a stream for its next array.
fn next(stream: &mut ArrowDeviceArrayStream) -> ArrowDeviceArray {
    let mut out = ArrowDeviceArray::empty();
    assert_eq!(unsafe { stream.get_next.unwrap()(stream, &mut out) }, 0);
    assert!(!out.is_released());
    out
}

/// That a stream gives its arrays, the first ones aside, with so many allocations each.
fn check_stream(stream: ArrayStream, allowed: usize) -> Verdict {
    let mut c_stream = ArrowDeviceArrayStream::empty();
    stream.export(&mut c_stream);
    release(next(&mut c_stream).array)?;
    let (allocations, released) = count(|| {
        let mut releases = (0..10).map(|_| release(next(&mut c_stream).array));
        releases.try_for_each(|released| released)
    });
    released?;
    unsafe { c_stream.release.unwrap()(&mut c_stream) };
    require(allocations <= 10 * allowed, || format!("{allocations} allocations for ten arrays"))
}

#[test]
fn a_stream_hands_out_arrays_without_an_allocation() {
    for plan in [wide(), flat()] {
        let array = imported(&plan);
        // With the schema of the array, and with one of the same type that every array is compared
        // with.
        for schema in [array.schema().unwrap(), schema_of(&plan)] {
            let arrays = std::iter::repeat(array.clone()).map(Ok);
            let stream = ArrayStream::new(schema, DeviceType::CPU, arrays);
            assert_eq!(check_stream(stream, 0), Ok(()));
        }
    }
}

#[test]
fn a_stream_that_copies_its_arrays_is_found_out() {
    let arrays = std::iter::repeat_with(|| Ok(imported(&flat())));
    let stream = ArrayStream::new(schema_of(&flat()), DeviceType::CPU, arrays);
    assert_complaint(check_stream(stream, 0), "allocations for ten arrays");
}

/// How often the allocator is asked for ten arrays of a stream, the first two aside.
fn allocations_of(mut stream: ArrayStream) -> usize {
    assert_eq!(stream.by_ref().take(2).filter(Result::is_ok).count(), 2);
    let (allocations, read) = count(|| stream.by_ref().take(10).filter(Result::is_ok).count());
    assert_eq!(read, 10);
    allocations
}

fn through_device(stream: ArrayStream) -> ArrayStream {
    let mut c_stream = ArrowDeviceArrayStream::empty();
    stream.export(&mut c_stream);
    unsafe { ArrayStream::import(&mut c_stream) }.unwrap()
}

fn through_host(stream: ArrayStream) -> ArrayStream {
    let mut c_stream = ArrowArrayStream::empty();
    stream.export_host(&mut c_stream).unwrap();
    unsafe { ArrayStream::import_host(&mut c_stream) }.unwrap()
}

#[test]
fn a_stream_that_is_read_takes_no_allocation_for_an_array() {
    for plan in [wide(), flat(), nested()] {
        let array = imported(&plan);
        // With the schema of the array, and with one of the same type that its arrays are compared
        // with.
        for schema in [array.schema().unwrap(), schema_of(&plan)] {
            let arrays = std::iter::repeat(array.clone()).map(Ok);
            let stream = || ArrayStream::new(schema.clone(), DeviceType::CPU, arrays.clone());
            assert_eq!(allocations_of(through_device(stream())), 0);
            assert_eq!(allocations_of(through_host(stream())), 0);
            // What was read is handed on, and read again.
            assert_eq!(allocations_of(through_device(through_host(stream()))), 0);
        }
    }
}

#[test]
fn a_stream_that_keeps_what_it_reads_takes_two_allocations_for_an_array_at_most() {
    let array = imported(&nested());
    let arrays = std::iter::repeat(array.clone()).map(Ok);
    let stream = ArrayStream::new(array.schema().unwrap(), DeviceType::CPU, arrays);
    let mut stream = through_device(stream);
    let mut kept = Vec::with_capacity(12);
    kept.extend(stream.by_ref().take(2));
    let (allocations, ()) = count(|| kept.extend(stream.by_ref().take(10)));
    // The arena of the producer, and two blocks of the consumer.
    assert_eq!(allocations, 30, "nothing is free to be used again, and the count counts");
    drop(kept);
}

/// The same array again and again.
struct Again(Array);

impl futures_core::Stream for Again {
    type Item = Result<Array, Error>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(Some(Ok(self.0.clone())))
    }
}

#[test]
fn an_asynchronous_stream_takes_no_allocation_for_an_array() {
    for (window, plan) in [(1, wide()), (5, flat()), (64, nested())] {
        let array = imported(&plan);
        let (stream, handler) = AsyncStream::new(window);
        let schema = array.schema().unwrap();
        let producer = AsyncProducer::new(schema, DeviceType::CPU, Again(array));
        let mut drive = unsafe { producer.drive(handler.into_raw()) }.unwrap();
        let mut arrays = stream.arrays();
        let mut context = Context::from_waker(Waker::noop());
        let mut read = |wanted: usize| {
            let mut left = wanted;
            while left > 0 {
                match Pin::new(&mut arrays).poll_next(&mut context) {
                    Poll::Ready(array) => {
                        drop(array.unwrap().unwrap());
                        left -= 1;
                    }
                    Poll::Pending => assert!(Pin::new(&mut drive).poll(&mut context).is_pending()),
                }
            }
        };
        read(3 * window);
        let (allocations, ()) = count(|| read(100));
        assert_eq!(allocations, 0, "window {window}");
    }
}

/// What a consumer on another thread is given.
struct Sent(ArrowDeviceArray);

// SAFETY: the specification lets a struct be released on any thread.
unsafe impl Send for Sent {}

#[test]
fn blocks_that_are_released_on_another_thread_come_home() {
    let (sender, receiver) = std::sync::mpsc::channel::<Sent>();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let consumer = std::thread::spawn(move || {
        for Sent(array) in receiver {
            release(array.array).unwrap();
            done.send(()).unwrap();
        }
    });
    warm_up();
    let array = imported(&wide());
    for turn in 0..if cfg!(miri) { 3 } else { 20 } {
        let mut out = ArrowDeviceArray::empty();
        let (allocations, ()) = count(|| array.export(&mut out).unwrap());
        assert!(allocations <= usize::from(turn == 0), "{allocations} in turn {turn}");
        sender.send(Sent(out)).unwrap();
        is_done.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
    }
    drop(sender);
    consumer.join().unwrap();
}

/// A tensor of this shape, whose numbers are 0, 1, 2 and so on.
fn tensor(shape: &[i64]) -> Tensor {
    let numbers: Vec<i64> = (0..shape.iter().product()).collect();
    Tensor::from_buffer(Buffer::from(numbers), Dtype::INT64, shape).unwrap()
}

fn handed_over(tensor: Tensor) -> Managed<DLManagedTensorVersioned> {
    tensor.export(Order::Host, CopyPolicy::Never).unwrap()
}

/// How often the allocator is asked for an export, an import, an export of what was imported, and
/// the deleters.
fn there_and_on(tensor: &Tensor) -> [usize; 4] {
    let (export, managed) = count(|| handed_over(tensor.clone()));
    let raw = managed.into_raw();
    let (import, imported) = count(|| unsafe { Tensor::import(raw, Order::Host) });
    let (again, managed) = count(|| handed_over(imported.unwrap()));
    let (deleters, ()) = count(|| drop(managed));
    [export, import, again, deleters]
}

#[test]
fn a_tensor_goes_through_c_with_a_block_each_that_is_recycled() {
    for shape in [&[][..], &[64], &[2, 4, 4, 2]] {
        let tensor = tensor(shape);
        let first = there_and_on(&tensor);
        assert!(first.iter().all(|&allocations| allocations <= 1), "{shape:?}: {first:?}");
        assert_eq!(there_and_on(&tensor), [0; 4], "{shape:?}");
    }
    let many = || handed_over(tensor(&[1, 2, 1, 2, 1])).into_raw();
    drop(unsafe { Tensor::import(many(), Order::Host) });
    let raw = many();
    let (allocations, many) = count(|| unsafe { Tensor::import(raw, Order::Host) });
    assert_eq!((allocations, many.unwrap().shape()), (1, &[1, 2, 1, 2, 1][..]), "many dimensions");
}

#[test]
fn an_imported_tensor_becomes_an_array_once_however_often_it_is_asked_for() {
    let tensor = unsafe { Tensor::import(handed_over(tensor(&[64])).into_raw(), Order::Host) };
    let tensor = tensor.unwrap();
    let array = tensor.to_array(&Conversion::new()).unwrap();
    let (allocations, same) = count(|| tensor.to_array(&Conversion::new()).unwrap());
    assert_eq!(allocations, 0);
    assert!(same.is_same(&array));
    let (allocations, _clone) = count(|| tensor.clone());
    assert_eq!(allocations, 0);
    assert_eq!(tensor.host().unwrap().to_vec::<i64>().unwrap(), (0..64).collect::<Vec<_>>());
}

#[test]
fn numbers_are_a_tensor_without_an_allocation_once_a_block_is_recycled() {
    let array = Array::from_values::<i64>(DataType::Int64, (0..64).map(Some)).unwrap();
    let slice = array.slice(3, 50).unwrap();
    drop(slice.to_tensor(&Conversion::new()).unwrap());
    let (allocations, tensor) = count(|| slice.to_tensor(&Conversion::new()).unwrap());
    assert_eq!(allocations, 0);
    assert_eq!(tensor.host().unwrap().to_vec::<i64>().unwrap(), (3..53).collect::<Vec<_>>());
}

/// Ten columns that lie behind each other, and how often the allocator is asked to make one tensor
/// of the first of them.
#[test]
fn more_columns_of_one_tensor_are_no_more_allocations_each() {
    let all = Buffer::from((0..80).collect::<Vec<i64>>());
    let column = |index: u64| {
        let values = all.slice(index * 64, 64).unwrap();
        let builder = Array::builder(DataType::Int64).len(8).buffers([None, Some(values)]);
        (format!("c{index}"), builder.finish_ready().unwrap())
    };
    let made = |columns| {
        let batch = Batch::from_columns((0..columns).map(column)).unwrap();
        drop(batch.to_tensor(&Conversion::new()).unwrap());
        count(|| batch.to_tensor(&Conversion::new()).unwrap()).0
    };
    // The lists of columns grow a few times.
    assert!(made(10) <= made(2) + 4, "{} for 10 and {} for 2", made(10), made(2));
}

#[test]
fn the_older_form_is_imported_without_an_allocation_too() {
    let tensor = tensor(&[64]).copy(&arrow_device::Queue::host()).unwrap();
    let managed = || -> Managed<DLManagedTensor> {
        tensor.clone().export(Order::Host, CopyPolicy::IfNeeded).unwrap()
    };
    drop(unsafe { Tensor::import(managed().into_raw(), Order::Host) });
    let raw = managed().into_raw();
    let (allocations, imported) = count(|| unsafe { Tensor::import(raw, Order::Host) });
    assert_eq!((allocations, imported.unwrap().len()), (0, 64));
}

unsafe extern "C" fn release_nothing(schema: *mut ArrowSchema) {
    unsafe { (*schema).release = None };
}

/// The most bytes that the import of a schema takes whose root has itself as its children.
fn peak_of_endless(children: usize, name: &CStr, metadata: &[u8]) -> usize {
    let mut root = ArrowSchema {
        format: c"+s".as_ptr(),
        name: name.as_ptr(),
        metadata: metadata.as_ptr().cast(),
        release: Some(release_nothing),
        ..ArrowSchema::empty()
    };
    let mut table = vec![&raw mut root; children];
    (root.n_children, root.children) = (children as i64, table.as_mut_ptr());
    let (bytes, imported) = peak(|| unsafe { Schema::import(&raw mut root) });
    let error = imported.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    bytes
}

// Requirement: SAF-32
#[test]
#[cfg(not(miri))]
fn a_schema_without_end_is_refused_within_64_mib() {
    let megabyte = 1 << 20;
    let mut metadata = vec![0_u8; 12 + megabyte];
    let lengths = [1_i32, 0, megabyte as i32].map(i32::to_ne_bytes);
    metadata[..12].copy_from_slice(lengths.as_flattened());
    let name = CString::new(vec![b'a'; megabyte]).unwrap();
    for children in [1, 2, 7, 10, 1000, 5000, 70_000, 200_000] {
        let cases: [(&str, &CStr, &[u8]); 4] = [
            ("nothing but fields", c"", &[0; 4]),
            ("long metadata", c"", &metadata),
            ("long names", &name, &[0; 4]),
            ("names of some bytes", c"some bytes more", &[0; 4]),
        ];
        for (what, name, metadata) in cases {
            let bytes = peak_of_endless(children, name, metadata);
            assert!(bytes <= 64 << 20, "{what}, {children} children: {} MiB", bytes >> 20);
        }
        // Names and fields that reach their limits at about the same time.
        for len in [40, 80, 90, 95, 100, 127, 200, 400, 1000] {
            let name = CString::new(vec![b'n'; len]).unwrap();
            let bytes = peak_of_endless(children, &name, &[0; 4]);
            assert!(bytes <= 64 << 20, "{len} bytes, {children} children: {} MiB", bytes >> 20);
        }
    }
}

/// The most bytes that the import of a schema takes whose root has itself as its last child, behind
/// `long` children with a mebibyte of metadata and `named` ones with a name.
fn peak_of_mixed(long: usize, named: usize, name: &CStr, metadata: &[u8]) -> usize {
    let node = |metadata: &[u8]| ArrowSchema {
        format: c"i".as_ptr(),
        name: c"".as_ptr(),
        metadata: metadata.as_ptr().cast(),
        release: Some(release_nothing),
        ..ArrowSchema::empty()
    };
    let mut with_metadata = node(metadata);
    let mut with_name =
        ArrowSchema { name: name.as_ptr(), metadata: std::ptr::null(), ..node(metadata) };
    let mut root = ArrowSchema { format: c"+s".as_ptr(), ..node(&[0; 4]) };
    let mut table = vec![&raw mut with_metadata; long];
    table.resize(long + named, &raw mut with_name);
    table.push(&raw mut root);
    (root.n_children, root.children) = (table.len() as i64, table.as_mut_ptr());
    let (bytes, imported) = peak(|| unsafe { Schema::import(&raw mut root) });
    let error = imported.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    bytes
}

// Requirement: SAF-32
#[test]
#[cfg(not(miri))]
fn names_and_metadata_without_end_are_refused_within_96_mib() {
    let megabyte = 1 << 20;
    let mut metadata = vec![0_u8; 12 + megabyte];
    let lengths = [1_i32, 0, megabyte as i32].map(i32::to_ne_bytes);
    metadata[..12].copy_from_slice(lengths.as_flattened());
    for (long, most) in [(0, 64), (11, 96), (23, 96)] {
        for (named, length) in [(40, megabyte), (1000, 60_000), (190_000, 126), (200_000, 300)] {
            let name = CString::new(vec![b'a'; length]).unwrap();
            let bytes = peak_of_mixed(long, named, &name, &metadata);
            let what = format!("{long} with metadata, {named} with a name of {length}");
            assert!(bytes <= most << 20, "{what}: {} MiB", bytes >> 20);
        }
    }
}
