//! Arrays that were sent somewhere: are they still what they were?

use arrow_device::Array;
use arrow_device::abi::ArrowDeviceArray;
use arrow_device::copy::Options;

use crate::generate;
use crate::ledger::Ledger;
use crate::oracle;
use crate::plan::Plan;

/// An array of the library's in host memory, and what is to be read in every copy of it.
///
/// # Panics
/// Where the library does not build it, or builds something else.
pub fn built(plan: &Plan) -> (Array, Plan) {
    let array = generate::build(plan, &Ledger::new()).unwrap_or_else(|error| panic!("{error}"));
    // The same values, with the type as the library spells it.
    let expected = oracle::plan_of(&array).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(oracle::values(&expected), oracle::values(plan));
    (array, expected)
}

/// The array again, as somebody who only knows the C struct has it.
///
/// # Panics
/// Where it cannot be exported or imported.
pub fn imported(array: &Array) -> Array {
    let mut c_array = ArrowDeviceArray::empty();
    let exported = array.export(&mut c_array).and_then(|()| array.schema());
    let schema = exported.unwrap_or_else(|error| panic!("{error}"));
    // SAFETY: the library's export is of that type and keeps to the interface.
    let again = unsafe { Array::import(&mut c_array, &schema) };
    again.unwrap_or_else(|error| panic!("{error}"))
}

/// Ways to ask for the same copy, one for each number: with and without what is not shown, in one block and in several, in
/// chunks of two sizes, at another alignment. None shares memory with its source.
pub fn ways_to_copy(number: usize) -> Options {
    let options = Options::new().always(true);
    match number % 5 {
        0 => options,
        1 => options.trim(false),
        2 => options.separate(true),
        3 => options.chunk(64),
        _ => options.alignment(1024).chunk(192),
    }
}

/// That an array in host memory is valid, and has these values.
///
/// # Panics
/// Where it is or has not. The message begins with `what`.
#[track_caller]
pub fn assert_is(array: &Array, expected: &Plan, what: &str) {
    array.validate().unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = oracle::plan_of(array).unwrap_or_else(|error| panic!("{what}: {error}"));
    oracle::require_equal(expected, &found).unwrap_or_else(|error| panic!("{what}: {error}"));
}
