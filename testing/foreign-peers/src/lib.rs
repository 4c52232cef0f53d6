//! Other implementations of Arrow, as C functions that the tests of this crate call.
//!
//! * [`arrow_cpp`] is Arrow C++ as the `pyarrow` wheel has it: `cpp/` is compiled against the
//!   wheel's headers, linked to its library, and loaded.
//! * [`arrow_rs`] is arrow-rs, a crate like any other, by its own C interface and not by
//!   `arrow-device-arrow`.
//! * [`nanoarrow`] is nanoarrow's C library from its source distribution, compiled together with
//!   `c/`.
//! * [`build`] finds what `cargo xtask test --setup` installed, compiles, and keeps what it built.
//! * [`table`] holds `docs/peers.md` to what the tests found.
//!
//! Versions are in `requirements.txt` and `sources.txt`, and for arrow-rs in the workspace's
//! `Cargo.lock`. Nothing of a peer is kept in the repository.
//!
//! # Another peer
//!
//! Its name and version go into one of the two files, a module like [`nanoarrow`] compiles and
//! loads it, and its tests write their own lines of the table.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "it is run by tests, and a test that goes wrong ends there"
)]

pub mod arrow_cpp;
pub mod arrow_rs;
pub mod build;
pub mod nanoarrow;
pub mod table;

use std::ffi::{CStr, c_char, c_int};

use arrow_device::Array;
use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};

/// What a function of a peer returned, with its own words where it failed.
pub type Said = Result<(), String>;

/// A function of a peer that takes a schema and an array over, and fills two others.
pub(crate) type FourStructs = unsafe extern "C" fn(
    *mut ArrowSchema,
    *mut ArrowDeviceArray,
    *mut ArrowSchema,
    *mut ArrowDeviceArray,
) -> c_int;

/// A schema and an array as C structs. What nobody took over is released when they go.
#[derive(Debug)]
pub struct Structs {
    /// The schema.
    pub schema: ArrowSchema,
    /// The array.
    pub array: ArrowDeviceArray,
}

impl Structs {
    /// Released ones, whose reserved members hold garbage.
    pub fn empty() -> Self {
        let array = ArrowDeviceArray { reserved: [-1; 3], ..ArrowDeviceArray::empty() };
        Self { schema: ArrowSchema::empty(), array }
    }

    /// What the library exports for an array, its event included.
    ///
    /// # Errors
    /// What the library has against it.
    pub fn of(array: &Array) -> arrow_device::Result<Self> {
        let mut structs = Self::empty();
        array.schema()?.export(&mut structs.schema)?;
        array.export(&mut structs.array)?;
        Ok(structs)
    }

    /// The same after waiting, without an event.
    ///
    /// # Errors
    /// What the library has against it.
    pub fn settled(array: &Array) -> arrow_device::Result<Self> {
        let mut structs = Self::empty();
        array.schema()?.export(&mut structs.schema)?;
        array.export_settled(&mut structs.array)?;
        Ok(structs)
    }
}

impl Drop for Structs {
    fn drop(&mut self) {
        if let Some(release) = self.array.array.release {
            // SAFETY: not released, and nobody else's.
            unsafe { release(&mut self.array.array) };
        }
        if let Some(release) = self.schema.release {
            // SAFETY: not released, and nobody else's.
            unsafe { release(&mut self.schema) };
        }
    }
}

/// Reads the text of a peer.
///
/// # Safety
/// A string of C that stays as it is until this returns.
unsafe fn text(text: *const c_char) -> String {
    // SAFETY: a string of C that stays as it is until this returns, as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
