//! Every type in every shape, from a producer that is written by hand: ours, theirs, and back.

use std::collections::HashMap;

use arrow_device::{Array, DataType, ErrorKind, Field, Schema};
use arrow_device_testkit::kinds::{Case, Kind, cases};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::{Nulls, Window};
use arrow_device_testkit::{Verdict, assert_complaint, producer, require};

use super::STEP;
use super::arrow::array::{Array as _, ArrayRef, make_array};
use super::arrow::buffer::Buffer;
use super::arrow::data::ArrayData;
use super::arrow::schema as rs;
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

/// All addresses of memory that an array of arrow-rs shows. Where there is no element, arrow-rs
/// brings its own.
fn addresses(data: &ArrayData) -> Vec<usize> {
    if data.is_empty() {
        return Vec::new();
    }
    let nulls = data.nulls().map(|nulls| nulls.buffer().as_ptr());
    let buffers = data.buffers().iter().map(|buffer| buffer.as_ptr());
    let own = nulls.into_iter().chain(buffers).map(<*const u8>::addr);
    own.chain(data.child_data().iter().flat_map(addresses)).collect()
}

/// What is wrong with a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    CopiesBuffers,
    LosesNulls,
    DropsMetadata,
    Leaks,
}

/// Our conversion of an array, with this fault.
fn to_theirs(array: &Array, fault: Option<Fault>) -> Result<ArrayRef, String> {
    let theirs = array.to_arrow().map_err(|error| error.to_string())?;
    let data = theirs.to_data();
    Ok(match fault {
        Some(Fault::CopiesBuffers) => {
            let copies = data.buffers().iter().map(|it| Buffer::from_slice_ref(it.as_slice()));
            let copies = copies.collect();
            make_array(data.into_builder().buffers(copies).build().unwrap())
        }
        Some(Fault::LosesNulls) => make_array(data.into_builder().nulls(None).build().unwrap()),
        Some(Fault::Leaks) => {
            std::mem::forget(theirs.clone());
            theirs
        }
        _ => theirs,
    })
}

/// Our conversion of a field, with this fault.
fn field_to_theirs(field: &Field, fault: Option<Fault>) -> Result<rs::Field, String> {
    let theirs = field.to_arrow().map_err(|error| error.to_string())?;
    Ok(match fault {
        Some(Fault::DropsMetadata) => theirs.with_metadata(HashMap::new()),
        _ => theirs,
    })
}

fn check(case: &Case, fault: Option<Fault>) -> Verdict {
    let Sample { array, memory, ledger, .. } = Sample::new(case.to_string(), case.plan());
    let schema = array.schema().unwrap();
    if !has_a_place(schema.data_type()) {
        let error = array.to_arrow().map(|_| ()).expect_err("metadata was lost");
        return require(error.kind() == ErrorKind::Unsupported, || format!("refused as {error}"));
    }
    let theirs = to_theirs(&array, fault)?;
    theirs.to_data().validate_full().map_err(|error| format!("arrow-rs says {error}"))?;
    require(theirs.len() == array.len(), || format!("{} elements", theirs.len()))?;
    let addresses = addresses(&theirs.to_data());
    let strayed = addresses.iter().find(|address| !memory.iter().any(|it| it.contains(address)));
    require(strayed.is_none_or(is_empty_buffer), || format!("memory was copied to {strayed:x?}"))?;
    let trusted = unsafe { array.to_arrow_unchecked() }.map_err(|error| error.to_string())?;
    require(*trusted == *theirs, || "the unchecked conversion gave something else".into())?;

    let field = field_to_theirs(schema.field(), fault)?;
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

// Requirement: SYS-1, ARR-16, SCH-5
#[test]
fn every_type_in_every_shape_becomes_theirs_and_ours_again() {
    // Under the interpreter only a few.
    let step = if cfg!(miri) { 1361 } else { STEP };
    let mut failures = Vec::new();
    let mut count = 0;
    for case in cases().step_by(step) {
        count += 1;
        let outcome = std::panic::catch_unwind(|| check(&case, None));
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
    assert_eq!(count, 8460_usize.div_ceil(step));
}

#[test]
#[cfg_attr(miri, ignore = "what is wrong here leaks, which Miri reports")]
fn a_conversion_that_copies_loses_or_leaks_is_found_out() {
    let number = || Kind::Fixed("l", 8);
    let extension = Kind::Extension(Box::new(number()));
    for (fault, kind, complaint) in [
        (Fault::CopiesBuffers, number(), "memory was copied"),
        (Fault::CopiesBuffers, Kind::Text("u", 4), "memory was copied"),
        (Fault::LosesNulls, number(), "the unchecked conversion gave something else"),
        (Fault::DropsMetadata, extension, "the field is"),
        (Fault::Leaks, number(), "1 releases of 2"),
    ] {
        let case = Case::new(kind, Window::SLICED, Nulls::Counted);
        assert_eq!(check(&case, None), Ok(()));
        assert_complaint(check(&case, Some(fault)), complaint);
    }
}

#[test]
fn metadata_that_is_not_text_is_an_error() {
    let plan = cases().map(|case| case.plan()).find(|plan| plan.metadata.is_some()).unwrap();
    let schema = unsafe { Schema::import(&mut producer::schema(&plan, &Ledger::new())) }.unwrap();
    let error = schema.field().to_arrow().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}
