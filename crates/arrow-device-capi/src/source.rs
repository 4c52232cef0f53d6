//! A stream of arrays that a callback of the caller's gives.

use std::ffi::{c_int, c_void};

use arrow_device::{Array, ArrayStream, DeviceType, Result};

use crate::array::ArdevArray;
use crate::call::{Out, get, null, run};
use crate::context::{ArdevRelease, Context, told};
use crate::error::ArdevError;
use crate::schema::ArdevSchema;
use crate::sized;
use crate::stream::ArdevStream;

pub type ArdevNext = unsafe extern "C" fn(
    context: *mut c_void,
    out: *mut *mut ArdevArray,
    error: *mut ArdevError,
) -> c_int;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArdevSource {
    pub struct_size: usize,
    pub context: *mut c_void,
    pub next: Option<ArdevNext>,
    pub release: ArdevRelease,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_stream_new(
    schema: *const ArdevSchema,
    device_type: i32,
    source: *const ArdevSource,
    out: *mut *mut ArdevStream,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) };
        // SAFETY: the header asks for a source, which is read here.
        let given = unsafe { sized::read(source, "source") }?;
        let context = Context::new(given.context, given.release);
        let next = given.next.ok_or_else(|| null("source.next"))?;
        // SAFETY: rule 2 of the header.
        let schema = unsafe { get(schema, "schema") }?;
        let arrays = Arrays { context, next };
        let stream = ArrayStream::new(schema.0.clone(), DeviceType(device_type), arrays);
        out?.give(ArdevStream::new(stream))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

struct Arrays {
    context: Context,
    next: ArdevNext,
}

impl Iterator for Arrays {
    type Item = Result<Array>;

    fn next(&mut self) -> Option<Result<Array>> {
        let mut error = ArdevError::EMPTY;
        let mut out = std::ptr::null_mut();
        // SAFETY: the header asks for a function that can be called so, and `&mut self` keeps other
        // calls away.
        let code = unsafe { (self.next)(self.context.pointer, &raw mut out, &raw mut error) };
        let text = || match error.text() {
            text if text.is_empty() => format!("`next` returned {code}"),
            text => text,
        };
        if let Err(error) = told(code, text) {
            return Some(Err(error));
        }
        if out.is_null() {
            return None;
        }
        // SAFETY: the header asks for an array object, which is the stream's from now on.
        Some(Ok(unsafe { Box::from_raw(out) }.0))
    }
}
