//! Arrow C++ and nanoarrow, behind the functions of `native/copies.h`.

use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};

use arrow_device::Batch;
use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use foreign_peers::build::{self, Build};
use libloading::Library;

use crate::case::{Case, Peer, WorkloadKey};

type HoldBatch = unsafe extern "C" fn(*mut ArrowSchema, *mut ArrowDeviceArray) -> *mut c_void;

/// Arrow C++ or nanoarrow, as a library that copies.
#[derive(Clone, Copy)]
pub(super) struct NativeCopier {
    peer: Peer,
    hold: HoldBatch,
    copy: unsafe extern "C" fn(*mut c_void) -> c_int,
    #[cfg_attr(not(test), allow(dead_code, reason = "a test looks at the outcome"))]
    sum: unsafe extern "C" fn(*mut c_void, *mut i64) -> c_int,
}

/// Those that are there. A reason is printed for one that is not.
pub(super) fn all() -> Vec<NativeCopier> {
    let peers = [(Peer::ArrowCpp, arrow_cpp()), (Peer::Nanoarrow, nanoarrow())];
    let loaded = peers.map(|(peer, library)| match library {
        Ok(library) => Some(NativeCopier::new(peer, library)),
        Err(reason) => {
            println!("left out: {peer}: {reason}");
            None
        }
    });
    loaded.into_iter().flatten().collect()
}

fn arrow_cpp() -> Result<Library, String> {
    let wheel = build::wheel("pyarrow").ok_or("its wheel is not there")?;
    if !build::has_compiler("CXX", "c++") {
        return Err("a C++ compiler is not there".to_owned());
    }
    let options = ["-std=c++20", "-O3", "-DNDEBUG", "-Wall", "-Wextra", "-Werror"];
    let build = Build::new("copies-arrow-cpp", "CXX", "c++", &options)
        .include(&wheel.join("include"), true)
        .include(&build::headers("arrow-device-abi"), false)
        .source(here("copies_arrow_cpp.cc"), &[])
        .depends_on(here("copies.h"))
        .link(&build::file_that_begins(&wheel, "libarrow.so."));
    // SAFETY: the initializers of Arrow C++ may run at any time.
    unsafe { Library::new(build.run()) }.map_err(|error| error.to_string())
}

fn nanoarrow() -> Result<Library, String> {
    let unpacked = build::unpacked("nanoarrow").ok_or("its sources are not there")?;
    if !build::has_compiler("CC", "cc") {
        return Err("a C compiler is not there".to_owned());
    }
    let sources = unpacked.join("subprojects/arrow-nanoarrow/src");
    let configured = foreign_peers::nanoarrow::configured(&sources, &build::version("nanoarrow"));
    let ours: &[&str] = &["-Wall", "-Wextra", "-Werror"];
    let mut build = Build::new("copies-nanoarrow", "CC", "cc", &["-std=c11", "-O3", "-DNDEBUG"])
        .include(&sources, true)
        .include(&configured, true)
        .include(&build::headers("arrow-device-abi"), false)
        .source(here("copies_nanoarrow.c"), ours)
        .depends_on(here("copies.h"));
    for source in ["common/utils.c", "common/schema.c", "common/array.c", "device/device.c"] {
        build = build.source(sources.join("nanoarrow").join(source), &["-w"]);
    }
    // SAFETY: it has no initializers.
    unsafe { Library::new(build.run()) }.map_err(|error| error.to_string())
}

fn here(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("native").join(file)
}

impl NativeCopier {
    fn new(peer: Peer, library: Library) -> Self {
        let library: &Library = Box::leak(Box::new(library));
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the type is that of `copies.h`.
                *unsafe { library.get($name) }.unwrap()
            };
        }
        let (hold, copy) = (function!(b"copies_hold"), function!(b"copies_copy"));
        Self { peer, hold, copy, sum: function!(b"copies_sum") }
    }

    fn hold(self, batch: &Batch) -> *mut c_void {
        let (mut schema, mut array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
        batch.schema().unwrap().export(&mut schema).unwrap();
        batch.export(&mut array).unwrap();
        // SAFETY: both keep to the interface, and are taken over.
        let held = unsafe { (self.hold)(&mut schema, &mut array) };
        assert!(!held.is_null());
        held
    }

    /// Copies a batch on the host.
    pub(super) fn case(self, what: WorkloadKey, batch: impl Fn() -> Batch + 'static) -> Case {
        let mut held = None;
        Case::whole(what, self.peer, move || {
            let held = *held.get_or_insert_with(|| self.hold(&batch()));
            // SAFETY: a batch of theirs.
            assert_eq!(unsafe { (self.copy)(held) }, 0);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::copies::integers;

    #[test]
    fn peers_copy_all_numbers() {
        let batch = integers(10, 100);
        for peer in all() {
            let (held, mut sum) = (peer.hold(&batch), 0);
            // SAFETY: a batch of theirs, and a number that may be written.
            assert_eq!(unsafe { (peer.sum)(held, &mut sum) }, 0);
            assert_eq!(sum, (0..1000).sum::<i64>(), "{}", peer.peer);
        }
    }
}
