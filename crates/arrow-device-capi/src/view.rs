//! Access to the data: for a queue, or for the host.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::ptr::NonNull;

use arrow_device::driver::Turns;
use arrow_device::{ErrorKind, Extent, HostArray, HostBytes, Result, View};

use crate::array::ArdevArray;
use crate::call::{Out, free, get, invalid, run};
use crate::error::ArdevError;
use crate::queue::ArdevQueue;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArdevPlace {
    pub base: *const c_void,
    pub offset: u64,
    pub size: i64,
}

impl ArdevPlace {
    pub(crate) const NOWHERE: Self = Self { base: std::ptr::null(), offset: 0, size: 0 };
}

#[derive(Debug)]
pub struct ArdevView(Access);

#[derive(Debug)]
enum Access {
    Queue(View),
    Host(HostView),
}

impl Access {
    fn buffer(&self, index: usize) -> Result<ArdevPlace> {
        match self {
            Self::Queue(view) => {
                check_index(index, view.root().buffer_count())?;
                let place = view.buffer(index);
                let (base, offset) = place.location().handle();
                if base.is_null() {
                    return Ok(ArdevPlace::NOWHERE);
                }
                Ok(ArdevPlace {
                    base: base.cast_const(),
                    offset,
                    size: size_of_extent(place.extent()),
                })
            }
            Self::Host(view) => {
                check_index(index, view.array().array().buffer_count())?;
                view.buffer(index)
            }
        }
    }
}

fn check_index(index: usize, count: usize) -> Result<()> {
    if index < count {
        return Ok(());
    }
    Err(invalid(format!("there are {count} buffers, and none is number {index}")))
}

fn size_of_extent(extent: Extent) -> i64 {
    match extent {
        Extent::Exact(size) | Extent::AtLeast(size) => i64::try_from(size).unwrap_or(i64::MAX),
        Extent::Unknown => -1,
    }
}

/// Buffers that are shown to the host from the first question on, until the end.
struct HostView {
    shown: Turns<BTreeMap<usize, HostBytes<'static>>>,
    /// Borrowed by what is shown, and so not in a box of its own.
    array: NonNull<HostArray>,
}

// SAFETY: both parts are `Send`; the pointer is that of a box that nobody else has.
unsafe impl Send for HostView {}
// SAFETY: both parts are `Sync`.
unsafe impl Sync for HostView {}

impl HostView {
    fn new(array: HostArray) -> Self {
        let array = NonNull::from(Box::leak(Box::new(array)));
        Self { shown: Turns::new(BTreeMap::new()), array }
    }

    fn array(&self) -> &HostArray {
        // SAFETY: the box is freed by `drop` alone.
        unsafe { self.array.as_ref() }
    }

    fn buffer(&self, index: usize) -> Result<ArdevPlace> {
        let mut shown = match self.shown.take_turn("the view") {
            Ok(turn) => Some(turn),
            // A child of `fork`, where a thread of the parent has the list for ever.
            Err(error) if error.kind() == ErrorKind::Unsupported => None,
            Err(error) => return Err(error),
        };
        let place = |bytes: &HostBytes<'_>| match bytes.len() {
            0 => ArdevPlace::NOWHERE,
            size => {
                let size = i64::try_from(size).unwrap_or(i64::MAX);
                ArdevPlace { base: bytes.as_ptr().cast(), offset: 0, size }
            }
        };
        if let Some(bytes) = shown.as_ref().and_then(|shown| shown.get(&index)) {
            return Ok(place(bytes));
        }
        // SAFETY: the box lives until `drop`, which ends what is shown first.
        let array: &'static HostArray = unsafe { self.array.as_ref() };
        let bytes = array.buffer(index)?;
        let found = place(&bytes);
        match &mut shown {
            Some(shown) => drop(shown.insert(index, bytes)),
            None => std::mem::forget(bytes),
        }
        Ok(found)
    }
}

impl Drop for HostView {
    fn drop(&mut self) {
        match self.shown.take_turn("the view") {
            Ok(mut shown) => shown.clear(),
            // A child of `fork`, where a thread of the parent has the list for ever. What is in the
            // list is never used again.
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            // A call of this thread goes on, which the header forbids.
            Err(_) => return,
        }
        // SAFETY: made by `Box::leak` in `new`; nothing that is shown is left.
        drop(unsafe { Box::from_raw(self.array.as_ptr()) });
    }
}

impl fmt::Debug for HostView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostView({:?})", self.array())
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_view_open(
    array: *const ArdevArray,
    queue: *const ArdevQueue,
    out: *mut *mut ArdevView,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        let array = unsafe { get(array, "array") }?;
        // SAFETY: rule 2 of the header.
        let access = match unsafe { queue.as_ref() } {
            Some(queue) => Access::Queue(array.0.on(&queue.0)?),
            None => Access::Host(HostView::new(array.0.host()?)),
        };
        out.give(ArdevView(access))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_view_buffer(
    view: *const ArdevView,
    index: usize,
    out: *mut ArdevPlace,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::new(out, ArdevPlace::NOWHERE, "out") }?;
        // SAFETY: rule 2 of the header.
        out.put(unsafe { get(view, "view") }?.0.buffer(index)?)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_view_free(view: *mut ArdevView) {
    // SAFETY: rule 2 of the header.
    unsafe { free(view) }
}
