//! What an application gives to [`open_from`](crate::open_from).

use std::any::Any;
use std::ffi::{CStr, OsString, c_void};
use std::fmt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// The owner that keeps the handles alive.
pub(crate) type Owner = Arc<dyn Any + Send + Sync>;

/// Finds a function by its name.
type Find = dyn Fn(&CStr) -> Option<NonNull<c_void>> + Send + Sync;

/// The WebGPU library that made an application's handles.
#[derive(Clone)]
pub(crate) enum Functions {
    /// The library that this crate loads by itself.
    OfThisCrate,
    OfLibrary(OsString),
    ByName(Arc<Find>),
}

/// A device of the application with its queue, and the WebGPU library that made both.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::AtomicBool;
///
/// use arrow_device_webgpu::Handles;
///
/// # use std::{ffi::c_void, ptr::NonNull};
/// # let (device, queue) = (NonNull::<c_void>::dangling(), NonNull::<c_void>::dangling());
/// // Set by the application's `WGPUDeviceLostCallback`.
/// let is_lost = Arc::new(AtomicBool::new(false));
/// let handles = Handles::new(device, queue)
///     .with_library("/opt/engine/libwgpu_native.so")
///     .with_loss(is_lost);
/// ```
#[derive(Clone)]
pub struct Handles {
    pub(crate) device: NonNull<c_void>,
    pub(crate) queue: NonNull<c_void>,
    pub(crate) instance: Option<NonNull<c_void>>,
    pub(crate) functions: Functions,
    pub(crate) is_lost: Option<Arc<AtomicBool>>,
    pub(crate) lock: Option<Arc<Mutex<()>>>,
    pub(crate) name: String,
    pub(crate) owner: Option<Owner>,
}

// SAFETY: the handles may be used on any thread, or under the lock that was given: `with_lock` says
// which devices need the lock.
unsafe impl Send for Handles {}
// SAFETY: the members do not change, and the handles may be used on several threads at once, or
// under the lock that was given.
unsafe impl Sync for Handles {}

impl Handles {
    /// A `WGPUDevice` and its `WGPUQueue`, made by the library that this crate loads.
    pub fn new(device: NonNull<c_void>, queue: NonNull<c_void>) -> Self {
        Self {
            device,
            queue,
            instance: None,
            functions: Functions::OfThisCrate,
            is_lost: None,
            lock: None,
            name: "a WebGPU device of the application".to_owned(),
            owner: None,
        }
    }

    /// Sets the WebGPU library that made the handles, by its path or by a name that the system
    /// finds. A library that is loaded already is not loaded a second time.
    pub fn with_library(mut self, library: impl AsRef<Path>) -> Self {
        self.functions = Functions::OfLibrary(library.as_ref().as_os_str().to_owned());
        self
    }

    /// Sets how the functions of the WebGPU library are found, for a library that is linked into
    /// the application, for example. `lookup` returns the function of this name, or `None`.
    pub fn with_lookup(
        mut self,
        lookup: impl Fn(&CStr) -> Option<NonNull<c_void>> + Send + Sync + 'static,
    ) -> Self {
        self.functions = Functions::ByName(Arc::new(lookup));
        self
    }

    /// Sets the `WGPUInstance` of the device. This is required for a library that is neither
    /// wgpu-native nor Dawn: such a device is polled by `wgpuInstanceProcessEvents`.
    pub fn with_instance(mut self, instance: NonNull<c_void>) -> Self {
        self.instance = Some(instance);
        self
    }

    /// Sets the flag that tells of the loss of the device. The application sets the flag in the
    /// `WGPUDeviceLostCallback` that the device was made with. This crate sets the same flag where
    /// the device refuses everything, as lost devices of wgpu-native do.
    pub fn with_loss(mut self, is_lost: Arc<AtomicBool>) -> Self {
        self.is_lost = Some(is_lost);
        self
    }

    /// Sets the lock that everybody holds while calling the WebGPU library with the device or what
    /// was made of the device. wgpu-native needs no lock, and neither do devices of Dawn with the
    /// feature `ImplicitDeviceSynchronization`. A thread that holds the lock must not call
    /// `arrow_device`, and neither must a callback of WebGPU, which may run under the lock.
    pub fn with_lock(mut self, lock: Arc<Mutex<()>>) -> Self {
        self.lock = Some(lock);
        self
    }

    /// Sets what the device is called, for people.
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets an owner, which is kept as long as anything of the device that is opened with these
    /// handles is there. The owner may release the application's references to the device and the
    /// queue when the owner is dropped.
    pub fn kept_by(mut self, owner: impl Any + Send + Sync) -> Self {
        self.owner = Some(Arc::new(owner));
        self
    }
}

impl fmt::Debug for Handles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handles(device {:?}, queue {:?})", self.device, self.queue)
    }
}
