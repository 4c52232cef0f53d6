//! Streams by Arrow C++: `native/streams_arrow_cpp.cc`.

use std::sync::OnceLock;
use std::time::Duration;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use foreign_peers::build::{self, Build};
use libloading::Library;

use super::asynchronous::scaled;
use super::exported::structs;
use super::{ASYNC_COLUMNS, BATCHES, COLUMNS, WARM, WINDOWS, batch};
use crate::case::{Case, Peer};

type ArrowCppObject = *mut std::ffi::c_void;

/// What the shared library has.
#[derive(Clone, Copy)]
struct ArrowCppFunctions {
    open: unsafe extern "C" fn(*mut ArrowSchema, *mut ArrowDeviceArray, i32) -> ArrowCppObject,
    next: unsafe extern "C" fn(ArrowCppObject) -> i64,
    #[cfg_attr(not(test), allow(dead_code, reason = "the proof that it is correct"))]
    last: unsafe extern "C" fn(ArrowCppObject) -> i64,
    batch: unsafe extern "C" fn(*mut ArrowSchema, *mut ArrowDeviceArray) -> ArrowCppObject,
    exchange: unsafe extern "C" fn(ArrowCppObject, u64, i64, i64, *mut i64) -> i64,
}

pub(super) fn cases() -> Vec<Case> {
    let Some(functions) = functions() else { return Vec::new() };
    let of = |columns| {
        [("device batch", true), ("host batch", false)].map(|(shape, is_device)| {
            let stream = open(functions, columns, is_device);
            let once = move || {
                // SAFETY: an open stream, which only this uses.
                let rows = unsafe { (functions.next)(stream) };
                assert!(rows >= 0);
            };
            Case::whole(("stream", shape, columns), Peer::ArrowCpp, once)
        })
    };
    let mut cases: Vec<Case> = COLUMNS.into_iter().flat_map(of).collect();
    for columns in ASYNC_COLUMNS {
        for (window, queue) in WINDOWS {
            for (workload, p99) in [("async threads", false), ("async threads p99", true)] {
                let theirs = Theirs(functions, open_batch(functions, columns));
                let run = move |turns| scaled(turns, || theirs.exchange(window, p99));
                let peer = Peer::ArrowCpp;
                let run = Box::new(run);
                cases.push(Case { workload, shape: queue, size: columns, peer, bytes: 0, run });
            }
        }
    }
    cases
}

/// A batch of theirs, kept until the process ends.
#[derive(Clone, Copy)]
struct Theirs(ArrowCppFunctions, ArrowCppObject);

impl Theirs {
    fn exchange(self, window: usize, p99: bool) -> Duration {
        let Self(functions, batch) = self;
        let mut slowest = 0;
        let wanted = if p99 { &raw mut slowest } else { std::ptr::null_mut() };
        let (warm, count) = (WARM as i64, BATCHES as i64);
        // SAFETY: a batch that is kept, and a place for a number or none.
        let took = unsafe { (functions.exchange)(batch, window as u64, warm, count, wanted) };
        assert!(took >= 0);
        Duration::from_nanos(if p99 { slowest } else { took / count } as u64)
    }
}

/// A stream, which is kept until the process ends.
fn open(functions: ArrowCppFunctions, columns: u64, is_device: bool) -> ArrowCppObject {
    let (mut schema, mut array) = structs(&batch(columns));
    // SAFETY: both are good, and moved.
    let stream = unsafe { (functions.open)(&raw mut schema, &raw mut array, is_device.into()) };
    assert!(!stream.is_null());
    stream
}

fn open_batch(functions: ArrowCppFunctions, columns: u64) -> ArrowCppObject {
    let (mut schema, mut array) = structs(&batch(columns));
    // SAFETY: both are good, and moved.
    let batch = unsafe { (functions.batch)(&raw mut schema, &raw mut array) };
    assert!(!batch.is_null());
    batch
}

fn functions() -> Option<ArrowCppFunctions> {
    static LOADED: OnceLock<Option<ArrowCppFunctions>> = OnceLock::new();
    *LOADED.get_or_init(load)
}

fn load() -> Option<ArrowCppFunctions> {
    let Some(wheel) = build::wheel("pyarrow") else {
        println!("Arrow C++ is left out: `cargo xtask test --setup` installs it");
        return None;
    };
    let native = build::here("../../benchmarks/native/streams_arrow_cpp.cc");
    let options = ["-std=c++20", "-O3", "-DNDEBUG", "-Wall", "-Wextra", "-Werror"];
    let library = Build::new("bench-streams-arrow-cpp", "CXX", "c++", &options)
        .include(&wheel.join("include"), true)
        .source(native, &[])
        .link(&build::file_that_begins(&wheel, "libarrow.so."))
        .run();
    // SAFETY: the initializers of Arrow C++ may run at any time.
    let library: &'static Library = Box::leak(Box::new(unsafe { Library::new(library) }.unwrap()));
    Some(ArrowCppFunctions {
        // SAFETY: as the source has it.
        open: unsafe { *library.get(b"bench_cpp_open").unwrap() },
        // SAFETY: as the source has it.
        next: unsafe { *library.get(b"bench_cpp_next").unwrap() },
        // SAFETY: as the source has it.
        last: unsafe { *library.get(b"bench_cpp_last").unwrap() },
        // SAFETY: as the source has it.
        batch: unsafe { *library.get(b"bench_cpp_batch").unwrap() },
        // SAFETY: as the source has it.
        exchange: unsafe { *library.get(b"bench_cpp_exchange").unwrap() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::streams::ROWS;

    #[test]
    fn what_comes_out_is_what_went_in() {
        let Some(functions) = functions() else { return };
        for is_device in [true, false] {
            let stream = open(functions, 10, is_device);
            // SAFETY: an open stream.
            let rows = unsafe { (functions.next)(stream) };
            // SAFETY: an open stream.
            let last = unsafe { (functions.last)(stream) };
            assert_eq!((rows, last), (ROWS, ROWS - 1));
        }
        // It looks at each batch itself.
        let theirs = Theirs(functions, open_batch(functions, 1));
        assert!(theirs.exchange(5, true) > Duration::ZERO);
    }
}
