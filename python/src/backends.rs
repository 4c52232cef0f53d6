//! The devices that this package can open: a table with a row for each backend.
//!
//! Nothing is loaded and nothing opened before somebody asks. What was opened stays open as long as
//! the process, with one queue for the package's own copies, so that arrays of other libraries on
//! the same device can be waited for and copied.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use arrow_device::driver::{PerProcess, Turns};
use arrow_device::{Device, DeviceId, DeviceType, Error, ErrorKind, Queue, Result};

use crate::found::{Found, index, number};
use crate::{gpus, software, sycl_array};

/// One way to devices.
#[derive(Debug)]
pub(crate) struct Backend {
    /// What people call it.
    pub(crate) name: &'static str,
    /// The types of device that it opens.
    pub(crate) types: &'static [DeviceType],
    /// Whether it is left out of [`found`] unless one of its devices is open already.
    pub(crate) on_request: bool,
    /// The devices that there are, or why there are none.
    pub(crate) list: fn() -> Result<Vec<Found>>,
    /// Opens one.
    pub(crate) open: fn(DeviceId) -> Result<Device>,
}

/// A new backend is a new row here, and a dependency.
pub(crate) const BACKENDS: &[Backend] = &[
    Backend {
        name: "cpu",
        types: &[DeviceType::CPU],
        on_request: false,
        list: || Ok(vec![Found { id: DeviceId::CPU, name: "host memory".into() }]),
        open: |_| Ok(Device::host()),
    },
    Backend {
        name: "ext_dev",
        types: &[DeviceType::EXT_DEV],
        on_request: true,
        list: software::list,
        open: software::open,
    },
    Backend {
        name: "opencl",
        types: &[DeviceType::OPENCL],
        on_request: false,
        list: || {
            arrow_device_opencl::is_available()?;
            let listed = arrow_device_opencl::devices()?.into_iter();
            let found = listed.map(|device| Found {
                id: DeviceId::new(DeviceType::OPENCL, number(device.index)),
                name: device.name,
            });
            Ok(found.collect())
        },
        open: |id| arrow_device_opencl::open(index(id)?),
    },
    Backend {
        name: "oneapi",
        types: &[DeviceType::ONEAPI],
        on_request: false,
        list: || {
            sycl_array::find_library();
            arrow_device_oneapi::is_available()?;
            let listed = arrow_device_oneapi::devices()?.into_iter();
            let usable = listed.filter(|device| !device.kinds.is_empty());
            let found = usable.map(|device| Found {
                id: DeviceId::new(DeviceType::ONEAPI, number(device.index)),
                name: device.name,
            });
            Ok(found.collect())
        },
        open: |id| {
            sycl_array::find_library();
            arrow_device_oneapi::open(index(id)?)
        },
    },
    Backend {
        name: "vulkan",
        types: &[DeviceType::VULKAN],
        on_request: false,
        list: gpus::list_vulkan,
        open: |id| arrow_device_vulkan::open(index(id)?),
    },
    Backend {
        name: "webgpu",
        types: &[DeviceType::WEBGPU],
        on_request: false,
        list: gpus::list_webgpu,
        open: |id| arrow_device_webgpu::open(index(id)?),
    },
    Backend {
        name: "vpi",
        types: &[DeviceType::VPI],
        on_request: true,
        list: || {
            let listed = arrow_device_vpi::devices()?.into_iter();
            let found = listed.map(|device| Found {
                id: DeviceId::new(DeviceType::VPI, number(device.index)),
                name: device.name,
            });
            Ok(found.collect())
        },
        open: |id| arrow_device_vpi::open(index(id)?),
    },
    Backend {
        name: "metal",
        types: &[DeviceType::METAL],
        on_request: false,
        list: gpus::list_metal,
        open: gpus::open_metal,
    },
    Backend {
        name: "hexagon",
        types: &[DeviceType::HEXAGON],
        on_request: false,
        list: gpus::list_hexagon,
        open: |id| {
            let domain = u32::try_from(id.id).unwrap_or(u32::MAX);
            arrow_device_hexagon::open(domain)
        },
    },
    Backend {
        name: "cuda",
        types: &[DeviceType::CUDA, DeviceType::CUDA_HOST, DeviceType::CUDA_MANAGED],
        on_request: false,
        list: gpus::list_cuda,
        open: |id| arrow_device_cuda::open_with(gpus::ordinal(id)?, gpus::kind(id.device_type)),
    },
    Backend {
        name: "rocm",
        types: &[DeviceType::ROCM, DeviceType::ROCM_HOST],
        on_request: false,
        list: gpus::list_rocm,
        open: |id| arrow_device_rocm::open_with(gpus::ordinal(id)?, gpus::kind(id.device_type)),
    },
];

/// An open device, and the queue for the package's own work on it.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    /// What it was asked for by, where that differs from what arrays carry: the place of a Vulkan
    /// or WebGPU device in the list.
    asked: DeviceId,
    pub(crate) device: Device,
    pub(crate) queue: Queue,
    /// The queue that other libraries are told of: the default one, on which most of them work, or
    /// else the one above.
    pub(crate) advertised: Queue,
}

/// A child of `fork` opens devices anew, where that is possible.
static OPENED: PerProcess<Mutex<Vec<Opened>>> = PerProcess::new(Mutex::new(Vec::new()));
/// Two threads do not both open a device. No lock is held meanwhile: a release on the way may need
/// Python, which a thread may have that looks at the list.
static OPENING: PerProcess<Turns<()>> = PerProcess::new(Turns::new(()));

/// What the devices are called that this process has opened, and the processes that it was forked
/// from: arrays of the parent process are named by their devices, too.
static NAMES: Mutex<Vec<(DeviceId, DeviceId)>> = Mutex::new(Vec::new());
/// How often the names are asked for. A thread that had their lock at a `fork` is not there in the
/// child, where the names are not to be had then.
const LOOKS: usize = 1000;

fn names() -> Option<MutexGuard<'static, Vec<(DeviceId, DeviceId)>>> {
    (0..LOOKS).find_map(|_| match NAMES.try_lock() {
        Ok(names) => Some(names),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) => {
            thread::yield_now();
            None
        }
    })
}

fn opened() -> MutexGuard<'static, Vec<Opened>> {
    OPENED.get().lock().unwrap_or_else(PoisonError::into_inner)
}

fn known(id: DeviceId) -> Option<Opened> {
    opened().iter().find(|known| known.asked == id || is_same(known.device.id(), id)).cloned()
}

/// All devices that there are, and for each backend without one the reason.
pub(crate) fn found() -> (Vec<Found>, Vec<(&'static str, Error)>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for backend in BACKENDS {
        if backend.on_request && !backend.types.iter().any(|of| is_open(*of)) {
            continue;
        }
        match (backend.list)() {
            Ok(listed) => found.extend(listed),
            Err(why) => missing.push((backend.name, why)),
        }
    }
    (found, missing)
}

/// The backend for a type of device.
pub(crate) fn backend(of: DeviceType) -> Option<&'static Backend> {
    BACKENDS.iter().find(|backend| backend.types.contains(&of))
}

/// Opens a device, or finds it open.
pub(crate) fn open(id: DeviceId) -> Result<Opened> {
    if let Some(known) = known(id) {
        return Ok(known);
    }
    let _turn = OPENING.get().take_turn("the list of open devices")?;
    if let Some(known) = known(id) {
        return Ok(known);
    }
    let device = match (Device::find(id), backend(id.device_type)) {
        (Some(device), _) => device,
        // A driver that is not there knows of no device.
        (None, Some(backend)) => (backend.open)(id).map_err(|error| match error.device() {
            Some(_) => error,
            None => error.on_device(id),
        })?,
        (None, None) => return Err(no_backend(id)),
    };
    let of_device = |known: &&Opened| known.device.id() == device.id();
    let found = opened().iter().find(of_device).cloned();
    if let Some(found) = found {
        return Ok(found);
    }
    let queue = if device.id() == DeviceId::CPU { Queue::host() } else { device.open_queue()? };
    let advertised = device.default_queue().unwrap_or_else(|| queue.clone());
    let entry = Opened { asked: id, device, queue, advertised };
    opened().push(entry.clone());
    let (id, name) = (entry.device.id(), called(entry.device.id()));
    if let Some(mut names) = names() {
        names.push((id, name));
    }
    Ok(entry)
}

/// The usual entry of a device that was opened from somebody else's queue, or one of its own where
/// the queue has another context.
pub(crate) fn open_as(device: Device) -> Result<Opened> {
    let usual = open(device.id())?;
    if usual.device.driver().runtime() == device.driver().runtime() {
        return Ok(usual);
    }
    let queue = device.open_queue()?;
    Ok(Opened { asked: device.id(), device, advertised: queue.clone(), queue })
}

/// What people call a device. All numbers of the host are one device. Arrays on Vulkan and WebGPU
/// carry a handle, and those on a software device a number of their own, whose values say nothing:
/// such a device is called by its place in the list, also in a child of `fork`.
pub(crate) fn called(id: DeviceId) -> DeviceId {
    let here = match id.device_type {
        DeviceType::CPU => return DeviceId::CPU,
        DeviceType::EXT_DEV => software::called(id),
        DeviceType::VULKAN | DeviceType::WEBGPU | DeviceType::METAL => {
            opened().iter().find(|known| known.device.id() == id).map_or(id, |known| known.asked)
        }
        _ => return id,
    };
    if here != id {
        return here;
    }
    let named =
        |names: &[(DeviceId, DeviceId)]| names.iter().rev().find(|(of, _)| *of == id).copied();
    names().and_then(|names| named(&names)).map_or(id, |(_, name)| name)
}

/// A text with devices in it, which are called in it what people call them.
pub(crate) fn in_words(text: String) -> String {
    let replaced = |text: String, id: &DeviceId| {
        let name = called(*id);
        if *id == name || *id == DeviceId::CPU {
            return text;
        }
        text.replace(&id.to_string(), &name.to_string())
    };
    // Without the locks, which `called` takes.
    let mut all: Vec<DeviceId> = opened().iter().map(|known| known.device.id()).collect();
    if let Some(names) = names() {
        all.extend(names.iter().map(|(id, _)| *id));
    }
    all.iter().fold(text, replaced)
}

/// What is said of a device that no backend opens.
pub(crate) fn no_backend(id: DeviceId) -> Error {
    let names: Vec<&str> = BACKENDS.iter().map(|backend| backend.name).collect();
    let message = format!("this build has no backend for it; it has {}", names.join(", "));
    Error::new(ErrorKind::DeviceMissing, message).on_device(id)
}

fn is_same(one: DeviceId, other: DeviceId) -> bool {
    one == other || (one.device_type == DeviceType::CPU && other.device_type == DeviceType::CPU)
}

fn is_open(of: DeviceType) -> bool {
    opened().iter().any(|known| known.device.id().device_type == of)
}
