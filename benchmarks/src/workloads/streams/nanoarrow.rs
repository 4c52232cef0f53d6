//! Streams by nanoarrow: `native/streams_nanoarrow.c`.

use std::sync::OnceLock;

use arrow_device::abi::{ArrowArray, ArrowSchema};
use foreign_peers::build::{self, Build};
use foreign_peers::nanoarrow::configured;
use libloading::Library;

use super::exported::structs;
use super::{COLUMNS, batch};
use crate::case::{Case, Peer};

type NanoarrowStream = *mut std::ffi::c_void;

/// What the shared library has.
#[derive(Clone, Copy)]
struct NanoarrowFunctions {
    open: unsafe extern "C" fn(*mut ArrowSchema, *mut ArrowArray) -> NanoarrowStream,
    next: unsafe extern "C" fn(NanoarrowStream) -> i64,
    #[cfg_attr(not(test), allow(dead_code, reason = "the proof that it is correct"))]
    last: unsafe extern "C" fn(NanoarrowStream) -> i64,
}

pub(super) fn cases() -> Vec<Case> {
    let Some(functions) = functions() else { return Vec::new() };
    let case = |columns| {
        let stream = open(functions, columns);
        let once = move || {
            // SAFETY: an open stream, which only this uses.
            let rows = unsafe { (functions.next)(stream) };
            assert!(rows >= 0);
        };
        Case::whole(("stream", "host batch", columns), Peer::Nanoarrow, once)
    };
    COLUMNS.into_iter().map(case).collect()
}

/// A stream, which is kept until the process ends.
fn open(functions: NanoarrowFunctions, columns: u64) -> NanoarrowStream {
    let (mut schema, mut array) = structs(&batch(columns));
    // SAFETY: both are good, and moved.
    let stream = unsafe { (functions.open)(&raw mut schema, &raw mut array.array) };
    assert!(!stream.is_null());
    stream
}

fn functions() -> Option<NanoarrowFunctions> {
    static LOADED: OnceLock<Option<NanoarrowFunctions>> = OnceLock::new();
    *LOADED.get_or_init(load)
}

fn load() -> Option<NanoarrowFunctions> {
    let Some(unpacked) = build::unpacked("nanoarrow") else {
        println!("nanoarrow is left out: `cargo xtask test --setup` installs it");
        return None;
    };
    let sources = unpacked.join("subprojects/arrow-nanoarrow/src");
    let native = build::here("../../benchmarks/native/streams_nanoarrow.c");
    let options = ["-std=c11", "-O3", "-DNDEBUG"];
    let mut build = Build::new("bench-streams-nanoarrow", "CC", "cc", &options)
        .include(&sources, true)
        .include(&configured(&sources, &build::version("nanoarrow")), true)
        .source(native, &["-Wall", "-Wextra", "-Werror"]);
    for source in ["common/utils.c", "common/schema.c", "common/array.c", "common/array_stream.c"] {
        build = build.source(sources.join("nanoarrow").join(source), &["-w"]);
    }
    // SAFETY: it has no initializers.
    let library = unsafe { Library::new(build.run()) }.unwrap();
    let library: &'static Library = Box::leak(Box::new(library));
    Some(NanoarrowFunctions {
        // SAFETY: as the source has it.
        open: unsafe { *library.get(b"bench_nanoarrow_open").unwrap() },
        // SAFETY: as the source has it.
        next: unsafe { *library.get(b"bench_nanoarrow_next").unwrap() },
        // SAFETY: as the source has it.
        last: unsafe { *library.get(b"bench_nanoarrow_last").unwrap() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::streams::ROWS;

    #[test]
    fn what_comes_out_is_what_went_in() {
        let Some(functions) = functions() else { return };
        let stream = open(functions, 10);
        for _ in 0..3 {
            // SAFETY: an open stream.
            let rows = unsafe { (functions.next)(stream) };
            // SAFETY: an open stream.
            let last = unsafe { (functions.last)(stream) };
            assert_eq!((rows, last), (ROWS, ROWS - 1));
        }
    }
}
