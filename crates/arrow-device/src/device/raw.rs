//! [`Raw`]: a handle of a runtime.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;

/// A raw handle of a runtime: a pointer, an opaque handle or an index, as that runtime has it.
///
/// `T` says what kind of thing the handle names and nothing else. Copying a `Raw` copies the
/// number, not the thing.
pub struct Raw<T> {
    handle: *mut c_void,
    names: PhantomData<fn() -> T>,
}

impl<T> Raw<T> {
    /// The null handle. Some runtimes have a default queue of this value.
    pub const NULL: Self = Self::from_ptr(std::ptr::null_mut());

    /// A handle that is a pointer.
    pub const fn from_ptr(handle: *mut c_void) -> Self {
        Self { handle, names: PhantomData }
    }

    /// A handle that is a number and not a pointer.
    pub const fn from_bits(bits: usize) -> Self {
        Self::from_ptr(std::ptr::without_provenance_mut(bits))
    }

    /// The handle as a pointer.
    pub const fn as_ptr(self) -> *mut c_void {
        self.handle
    }

    /// The handle as a number.
    pub fn bits(self) -> usize {
        self.handle.addr()
    }

    /// Whether this is the null handle.
    pub fn is_null(self) -> bool {
        self.handle.is_null()
    }
}

impl<T> Clone for Raw<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Raw<T> {}

impl<T> PartialEq for Raw<T> {
    fn eq(&self, other: &Self) -> bool {
        self.handle == other.handle
    }
}

impl<T> Eq for Raw<T> {}

impl<T> fmt::Debug for Raw<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.bits())
    }
}
