//! Owners of objects: one reference each, and pools for what methods return without one.

use std::ffi::c_void;
use std::ptr::NonNull;

use arrow_device::{Error, ErrorKind, Result};

use crate::api::{self, Api, Id};

/// One reference to an object.
pub(crate) struct Object {
    api: &'static Api,
    id: NonNull<c_void>,
}

// SAFETY: the objects of Metal that this crate keeps (devices, buffers, events, queues, committed
// command buffers) may be used on any thread, say Apple's guides; reference counts are atomic.
unsafe impl Send for Object {}
// SAFETY: the objects of Metal that this crate keeps may be used on several threads at once. One
// thread encodes and commits a command buffer; until then, other threads only ask for its status.
// Encoders are never kept.
unsafe impl Sync for Object {}

impl Object {
    /// Takes over a reference, such as methods whose names begin with `new` return.
    ///
    /// # Safety
    /// The pointer is null, or a reference of the caller's to an object that is alive.
    pub(crate) unsafe fn owned(api: &'static Api, id: Id) -> Option<Self> {
        NonNull::new(id).map(|id| Self { api, id })
    }

    /// Takes a reference of its own.
    ///
    /// # Safety
    /// The object is alive.
    pub(crate) unsafe fn retained(api: &'static Api, id: NonNull<c_void>) -> Self {
        // SAFETY: `- (id)retain` of an object that is alive, as the caller promises.
        unsafe { api.send::<Id>(id.as_ptr(), api.selectors.retain) };
        Self { api, id }
    }

    pub(crate) fn id(&self) -> Id {
        self.id.as_ptr()
    }

    pub(crate) fn pointer(&self) -> NonNull<c_void> {
        self.id
    }

    pub(crate) fn api(&self) -> &'static Api {
        self.api
    }
}

impl Clone for Object {
    fn clone(&self) -> Self {
        // SAFETY: the object is alive: this is a reference to it.
        unsafe { Self::retained(self.api, self.id) }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // DRV-8: no runtime is called in a child of `fork`.
        if api::enter().is_ok() {
            // The object may end now, and use others as it does.
            let _pool = Pool::new(self.api);
            // SAFETY: `- (void)release`; the reference is this owner's.
            unsafe { self.api.send::<()>(self.id.as_ptr(), self.api.selectors.release) };
        }
    }
}

/// A pool for what methods return without a reference, and for what they use meanwhile. Without a
/// pool such objects are never released. Whoever sends a message has a pool, except for `retain`.
/// Pools of a thread end in the reverse order of their beginning, so a pool is kept in a variable
/// of one function.
pub(crate) struct Pool {
    api: &'static Api,
    token: *mut c_void,
}

impl Pool {
    pub(crate) fn new(api: &'static Api) -> Self {
        // SAFETY: a pool may begin at any time.
        Self { api, token: unsafe { (api.push_pool)() } }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the pool is this thread's newest, because pools are variables of functions and
        // the raw pointer keeps them on their thread.
        unsafe { (self.api.pop_pool)(self.token) }
    }
}

/// The error for an object that Metal did not make.
pub(crate) fn not_made(what: &'static str) -> Error {
    Error::new(ErrorKind::OutOfMemory, format!("Metal made no {what}")).during("Metal")
}

/// # Safety
/// As [`Object::owned`] has it.
pub(crate) unsafe fn made(api: &'static Api, id: Id, what: &'static str) -> Result<Object> {
    // SAFETY: the reference is the caller's, as the caller promises.
    unsafe { Object::owned(api, id) }.ok_or_else(|| not_made(what))
}
