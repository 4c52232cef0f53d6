//! [`Context`] and [`Worker`]: what UCX keeps for a process, and for one connection.

use std::ffi::{CString, c_int};
use std::ptr;
use std::sync::Arc;

use arrow_device::Result;

use super::api::{self, Api, Handle, Params, WorkerParams};
use crate::problem::{failed, malformed};

/// The version of the interface that is asked for: the oldest one that has all functions.
const VERSION: (u32, u32) = (1, 10);

/// The parts of UCX that are switched on. The functions for remote memory are not among them: UCX
/// lets whoever has a connection read and write any address then, whatever key the peer has.
pub(super) const FEATURES: u64 = api::FEATURE_TAG | api::FEATURE_AM | api::FEATURE_WAKEUP;

/// How often UCX looks whether a peer still lives that sends nothing.
const KEEPALIVE: (&str, &str) = ("KEEPALIVE_INTERVAL", "1s");

/// UCX's context, with the settings of the environment (`UCX_TLS` and so on) and these ones.
pub(super) struct Context {
    api: &'static Api,
    handle: Handle,
}

// SAFETY: the context was made for workers on several threads, and its functions may be called on
// any of them.
unsafe impl Send for Context {}
// SAFETY: a context that was made for workers on several threads takes its own locks.
unsafe impl Sync for Context {}

impl Context {
    /// Opens a context that moves messages by these ways of UCX, or by all of them.
    pub(super) fn open(transports: Option<&str>) -> Result<Arc<Self>> {
        Self::with_features(transports, FEATURES)
    }

    /// Opens a context with these parts of UCX.
    pub(super) fn with_features(transports: Option<&str>, features: u64) -> Result<Arc<Self>> {
        let api = api::load()?;
        let mut config = ptr::null_mut();
        // SAFETY: UCX takes null for the names of the prefix and of the file, and writes a handle.
        let status = unsafe { (api.config_read)(ptr::null(), ptr::null(), &raw mut config) };
        api.check("read the settings of UCX", status)?;
        let handle = Self::init(api, config, transports, features);
        // SAFETY: the settings were read above, and are not used afterwards.
        unsafe { (api.config_release)(config) };
        Ok(Arc::new(Self { api, handle: handle? }))
    }

    fn init(
        api: &'static Api,
        config: Handle,
        transports: Option<&str>,
        features: u64,
    ) -> Result<Handle> {
        let keepalive = std::env::var_os("UCX_KEEPALIVE_INTERVAL").is_none().then_some(KEEPALIVE);
        let transports = transports.map(|transports| ("TLS", transports));
        for (name, value) in keepalive.into_iter().chain(transports) {
            let text = |text: &str| CString::new(text).map_err(|_| malformed("a NUL in a setting"));
            let (name, value) = (text(name)?, text(value)?);
            // SAFETY: the settings are there, and both texts end with a NUL.
            let status = unsafe { (api.config_modify)(config, name.as_ptr(), value.as_ptr()) };
            api.check("change a setting of UCX", status)?;
        }
        let params = Params::new(features);
        let (params, mut handle) = (&raw const params, ptr::null_mut());
        let (major, minor) = VERSION;
        // SAFETY: the parameters and the settings are read during the call, which writes a handle.
        let status = unsafe { (api.init)(major, minor, params, config, &raw mut handle) };
        api.check("open UCX", status)?;
        Ok(handle)
    }

    pub(super) fn api(&self) -> &'static Api {
        self.api
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Ok(_in_use) = api::enter() {
            // SAFETY: all workers and memory of the context hold it, and are gone.
            unsafe { (self.api.cleanup)(self.handle) };
        }
    }
}

/// What progress is made with, on one thread at a time.
pub(super) struct Worker {
    context: Arc<Context>,
    /// Null once it was destroyed.
    handle: Handle,
    descriptor: c_int,
}

// SAFETY: the worker was made for several threads that use it one after the other.
unsafe impl Send for Worker {}

impl Worker {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self> {
        let (api, params) = (context.api, WorkerParams::new());
        let mut worker = Self { context: context.clone(), handle: ptr::null_mut(), descriptor: -1 };
        // SAFETY: the context lives, the parameters are read during the call, and a handle is
        // written.
        let status = unsafe {
            (api.worker_create)(context.handle, &raw const params, &raw mut worker.handle)
        };
        api.check("open a worker of UCX", status)?;
        // SAFETY: the worker lives, and the call writes a descriptor.
        let status = unsafe { (api.worker_descriptor)(worker.handle, &raw mut worker.descriptor) };
        api.check("wait for UCX", status)?;
        if worker.descriptor < 0 {
            return Err(failed("wait for UCX", "no descriptor"));
        }
        Ok(worker)
    }

    pub(super) fn api(&self) -> &'static Api {
        self.context.api
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle
    }

    pub(super) fn descriptor(&self) -> c_int {
        self.descriptor
    }

    /// Leaves the worker to the parent, in a child of `fork`.
    pub(super) fn forget(&mut self) {
        self.handle = ptr::null_mut();
        std::mem::forget(self.context.clone());
    }

    /// Destroys the worker. It is not used afterwards. At the end of the process UCX keeps it.
    pub(super) fn destroy(&mut self) {
        let handle = std::mem::replace(&mut self.handle, ptr::null_mut());
        if !handle.is_null()
            && let Ok(_in_use) = api::enter()
        {
            // SAFETY: the worker was made and not destroyed, and nobody else uses it: whoever calls
            // this has it alone.
            unsafe { (self.context.api.worker_destroy)(handle) };
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.destroy();
    }
}
