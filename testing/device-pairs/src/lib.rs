//! Every device that there is, opened: what the tests of this crate send arrays from and to.
//!
//! [`ROWS`] is the one table. A backend adds a row and has all of the tests. What a row says of its
//! memory is what its documentation promises, and not asked of its driver, so that the tests can
//! hold the driver to it.
//!
//! CUDA and ROCm have simulated drivers, one of each for all tests of a process, which are asked
//! for mistakes whenever a world ends. Where the environment names another library
//! (`ARROW_DEVICE_CUDA_LIBRARY=libcuda.so.1`), it is that one. oneAPI has a simulated runtime in
//! the same way (`ARROW_DEVICE_ONEAPI_LIBRARY`). The memory of a Hexagon DSP is that of a stand-in.
//! Metal has a stand-in, but on a Mac.

#![expect(clippy::panic, reason = "it is run by tests, and a test that goes wrong ends there")]

mod gpus;
mod sycl;

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

use arrow_device::{Device, Error, ErrorKind, Queue, Result};
use arrow_device_sim::{Builder, Kind, Sim};
use arrow_device_testkit::required::{is_listed, is_required};
use metal_stand_in::StandIn;

/// One kind of device.
#[derive(Debug)]
pub struct Row {
    /// What it is called in messages.
    pub name: &'static str,
    /// The word in `ARROW_DEVICE_REQUIRE` that makes its absence a failure. `all` does, too, and so
    /// does `CI=true`.
    pub required_as: &'static str,
    /// Opened only where that word is there, because its driver is not fit for whoever does not ask
    /// for it.
    pub on_request: bool,
    /// Who gets at its memory without a copy.
    pub memory: Memory,
    open: fn(seed: u64) -> Result<Opened>,
}

/// Who gets at the memory of a device, besides the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// It is the host's.
    Host,
    /// The host, who has to map it.
    Mapped,
    /// Nobody.
    Own,
    /// The other devices of the row.
    Peers,
    /// The devices of the runtime of this name, of whatever row.
    Runtime(&'static str),
    /// The same, and the host, who reads it where it is.
    Pinned(&'static str),
}

impl Memory {
    /// The runtime whose devices get at it.
    fn runtime(self) -> Option<&'static str> {
        match self {
            Self::Runtime(name) | Self::Pinned(name) => Some(name),
            _ => None,
        }
    }
}

/// What a row opened.
struct Opened {
    devices: Vec<Device>,
    /// What the devices need to live and is dropped after them: a simulator, which then looks for
    /// mistakes and leaks.
    keep: Option<Box<dyn Any>>,
}

impl Opened {
    fn one(device: Device) -> Self {
        Self { devices: vec![device], keep: None }
    }
}

/// All devices under test.
pub const ROWS: &[Row] = &[
    Row {
        name: "host",
        required_as: "host",
        on_request: false,
        memory: Memory::Host,
        open: |_| Ok(Opened::one(Device::host())),
    },
    Row {
        name: "software, discrete",
        required_as: "sim",
        on_request: false,
        memory: Memory::Own,
        open: |seed| Ok(simulated(1, Sim::builder(), seed)),
    },
    Row {
        name: "software, readable",
        required_as: "sim",
        on_request: false,
        memory: Memory::Mapped,
        open: |seed| Ok(simulated(1, Sim::builder().kind(Kind::HostReadable), seed)),
    },
    Row {
        name: "software, handles",
        required_as: "sim",
        on_request: false,
        memory: Memory::Own,
        open: |seed| Ok(simulated(1, Sim::builder().kind(Kind::Handles), seed)),
    },
    Row {
        name: "software, handles of parts",
        required_as: "sim",
        on_request: false,
        memory: Memory::Own,
        open: |seed| Ok(simulated(1, Sim::builder().kind(Kind::Handles).parts(true), seed)),
    },
    Row {
        name: "software, whole units",
        required_as: "sim",
        on_request: false,
        memory: Memory::Own,
        open: |seed| Ok(simulated(1, Sim::builder().kind(Kind::WholeUnits), seed)),
    },
    Row {
        name: "software, peers",
        required_as: "sim",
        on_request: false,
        memory: Memory::Peers,
        open: |seed| Ok(simulated(2, Sim::builder().peers(2), seed)),
    },
    Row {
        name: "software, strangers",
        required_as: "sim",
        on_request: false,
        memory: Memory::Own,
        open: |seed| Ok(simulated(2, Sim::builder().devices(2), seed)),
    },
    Row {
        name: "OpenCL, cl_mem",
        required_as: "opencl",
        on_request: false,
        memory: Memory::Mapped,
        open: |_| arrow_device_opencl::open(0).map(Opened::one),
    },
    Row {
        name: "OpenCL, shared virtual memory",
        required_as: "opencl",
        on_request: false,
        memory: Memory::Mapped,
        open: |_| {
            let index = opencl_device("with shared virtual memory", |first, other| {
                other.index != first.index && other.has_svm
            })?;
            arrow_device_opencl::open_with(index, arrow_device_opencl::Kind::Svm).map(Opened::one)
        },
    },
    Row {
        name: "Vulkan",
        required_as: "vulkan",
        on_request: false,
        memory: Memory::Mapped,
        open: |_| arrow_device_vulkan::open(0).map(Opened::one),
    },
    Row {
        name: "WebGPU",
        required_as: "webgpu",
        on_request: false,
        memory: Memory::Own,
        open: |_| {
            if let Some(file) = arrow_device_testkit::application::webgpu::library_file() {
                // SAFETY: UNS-31: the file is a library for WebGPU.
                unsafe { arrow_device_webgpu::load_library(file) }?;
            }
            arrow_device_webgpu::is_available()?;
            arrow_device_webgpu::open(0).map(Opened::one)
        },
    },
    Row {
        name: "wgpu",
        required_as: "vulkan",
        on_request: false,
        memory: Memory::Own,
        open: |_| wgpu(),
    },
    Row {
        name: "VPI",
        required_as: "vpi",
        on_request: false,
        memory: Memory::Own,
        open: |_| {
            arrow_device_vpi::open_with(&arrow_device_vpi::Options::built_in()).map(Opened::one)
        },
    },
    Row {
        name: "Metal",
        required_as: "gobjc",
        on_request: false,
        memory: Memory::Mapped,
        open: |_| metal(),
    },
    Row {
        name: "Hexagon, without a ring",
        required_as: "hexagon",
        on_request: false,
        memory: Memory::Mapped,
        open: |_| hexagon(),
    },
    Row {
        name: "CUDA",
        required_as: "cuda",
        on_request: false,
        memory: Memory::Runtime("cuda"),
        open: |_| gpus::cuda(arrow_device_cuda::Kind::Device),
    },
    Row {
        name: "CUDA, pinned",
        required_as: "cuda",
        on_request: false,
        memory: Memory::Pinned("cuda"),
        open: |_| gpus::cuda(arrow_device_cuda::Kind::Host),
    },
    Row {
        name: "CUDA, managed",
        required_as: "cuda",
        on_request: false,
        memory: Memory::Pinned("cuda"),
        open: |_| gpus::cuda(arrow_device_cuda::Kind::Managed),
    },
    Row {
        name: "ROCm",
        required_as: "rocm",
        on_request: false,
        memory: Memory::Runtime("rocm"),
        open: |_| gpus::rocm(arrow_device_rocm::Kind::Device),
    },
    Row {
        name: "ROCm, pinned",
        required_as: "rocm",
        on_request: false,
        memory: Memory::Pinned("rocm"),
        open: |_| gpus::rocm(arrow_device_rocm::Kind::Host),
    },
    Row {
        name: "oneAPI",
        required_as: "oneapi",
        on_request: false,
        memory: Memory::Own,
        open: |_| sycl::open(0, arrow_device_oneapi::Kind::Device),
    },
    Row {
        name: "oneAPI, memory of the host",
        required_as: "oneapi",
        on_request: false,
        memory: Memory::Mapped,
        open: |_| sycl::open(1, arrow_device_oneapi::Kind::Host),
    },
    Row {
        name: "OpenCL, another platform",
        // Such as Mesa's for the processor (`mesa-opencl-icd` of Debian), which in release 22.3
        // takes a mapping of one thread for another's now and then: run the tests with
        // `--test-threads=1`.
        required_as: "opencl-platforms",
        on_request: true,
        memory: Memory::Mapped,
        open: |_| {
            let index = opencl_device("of another platform", |first, other| {
                platform(&first.name) != platform(&other.name)
            })?;
            arrow_device_opencl::open(index).map(Opened::one)
        },
    },
];

/// A device with a queue; the host, too.
pub struct Place {
    /// What it is called in messages.
    pub name: String,
    /// The row that it comes from, as an index of [`ROWS`].
    pub row: usize,
    /// A queue on it.
    pub queue: Queue,
}

impl Place {
    /// Who gets at its memory.
    pub fn memory(&self) -> Memory {
        ROWS.get(self.row).map_or(Memory::Own, |row| row.memory)
    }

    /// Whether the host does.
    pub fn is_readable(&self) -> bool {
        matches!(self.memory(), Memory::Host | Memory::Mapped | Memory::Pinned(_))
    }

    /// Whether it is one of a runtime with several kinds of memory: CUDA, ROCm.
    pub fn is_gpu(&self) -> bool {
        self.memory().runtime().is_some()
    }

    /// Whether its queue gets at the other one's memory.
    pub fn reaches(&self, other: &Self) -> bool {
        let is_peer = self.row == other.row && self.memory() == Memory::Peers;
        let runtime = self.memory().runtime();
        let is_of_runtime = runtime.is_some() && runtime == other.memory().runtime();
        is_peer || is_of_runtime || self.queue.device().id() == other.queue.device().id()
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// All places at once.
pub struct World {
    /// The places, those of a row side by side.
    // Dropped before what they need to live.
    pub places: Vec<Place>,
    _keep: Vec<Box<dyn Any>>,
}

impl World {
    /// Opens what there is, and prints why the rest is not there.
    ///
    /// # Panics
    /// Where something is not there that is required, or cannot be opened for another reason.
    pub fn new(seed: u64) -> Self {
        prepare();
        gpus::prepare();
        sycl::prepare();
        let (mut places, mut keep) = (Vec::new(), Vec::new());
        for (row, Row { name, required_as, on_request, open, .. }) in ROWS.iter().enumerate() {
            if *on_request && !is_listed(required_as) {
                println!("skipped: {name}: not asked for with ARROW_DEVICE_REQUIRE={required_as}");
                continue;
            }
            let opened = match open(seed) {
                Ok(opened) => opened,
                Err(error) if is_absence(&error) => {
                    assert!(!is_required(required_as), "{name} is required: {error}");
                    println!("skipped: {name}: {error}");
                    continue;
                }
                Err(error) => panic!("{name}: {error}"),
            };
            let count = opened.devices.len();
            for (number, device) in opened.devices.iter().enumerate() {
                let name = if count == 1 { (*name).into() } else { format!("{name}, {number}") };
                let queue = device.open_queue().unwrap_or_else(|error| panic!("{name}: {error}"));
                places.push(Place { name, row, queue });
            }
            keep.extend(opened.keep);
        }
        Self { places, _keep: keep }
    }

    /// Every ordered pair, those of a place with itself included.
    pub fn pairs(&self) -> impl Iterator<Item = (&Place, &Place)> + Clone {
        self.places.iter().flat_map(|from| self.places.iter().map(move |to| (from, to)))
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.places).finish()
    }
}

/// Has PoCL show the processor as two devices, so that one of them can have shared virtual memory
/// (a device's number has one kind of memory in a process), and Mesa show it at all. What the user
/// has chosen is left as it is. PoCL's other driver for the processor, `basic`, locks itself out in
/// release 3.1 when several threads use it.
fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (name, value) in [("POCL_DEVICES", "pthread pthread"), ("RUSTICL_ENABLE", "llvmpipe")] {
            if std::env::var_os(name).is_none() {
                // SAFETY: "on multi-threaded programs on other operating systems, we strongly
                // suggest not using set_var" unless nobody reads the environment but through
                // `std::env`. In this process only drivers do, and they are loaded behind this, by
                // whoever passed this `Once`.
                unsafe { std::env::set_var(name, value) };
            }
        }
    });
}

/// The first device of the crate `wgpu`.
fn wgpu() -> Result<Opened> {
    let application = arrow_device_testkit::application::wgpu::Wgpu::new();
    let application =
        application.map_err(|reason| Error::new(ErrorKind::DeviceMissing, reason.to_string()))?;
    let is_lost = Arc::new(AtomicBool::new(false));
    let flag = is_lost.clone();
    application.device.set_device_lost_callback(move |_, _| flag.store(true, Ordering::Release));
    let opening = arrow_device_wgpu::Opening::new(&application.device, &application.queue);
    opening.with_loss(is_lost).open().map(Opened::one)
}

/// The default device: that of a Mac, and elsewhere that of the stand-in, which notes mistakes.
fn metal() -> Result<Opened> {
    struct Watched(&'static StandIn);

    impl Drop for Watched {
        fn drop(&mut self) {
            let mistakes = self.0.mistakes();
            assert!(mistakes.is_empty() || std::thread::panicking(), "{mistakes}");
        }
    }

    let stand_in = if cfg!(target_vendor = "apple") { None } else { StandIn::load() };
    let devices = vec![arrow_device_metal::open(0)?];
    Ok(Opened { devices, keep: stand_in.map(|it| Box::new(Watched(it)) as Box<dyn Any>) })
}

/// Memory of the stand-in for Qualcomm's library.
fn hexagon() -> Result<Opened> {
    use arrow_device_hexagon::{Opening, domain, open_with};
    let opening = Opening::new(domain::CDSP);
    // SAFETY: UNS-29, UNS-31: the functions are those of the stand-in, which is linked.
    let opening = unsafe { opening.with_functions(simulated_hexagon::memory::functions()) };
    open_with(opening).map(Opened::one)
}

fn simulated(count: usize, builder: Builder, seed: u64) -> Opened {
    let sim = builder.seed(seed).backtraces(false).build();
    let devices = (0..count).map(|number| sim.device_number(number)).collect();
    Opened { devices, keep: Some(Box::new(sim)) }
}

/// The first OpenCL device that is right when compared with the very first.
fn opencl_device(
    what: &str,
    is_right: fn(&arrow_device_opencl::Listed, &arrow_device_opencl::Listed) -> bool,
) -> Result<usize> {
    let listed = arrow_device_opencl::devices()?;
    let found =
        listed.iter().find(|device| listed.first().is_some_and(|first| is_right(first, device)));
    found.map(|device| device.index).ok_or_else(|| {
        Error::new(ErrorKind::DeviceMissing, format!("no second OpenCL device {what}"))
    })
}

/// The platform in the name of an OpenCL device.
fn platform(name: &str) -> Option<&str> {
    name.rsplit_once('(').map(|(_, platform)| platform)
}

/// Whether an error says that something is not there.
fn is_absence(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::DriverMissing | ErrorKind::DeviceMissing)
}
