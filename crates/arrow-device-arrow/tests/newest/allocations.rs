//! How often the allocator is asked for a batch of a thousand columns, and what it costs arrow-rs
//! to show one to C.

use std::sync::Arc;

use arrow_array_60::{ArrayRef, Int64Array, RecordBatch};
use arrow_device::abi::ArrowDeviceArray;
use arrow_device::{Batch, Schema};
use arrow_device_arrow::v60::{FromArrow as _, ToArrow as _, ToArrowUnchecked as _};
use arrow_device_testkit::allocations::{Counting, count};
use arrow_schema_60 as rs;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const COLUMNS: usize = 1000;

fn wide() -> RecordBatch {
    let column: ArrayRef = Arc::new((0..1024).map(Some).collect::<Int64Array>());
    let field = |index| rs::Field::new(format!("column {index}"), rs::DataType::Int64, true);
    let schema = rs::Schema::new((0..COLUMNS).map(field).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), vec![column; COLUMNS]).unwrap()
}

/// Exports a small batch, so that what a thread does once is done.
fn warm_up() {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let batch = Batch::from_arrow(RecordBatch::try_from_iter([("one", column)]).unwrap()).unwrap();
    let mut c_array = ArrowDeviceArray::empty();
    batch.export(&mut c_array).unwrap();
    unsafe { (c_array.array.release.unwrap())(&raw mut c_array.array) };
}

#[test]
fn a_batch_of_a_thousand_columns_is_three_allocations_and_its_export_one() {
    warm_up();
    let theirs = wide();
    let (of_schema, schema) = count(|| Schema::from_arrow(&*theirs.schema()).unwrap());
    // The clone is what a caller that keeps its batch pays: one vector.
    let (of_batch, ours) = count(|| Batch::from_arrow((&schema, theirs.clone())).unwrap());
    let mut c_array = ArrowDeviceArray::empty();
    let (of_export, ()) = count(|| ours.export(&mut c_array).unwrap());
    let release = c_array.array.release.unwrap();
    let (of_release, ()) = count(|| unsafe { release(&raw mut c_array.array) });
    let (again, ()) = count(|| ours.export(&mut c_array).unwrap());
    unsafe { release(&raw mut c_array.array) };
    let (of_checked, back) = count(|| ours.to_arrow().unwrap());
    let (of_unchecked, _) = count(|| unsafe { ours.to_arrow_unchecked() }.unwrap());
    assert_eq!(back, theirs);
    println!(
        "allocations for {COLUMNS} columns: schema {of_schema}, batch {of_batch} with its clone, export {of_export} and \
         then {again}, release {of_release}, back to arrow-rs {of_checked} checked and {of_unchecked} unchecked"
    );
    assert!(of_batch <= 4, "{of_batch} allocations for a batch and its clone");
    assert!(of_export <= 1, "{of_export} allocations for an export");
    assert_eq!((of_release, again), (0, 0));
}
