//! Owners of OpenCL objects that a driver keeps for itself: a reference to a context, and a queue.

use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use arrow_device::Result;

use crate::api::{Api, Handle};
use crate::error::check;

/// One reference to a context.
pub(crate) struct Context {
    api: &'static Api,
    handle: Handle,
}

/// A context that this crate made.
#[derive(Clone, Copy)]
struct Own {
    device: Handle,
    context: Handle,
}

// SAFETY: OpenCL's handles may be used on any thread ("All OpenCL API calls are thread-safe except
// those that modify the state of cl_kernel objects").
unsafe impl Send for Own {}

/// The contexts that this crate made, one for each device that was opened, kept until the process
/// ends. All who open a device get the same context.
static OWN: Mutex<Vec<Own>> = Mutex::new(Vec::new());

impl Context {
    /// Returns this crate's context for a device.
    pub(crate) fn of_device(api: &'static Api, device: Handle) -> Result<Self> {
        let find = || {
            let known = OWN.lock().unwrap_or_else(PoisonError::into_inner);
            known.iter().find(|own| own.device == device).map(|own| own.context)
        };
        if let Some(context) = find() {
            // SAFETY: the list keeps a reference to it.
            return unsafe { Self::retain(api, context) };
        }
        let mut code = 0;
        // SAFETY: one device, no properties, no callback.
        let handle = unsafe {
            (api.create_context)(
                ptr::null(),
                1,
                &device,
                ptr::null::<c_void>(),
                ptr::null_mut(),
                &mut code,
            )
        };
        check(code, "create a context")?;
        let made = Self { api, handle };
        let context = {
            let mut known = OWN.lock().unwrap_or_else(PoisonError::into_inner);
            match known.iter().find(|own| own.device == device) {
                // Another thread has made the context meanwhile.
                Some(own) => own.context,
                None => {
                    known.push(Own { device, context: handle });
                    handle
                }
            }
        };
        if context == handle {
            // The list keeps the reference that creating the context gave. The result gets another
            // one.
            std::mem::forget(made);
        }
        // SAFETY: the list keeps a reference to it.
        unsafe { Self::retain(api, context) }
    }

    /// # Safety
    /// The context is alive.
    pub(crate) unsafe fn retain(api: &'static Api, handle: Handle) -> Result<Self> {
        // SAFETY: the context is alive, as the caller promises.
        check(unsafe { (api.retain_context)(handle) }, "retain the context")?;
        Ok(Self { api, handle })
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the reference is this owner's. There is nobody to tell an error to.
        let _ = unsafe { (self.api.release_context)(self.handle) };
    }
}

// SAFETY: OpenCL's handles may be used on any thread ("All OpenCL API calls are thread-safe except
// those that modify the state of cl_kernel objects").
unsafe impl Send for Context {}
// SAFETY: OpenCL's handles may be used on several threads at once ("All OpenCL API calls are
// thread-safe except those that modify the state of cl_kernel objects"), and nothing here is
// changed.
unsafe impl Sync for Context {}

/// An in-order queue that a driver owns.
pub(crate) struct OwnQueue {
    api: &'static Api,
    handle: Handle,
}

impl OwnQueue {
    /// # Safety
    /// The context is alive and the device is one of its.
    pub(crate) unsafe fn open(api: &'static Api, context: Handle, device: Handle) -> Result<Self> {
        let mut code = 0;
        // SAFETY: the context is alive and the device is one of its, as the caller promises;
        // without properties a queue is in order.
        let handle = unsafe { (api.create_queue)(context, device, 0, &mut code) };
        check(code, "open a queue").map(|()| Self { api, handle })
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// Gives the reference to the queue to the caller.
    pub(crate) fn into_handle(self) -> Handle {
        let handle = self.handle;
        std::mem::forget(self);
        handle
    }
}

impl Drop for OwnQueue {
    fn drop(&mut self) {
        // SAFETY: the reference is this owner's.
        let _ = unsafe { (self.api.release_queue)(self.handle) };
    }
}

// SAFETY: OpenCL's handles may be used on any thread ("All OpenCL API calls are thread-safe except
// those that modify the state of cl_kernel objects").
unsafe impl Send for OwnQueue {}
// SAFETY: OpenCL's handles may be used on several threads at once ("All OpenCL API calls are
// thread-safe except those that modify the state of cl_kernel objects"), and nothing here is
// changed.
unsafe impl Sync for OwnQueue {}
