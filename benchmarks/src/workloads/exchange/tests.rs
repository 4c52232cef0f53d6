//! Every peer does what is timed, correctly: before it is fast.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};

use super::arrow_rs::ArrowRs;
use super::data::{Data, ROWS};
use super::native::{self, NativeParty};
use super::ours::{self, Ours};
use super::party::{ExchangeSlot, Party, known, release, release_schema};
use super::polars_arrow::PolarsArrow;
use super::{arrow_rs, from_arrow_rs};

fn everything() -> Vec<Data> {
    let flat = ["int64", "utf8", "utf8view", "nested"].map(Data::flat);
    flat.into_iter().chain([Data::batch(1), Data::batch(10), Data::mixed(8)]).collect()
}

fn native_peers() -> impl Iterator<Item = NativeParty> {
    [native::arrow_cpp(), native::nanoarrow()].into_iter().flatten()
}

/// Both peers that can judge find an export valid.
fn is_exported_validly<P: Party>(party: P) {
    for data in everything() {
        for judge in native_peers() {
            let held = party.hold(&data);
            let (mut schema, mut array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
            party.export(&held, &mut array);
            party.export_schema(&held, &mut schema);
            let (length, children) = (array.array.length, array.array.n_children);
            assert_eq!((length, children), (ROWS, data.array.child_count() as i64));
            let is_valid = judge.is_valid(&mut schema, &mut array, data.is_batch);
            assert!(is_valid, "{} of {} says {}", data.shape, party.peer(), judge.peer());
        }
    }
}

#[test]
fn what_everybody_exports_is_valid_for_arrow_cpp_and_nanoarrow() {
    for form in [Ours::Imported, Ours::Built] {
        is_exported_validly(form);
    }
    is_exported_validly(ArrowRs);
    is_exported_validly(PolarsArrow);
    native_peers().for_each(is_exported_validly);
}

static RELEASED: AtomicUsize = AtomicUsize::new(0);

/// What the library exports, with a release that is counted in front of its own.
fn watched(data: &Data, out: &mut ArrowDeviceArray) {
    unsafe extern "C" fn release(array: *mut ArrowArray) {
        RELEASED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: this is called with a struct of `watched`.
        let inner = unsafe { (*array).private_data }.cast::<ArrowDeviceArray>();
        // SAFETY: boxed by `watched`, and given back once.
        let mut inner = unsafe { Box::from_raw(inner) };
        super::party::release(&mut inner);
        // SAFETY: the struct of whoever calls.
        unsafe { (*array).release = None };
    }
    data.export(out);
    let mut inner = Box::new(ArrowDeviceArray::empty());
    // SAFETY: both are whole; the copy in `out` gives up the release.
    unsafe { std::ptr::copy_nonoverlapping(&raw const *out, &raw mut *inner, 1) };
    out.array.private_data = Box::into_raw(inner).cast::<c_void>();
    out.array.release = Some(release);
}

/// What is imported has the numbers of the data, and is released once.
fn is_imported_whole<P: Party>(party: P) {
    for data in [Data::flat("int64"), Data::batch(10)] {
        let mut known = known(party, &data);
        for both in [false, true] {
            let mut slot = ExchangeSlot::<P>::new();
            let before = RELEASED.load(Ordering::Relaxed);
            watched(&data, &mut slot.array);
            if both {
                data.export_schema(&mut slot.schema);
                let (schema, array) = (&mut slot.schema, &mut slot.array);
                party.import_both(schema, array, data.is_batch, &mut slot.place);
                release_schema(&mut slot.schema);
            } else {
                party.import(&mut known, &mut slot.array, &mut slot.place);
            }
            if data.is_batch {
                assert_eq!(party.column(&slot.place, 3), ROWS as usize, "{}", party.peer());
            }
            let numbers = [0, 1, 7, 1023].map(|row| party.number(&slot.place, 3, row));
            assert_eq!(numbers, [None, Some(1), None, Some(1023)], "{}", party.peer());
            assert_eq!(RELEASED.load(Ordering::Relaxed), before, "{}", party.peer());
            party.clear(&mut slot.place);
            assert_eq!(RELEASED.load(Ordering::Relaxed), before + 1, "{}", party.peer());
        }
    }
}

#[test]
fn everybody_imports_the_same_and_releases_it_once() {
    is_imported_whole(Ours::Imported);
    is_imported_whole(ArrowRs);
    is_imported_whole(PolarsArrow);
    native_peers().for_each(is_imported_whole);
}

#[test]
fn a_batch_of_arrow_rs_that_is_given_away_is_exported_alike_by_both() {
    let data = Data::batch(10);
    for mut case in [from_arrow_rs::export(&data), arrow_rs::export_of_a_batch(&data)] {
        (case.run)(3);
    }
    let schema = data.array.schema().unwrap();
    let mut out = ArrowDeviceArray::empty();
    from_arrow_rs::hand_over(&schema, ours::arrow_rs(&data), &mut out);
    // SAFETY: of this library, and of this schema.
    let back = unsafe { arrow_device::Array::import(&mut out, &schema) }.unwrap();
    let number = back.child(9).unwrap().host().unwrap().values::<i64>().unwrap().get(1);
    assert_eq!(number, Some(1));
}

#[test]
fn every_case_runs() {
    for mut case in super::cases() {
        (case.run)(1);
    }
}

#[test]
fn exporting_from_two_threads_leaves_the_batch_as_it_was() {
    let data = Data::batch(100);
    (super::party::contended(Ours::Imported, &data, "batch", 2).run)(100);
    let mut out = ArrowDeviceArray::empty();
    data.export(&mut out);
    assert_eq!(out.array.n_children, 100);
    release(&mut out);
}
