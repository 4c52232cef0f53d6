//! Structs with anything wrong: each is a typed error at the right place, released once, and
//! nothing leaks.

use std::ptr;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, DataType, ErrorKind, Schema, Step};
use arrow_device_testkit::hostile::{self, Hostile, Ours};
use arrow_device_testkit::kinds::Kind;
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::{Nulls, Window};
use arrow_device_testkit::producer;

fn assert_all(all: impl IntoIterator<Item = Hostile>) {
    for hostile in all {
        assert_eq!(hostile.check(&Ours), Ok(()), "{}", hostile.name);
    }
}

// Requirement: ABI-2, ABI-5, ARR-3, ARR-7, ARR-17, ARR-18, SYS-2, SAF-14, SAF-32
#[test]
fn an_array_with_anything_wrong_is_refused_at_its_place_and_released_once() {
    let stride = if cfg!(miri) { 307 } else { 1 };
    let all = hostile::all().into_iter().filter(|hostile| !hostile.is_schema());
    assert_all(all.step_by(stride));
}

// Requirement: SCH-1, SCH-2, SCH-3, SCH-4, SYS-2, SAF-14, SAF-32
#[test]
fn a_schema_with_anything_wrong_is_refused_at_its_place_and_released_once() {
    // A million nodes take an interpreter too long.
    let is_endless = |hostile: &Hostile| cfg!(miri) && hostile.name.contains("their own parent");
    let stride = if cfg!(miri) { 307 } else { 1 };
    let all = hostile::all().into_iter().filter(|hostile| hostile.is_schema());
    assert_all(all.step_by(stride).filter(|hostile| !is_endless(hostile)));
}

// Requirement: ARR-17, SYS-2, SAF-14, SAF-32
#[test]
fn structs_with_random_members_wrong_are_released_once() {
    let seeds = if cfg!(miri) { 4 } else { 10_000 };
    assert_all((0..seeds).map(hostile::random));
}

// Requirement: ARR-3, SYS-2
#[test]
fn a_column_of_columns_that_is_shorter_than_its_batch_is_refused() {
    let column = Kind::Struct(vec![Kind::Fixed("l", 8)]);
    let plan = Kind::Struct(vec![Kind::Fixed("i", 4), column]).plan(Window::WHOLE, Nulls::None);
    let ledger = Ledger::new();
    // SAFETY: the structs are as they should be, but for a length that the second child is given.
    let refused = unsafe {
        let schema = Schema::import(&mut producer::schema(&plan, &ledger)).unwrap();
        let mut array = producer::device_array(&plan, &ledger);
        (**array.array.children.add(1)).length -= 1;
        Array::import(&mut array, &schema).unwrap_err()
    };
    assert_eq!(refused.kind(), ErrorKind::Malformed);
    assert_eq!(refused.place().unwrap().steps(), [Step::Child(1)]);
    assert_eq!(ledger.settle(2), Ok(()));
}

// Requirement: SYS-2
#[test]
fn a_null_pointer_and_a_released_struct_are_errors() {
    let schema = Schema::try_from(DataType::Int64).unwrap();
    // SAFETY: null pointers and released structs are asked for.
    let arrays = unsafe {
        [
            Array::import(ptr::null_mut(), &schema),
            Array::import_host(ptr::null_mut(), &schema),
            Array::import(&mut ArrowDeviceArray::empty(), &schema),
        ]
    };
    let kinds = arrays.map(|result| result.unwrap_err().kind());
    use ErrorKind::{InvalidArgument, Released};
    assert_eq!(kinds, [InvalidArgument, InvalidArgument, Released]);
    // SAFETY: null pointers and released structs are asked for.
    let schemas =
        unsafe { [Schema::import(ptr::null_mut()), Schema::import(&mut ArrowSchema::empty())] };
    assert_eq!(schemas.map(|result| result.unwrap_err().kind()), [InvalidArgument, Released]);
}
