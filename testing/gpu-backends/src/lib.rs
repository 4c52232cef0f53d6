//! The CUDA and ROCm devices on simulated drivers: what holds for both, written once.
//!
//! A process has one simulated driver, because devices are found by their numbers. Its log and its
//! reports are everybody's, so tests take turns: [`Bench::cuda`] and [`Bench::rocm`] wait for the
//! one before, and what they return looks in the end whether the driver has anything to report.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    missing_docs,
    reason = "it is run by tests, and a test that goes wrong ends there"
)]

pub mod awaits;
pub mod calls;
pub mod copies;
pub mod cudarc_exchange;
pub mod deleters;
pub mod exchange;
pub mod faults;
pub mod memory;
pub mod mistakes;
pub mod options;
pub mod plain;
pub mod polled;
pub mod pools;
#[cfg(unix)]
pub mod process_end;
#[cfg(target_os = "linux")]
pub mod share;
pub mod strict;

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use arrow_device::{Array, DataType, Device, DeviceType, Queue};
pub use arrow_device_cuda::Kind;
use arrow_device_cuda::Options;
use simulated_gpu_drivers::{Builder, Simulated, Vendor};

/// A simulated driver, and the backend on it.
#[derive(Debug)]
pub struct Machine {
    pub sim: Simulated,
    pub vendor: Vendor,
}

/// A test's turn.
#[derive(Debug)]
pub struct Bench {
    machine: &'static Machine,
    _turn: MutexGuard<'static, ()>,
}

impl Bench {
    /// CUDA with everything.
    pub fn cuda() -> Self {
        Self::with(Vendor::Cuda, |builder| builder)
    }

    /// HIP with everything.
    pub fn rocm() -> Self {
        Self::with(Vendor::Hip, |builder| builder)
    }

    /// A machine of another kind. Of several in a process the first one holds.
    pub fn with(vendor: Vendor, change: impl FnOnce(Builder) -> Builder) -> Self {
        static MACHINE: OnceLock<Machine> = OnceLock::new();
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let machine = MACHINE.get_or_init(|| {
            let sim =
                change(Simulated::builder(vendor).devices(2).memory(256 << 20).peers(true)).load();
            let variable = match vendor {
                Vendor::Cuda => "ARROW_DEVICE_CUDA_LIBRARY",
                _ => "ARROW_DEVICE_HIP_LIBRARY",
            };
            // SAFETY: tests take turns, and this is the first one.
            unsafe { std::env::set_var(variable, sim.path()) };
            Machine { sim, vendor }
        });
        assert_eq!(machine.vendor, vendor, "a process has one driver");
        Self { machine, _turn: turn }
    }
}

impl Deref for Bench {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        self.machine
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let reports = self.sim.take_reports();
        if !std::thread::panicking() {
            let texts: Vec<String> = reports.iter().map(ToString::to_string).collect();
            assert!(texts.is_empty(), "the driver reports {texts:#?}");
        }
    }
}

impl Machine {
    pub fn is_cuda(&self) -> bool {
        self.vendor == Vendor::Cuda
    }

    /// All kinds of memory that it has.
    pub fn kinds(&self) -> &'static [Kind] {
        match self.is_cuda() {
            true => &[Kind::Device, Kind::Host, Kind::Managed],
            false => &[Kind::Device, Kind::Host],
        }
    }

    pub fn try_open(&self, ordinal: usize, kind: Kind) -> arrow_device::Result<Device> {
        match self.is_cuda() {
            true => arrow_device_cuda::open_with(ordinal, kind),
            false => arrow_device_rocm::open_with(ordinal, kind),
        }
    }

    pub fn try_open_as(&self, ordinal: usize, options: Options) -> arrow_device::Result<Device> {
        match self.is_cuda() {
            true => arrow_device_cuda::open_as(ordinal, options),
            false => arrow_device_rocm::open_as(ordinal, options),
        }
    }

    /// The calls of copying an array to a device that is opened so.
    pub fn calls_of_a_copy(&self, array: &Array, options: Options) -> Vec<String> {
        let queue = self.try_open_as(0, options).unwrap().open_queue().unwrap();
        self.take_calls();
        let there = array.copy_to(&queue).unwrap();
        there.to_host().unwrap();
        drop(there);
        settle();
        queue.synchronize().unwrap();
        self.take_calls()
    }

    pub fn open(&self, ordinal: usize, kind: Kind) -> Device {
        self.try_open(ordinal, kind).unwrap()
    }

    pub fn device_type(&self, kind: Kind) -> DeviceType {
        self.open(0, kind).id().device_type
    }

    /// A function's name with this vendor.
    pub fn name(&self, cuda: &'static str, hip: &'static str) -> &'static str {
        if self.is_cuda() { cuda } else { hip }
    }

    /// The names of the functions that were called since the last time.
    pub fn take_calls(&self) -> Vec<String> {
        let calls = self.sim.log().into_iter().map(|call| call.name).collect();
        self.sim.clear_log();
        calls
    }

    /// Calls a function of the driver as C does; every argument fits a register.
    pub fn raw(&self, name: &str, arguments: &[u64]) -> i32 {
        let address = self.sim.symbol(&std::ffi::CString::new(name).unwrap());
        assert!(!address.is_null(), "the driver has no {name}");
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        let [a, b, c, d, e, f] = all;
        type Function = unsafe extern "C" fn(u64, u64, u64, u64, u64, u64) -> i32;
        // SAFETY: with C's calling convention on the systems that are tested, a function finds its
        // arguments in registers and does not look at more of them than it has.
        let function = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function>(address) };
        // SAFETY: the test passes what the function takes.
        unsafe { function(a, b, c, d, e, f) }
    }

    /// Does something with the first device current, as whoever calls the driver by hand has it.
    pub fn entered<T>(&self, work: impl FnOnce() -> T) -> T {
        if !self.is_cuda() {
            assert_eq!(self.raw("hipSetDevice", &[0]), 0);
            return work();
        }
        let mut context = 0_u64;
        let out = std::ptr::from_mut(&mut context) as u64;
        // The backend may not have been there yet; a driver may be initialised as often as somebody
        // likes.
        assert_eq!(self.raw("cuInit", &[0]), 0);
        assert_eq!(self.raw("cuDevicePrimaryCtxRetain", &[out, 0]), 0);
        assert_eq!(self.raw("cuCtxPushCurrent_v2", &[context]), 0);
        let done = work();
        assert_eq!(self.raw("cuCtxPopCurrent_v2", &[out]), 0);
        done
    }

    /// The kinds of the mistakes that were reported, which are taken.
    pub fn take_mistakes(&self) -> Vec<String> {
        self.sim.take_reports().into_iter().map(|report| report.kind).collect()
    }

    /// A queue of each kind of memory of both devices.
    pub fn queues(&self) -> Vec<Queue> {
        [0, 1].into_iter().flat_map(|ordinal| self.queues_of(ordinal)).collect()
    }

    /// The same of one device.
    pub fn queues_of(&self, ordinal: usize) -> Vec<Queue> {
        let open = |kind: &Kind| self.open(ordinal, *kind).open_queue().unwrap();
        self.kinds().iter().map(open).collect()
    }
}

/// A few numbers and a null.
pub fn numbers() -> Array {
    Array::from_values(DataType::Int32, [Some(1), None, Some(3)]).unwrap()
}

/// Whether an array, wherever it is, has the values of [`numbers`].
#[track_caller]
pub fn assert_numbers(array: &Array) {
    use arrow_device_testkit::oracle;
    let expected = oracle::plan_of(&numbers()).unwrap();
    let found = oracle::plan_of(&array.to_host().unwrap()).unwrap();
    oracle::require_equal(&expected, &found).unwrap();
}

/// Has everything released that nobody uses any more.
pub fn settle() {
    assert!(arrow_device_testkit::release_until(
        || arrow_device::deferred::held_back().is_nothing()
    ));
}
