//! Reading an `ArrowDeviceArray`.
//!
//! The base structure is moved in and kept whole, behind one owner that releases it once. The structs below it stay where they
//! are and are the table of nodes; [`check`](super::check) looks at each of them once. No buffer is read, nothing is waited for,
//! and no driver is called.

use std::ffi::c_void;
use std::ptr;

use super::Array;
use super::check::{Checked, check};
use super::tree::{ForeignArray, Storage, Structs, Tree};
use crate::abi::{ArrowArray, ArrowDeviceArray};
use crate::exchange::shared::Place;
use crate::pending;
use crate::schema::Schema;
use crate::{DeviceId, DeviceType, Error, ErrorKind, Result};

impl Array {
    /// Takes an array over from the producer that filled the struct.
    ///
    /// The struct is moved: the source is marked released, whatever the outcome, and the producer's `release` is called once,
    /// when the last use of the data is over, or before this returns an error.
    ///
    /// Everything that can be checked without a device is checked, for every node: see the errors below. Nothing is read
    /// through a buffer pointer, and nothing is waited for.
    ///
    /// # Errors
    /// * [`Released`](ErrorKind::Released): the struct, or one inside it, is released.
    /// * [`Malformed`](ErrorKind::Malformed): a negative or overflowing length or offset, a null count out of range, a missing
    ///   table or buffer, an event on a device that has none.
    /// * [`SchemaMismatch`](ErrorKind::SchemaMismatch): other numbers of buffers or children than the type has.
    ///
    /// # Safety
    /// `array` is null, or points to a struct that may be read and written and that holds what the Arrow C device interface
    /// says: either it is released, or
    ///
    /// * every pointer that is not null points to what the interface describes: `buffers` to `n_buffers` entries, `children`
    ///   to `n_children`, each null or a struct of the same kind; these tables and structs stay, and nobody else writes to them,
    ///   until the release,
    /// * buffers that are not null lie on the device that is named and cover `offset + length` elements once `sync_event` has
    ///   passed, and are not written to until the release,
    /// * `sync_event` is null or what the convention of the device's type says (see [`convention`](crate::convention)), until the release,
    /// * `release` can be called once, on any thread.
    ///
    /// Everything that the errors name need not be ruled out.
    pub unsafe fn import(array: *mut ArrowDeviceArray, schema: &Schema) -> Result<Self> {
        // SAFETY: as promised by the caller.
        let Some(source) = (unsafe { array.as_mut() }) else {
            return Err(
                Error::new(ErrorKind::InvalidArgument, "no array: a null pointer").during("import")
            );
        };
        let ArrowDeviceArray { device_id, device_type, sync_event, .. } = *source;
        let device = DeviceId::new(DeviceType(device_type), device_id);
        // SAFETY: as promised by the caller. (`reserved` is not looked at: shipped producers leave garbage there.)
        unsafe { import(&mut source.array, device, sync_event, schema) }
    }

    /// Takes over a plain `ArrowArray`, which lies in host memory and is ready.
    ///
    /// # Safety
    /// As for [`import`](Self::import), with the buffers in host memory.
    pub unsafe fn import_host(array: *mut ArrowArray, schema: &Schema) -> Result<Self> {
        // SAFETY: as promised by the caller.
        let Some(source) = (unsafe { array.as_mut() }) else {
            return Err(
                Error::new(ErrorKind::InvalidArgument, "no array: a null pointer").during("import")
            );
        };
        // SAFETY: as promised by the caller.
        unsafe { import(source, DeviceId::CPU, ptr::null_mut(), schema) }
    }
}

/// Moves a base structure out: "the consumer can *move* the structure by bitwise copying", and then the source "MUST" be
/// marked as released.
#[inline(always)]
fn take(source: &mut ArrowArray) -> ForeignArray {
    let moved = ArrowArray { ..*source };
    source.release = None;
    ForeignArray(moved)
}

/// # Safety
/// As for [`Array::import`].
#[inline(always)]
unsafe fn import(
    source: &mut ArrowArray,
    device: DeviceId,
    sync_event: *mut c_void,
    schema: &Schema,
) -> Result<Array> {
    // SAFETY: as promised by the caller.
    let checked = unsafe { check(source, device, sync_event, schema) };
    // The memory is there before the struct is moved, so that it is moved once.
    let (Checked { ready, below }, place) = match checked.and_then(with_place) {
        Ok(found) => found,
        Err(error) => {
            drop(take(source));
            return Err(error.during("import"));
        }
    };
    // SAFETY: that is what was checked; the caller vouches for the rest.
    let structs = unsafe { Structs::new(take(source), below) };
    let tree = place.fill(Tree::new(schema.clone(), device, ready, Storage::Foreign(structs)));
    tree.count_as_imported();
    pending::tick();
    Ok(Array::from_tree(tree))
}

#[inline(always)]
fn with_place(checked: Checked) -> Result<(Checked, Place<Tree>)> {
    Ok((checked, Place::new()?))
}
