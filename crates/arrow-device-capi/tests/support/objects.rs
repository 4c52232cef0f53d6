//! What several tests make: arrays of a few numbers, and what they are put together from.
#![allow(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::Result;
use arrow_device_capi::*;

use super::face::{Owned, call, made};

/// Three numbers from this one on.
pub(crate) fn numbers(first: i64) -> Owned {
    let values = [first, first + 1, first + 2];
    let buffer = made(|out, error| unsafe {
        ardev_buffer_copy(ptr::null(), values.as_ptr().cast(), 24, out, error)
    })
    .unwrap();
    let schema = int64();
    let buffers = [ptr::null_mut(), buffer];
    let parts = ArdevParts { buffers: buffers.as_ptr(), n_buffers: 2, ..parts(schema, 3) };
    let array = made(|out, error| unsafe { ardev_array_build(&parts, out, error) }).unwrap();
    unsafe { ardev_buffer_free(buffer) };
    unsafe { ardev_schema_free(schema) };
    Owned(array)
}

pub(crate) fn int64() -> *mut ArdevSchema {
    made(|out, error| unsafe {
        ardev_schema_new(c"l".as_ptr(), ptr::null(), 2, ptr::null(), 0, ptr::null(), out, error)
    })
    .unwrap()
}

pub(crate) fn parts(schema: *const ArdevSchema, length: i64) -> ArdevParts {
    ArdevParts { schema, length, ..ArdevParts::default() }
}

/// A copy, for the queue's order or by way of it.
pub(crate) fn copy(
    array: &Owned,
    queue: *const ArdevQueue,
    through: *const ArdevQueue,
) -> Result<Owned> {
    let options = ArdevCopyOptions { through, ..ArdevCopyOptions::default() };
    made(|out, error| unsafe { ardev_array_copy(array.0, queue, &options, out, error) }).map(Owned)
}

/// The numbers of an array without an offset on the host.
pub(crate) fn values_of(array: &Owned) -> Vec<i64> {
    let view = made(|out, error| unsafe { ardev_view_open(array.0, ptr::null(), out, error) });
    let (view, mut place) = (view.unwrap(), ArdevPlace { base: ptr::null(), offset: 0, size: 0 });
    call(|error| unsafe { ardev_view_buffer(view, 1, &mut place, error) }).unwrap();
    let len = usize::try_from(place.size).unwrap() / size_of::<i64>();
    let values = unsafe { std::slice::from_raw_parts(place.base.cast::<i64>(), len) }.to_vec();
    unsafe { ardev_view_free(view) };
    values
}

/// How often the application was told that something of its own is not needed any more.
#[derive(Debug)]
pub(crate) struct Ends(AtomicUsize);

impl Ends {
    pub(crate) const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    pub(crate) fn context(&'static self) -> *mut c_void {
        (&raw const self.0).cast_mut().cast()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// The end of a context of [`Ends`].
pub(crate) const END: ArdevRelease = Some(count_end);

unsafe extern "C" fn count_end(context: *mut c_void) {
    unsafe { &*context.cast::<AtomicUsize>() }.fetch_add(1, Ordering::SeqCst);
}
