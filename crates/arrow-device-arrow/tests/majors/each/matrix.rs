//! Every type in every shape, from a producer that is written by hand: ours, theirs, and back.

use arrow_device::{Array, DataType, ErrorKind, Schema};
use arrow_device_testkit::kinds::{Case, cases};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::{Verdict, producer, require};

use super::arrow::array::{Array as _, ArrayRef};
use super::arrow::data::ArrayData;
use super::ours::{FromArrow as _, ToArrow as _, ToArrowUnchecked as _};
use super::samples::{Sample, settle};

/// Whether arrow-rs has a place for everything that the type says.
fn has_a_place(data_type: &DataType) -> bool {
    data_type.dictionary_values().is_none_or(|values| values.metadata().is_empty())
        && data_type
            .children()
            .chain(data_type.dictionary_values())
            .all(|below| has_a_place(below.data_type()))
}

/// All addresses of memory that an array of arrow-rs shows. Where there is no element, arrow-rs brings its own.
fn addresses(data: &ArrayData) -> Vec<usize> {
    if data.is_empty() {
        return Vec::new();
    }
    let nulls = data.nulls().map(|nulls| nulls.buffer().as_ptr());
    let buffers = data.buffers().iter().map(|buffer| buffer.as_ptr());
    let own = nulls.into_iter().chain(buffers).map(<*const u8>::addr);
    own.chain(data.child_data().iter().flat_map(addresses)).collect()
}

fn check(case: &Case) -> Verdict {
    let Sample { array, memory, ledger, .. } = Sample::new(case.to_string(), case.plan());
    let schema = array.schema().unwrap();
    if !has_a_place(schema.data_type()) {
        let error = array.to_arrow().map(|_| ()).expect_err("metadata was lost");
        return require(error.kind() == ErrorKind::Unsupported, || format!("refused as {error}"));
    }
    let theirs: ArrayRef = array.to_arrow().map_err(|error| error.to_string())?;
    theirs.to_data().validate_full().map_err(|error| format!("arrow-rs says {error}"))?;
    require(theirs.len() == array.len(), || format!("{} elements", theirs.len()))?;
    let addresses = addresses(&theirs.to_data());
    let strayed = addresses.iter().find(|address| !memory.iter().any(|it| it.contains(address)));
    require(strayed.is_none_or(is_empty_buffer), || format!("memory was copied to {strayed:x?}"))?;
    let trusted = unsafe { array.to_arrow_unchecked() }.map_err(|error| error.to_string())?;
    require(*trusted == *theirs, || "the unchecked conversion gave something else".into())?;

    let field = schema.field().to_arrow().map_err(|error| error.to_string())?;
    let back = Array::from_arrow((&field, theirs.clone())).map_err(|error| error.to_string())?;
    require(back.field() == array.field(), || format!("the field is {}", back.field()))?;
    back.validate().map_err(|error| format!("what came back: {error}"))?;
    require(back.equals(&array).unwrap(), || "what came back is something else".into())?;
    let again = back.to_arrow().map_err(|error| error.to_string())?;
    require(*again == *theirs, || "arrow-rs sees something else the second time".into())?;
    drop((array, theirs, trusted, back, again));
    settle(&ledger)
}

/// Empty buffers lie nowhere.
fn is_empty_buffer(address: &usize) -> bool {
    *address <= 128
}

// Requirement: SYS-1, ARR-16
#[test]
fn every_type_in_every_shape_becomes_theirs_and_ours_again() {
    let mut failures = Vec::new();
    let mut count = 0;
    for case in cases() {
        count += 1;
        let outcome = std::panic::catch_unwind(|| check(&case));
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(complaint)) => failures.push(format!("{case}: {complaint}")),
            Err(_) => failures.push(format!("{case}: panicked")),
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {count} failed, as {:#?}",
        failures.len(),
        &failures[..failures.len().min(20)]
    );
    assert_eq!(count, 8460);
}

// Requirement: SCH-5
#[test]
fn metadata_that_is_not_text_is_an_error() {
    let plan = cases().map(|case| case.plan()).find(|plan| plan.metadata.is_some()).unwrap();
    let schema = unsafe { Schema::import(&mut producer::schema(&plan, &Ledger::new())) }.unwrap();
    let error = schema.field().to_arrow().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}
