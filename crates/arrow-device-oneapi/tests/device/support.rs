//! What the tests share: the runtime, its devices, and gates that hold queues back.

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::time::Duration;

use arrow_device::{Device, Queue};
use arrow_device_oneapi::Kind;
use arrow_device_testkit::required::skip;
use libloading::Library;

const VARIABLE: &str = "ARROW_DEVICE_ONEAPI_LIBRARY";
/// Names the library that `cargo xtask` builds of `shim.cpp`.
const SHIM: &str = "ARROW_DEVICE_ONEAPI_SHIM";

pub(crate) type Handle = *mut c_void;

/// dpctl's number for all devices of all backends.
const ALL: c_int = (31 << 16) | 63;
pub(crate) const IN_ORDER: c_int = 2;

/// The library that the backend loads, for what an application does with it.
pub(crate) struct Runtime {
    library: Library,
    shim: Option<Library>,
    pub(crate) is_simulated: bool,
}

/// Settles which library this process and its children use.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let path: PathBuf = match std::env::var_os(VARIABLE) {
            Some(named) => named.into(),
            None => {
                let path = simulated_sycl::path();
                // SAFETY: every test of this program begins here, and so waits for this; nothing
                // reads the environment otherwise.
                unsafe { std::env::set_var(VARIABLE, &path) };
                path
            }
        };
        let library = unsafe { Library::new(path) }.unwrap();
        let gate = unsafe { library.get::<*const c_void>(b"simulated_sycl_gate") };
        let is_simulated = gate.is_ok();
        let shim = std::env::var_os(SHIM).map(|path| unsafe { Library::new(path) }.unwrap());
        Runtime { library, shim, is_simulated }
    })
}

impl Runtime {
    /// A function, by the type that it has.
    pub(crate) fn function<F: Copy>(&self, name: &str) -> F {
        *unsafe { self.library.get::<F>(name.as_bytes()) }.unwrap()
    }

    pub(crate) fn of_shim<F: Copy>(&self, name: &str) -> Option<F> {
        let shim = self.shim.as_ref()?;
        Some(*unsafe { shim.get::<F>(name.as_bytes()) }.unwrap())
    }

    /// A device of the application's.
    pub(crate) fn device(&self, index: usize) -> Handle {
        let list: unsafe extern "C" fn(c_int) -> Handle =
            self.function("DPCTLDeviceMgr_GetDevices");
        let at: unsafe extern "C" fn(Handle, usize) -> Handle =
            self.function("DPCTLDeviceVector_GetAt");
        let list = unsafe { list(ALL) };
        let device = unsafe { at(list, index) };
        self.delete("DeviceVector", list);
        assert!(!device.is_null());
        device
    }

    pub(crate) fn default_context(&self, device: Handle) -> Handle {
        let cached: unsafe extern "C" fn(Handle) -> Handle =
            self.function("DPCTLDeviceMgr_GetCachedContext");
        unsafe { cached(device) }
    }

    pub(crate) fn new_context(&self, device: Handle) -> Handle {
        let create: unsafe extern "C" fn(Handle, Handle, c_int) -> Handle =
            self.function("DPCTLContext_Create");
        unsafe { create(device, ptr::null_mut(), 0) }
    }

    pub(crate) fn new_queue(&self, context: Handle, device: Handle, properties: c_int) -> Handle {
        let create: unsafe extern "C" fn(Handle, Handle, Handle, c_int) -> Handle =
            self.function("DPCTLQueue_Create");
        let queue = unsafe { create(context, device, ptr::null_mut(), properties) };
        assert!(!queue.is_null());
        queue
    }

    pub(crate) fn barrier(&self, queue: Handle) -> Handle {
        let barrier: unsafe extern "C" fn(Handle) -> Handle =
            self.function("DPCTLQueue_SubmitBarrier");
        unsafe { barrier(queue) }
    }

    pub(crate) fn delete(&self, what: &str, object: Handle) {
        let delete: unsafe extern "C" fn(Handle) = self.function(&format!("DPCTL{what}_Delete"));
        unsafe { delete(object) };
    }

    /// Deletes an application's queue, which the library was lent. What was used on the queue is
    /// released first, because the queue stays open until then (UNS-20).
    pub(crate) fn delete_lent_queue(&self, queue: Handle) {
        arrow_device::deferred::wait_until_released(Duration::from_secs(20)).unwrap();
        self.delete("Queue", queue);
    }

    /// How many barriers the simulated runtime was given.
    pub(crate) fn barriers(&self) -> u64 {
        let barriers: unsafe extern "C" fn() -> u64 = self.function("simulated_sycl_barriers");
        unsafe { barriers() }
    }

    /// Has the next copy fail that the simulated runtime is given. What is behind the copy says
    /// that it went well.
    pub(crate) fn fail_next_alone(&self) {
        let fail: unsafe extern "C" fn() = self.function("simulated_sycl_fail_next_alone");
        unsafe { fail() };
    }

    /// How many objects are alive, by the simulated runtime's numbers.
    pub(crate) fn live(&self, what: c_int) -> u64 {
        let live: unsafe extern "C" fn(c_int) -> u64 = self.function("simulated_sycl_live");
        unsafe { live(what) }
    }

    /// Requires that the simulated runtime has seen no mistake.
    #[track_caller]
    pub(crate) fn assert_no_mistakes(&self) {
        if self.is_simulated {
            let mistakes: unsafe extern "C" fn() -> u64 = self.function("simulated_sycl_mistakes");
            assert_eq!(unsafe { mistakes() }, 0, "the runtime has printed them");
        }
    }

    /// Whether gates can be made, which the runtime itself has no function for.
    pub(crate) fn has_gates(&self) -> bool {
        let has = self.is_simulated || self.shim.is_some();
        if !has {
            skip("oneapi", "there is no shim that holds queues back");
        }
        has
    }

    fn gate_function<F: Copy>(&self, simulated: &str, of_shim: &str) -> F {
        match self.is_simulated {
            true => self.function(simulated),
            false => self.of_shim(of_shim).unwrap(),
        }
    }
}

/// Holds back what is submitted to a queue later.
pub(crate) struct Gate(Option<NonNull<c_void>>);

impl Gate {
    pub(crate) fn before(queue: &Queue) -> Self {
        Self::before_raw(queue.raw().as_ptr())
    }

    pub(crate) fn before_raw(queue: Handle) -> Self {
        let make: unsafe extern "C" fn(Handle) -> Handle =
            runtime().gate_function("simulated_sycl_gate", "shim_gate");
        Self(NonNull::new(unsafe { make(queue) }))
    }

    pub(crate) fn open(&mut self) {
        if let Some(gate) = self.0.take() {
            let open: unsafe extern "C" fn(Handle) =
                runtime().gate_function("simulated_sycl_open", "shim_open");
            unsafe { open(gate.as_ptr()) };
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

/// The first device; `None` where there is none, which is a failure where it is required.
pub(crate) fn device() -> Option<Device> {
    device_with(0, Kind::Device)
}

pub(crate) fn device_with(index: usize, kind: Kind) -> Option<Device> {
    is_there().then(|| arrow_device_oneapi::open_with(index, kind).unwrap())
}

pub(crate) fn is_there() -> bool {
    runtime();
    match arrow_device_oneapi::is_available() {
        Ok(()) => true,
        Err(reason) => {
            skip("oneapi", &reason.to_string());
            false
        }
    }
}

/// The simulated runtime; `None` where the tests run on another one.
pub(crate) fn simulated() -> Option<&'static Runtime> {
    let runtime = runtime();
    if !runtime.is_simulated {
        println!("skipped: only the simulated runtime does this");
    }
    runtime.is_simulated.then_some(runtime)
}
