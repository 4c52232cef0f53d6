//! Putting an array together.

use std::ffi::c_int;

use arrow_device::{Array, Buffer, Result};

use crate::array::ArdevArray;
use crate::buffer::ArdevBuffer;
use crate::call::{Out, get, invalid, run, values};
use crate::error::ArdevError;
use crate::queue::{ArdevEvent, ArdevQueue};
use crate::schema::ArdevSchema;
use crate::sized;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArdevParts {
    pub struct_size: usize,
    pub schema: *const ArdevSchema,
    pub length: i64,
    pub offset: i64,
    pub null_count: i64,
    pub buffers: *const *mut ArdevBuffer,
    pub n_buffers: usize,
    pub children: *const *const ArdevArray,
    pub n_children: usize,
    pub dictionary: *const ArdevArray,
    pub queue: *const ArdevQueue,
    pub event: *const ArdevEvent,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_build(
    parts: *const ArdevParts,
    out: *mut *mut ArdevArray,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 6 of the header: the parts are null, or the caller's.
        let parts = unsafe { sized::read(parts, "parts") }?;
        // SAFETY: the header says what the members of parts are: their tables are null or have as
        // many entries as their counts say.
        out.give(ArdevArray(unsafe { build(&parts) }?))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

/// # Safety
/// The parts are what the header says.
unsafe fn build(parts: &ArdevParts) -> Result<Array> {
    // SAFETY: the parts are what the header says, as the caller promises.
    let schema = unsafe { get(parts.schema, "parts.schema") }?;
    // SAFETY: the parts are what the header says, as the caller promises.
    let buffers = unsafe { buffers(parts) }?;
    // SAFETY: the parts are what the header says, as the caller promises.
    let children = unsafe { children(parts) }?;
    // SAFETY: the parts are what the header says, as the caller promises.
    let dictionary = unsafe { parts.dictionary.as_ref() }.map(|array| array.0.clone());
    // SAFETY: the parts are what the header says, as the caller promises.
    let queue = unsafe { parts.queue.as_ref() }.map(|queue| &queue.0);
    // SAFETY: the parts are what the header says, as the caller promises.
    let event = unsafe { parts.event.as_ref() }.map(|event| &event.0);

    let count = |number: i64, name: &str| {
        usize::try_from(number).map_err(|_| invalid(format!("`parts.{name}` is {number}")))
    };
    let mut builder = Array::builder(&schema.0)
        .len(count(parts.length, "length")?)
        .offset(count(parts.offset, "offset")?);
    if parts.null_count != -1 {
        builder = builder.null_count(count(parts.null_count, "null_count")?);
    }
    let has_memory = buffers.iter().flatten().any(|buffer| !buffer.is_null());
    let device = queue.map(|queue| queue.device().id()).or(event.map(|event| event.device().id()));
    if let Some(device) =
        device.filter(|_| !has_memory && children.is_empty() && dictionary.is_none())
    {
        builder = builder.device(device);
    }
    builder = builder.buffers(buffers).children(children);
    if let Some(dictionary) = dictionary {
        builder = builder.dictionary(dictionary);
    }
    match (queue, event) {
        (None, None) => builder.finish_ready(),
        (Some(queue), None) => builder.finish_on(queue),
        (None, Some(event)) => {
            // SAFETY: the header asks for an event behind all work that writes the buffers.
            unsafe { builder.finish_after(event.clone()) }
        }
        (Some(_), Some(_)) => Err(invalid("`parts` has a queue and an event: name one")),
    }
}

/// # Safety
/// The parts are what the header says.
unsafe fn buffers(parts: &ArdevParts) -> Result<Vec<Option<Buffer>>> {
    // SAFETY: the parts are what the header says, as the caller promises.
    let buffers = unsafe { values(parts.buffers, parts.n_buffers, "parts.buffers") }?;
    let share = |buffer: &*mut ArdevBuffer| {
        // SAFETY: the parts are what the header says, as the caller promises.
        unsafe { buffer.as_ref() }.map(ArdevBuffer::share).transpose()
    };
    buffers.iter().map(share).collect()
}

/// # Safety
/// The parts are what the header says.
unsafe fn children(parts: &ArdevParts) -> Result<Vec<Array>> {
    // SAFETY: the parts are what the header says, as the caller promises.
    let children = unsafe { values(parts.children, parts.n_children, "parts.children") }?;
    // SAFETY: the parts are what the header says, as the caller promises.
    let array =
        |child: &*const ArdevArray| unsafe { get(*child, "a child") }.map(|it| it.0.clone());
    children.iter().map(array).collect()
}
