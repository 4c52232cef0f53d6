//! Arrays: from C, for C, and their parts.

use std::ffi::{c_char, c_int};

use arrow_device::abi::{ArrowArray, ArrowDeviceArray};
use arrow_device::copy::Options;
use arrow_device::{Array, Batch, Error, ErrorKind, Queue, Ready, Result, validate};

use crate::call::{Out, free, get, invalid, null, run, write_text};
use crate::error::ArdevError;
use crate::queue::ArdevQueue;
use crate::schema::ArdevSchema;
use crate::sized::{self, OutGrows};

#[derive(Debug)]
pub struct ArdevArray(pub(crate) Array);

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArdevArrayInfo {
    pub struct_size: usize,
    pub length: i64,
    pub offset: i64,
    pub null_count: i64,
    pub n_buffers: usize,
    pub n_children: usize,
    pub n_buffers_in_all: usize,
    pub n_events: usize,
    pub device_id: i64,
    pub device_type: i32,
    pub has_dictionary: i32,
}

pub const ARDEV_COPY_SEPARATE: u32 = 1;
pub const ARDEV_COPY_WHOLE: u32 = 2;
pub const ARDEV_COPY_ALWAYS: u32 = 4;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArdevCopyOptions {
    pub struct_size: usize,
    pub alignment: u64,
    pub flags: u32,
    pub through: *const ArdevQueue,
}

/// A function that makes one array of another.
///
/// # Safety
/// The pointers keep to rules 1 and 2 of the header.
unsafe fn derive(
    array: *const ArdevArray,
    out: *mut *mut ArdevArray,
    error: *mut ArdevError,
    make: impl FnOnce(&Array) -> Result<Array>,
) -> c_int {
    let body = || {
        // SAFETY: rules 1 and 2 of the header, which the caller keeps.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rules 1 and 2 of the header, which the caller keeps.
        let array = unsafe { get(array, "array") }?;
        out.give(ArdevArray(make(&array.0)?))
    };
    // SAFETY: rules 1 and 2 of the header, which the caller keeps.
    unsafe { run(error, body) }
}

/// Releases a struct that cannot be imported for want of a schema.
///
/// # Safety
/// The struct is null, or as the Arrow C data interface has it (UNS-1, UNS-3).
unsafe fn discard(c_array: *mut ArrowArray) {
    // SAFETY: UNS-1 and UNS-3, which the caller promises.
    let Some(source) = (unsafe { c_array.as_mut() }) else { return };
    let mut moved = std::mem::replace(source, ArrowArray::empty());
    if let Some(release) = moved.release {
        // SAFETY: "the consumer MUST call a base structure's release callback when it won't be
        // using it anymore".
        unsafe { release(&raw mut moved) }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_import(
    c_array: *mut ArrowDeviceArray,
    schema: *const ArdevSchema,
    out: *mut *mut ArdevArray,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) };
        // SAFETY: rule 2 of the header.
        let Some(schema) = (unsafe { schema.as_ref() }) else {
            // The array is the first member.
            // SAFETY: rule 3 of the header.
            unsafe { discard(c_array.cast::<ArrowArray>()) };
            return Err(null("schema"));
        };
        // SAFETY: rule 3 of the header.
        let array = unsafe { Array::import(c_array, &schema.0) }?;
        out?.give(ArdevArray(array))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_import_host(
    c_array: *mut ArrowArray,
    schema: *const ArdevSchema,
    out: *mut *mut ArdevArray,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) };
        // SAFETY: rule 2 of the header.
        let Some(schema) = (unsafe { schema.as_ref() }) else {
            // SAFETY: rule 3 of the header.
            unsafe { discard(c_array) };
            return Err(null("schema"));
        };
        // SAFETY: rule 3 of the header.
        let array = unsafe { Array::import_host(c_array, &schema.0) }?;
        out?.give(ArdevArray(array))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_check(
    c_array: *const ArrowDeviceArray,
    schema: *const ArdevSchema,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: the header asks for a struct.
        let c_array = unsafe { get(c_array, "c_array") }?;
        // SAFETY: rule 2 of the header.
        match unsafe { schema.as_ref() } {
            // SAFETY: UNS-12: the header asks for a struct as the Arrow C device data interface has
            // it.
            Some(schema) => unsafe { validate::layout(c_array, &schema.0) },
            // SAFETY: UNS-12: the header asks for a struct as the Arrow C device data interface has
            // it.
            None => unsafe { validate::structure(c_array) }.map(|_| ()),
        }
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_export(
    array: *const ArdevArray,
    queue: *const ArdevQueue,
    out: *mut ArrowDeviceArray,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 3 of the header.
        let out = unsafe { Out::new(out, ArrowDeviceArray::empty(), "out") }?;
        // SAFETY: rule 2 of the header.
        let array = unsafe { get(array, "array") }?;
        let mut exported = ArrowDeviceArray::empty();
        // SAFETY: rule 2 of the header.
        match unsafe { queue.as_ref() } {
            Some(queue) => array.0.export_on(&queue.0, &mut exported)?,
            None => array.0.export(&mut exported)?,
        }
        out.put(exported)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_export_settled(
    array: *const ArdevArray,
    out: *mut ArrowDeviceArray,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 3 of the header.
        let out = unsafe { Out::new(out, ArrowDeviceArray::empty(), "out") }?;
        // SAFETY: rule 2 of the header.
        let array = unsafe { get(array, "array") }?;
        let mut exported = ArrowDeviceArray::empty();
        array.0.export_settled(&mut exported)?;
        out.put(exported)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_export_host(
    array: *const ArdevArray,
    out: *mut ArrowArray,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 3 of the header.
        let out = unsafe { Out::new(out, ArrowArray::empty(), "out") }?;
        // SAFETY: rule 2 of the header.
        let array = unsafe { get(array, "array") }?;
        let mut exported = ArrowArray::empty();
        array.0.export_host(&mut exported)?;
        out.put(exported)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_inspect(
    array: *const ArdevArray,
    out: *mut ArdevArrayInfo,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { OutGrows::new(out, "out") }?;
        // SAFETY: rule 2 of the header.
        let array = &unsafe { get(array, "array") }?.0;
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        out.put(ArdevArrayInfo {
            struct_size: 0,
            length: number(array.len()),
            offset: number(array.offset()),
            null_count: array.null_count().map_or(-1, number),
            n_buffers: array.buffer_count(),
            n_children: array.child_count(),
            n_buffers_in_all: buffers_in_all(array)?,
            n_events: match array.ready() {
                Ready::Now => 0,
                Ready::AfterEvents(events) => events,
                _ => 1,
            },
            device_id: array.device().id,
            device_type: array.device().device_type.0,
            has_dictionary: array.dictionary().is_some().into(),
        })
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

/// Schemas are not deeper than 64 levels.
fn buffers_in_all(array: &Array) -> Result<usize> {
    let children = (0..array.child_count()).map(|index| array.child(index));
    let below = children.chain(array.dictionary().map(Ok));
    below
        .map(|array| buffers_in_all(&array?))
        .try_fold(array.buffer_count(), |all, one| Ok(all + one?))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_schema(
    array: *const ArdevArray,
    out: *mut *mut ArdevSchema,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        out.give(ArdevSchema::new(unsafe { get(array, "array") }?.0.schema()?))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_describe(
    array: *const ArdevArray,
    text: *mut c_char,
    capacity: usize,
    size: *mut usize,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let array = unsafe { get(array, "array") };
        let words = || array.map(|array| array.0.describe());
        // SAFETY: the header asks for `capacity` bytes.
        unsafe { write_text(text, capacity, size, words) }
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_child(
    array: *const ArdevArray,
    index: usize,
    out: *mut *mut ArdevArray,
    error: *mut ArdevError,
) -> c_int {
    // SAFETY: rules 1 and 2 of the header.
    unsafe { derive(array, out, error, |array| array.child(index)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_dictionary(
    array: *const ArdevArray,
    out: *mut *mut ArdevArray,
    error: *mut ArdevError,
) -> c_int {
    let dictionary = |array: &Array| {
        let none = || invalid(format!("{} has no dictionary", array.data_type()));
        array.dictionary().ok_or_else(none)
    };
    // SAFETY: rules 1 and 2 of the header.
    unsafe { derive(array, out, error, dictionary) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_column(
    array: *const ArdevArray,
    index: usize,
    out: *mut *mut ArdevArray,
    error: *mut ArdevError,
) -> c_int {
    let column = |array: &Array| Batch::try_from(array.clone())?.column(index);
    // SAFETY: rules 1 and 2 of the header.
    unsafe { derive(array, out, error, column) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_slice(
    array: *const ArdevArray,
    offset: i64,
    length: i64,
    out: *mut *mut ArdevArray,
    error: *mut ArdevError,
) -> c_int {
    let slice = |array: &Array| match (usize::try_from(offset), usize::try_from(length)) {
        (Ok(offset), Ok(length)) => array.slice(offset, length),
        _ => Err(invalid(format!("there are no elements {offset}+{length}"))),
    };
    // SAFETY: rules 1 and 2 of the header.
    unsafe { derive(array, out, error, slice) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_is_ready(
    array: *const ArdevArray,
    out: *mut bool,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::new(out, false, "out") }?;
        // SAFETY: rule 2 of the header.
        out.put(unsafe { get(array, "array") }?.0.is_ready()?)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_wait(
    array: *const ArdevArray,
    error: *mut ArdevError,
) -> c_int {
    // SAFETY: rule 2 of the header.
    let body = || unsafe { get(array, "array") }?.0.wait();
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_validate(
    array: *const ArdevArray,
    queue: *const ArdevQueue,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let array = unsafe { get(array, "array") }?;
        // SAFETY: rule 2 of the header.
        match unsafe { queue.as_ref() } {
            Some(queue) => array.0.validate_on(&queue.0),
            None => array.0.validate(),
        }
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_copy(
    array: *const ArdevArray,
    queue: *const ArdevQueue,
    options: *const ArdevCopyOptions,
    out: *mut *mut ArdevArray,
    error: *mut ArdevError,
) -> c_int {
    let copy = |array: &Array| {
        // SAFETY: rule 2 of the header.
        let queue: Queue = unsafe { ArdevQueue::or_host(queue) };
        let options = if options.is_null() {
            Options::new()
        } else {
            // SAFETY: rule 6 of the header: the options are the caller's.
            let given = unsafe { sized::read(options, "options") }?;
            // SAFETY: the header says what the members of options are.
            unsafe { copy_options(&given) }?
        };
        array.copy_with(&queue, &options)
    };
    // SAFETY: rules 1 and 2 of the header.
    unsafe { derive(array, out, error, copy) }
}

/// # Safety
/// The options are what the header says.
unsafe fn copy_options(given: &ArdevCopyOptions) -> Result<Options> {
    let known = ARDEV_COPY_SEPARATE | ARDEV_COPY_WHOLE | ARDEV_COPY_ALWAYS;
    if given.flags & !known != 0 {
        let message =
            format!("`options.flags` is {:#x}, and no flag is above {known:#x}", given.flags);
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    }
    let has = |flag| given.flags & flag != 0;
    let options = Options::new()
        .alignment(given.alignment)
        .separate(has(ARDEV_COPY_SEPARATE))
        .trim(!has(ARDEV_COPY_WHOLE))
        .always(has(ARDEV_COPY_ALWAYS));
    // SAFETY: the options are what the header says, as the caller promises.
    Ok(match unsafe { given.through.as_ref() } {
        Some(queue) => options.through(&queue.0),
        None => options,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_free(array: *mut ArdevArray) {
    // SAFETY: rule 2 of the header.
    unsafe { free(array) }
}
