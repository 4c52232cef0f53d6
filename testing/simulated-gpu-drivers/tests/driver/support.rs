//! What the tests share: a driver's functions, called as C calls them.

use std::ffi::{CString, c_void};

use simulated_gpu_drivers::{Builder, Report, Simulated, Vendor};

/// A driver, and calls by name.
pub(crate) struct Driver {
    pub(crate) sim: Simulated,
}

/// An argument: every one fits a register.
pub(crate) trait Argument {
    fn word(self) -> u64;
}

macro_rules! argument {
    ($($type:ty),*) => { $(impl Argument for $type {
        fn word(self) -> u64 { self as u64 }
    })* };
}
argument!(i32, u32, u64, usize);

impl<T> Argument for *const T {
    fn word(self) -> u64 {
        self as u64
    }
}

impl<T> Argument for *mut T {
    fn word(self) -> u64 {
        self as u64
    }
}

impl<T> Argument for &mut T {
    fn word(self) -> u64 {
        std::ptr::from_mut(self) as u64
    }
}

impl<T> Argument for &[T] {
    fn word(self) -> u64 {
        self.as_ptr() as u64
    }
}

pub(crate) fn cuda() -> Driver {
    with(Simulated::builder(Vendor::Cuda))
}

pub(crate) fn hip() -> Driver {
    with(Simulated::builder(Vendor::Hip))
}

pub(crate) fn with(builder: Builder) -> Driver {
    Driver { sim: builder.load() }
}

/// With one device, whose context is current on this thread.
pub(crate) fn started() -> Driver {
    started_with(Simulated::builder(Vendor::Cuda))
}

pub(crate) fn started_with(builder: Builder) -> Driver {
    let driver = with(builder);
    assert_eq!(call!(driver, "cuInit", 0), 0);
    let context = driver.context(0);
    assert_eq!(call!(driver, "cuCtxSetCurrent", context), 0);
    driver
}

impl Driver {
    pub(crate) fn address(&self, name: &str) -> *mut c_void {
        let address = self.sim.symbol(&CString::new(name).unwrap());
        assert!(!address.is_null(), "{name}");
        address
    }

    /// A function with up to nine arguments; those that it does not take are ignored, as registers
    /// and the stack are.
    pub(crate) fn call(&self, name: &str, words: &[u64]) -> i32 {
        type Function =
            unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> i32;
        let address = self.address(name);
        // SAFETY: the function takes integers and pointers only, in this order, by the C calling
        // convention of x86-64 and aarch64, where further ones are not looked at.
        let function = unsafe { std::mem::transmute::<*mut c_void, Function>(address) };
        let word = |number: usize| words.get(number).copied().unwrap_or(0);
        // SAFETY: the function takes integers and pointers only, in this order, by the C calling
        // convention of x86-64 and aarch64, where further ones are not looked at; the test gives
        // what the function asks for.
        unsafe {
            function(
                word(0),
                word(1),
                word(2),
                word(3),
                word(4),
                word(5),
                word(6),
                word(7),
                word(8),
                word(9),
                word(10),
            )
        }
    }

    /// The primary context of a device.
    pub(crate) fn context(&self, device: i32) -> usize {
        let mut context = 0_usize;
        assert_eq!(call!(self, "cuDevicePrimaryCtxRetain", &mut context, device), 0);
        context
    }

    /// What a function writes through its first argument.
    pub(crate) fn made(&self, name: &str, words: &[u64]) -> usize {
        let mut out = 0_usize;
        let all = [&[(&raw mut out) as u64], words].concat();
        assert_eq!(self.call(name, &all), 0, "{name}");
        out
    }

    pub(crate) fn kinds(&self) -> Vec<String> {
        self.sim.take_reports().into_iter().map(|report| report.kind).collect()
    }

    /// Ends the test: nothing was reported, nothing is left.
    pub(crate) fn finish(self) {
        let reports: Vec<Report> = self.sim.finish();
        let texts: Vec<String> = reports.iter().map(ToString::to_string).collect();
        assert!(texts.is_empty(), "{}", texts.join("\n\n"));
    }
}

/// Calls a function of a driver.
macro_rules! call {
    ($driver:expr, $name:literal $(, $argument:expr)*) => {
        $driver.call($name, &[$($crate::support::Argument::word($argument)),*])
    };
}
pub(crate) use call;
