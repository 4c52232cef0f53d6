//! Arrow C++ from the `pyarrow` wheel. `cpp/arrow_cpp.h` says what the functions do.

pub mod asynchronous;
mod streams;

use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};
use arrow_device::deferred::wait_until_released;
use arrow_device::{Device, DeviceId, DeviceType, Queue};
use arrow_device_testkit::required::skip;
use libloading::Library;
use sim_c as c;

use crate::build::{self, Build};
use crate::{FourStructs, Said, Structs, text};

type TwoStructs = unsafe extern "C" fn(*mut ArrowSchema, *mut ArrowDeviceArray) -> c_int;
type Numbered<T> = unsafe extern "C" fn(usize, *mut ArrowSchema, *mut T) -> c_int;
type Placed = unsafe extern "C" fn(usize, c_int, *mut ArrowSchema, *mut ArrowDeviceArray) -> c_int;
type ThreeStructs =
    unsafe extern "C" fn(*mut ArrowSchema, *mut ArrowDeviceArray, *mut ArrowDeviceArray) -> c_int;
type UseSim = unsafe extern "C" fn(*const SimFunctions, *mut c::ArrowDeviceSim) -> c_int;

/// Where a case is exported, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Place {
    /// On the host.
    Host = 0,
    /// On the software device, finished before the export.
    Settled = 1,
    /// On the software device, only submitted, with an event.
    Pending = 2,
}

/// `struct AdfSimFunctions`.
#[repr(C)]
struct SimFunctions([*const c_void; 11]);

// SAFETY: addresses of functions.
unsafe impl Send for SimFunctions {}
// SAFETY: addresses of functions.
unsafe impl Sync for SimFunctions {}

fn sim_functions() -> SimFunctions {
    SimFunctions([
        c::arrow_device_sim_device_id as *const c_void,
        c::arrow_device_sim_allocate as *const c_void,
        c::arrow_device_sim_free as *const c_void,
        c::arrow_device_sim_open_queue as *const c_void,
        c::arrow_device_sim_close_queue as *const c_void,
        c::arrow_device_sim_copy_to_device as *const c_void,
        c::arrow_device_sim_copy_to_host as *const c_void,
        c::arrow_device_sim_record as *const c_void,
        c::arrow_device_sim_destroy_event as *const c_void,
        c::arrow_device_sim_synchronize as *const c_void,
        c::arrow_device_sim_last_error as *const c_void,
    ])
}

/// The loaded library. Its functions are called by one test at a time, because they count memory
/// and share a device.
#[derive(Debug)]
pub struct ArrowCpp {
    library: Library,
    path: PathBuf,
}

/// The library, for this test alone; `None`, with a reason printed, where it cannot be.
pub fn arrow_cpp() -> Option<MutexGuard<'static, ArrowCpp>> {
    static LOADED: OnceLock<Result<Mutex<ArrowCpp>, String>> = OnceLock::new();
    match LOADED.get_or_init(load) {
        Ok(loaded) => Some(loaded.lock().unwrap_or_else(PoisonError::into_inner)),
        Err(reason) => {
            skip("pyarrow", reason);
            None
        }
    }
}

fn load() -> Result<Mutex<ArrowCpp>, String> {
    let version = build::version("pyarrow");
    let setup = "`cargo xtask test --setup` installs it";
    let wheel =
        build::wheel("pyarrow").ok_or(format!("pyarrow {version} is not there: {setup}"))?;
    if !build::has_compiler("CXX", "c++") {
        return Err(format!("a C++ compiler is not there: {setup}"));
    }
    let options = ["-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror"];
    let abi = build::headers("arrow-device-abi");
    let sim = build::headers("arrow-device-sim");
    let sim_c = build::here("../sim-c/include");
    let check = build::headers("arrow-device-check");
    let build = Build::new("arrow-cpp", "CXX", "c++", &options)
        .include(&wheel.join("include"), true)
        .include(&abi, false)
        .include(&sim, false)
        .include(&sim_c, false)
        .include(&check, false)
        .source(build::here("cpp/arrow_cpp.cc"), &[])
        .source(build::here("cpp/async.cc"), &[])
        .source(build::here("cpp/cases.cc"), &[])
        .source(build::here("cpp/checked.cc"), &[])
        .source(build::here("cpp/sim_device.cc"), &[])
        .source(build::here("cpp/streams.cc"), &[])
        .depends_on(build::here("cpp/arrow_cpp.h"))
        .depends_on(build::here("cpp/async.h"))
        .depends_on(build::here("cpp/cases.h"))
        .depends_on(build::here("cpp/checked.h"))
        .depends_on(build::here("cpp/common.h"))
        .depends_on(build::here("cpp/streams.h"))
        .depends_on(build::here("cpp/sim_device.h"))
        .depends_on(abi.join("arrow_device/abi.h"))
        .depends_on(sim.join("arrow_device/sim.h"))
        .depends_on(sim_c.join("sim_c.h"))
        .depends_on(check.join("arrow_device/check.h"))
        .link(&build::file_that_begins(&wheel, "libarrow.so."));
    let path = build.run();
    // SAFETY: the initializers of Arrow C++ may run at any time.
    let library = unsafe { Library::new(&path) }.map_err(|error| error.to_string())?;
    let loaded = ArrowCpp { library, path };
    assert_eq!(loaded.version(), version, "the library is not that of the wheel");
    Ok(Mutex::new(loaded))
}

impl ArrowCpp {
    /// # Safety
    /// The type is that of the function in `cpp/arrow_cpp.h`.
    unsafe fn get<T: Copy>(&self, name: &str) -> T {
        // SAFETY: the type is that of the function in `cpp/arrow_cpp.h`, as the caller promises.
        let found = unsafe { self.library.get::<T>(name.as_bytes()) };
        *found.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Where the functions of `cpp/` are, for whoever loads them elsewhere.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The version of the loaded library.
    pub fn version(&self) -> String {
        type Version = unsafe extern "C" fn() -> *const c_char;
        // SAFETY: as declared.
        let version = unsafe { self.get::<Version>("adf_cpp_version") };
        // SAFETY: takes nothing.
        let version = unsafe { version() };
        // SAFETY: a string that lives as long as the library.
        unsafe { text(version) }
    }

    /// The name and the version, as the table has it.
    pub fn name(&self) -> String {
        format!("Arrow C++ {}", self.version())
    }

    /// Bytes of its memory pool that are in use.
    pub fn allocated(&self) -> i64 {
        // SAFETY: as declared.
        let allocated = unsafe { self.get::<unsafe extern "C" fn() -> i64>("adf_cpp_allocated") };
        // SAFETY: takes nothing.
        unsafe { allocated() }
    }

    /// How many cases are arrays, and how many batches. Batches follow arrays.
    pub fn counts(&self) -> (usize, usize) {
        let count = |name| {
            // SAFETY: as declared.
            let count = unsafe { self.get::<unsafe extern "C" fn() -> usize>(name) };
            // SAFETY: takes nothing.
            unsafe { count() }
        };
        (count("adf_cpp_array_count"), count("adf_cpp_batch_count"))
    }

    /// What a case is.
    pub fn case_name(&self, number: usize) -> String {
        type Name = unsafe extern "C" fn(usize) -> *const c_char;
        // SAFETY: as declared.
        let name = unsafe { self.get::<Name>("adf_cpp_case_name") };
        // SAFETY: takes any number.
        let name = unsafe { name(number) };
        // SAFETY: a string that lives as long as the library.
        unsafe { text(name) }
    }

    /// Exports a case.
    pub fn export(&self, number: usize, place: Place) -> Result<Structs, String> {
        let mut out = Structs::empty();
        // SAFETY: as declared.
        let export = unsafe { self.get::<Placed>("adf_cpp_export") };
        // SAFETY: both may be written, and hold nothing that has to be released.
        let code = unsafe { export(number, place as c_int, &mut out.schema, &mut out.array) };
        self.said(code).map(|()| out)
    }

    /// Exports a case without a device.
    pub fn export_plain(&self, number: usize) -> Result<Structs, String> {
        let mut out = Structs::empty();
        // SAFETY: as declared.
        let export = unsafe { self.get::<Numbered<ArrowArray>>("adf_cpp_export_plain") };
        // SAFETY: both may be written, and hold nothing that has to be released.
        let code = unsafe { export(number, &mut out.schema, &mut out.array.array) };
        self.said(code).map(|()| out)
    }

    /// Imports, validates, and compares with a case.
    ///
    /// # Safety
    /// The structs are good as the C data interface has it.
    pub unsafe fn compare(&self, number: usize, mut structs: Structs) -> Said {
        // SAFETY: as declared.
        let compare = unsafe { self.get::<Numbered<ArrowDeviceArray>>("adf_cpp_compare") };
        // SAFETY: the structs are good as the C data interface has it, as the caller promises.
        self.said(unsafe { compare(number, &mut structs.schema, &mut structs.array) })
    }

    /// The same without a device.
    ///
    /// # Safety
    /// As for [`Self::compare`].
    pub unsafe fn compare_plain(&self, number: usize, mut structs: Structs) -> Said {
        // SAFETY: as declared.
        let compare = unsafe { self.get::<Numbered<ArrowArray>>("adf_cpp_compare_plain") };
        // SAFETY: what `Self::compare` asks for, which the caller promises.
        self.said(unsafe { compare(number, &mut structs.schema, &mut structs.array.array) })
    }

    /// Imports, validates, and exports again.
    ///
    /// # Safety
    /// As for [`Self::compare`].
    pub unsafe fn relay(&self, structs: Structs) -> Result<Structs, String> {
        // SAFETY: what `Self::compare` asks for, which the caller promises.
        unsafe { self.hand_on("relay", structs) }
    }

    /// Calls the function of this name that takes two structs over and fills two: `relay`, or one
    /// of `cpp/checked.h`.
    ///
    /// # Safety
    /// As for [`Self::compare`]. Some crash by design, and run in a child process.
    pub unsafe fn hand_on(&self, name: &str, mut structs: Structs) -> Result<Structs, String> {
        let (Structs { schema, array }, mut out) = (&mut structs, Structs::empty());
        // SAFETY: as declared.
        let relay = unsafe { self.get::<FourStructs>(&format!("adf_cpp_{name}")) };
        // SAFETY: what `Self::compare` asks for, which the caller promises; the outputs hold
        // nothing.
        let code = unsafe { relay(schema, array, &mut out.schema, &mut out.array) };
        self.said(code).map(|()| out)
    }

    /// Imports two arrays of one schema, validates both, and compares them.
    ///
    /// # Safety
    /// As for [`Self::compare`].
    pub unsafe fn equal(&self, mut left: Structs, mut right: Structs) -> Said {
        // SAFETY: as declared.
        let equal = unsafe { self.get::<ThreeStructs>("adf_cpp_equal") };
        // SAFETY: what `Self::compare` asks for, which the caller promises.
        self.said(unsafe { equal(&mut left.schema, &mut left.array, &mut right.array) })
    }

    /// Calls the function of this name that takes a schema and an array: `import`, `import_batch`,
    /// `validate`, `slice_keeps_event`, `export_device_slice`, `export_mixed_dictionary`, or one of
    /// `cpp/checked.h`.
    ///
    /// # Safety
    /// Whatever the function needs. Some crash by design, and run in a child process.
    pub unsafe fn call(&self, name: &str, structs: &mut Structs) -> Said {
        // SAFETY: as declared.
        let function = unsafe { self.get::<TwoStructs>(&format!("adf_cpp_{name}")) };
        // SAFETY: whatever the function needs, as the caller promises.
        self.said(unsafe { function(&mut structs.schema, &mut structs.array) })
    }

    /// Exports a view array that it must refuse.
    pub fn export_broken_view(&self, array: &mut ArrowDeviceArray) -> Said {
        type Export = unsafe extern "C" fn(*mut ArrowDeviceArray) -> c_int;
        // SAFETY: as declared.
        let export = unsafe { self.get::<Export>("adf_cpp_export_broken_view") };
        // SAFETY: the struct may be written.
        self.said(unsafe { export(array) })
    }

    /// Makes it use the device of a checker, whose context this is
    /// (`struct ArrowDeviceCheckContext`), or none.
    ///
    /// # Errors
    /// What Arrow C++ says.
    ///
    /// # Safety
    /// Null, or a context that lives until another one is given and all that was made with it is
    /// released.
    pub unsafe fn use_checked(&self, context: *const c_void) -> Said {
        type Use = unsafe extern "C" fn(*const c_void) -> c_int;
        // SAFETY: as declared.
        let use_checked = unsafe { self.get::<Use>("adf_cpp_use_checked") };
        // SAFETY: null, or a context that lives until another one is given and all that was made
        // with it is released, as the caller promises.
        self.said(unsafe { use_checked(context) })
    }

    fn said(&self, code: c_int) -> Said {
        type LastError = unsafe extern "C" fn() -> *const c_char;
        if code == 0 {
            return Ok(());
        }
        // SAFETY: as declared.
        let last_error = unsafe { self.get::<LastError>("adf_cpp_last_error") };
        // SAFETY: takes nothing.
        let last_error = unsafe { last_error() };
        // SAFETY: a string that stays until the next call on this thread.
        Err(unsafe { text(last_error) })
    }

    /// Runs something with a software device that both sides use, and a queue of ours, and closes
    /// it. The error is that of the body, or else what the device reports, leaks included.
    ///
    /// # Errors
    /// As said.
    pub fn on_sim(
        &self,
        seed: u64,
        body: impl FnOnce(&SharedSim<'_>, &Queue) -> Result<(), String>,
    ) -> Said {
        let words = |error: arrow_device::Error| error.to_string();
        let mut sim = std::ptr::null_mut();
        // SAFETY: `sim` may be written.
        assert_eq!(unsafe { c::arrow_device_sim_open(seed, &mut sim) }, 0);
        // SAFETY: as declared.
        let use_sim = unsafe { self.get::<UseSim>("adf_cpp_use_sim") };
        // SAFETY: the simulator is closed after it is given up in `SharedSim::close`.
        self.said(unsafe { use_sim(&sim_functions(), sim) })?;
        let sim = SharedSim { peer: self, sim };
        let queue = sim.device().open_queue().map_err(words)?;
        let outcome = body(&sim, &queue);
        // What the body has used is released when that has passed.
        queue.synchronize().map_err(words)?;
        drop(queue);
        wait_until_released(Duration::from_secs(60)).map_err(words)?;
        outcome.and(sim.close())
    }
}

/// A software device that Arrow C++ and this library use, through the C functions and as a
/// [`Device`].
#[derive(Debug)]
pub struct SharedSim<'a> {
    peer: &'a ArrowCpp,
    sim: *mut c::ArrowDeviceSim,
}

impl SharedSim<'_> {
    /// The device.
    pub fn device(&self) -> Device {
        // SAFETY: open until it is closed.
        let id = unsafe { c::arrow_device_sim_device_id(self.sim) };
        Device::find(DeviceId::new(DeviceType::EXT_DEV, id)).expect("an open device is found")
    }

    /// What it has reported since the last call.
    pub fn mistakes(&self) -> Option<String> {
        // SAFETY: open until it is closed.
        let count = unsafe { c::arrow_device_sim_mistakes(self.sim) };
        // SAFETY: a string that stays until the next call on this thread.
        (count > 0).then(|| unsafe { text(c::arrow_device_sim_last_error()) })
    }

    /// Lets Arrow C++ give it up and closes it.
    fn close(self) -> Said {
        // SAFETY: as declared.
        let use_sim = unsafe { self.peer.get::<UseSim>("adf_cpp_use_sim") };
        // SAFETY: gives the simulator up.
        self.peer.said(unsafe { use_sim(&sim_functions(), std::ptr::null_mut()) })?;
        // SAFETY: what was opened, once; Arrow C++ has given it up.
        match unsafe { c::arrow_device_sim_close(self.sim) } {
            0 => Ok(()),
            // SAFETY: a string that stays until the next call on this thread.
            _ => Err(unsafe { text(c::arrow_device_sim_last_error()) }),
        }
    }
}
