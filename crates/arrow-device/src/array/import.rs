//! Takes over an `ArrowDeviceArray`.
//!
//! 1. [`check`](super::check) looks at every struct. A struct that is refused is released at once.
//! 2. The origin of the memory is found. Memory on a device counts as new when it is imported.
//!    Structs that this library itself exported as memory of that device are the exception: their
//!    memory has the origin of the exported tree.
//! 3. The base struct is moved to its place in a new tree ([`Structs`]), which releases it once.
//!    The structs below stay where the producer put them, and are the table of nodes.
//!
//! No buffer is read, nothing is waited for, and no driver is asked about the array. At the end, an
//! import may ask drivers whether older memory that is held back can be released
//! (`deferred::tick`).

use std::ffi::c_void;
use std::ptr;

use super::Array;
use super::check::check;
use super::origin::origin_of;
use super::readiness::ReadyWhen;
use super::structs::{ForeignArray, Structs, StructsBelow};
use super::tree::{MemoryOrigin, Storage, Tree};
use crate::abi::{ArrowArray, ArrowDeviceArray};
use crate::device::deferred;
use crate::pool::shared::Vacancy;
use crate::schema::{Check, Schema};
use crate::trace::told;
use crate::{DeviceId, DeviceType, Error, ErrorKind, Result};

impl Array {
    /// Takes an array over from the producer that filled the struct.
    ///
    /// The struct is moved: the source is marked released, whatever the outcome, and the producer's
    /// `release` is called once, when the last use of the data is over, or before this returns an
    /// error.
    ///
    /// Everything that can be checked without a device is checked, for every node: see the errors
    /// below. Nothing is read through a buffer pointer, and nothing is waited for.
    ///
    /// # Errors
    /// * [`Released`](ErrorKind::Released): the struct, or one inside it, is released.
    /// * [`Malformed`](ErrorKind::Malformed): a negative or overflowing length or offset, a null
    ///   count out of range, a missing table or buffer, an event on a device that has none.
    /// * [`SchemaMismatch`](ErrorKind::SchemaMismatch): other numbers of buffers or children than
    ///   the type has.
    ///
    /// # Safety
    /// `array` is null, or points to a struct that may be read and written and that holds what the
    /// Arrow C device interface says (UNS-1): either it is released, or
    ///
    /// * every pointer that is not null points to what the interface describes: `buffers` to
    ///   `n_buffers` entries, `children` to `n_children`, each null or a struct of the same kind;
    ///   these tables and structs stay, and nobody else writes to them, until the release (UNS-3),
    /// * buffers that are not null lie on the device that is named and cover `offset + length`
    ///   elements once `sync_event` has passed, and are not written to until the release (UNS-4),
    /// * `sync_event` is null or what the convention of the device's type says (see
    ///   [`convention`](crate::convention)), until the release (UNS-5),
    /// * `release` can be called once, on any thread (UNS-6).
    ///
    /// The caller need not rule out what is listed under the errors.
    pub unsafe fn import(array: *mut ArrowDeviceArray, schema: &Schema) -> Result<Self> {
        // SAFETY: UNS-1, which the caller promises.
        let Some(source) = (unsafe { array.as_mut() }) else {
            return Err(
                Error::new(ErrorKind::InvalidArgument, "no array: a null pointer").during("import")
            );
        };
        let ArrowDeviceArray { device_id, device_type, sync_event, .. } = *source;
        let device = DeviceId::new(DeviceType(device_type), device_id);
        // SAFETY: UNS-3 to UNS-6, which the caller promises. (`reserved` is not looked at: shipped
        // producers leave garbage there.)
        unsafe { import(&mut source.array, device, sync_event, schema) }
    }

    /// Takes over a plain `ArrowArray`, which lies in host memory and is ready.
    ///
    /// # Safety
    /// UNS-1, UNS-3 and UNS-6, as [`import`](Self::import) has them, and UNS-7: the buffers lie in
    /// host memory, cover `offset + length` elements, can be read from now on, and are not written
    /// to until the release.
    pub unsafe fn import_host(array: *mut ArrowArray, schema: &Schema) -> Result<Self> {
        // SAFETY: UNS-1, which the caller promises.
        let Some(source) = (unsafe { array.as_mut() }) else {
            return Err(
                Error::new(ErrorKind::InvalidArgument, "no array: a null pointer").during("import")
            );
        };
        // SAFETY: UNS-3, UNS-6 and UNS-7, which the caller promises; without an event UNS-5 asks
        // for nothing.
        unsafe { import(source, DeviceId::CPU, ptr::null_mut(), schema) }
    }

    /// [`import_host`](Self::import_host) of a struct that the caller wrote itself. Where the
    /// schema is a row of columns without children, the structs of the columns are not checked.
    /// Builds with debug assertions check them.
    ///
    /// ```
    /// use arrow_device::abi::ArrowArray;
    /// use arrow_device::{Array, Batch, DataType};
    ///
    /// let numbers = Array::from_values(DataType::Int64, [Some(1_i64), None])?;
    /// let batch = Batch::from_columns([("n", numbers)])?;
    /// let mut c_array = ArrowArray::empty();
    /// batch.as_array().export_host(&mut c_array)?;
    /// // What this library exports keeps to all rules.
    /// let again =
    ///     unsafe { Array::import_host_unchecked(&raw mut c_array, &batch.schema()?) }?;
    /// assert!(again.equals(batch.as_array())?);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    ///
    /// # Safety
    /// The obligations of [`import_host`](Self::import_host), and UNS-8: `import_host`
    /// would find nothing wrong, and the pointer is not null.
    pub unsafe fn import_host_unchecked(array: *mut ArrowArray, schema: &Schema) -> Result<Self> {
        let is_row = schema.checks().first().is_some_and(Check::has_simple_columns);
        if !is_row {
            // SAFETY: UNS-1, UNS-3, UNS-6 and UNS-7, which the caller promises.
            return unsafe { Self::import_host(array, schema) };
        }
        // SAFETY: UNS-1 and UNS-8, which the caller promises: `import_host` would refuse a null
        // pointer.
        let source = unsafe { &mut *array };
        debug_assert!(
            // SAFETY: UNS-3, which the caller promises; without an event UNS-5 asks for nothing.
            unsafe { check(source, DeviceId::CPU, ptr::null_mut(), schema) }.is_ok(),
            "the caller promised that nothing is wrong"
        );
        // SAFETY: UNS-8, which the caller promises: `import_host` looks at the root and at each of
        // its children, and finds that they keep to their rules. Nothing is below these. UNS-3,
        // UNS-6 and UNS-7 are promised, too.
        unsafe { moved(source, StructsBelow::Children, DeviceId::CPU, ptr::null_mut(), schema) }
    }
}

/// Moves a base structure out of the producer's struct: "the consumer can *move* the structure by
/// bitwise copying". The source "MUST" then be marked as released.
#[inline(always)]
fn take(source: &mut ArrowArray) -> ForeignArray {
    let moved = ArrowArray { ..*source };
    source.release = None;
    ForeignArray(moved)
}

/// # Safety
/// UNS-3 to UNS-6, for the struct and the event.
#[inline(always)]
unsafe fn import(
    source: &mut ArrowArray,
    device: DeviceId,
    sync_event: *mut c_void,
    schema: &Schema,
) -> Result<Array> {
    // SAFETY: UNS-3 and UNS-5, which the caller promises.
    match unsafe { check(source, device, sync_event, schema) } {
        // SAFETY: the struct was checked just now, and keeps UNS-3 to UNS-6, as the caller
        // promises.
        Ok(below) => unsafe { moved(source, below, device, sync_event, schema) },
        Err(error) => Err(refused(source, error)),
    }
}

/// Releases a struct that was refused.
#[cold]
fn refused(source: &mut ArrowArray, error: Error) -> Error {
    drop(take(source));
    error.during("import")
}

/// The array of a struct that was checked. Moves the struct to its place in the tree.
///
/// # Safety
/// The obligations of [`Structs::new`], and UNS-5.
#[inline(always)]
unsafe fn moved(
    source: &mut ArrowArray,
    below: StructsBelow,
    device: DeviceId,
    sync_event: *mut c_void,
    schema: &Schema,
) -> Result<Array> {
    told!(device = %device, len = source.length, "import");
    if device.device_type != DeviceType::CPU {
        // SAFETY: the struct keeps UNS-6, as the caller promises.
        let known = unsafe { origin_of(source, device) };
        if let Some(origin) = known {
            // SAFETY: the caller's promise.
            return unsafe { came_back(source, below, origin, sync_event, schema) };
        }
    }
    let origin = MemoryOrigin::new_on(device);
    // SAFETY: the caller's promise.
    unsafe { placed(source, below, origin, sync_event, schema) }
}

/// [`moved`], of a struct that was exported here and came back. Another party may have put its own
/// event there. Where the array has no memory, the origin of the struct says nothing of that event.
///
/// # Safety
/// The obligations of [`moved`].
#[cold]
#[inline(never)]
unsafe fn came_back(
    source: &mut ArrowArray,
    below: StructsBelow,
    origin: MemoryOrigin,
    sync_event: *mut c_void,
    schema: &Schema,
) -> Result<Array> {
    // SAFETY: the struct was checked, as the caller promises (UNS-3).
    let is_event_alone = !sync_event.is_null() && !unsafe { has_memory(source, &below, schema) };
    let origin = if is_event_alone { origin.without_moment() } else { origin };
    // SAFETY: the caller's promise.
    unsafe { placed(source, below, origin, sync_event, schema) }
}

/// The array of a struct that was checked, whose memory has this origin.
///
/// # Safety
/// The obligations of [`moved`].
#[inline(always)]
unsafe fn placed(
    source: &mut ArrowArray,
    below: StructsBelow,
    origin: MemoryOrigin,
    sync_event: *mut c_void,
    schema: &Schema,
) -> Result<Array> {
    let place = match Vacancy::new() {
        Ok(place) => place,
        Err(error) => return Err(refused(source, error)),
    };
    // Everything that reads the struct or changes a count comes first, so that the compiler can
    // move the struct to its place in one step.
    let schema = schema.clone();
    let root = Structs::root(source, schema.checks());
    let ready = ReadyWhen::foreign(sync_event);
    // SAFETY: the struct was checked, as the caller promises, and its tables stay until the release
    // (UNS-3).
    let structs = unsafe { Structs::new(take(source), below) };
    let tree = place.fill(Tree::of_origin(schema, origin, ready, Storage::Foreign(structs)));
    tree.count_as_imported();
    deferred::tick();
    Ok(Array::of_root(tree, root))
}

/// Whether a struct that was checked has a buffer in memory of its device.
///
/// # Safety
/// UNS-3; `below` leads to the structs of the nodes from 1 on, and each keeps to its rule.
#[cold]
unsafe fn has_memory(base: &ArrowArray, below: &StructsBelow, schema: &Schema) -> bool {
    // SAFETY: the base keeps to its rule, as the caller promises.
    let below = unsafe { below.of(base) };
    let structs = std::iter::once(ptr::from_ref(base)).chain(below.iter().copied());
    structs.zip(schema.nodes()).any(|(source, node)| {
        // SAFETY: UNS-3, which the caller promises: each entry is a struct.
        let source = unsafe { &*source };
        // The sizes of views come behind these buffers, and lie on the host.
        (0..node.layout.buffers().len()).any(|index| {
            // SAFETY: a node that keeps to its rule has so many buffers at least.
            let buffer = unsafe { source.buffers.wrapping_add(index).read() };
            !buffer.is_null()
        })
    })
}
