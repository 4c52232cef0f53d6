//! The library: found by its name, missing, older, and another one.
//!
//! Each case runs this program again, as a child whose environment names the library.

use std::path::PathBuf;

use arrow_device::{Array, DataType, Error, ErrorKind};
use arrow_device_hexagon::{Functions, Mapping, Opening, domain, is_available, open, open_with};
use arrow_device_testkit::process::{self, Child};
use simulated_hexagon::memory;

use crate::support;

/// Runs this test in a child with this library, and returns what the child printed.
fn child(library: impl Into<PathBuf>) -> String {
    let variable = "ARROW_DEVICE_HEXAGON_LIBRARY";
    Child::of_this_test().env(variable, library.into()).run().expect_success().stdout
}

fn ask_everything() {
    let mapped = Opening::new(domain::ADSP).with_mapping(Mapping::WhileAllocated);
    let errors =
        [is_available().unwrap_err(), open(3).unwrap_err(), open_with(mapped).unwrap_err()];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::DriverMissing, "{error}");
        println!("said: {error}");
    }
}

#[test]
fn a_library_that_is_there_is_loaded() {
    if process::is_child() {
        is_available().unwrap();
        let device = open(domain::CDSP).unwrap();
        assert_eq!(device.id().to_string(), "hexagon:3");
        let queue = device.open_queue().unwrap();
        let array = Array::from_values(DataType::Int32, [Some(1), None, Some(3)]).unwrap();
        let there = array.copy_to(&queue).unwrap();
        assert_eq!(memory::counts().allocations, 0, "the functions are not those of the library");
        return assert_eq!(support::values_of(&there)[2], 3);
    }
    child(simulated_hexagon::library());
}

#[test]
fn without_the_library_the_error_says_where_it_comes_from() {
    if process::is_child() {
        return ask_everything();
    }
    let text = child("/nonexistent/libcdsprpc.so");
    assert_eq!(text.matches("said: ").count(), 3, "{text}");
    for part in ["libcdsprpc", "uses-native-library", "/nonexistent"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn another_library_is_an_error() {
    if process::is_child() {
        return ask_everything();
    }
    let text = child("libc.so.6");
    assert!(text.contains("not Qualcomm's FastRPC: rpcmem_alloc:"), "{text}");
}

fn opened_with(
    change: fn(&mut Functions),
    mapping: Mapping,
) -> Result<arrow_device::Device, Error> {
    let mut functions = memory::functions();
    change(&mut functions);
    // SAFETY: UNS-29, UNS-31: the functions are those of the stand-in.
    open_with(unsafe { support::opening().with_functions(functions) }.with_mapping(mapping))
}

#[test]
fn an_older_library_allocates_less_than_two_gibibytes() {
    let older = opened_with(|functions| functions.rpcmem_alloc2 = None, Mapping::ByTheApplication);
    let older = older.unwrap();
    assert_eq!(older.allocate(1 << 20).unwrap().len(), 1 << 20);
    let error = older.allocate(1 << 31).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert_eq!(support::device().allocate(1 << 31).unwrap().len(), 1 << 31);
}

#[test]
fn a_library_that_maps_nothing_opens_no_device_that_maps() {
    let mapped = |change| opened_with(change, Mapping::WhileAllocated).unwrap_err();
    for (name, error) in [
        ("fastrpc_mmap", mapped(|functions| functions.fastrpc_mmap = None)),
        ("fastrpc_munmap", mapped(|functions| functions.fastrpc_munmap = None)),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    opened_with(|functions| functions.fastrpc_mmap = None, Mapping::ByTheApplication).unwrap();
}
