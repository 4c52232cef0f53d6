//! [`Builder`]: what a simulated driver is to be like.

use std::fmt::Write;
use std::path::PathBuf;

use libloading::Library;

use super::file::Copied;
use super::{Simulated, c_string, failed};

/// Whose driver it is to be. The file exports both; this chooses its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vendor {
    /// `libcuda.so.1`.
    Cuda,
    /// `libamdhip64.so.6`.
    Hip,
}

impl Vendor {
    pub(super) fn file_name(self) -> &'static str {
        match self {
            Self::Cuda => "libcuda.so.1",
            Self::Hip => "libamdhip64.so.6",
        }
    }
}

/// Says what a driver is to be like, and loads it. Begun by [`Simulated::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    vendor: Vendor,
    configuration: String,
    without: Vec<String>,
}

impl Builder {
    pub(super) fn new(vendor: Vendor) -> Self {
        Self { vendor, configuration: String::new(), without: Vec::new() }
    }

    fn with(mut self, key: &str, value: u64) -> Self {
        // Writing to a string cannot fail.
        let _ = write!(self.configuration, "{key}={value} ");
        self
    }

    /// So many devices. With none, initialising says that there is no device.
    pub fn devices(self, devices: usize) -> Self {
        self.with("devices", devices as u64)
    }

    /// So many bytes on each device.
    pub fn memory(self, bytes: u64) -> Self {
        self.with("memory", bytes)
    }

    /// Which of the legal orders work runs in.
    pub fn seed(self, seed: u64) -> Self {
        self.with("seed", seed)
    }

    /// Whether devices can be given access to each other's memory. Without it they cannot.
    pub fn peers(self, peers: bool) -> Self {
        self.with("peers", u64::from(peers))
    }

    /// Whether there is managed memory. There is, unless told otherwise.
    pub fn managed(self, managed: bool) -> Self {
        self.with("managed", u64::from(managed))
    }

    /// Whether the host may touch managed memory while a device works, as its attribute says. It
    /// may. Where it may not, a touch ends the process at that line until the host has waited for
    /// all work of the device.
    pub fn concurrent_managed(self, concurrent: bool) -> Self {
        self.with("concurrent_managed", u64::from(concurrent))
    }

    /// Whether the attributes say that the device shares memory with the host and reads ordinary
    /// memory (CUDA only). What copies of ordinary memory do then is
    /// [`pageable_waits`](Self::pageable_waits).
    pub fn coherent(self, coherent: bool) -> Self {
        self.with("coherent", u64::from(coherent))
    }

    /// Whether memory can be allocated in the order of a stream. It can.
    pub fn pools(self, pools: bool) -> Self {
        self.with("pools", u64::from(pools))
    }

    /// After so many questions that were answered with "not ready" the devices make progress; 0 for
    /// never. Without it 8.
    pub fn patience(self, questions: u64) -> Self {
        self.with("patience", questions)
    }

    /// Whether freeing plain, pinned or managed memory waits for all work of its device, as the
    /// vendors' drivers may. The host learns nothing by that wait.
    pub fn frees_wait(self, wait: bool) -> Self {
        self.with("frees_wait", u64::from(wait))
    }

    /// Whether copies from and to ordinary host memory are done with it when they return. The
    /// vendors say that such copies may be synchronous, and rely on it in neither direction.
    pub fn pageable_waits(self, wait: bool) -> Self {
        self.with("pageable_waits", u64::from(wait))
    }

    /// Whether the handle of a stream or event that was destroyed is given out again as soon as
    /// somebody makes another one.
    pub fn reuses_handles(self, reuses: bool) -> Self {
        self.with("reuses_handles", u64::from(reuses))
    }

    /// Whether the range that CUDA tells of an address is that of a reservation of 2 MiB or a
    /// multiple, which has other memory and nothing at all beside the allocation.
    pub fn reservations(self, reservations: bool) -> Self {
        self.with("reservations", u64::from(reservations))
    }

    /// Whether memory can be mapped by hand and shared by descriptors, as the device's attributes
    /// say. It can.
    pub fn mapping(self, mapping: bool) -> Self {
        self.with("mapping", u64::from(mapping))
    }

    /// Whether a device can be given access to mapped memory for reading alone. It can.
    pub fn read_only(self, read_only: bool) -> Self {
        self.with("read_only", u64::from(read_only))
    }

    /// Whether HIP, asked for the type of ordinary memory, answers that nobody registered it, as
    /// ROCm does since 2026. Without it that is an invalid value, as before.
    pub fn unregistered(self, unregistered: bool) -> Self {
        self.with("unregistered", u64::from(unregistered))
    }

    /// Whether a stream or an event that is used after its end ends the process, as a pointer to
    /// freed memory may.
    pub fn crashes(self, crashes: bool) -> Self {
        self.with("crashes", u64::from(crashes))
    }

    /// All of it as unkind as the vendors' documents permit.
    pub fn strict(self) -> Self {
        let unkind = self.frees_wait(true).pageable_waits(false).reuses_handles(true);
        unkind.reservations(true).unregistered(true).crashes(true)
    }

    /// Whether the driver tears itself down when the process ends, in handlers that it registers
    /// when it is initialised and when it makes a context. Without it, it does not. What is called
    /// afterwards is reported.
    pub fn teardown(self, teardown: bool) -> Self {
        self.with("teardown", u64::from(teardown))
    }

    /// Whether CUDA's driver does what no document promises and nanoarrow's own tests rely on: a
    /// stream is waited for on a thread without a context, and pinned memory of no bytes is
    /// allocated. Without it both are refused.
    pub fn lenient(self, lenient: bool) -> Self {
        self.with("lenient", u64::from(lenient))
    }

    /// The major number of the compute capability of CUDA's devices. Without it 9.
    pub fn compute_capability(self, major: u32) -> Self {
        self.with("capability", u64::from(major))
    }

    /// The version that the driver says it has.
    pub fn version(self, version: u32) -> Self {
        self.with("version", u64::from(version))
    }

    /// Functions that this driver does not have.
    pub fn without(mut self, names: &[&str]) -> Self {
        self.without.extend(names.iter().map(|name| (*name).to_owned()));
        self
    }

    /// Makes the copy and loads it.
    ///
    /// # Panics
    /// Where the library is not there, or cannot be copied or loaded: there is no test then.
    pub fn load(self) -> Simulated {
        let copied = Copied::new(self.vendor.file_name(), &self.without);
        self.begin(copied.unwrap_or_else(|problem| failed(&problem)))
    }

    /// Loads the copy that the process before this one has made, by [`Simulated::path`]: the
    /// machine is this process's own. For a test whose child finds the library by the system's
    /// search path.
    ///
    /// # Panics
    /// Where the library cannot be loaded.
    pub fn open(self, path: impl Into<PathBuf>) -> Simulated {
        self.begin(Copied::of_another_process(path.into()))
    }

    fn begin(self, file: Copied) -> Simulated {
        // SAFETY: the library is this project's own; loading it runs nothing of it.
        let loaded = unsafe { Library::new(file.path()) };
        let library = loaded
            .unwrap_or_else(|problem| failed(&format!("{}: {problem}", file.path().display())));
        let driver = Simulated { file, library };
        // SAFETY: the type is that of the function.
        let reset: unsafe extern "C" fn(*const std::ffi::c_char) -> i32 =
            unsafe { driver.control("reset") };
        let configuration = c_string(&self.configuration);
        // SAFETY: a text that ends with a zero.
        if unsafe { reset(configuration.as_ptr()) } != 0 {
            failed(&format!("no configuration: {}", self.configuration));
        }
        driver
    }
}
