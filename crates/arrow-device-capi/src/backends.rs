//! Which devices there are: a row for each backend that the library was built with.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;

use arrow_device::convention::{self, Convention};
use arrow_device::driver::{Addressing, HostAccess, Readiness};
use arrow_device::{Device, DeviceId, DeviceType, Error, ErrorKind, Result};

use crate::call::{Out, get, null, run};
use crate::device::ArdevDevice;
use crate::error::{ArdevError, copy_text};
use crate::sized::OutGrows;

pub const ARDEV_DEVICE_HOST_READABLE: u32 = 1;
pub const ARDEV_DEVICE_HANDLES: u32 = 2;
pub const ARDEV_DEVICE_NO_EVENTS: u32 = 4;
pub const ARDEV_DEVICE_ONE_QUEUE: u32 = 8;
pub const ARDEV_DEVICE_EVENT_OBJECTS: u32 = 16;
pub const ARDEV_DEVICE_PARTS: u32 = 32;
pub const ARDEV_DEVICE_DISTINCT_COPIES: u32 = 64;
pub const ARDEV_DEVICE_SEPARATE: u32 = 128;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArdevDeviceInfo {
    pub struct_size: usize,
    pub device_type: i32,
    pub status: i32,
    pub device_id: i64,
    pub alignment: u64,
    pub flags: u32,
    pub name: [c_char; 252],
}

/// What the library was built with for one type of device.
pub(crate) struct Backend {
    device_type: DeviceType,
    list: fn() -> Result<Vec<(i64, String)>>,
    pub(crate) open: fn(i64) -> Result<Device>,
    /// Opens it with one of the kinds of memory in the header, other than the usual one.
    pub(crate) open_with: Option<fn(i64, i32) -> Result<Device>>,
    /// Opens a device of somebody else's context.
    pub(crate) open_in: Option<OpenIn>,
    /// Opens the device of an array that somebody else made, whose id alone does not tell it.
    pub(crate) open_for: Option<OpenFor>,
}

pub(crate) type OpenIn =
    unsafe fn(context: NonNull<c_void>, device: NonNull<c_void>, memory: i32) -> Result<Device>;
pub(crate) type OpenFor = unsafe fn(memory: *const c_void, device_id: i64) -> Result<Device>;

/// The host, which has no choices; and what a row has that does not say otherwise.
const HOST: Backend = Backend {
    device_type: DeviceType::CPU,
    list: || Ok(vec![(DeviceId::CPU.id, Device::host().properties().name.clone())]),
    open: |_| Ok(Device::host()),
    open_with: None,
    open_in: None,
    open_for: None,
};

/// A backend is a row here, and a feature.
const BACKENDS: &[Backend] = &[
    HOST,
    #[cfg(feature = "opencl")]
    Backend {
        device_type: DeviceType::OPENCL,
        list: opencl::list,
        open: opencl::open,
        open_with: Some(opencl::open_with),
        open_in: Some(opencl::open_in),
        open_for: Some(opencl::open_for),
    },
    #[cfg(feature = "oneapi")]
    Backend {
        device_type: DeviceType::ONEAPI,
        list: oneapi::list,
        open: oneapi::open,
        open_with: Some(oneapi::open_with),
        ..HOST
    },
    #[cfg(feature = "vulkan")]
    Backend {
        device_type: DeviceType::VULKAN,
        list: vulkan::list,
        open: vulkan::open,
        open_with: Some(vulkan::open_with),
        open_for: Some(vulkan::open_for),
        ..HOST
    },
    #[cfg(feature = "webgpu")]
    Backend {
        device_type: DeviceType::WEBGPU,
        list: webgpu::list,
        open: webgpu::open,
        open_in: Some(webgpu::open_in),
        open_for: Some(webgpu::open_for),
        ..HOST
    },
    #[cfg(feature = "vpi")]
    Backend { device_type: DeviceType::VPI, list: vpi::list, open: vpi::open, ..HOST },
    #[cfg(feature = "metal")]
    Backend {
        device_type: DeviceType::METAL,
        list: metal::list,
        open: metal::open,
        open_for: Some(metal::open_for),
        ..HOST
    },
    #[cfg(feature = "cuda")]
    Backend {
        device_type: DeviceType::CUDA,
        list: || cuda::list(arrow_device_cuda::Kind::Device),
        open: |id| cuda::open(id, arrow_device_cuda::Kind::Device),
        ..HOST
    },
    #[cfg(feature = "cuda")]
    Backend {
        device_type: DeviceType::CUDA_HOST,
        list: || cuda::list(arrow_device_cuda::Kind::Host),
        open: |id| cuda::open(id, arrow_device_cuda::Kind::Host),
        ..HOST
    },
    #[cfg(feature = "cuda")]
    Backend {
        device_type: DeviceType::CUDA_MANAGED,
        list: || cuda::list(arrow_device_cuda::Kind::Managed),
        open: |id| cuda::open(id, arrow_device_cuda::Kind::Managed),
        ..HOST
    },
    #[cfg(feature = "rocm")]
    Backend {
        device_type: DeviceType::ROCM,
        list: rocm::list,
        open: |id| rocm::open(id, arrow_device_rocm::Kind::Device),
        ..HOST
    },
    #[cfg(feature = "rocm")]
    Backend {
        device_type: DeviceType::ROCM_HOST,
        list: rocm::list,
        open: |id| rocm::open(id, arrow_device_rocm::Kind::Host),
        ..HOST
    },
    #[cfg(feature = "hexagon")]
    Backend { device_type: DeviceType::HEXAGON, list: hexagon::list, open: hexagon::open, ..HOST },
    #[cfg(feature = "software")]
    Backend {
        device_type: DeviceType::EXT_DEV,
        list: || Ok(vec![(0, "software device, for tests; the id is its seed".to_owned())]),
        open: software::open,
        ..HOST
    },
];

impl ArdevDeviceInfo {
    fn new(device_type: DeviceType, device_id: i64, name: &str) -> Self {
        let mut info = Self {
            struct_size: 0,
            device_type: device_type.0,
            status: 0,
            device_id,
            alignment: 0,
            flags: 0,
            name: [0; 252],
        };
        copy_text(&mut info.name, name);
        info
    }

    /// The row of a type of device that cannot be used.
    fn missing(device_type: DeviceType, error: &Error) -> Self {
        Self { status: error.errno(), ..Self::new(device_type, 0, &error.to_string()) }
    }

    fn of(device: &Device) -> Self {
        let (id, properties) = (device.id(), device.properties());
        let flags = [
            (properties.host_access == HostAccess::Mapped, ARDEV_DEVICE_HOST_READABLE),
            (properties.addressing == Addressing::Handle, ARDEV_DEVICE_HANDLES),
            (properties.readiness == Readiness::HostWait, ARDEV_DEVICE_NO_EVENTS),
            (properties.readiness == Readiness::QueueOrder, ARDEV_DEVICE_ONE_QUEUE),
            (properties.parts, ARDEV_DEVICE_PARTS),
            (properties.distinct_copies, ARDEV_DEVICE_DISTINCT_COPIES),
            (properties.separate, ARDEV_DEVICE_SEPARATE),
        ];
        let flags = flags.iter().filter(|(is_so, _)| *is_so).fold(0, |all, (_, flag)| all | flag);
        let alignment = properties.alignment as u64;
        Self { alignment, flags, ..Self::new(id.device_type, id.id, &properties.name) }
    }
}

pub(crate) fn backend(device_type: DeviceType) -> Option<&'static Backend> {
    BACKENDS.iter().find(|backend| backend.device_type == device_type)
}

pub(crate) fn not_built_in(device_type: DeviceType) -> Error {
    let message = format!(
        "this library was built without devices of type {device_type}; a device that is registered is found by its id"
    );
    Error::new(ErrorKind::Unsupported, message).during("open")
}

pub(crate) fn no_such_memory(device_type: DeviceType, memory: i32) -> Error {
    let message = format!(
        "devices of type {device_type} have no kind of memory {memory}: the header says which there are"
    );
    Error::new(ErrorKind::Unsupported, message).during("open")
}

/// The number that the C interface has for a place in a backend's list.
#[allow(dead_code, reason = "a build without backends has no lists")]
fn number(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}

/// The place in a backend's list, beyond its end for a number that is no place.
#[allow(dead_code, reason = "a build without backends has no lists")]
fn index(id: i64) -> usize {
    usize::try_from(id).unwrap_or(usize::MAX)
}

/// All rows of the list: of each backend, and one of the types whose backends are not in the build.
fn rows() -> Vec<ArdevDeviceInfo> {
    let of_backend = |backend: &Backend| match (backend.list)() {
        Err(error) => vec![ArdevDeviceInfo::missing(backend.device_type, &error)],
        Ok(found) => {
            found.iter().map(|(id, name)| listed(backend.device_type, *id, name)).collect()
        }
    };
    let mut rows = Vec::new();
    let mut others = Vec::new();
    for Convention { device_type, .. } in convention::ALL {
        match backend(*device_type) {
            Some(backend) => rows.extend(of_backend(backend)),
            None => others.push(device_type.to_string()),
        }
    }
    if !others.is_empty() {
        let name = format!("not in this build: {}", others.join(", "));
        let none = ArdevDeviceInfo::new(DeviceType(0), 0, &name);
        rows.push(ArdevDeviceInfo { status: not_built_in(DeviceType(0)).errno(), ..none });
    }
    rows
}

/// A device that can be opened, with all that is known of it if it is open.
fn listed(device_type: DeviceType, id: i64, name: &str) -> ArdevDeviceInfo {
    let row = ArdevDeviceInfo::new(device_type, id, name);
    match Device::find(DeviceId::new(device_type, id)) {
        Some(open) => ArdevDeviceInfo { name: row.name, ..ArdevDeviceInfo::of(&open) },
        None => row,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_device_list(
    infos: *mut ArdevDeviceInfo,
    capacity: usize,
    count: *mut usize,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 1 of the header.
        let count = unsafe { Out::new(count, 0, "count") }?;
        if infos.is_null() && capacity > 0 {
            return Err(null("infos"));
        }
        // SAFETY: rule 6 of the header, which asks for room for `capacity` rows.
        let places = unsafe { OutGrows::all(infos, capacity, "infos") }?;
        let rows = rows();
        for (place, row) in places.into_iter().zip(&rows) {
            place.put(*row)?;
        }
        count.put(rows.len())
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_device_inspect(
    device: *const ArdevDevice,
    out: *mut ArdevDeviceInfo,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 6 of the header.
        let out = unsafe { OutGrows::new(out, "out") }?;
        // SAFETY: rule 2 of the header.
        let device = unsafe { get(device, "device") }?;
        out.put(ArdevDeviceInfo::of(&device.0))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_device_mistakes(
    device: *const ArdevDevice,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let device = unsafe { get(device, "device") }?;
        match mistakes(device.0.id()) {
            Some(text) => Err(Error::new(ErrorKind::InvalidArgument, text)),
            None => Ok(()),
        }
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[cfg(feature = "software")]
fn mistakes(id: DeviceId) -> Option<String> {
    software::mistakes(id)
}

#[cfg(not(feature = "software"))]
fn mistakes(_: DeviceId) -> Option<String> {
    None
}

#[cfg(feature = "oneapi")]
pub(crate) mod oneapi {
    use super::*;
    use crate::memory_kinds::{
        ARDEV_MEMORY_AUTOMATIC, ARDEV_MEMORY_USM_HOST, ARDEV_MEMORY_USM_SHARED,
    };
    use arrow_device_oneapi::Kind;

    pub(super) fn list() -> Result<Vec<(i64, String)>> {
        arrow_device_oneapi::is_available()?;
        let devices = arrow_device_oneapi::devices()?.into_iter();
        let usable = devices.filter(|device| !device.kinds.is_empty());
        Ok(usable.map(|device| (number(device.index), device.name)).collect())
    }

    pub(super) fn open(id: i64) -> Result<Device> {
        arrow_device_oneapi::open(index(id))
    }

    pub(super) fn open_with(id: i64, memory: i32) -> Result<Device> {
        let index = super::index(id);
        arrow_device_oneapi::open_with(index, kind(memory)?)
    }

    pub(crate) fn kind(memory: i32) -> Result<Kind> {
        match memory {
            ARDEV_MEMORY_AUTOMATIC => Ok(Kind::Device),
            ARDEV_MEMORY_USM_HOST => Ok(Kind::Host),
            ARDEV_MEMORY_USM_SHARED => Ok(Kind::Shared),
            other => Err(no_such_memory(DeviceType::ONEAPI, other)),
        }
    }
}

#[cfg(feature = "opencl")]
mod opencl {
    use super::*;
    use crate::memory_kinds::{ARDEV_MEMORY_AUTOMATIC, ARDEV_MEMORY_SVM};
    use arrow_device_opencl::Kind;

    pub(super) fn list() -> Result<Vec<(i64, String)>> {
        arrow_device_opencl::is_available()?;
        let devices = arrow_device_opencl::devices()?.into_iter();
        Ok(devices.map(|device| (number(device.index), device.name)).collect())
    }

    pub(super) fn open(id: i64) -> Result<Device> {
        arrow_device_opencl::open(index(id))
    }

    pub(super) fn open_with(id: i64, memory: i32) -> Result<Device> {
        let index = super::index(id);
        arrow_device_opencl::open_with(index, kind(memory)?)
    }

    pub(super) unsafe fn open_in(
        context: NonNull<c_void>,
        device: NonNull<c_void>,
        memory: i32,
    ) -> Result<Device> {
        let kind = kind(memory)?;
        // SAFETY: UNS-29, which the caller keeps, as the header asks.
        unsafe { arrow_device_opencl::open_from(context, device, kind) }
    }

    pub(super) unsafe fn open_for(memory: *const c_void, id: i64) -> Result<Device> {
        let memory = NonNull::new(memory.cast_mut()).ok_or_else(|| null("memory"))?;
        // SAFETY: UNS-29, which the caller keeps, as the header asks.
        unsafe { arrow_device_opencl::open_for(memory, id) }
    }

    fn kind(memory: i32) -> Result<Kind> {
        match memory {
            ARDEV_MEMORY_AUTOMATIC => Ok(Kind::Buffers),
            ARDEV_MEMORY_SVM => Ok(Kind::Svm),
            other => Err(no_such_memory(DeviceType::OPENCL, other)),
        }
    }
}

#[cfg(feature = "metal")]
mod metal {
    use super::*;

    pub(super) fn list() -> Result<Vec<(i64, String)>> {
        let devices = arrow_device_metal::devices()?.into_iter();
        Ok(devices.map(|device| (number(device.index), device.name)).collect())
    }

    /// The one in this place of the list, or the one that arrays name so.
    pub(super) fn open(id: i64) -> Result<Device> {
        match usize::try_from(id).ok().map(arrow_device_metal::open) {
            Some(Ok(device)) => Ok(device),
            _ => arrow_device_metal::open_for(id),
        }
    }

    pub(super) unsafe fn open_for(_: *const c_void, id: i64) -> Result<Device> {
        arrow_device_metal::open_for(id)
    }
}

#[cfg(feature = "vulkan")]
pub(crate) mod vulkan {
    use super::*;
    use crate::memory_kinds::{
        ARDEV_MEMORY_AUTOMATIC, ARDEV_MEMORY_DEVICE_ONLY, ARDEV_MEMORY_HOST_VISIBLE,
    };
    use arrow_device_vulkan::Placement;

    pub(super) fn list() -> Result<Vec<(i64, String)>> {
        arrow_device_vulkan::is_available()?;
        let devices = arrow_device_vulkan::devices()?.into_iter().filter(|device| device.can_open);
        Ok(devices.map(|device| (number(device.index), device.name)).collect())
    }

    /// The one that is open as this `VkDevice`, or the one in this place of the list.
    pub(super) fn open(id: i64) -> Result<Device> {
        match Device::find(DeviceId::new(DeviceType::VULKAN, id)) {
            Some(open) => Ok(open),
            None => arrow_device_vulkan::open(index(id)),
        }
    }

    pub(super) fn open_with(id: i64, memory: i32) -> Result<Device> {
        let index = super::index(id);
        arrow_device_vulkan::open_with(index, placement(memory)?)
    }

    pub(super) unsafe fn open_for(_: *const c_void, id: i64) -> Result<Device> {
        arrow_device_vulkan::open_for(id)
    }

    pub(crate) fn placement(memory: i32) -> Result<Placement> {
        match memory {
            ARDEV_MEMORY_AUTOMATIC => Ok(Placement::Automatic),
            ARDEV_MEMORY_HOST_VISIBLE => Ok(Placement::HostVisible),
            ARDEV_MEMORY_DEVICE_ONLY => Ok(Placement::DeviceOnly),
            other => Err(no_such_memory(DeviceType::VULKAN, other)),
        }
    }
}

#[cfg(feature = "webgpu")]
mod webgpu {
    use super::*;

    pub(super) fn list() -> Result<Vec<(i64, String)>> {
        arrow_device_webgpu::is_available()?;
        let devices = arrow_device_webgpu::devices()?.into_iter();
        Ok(devices.map(|device| (number(device.index), device.name)).collect())
    }

    /// The one that is open as this `WGPUDevice`, or the one in this place of the list.
    pub(super) fn open(id: i64) -> Result<Device> {
        match Device::find(DeviceId::new(DeviceType::WEBGPU, id)) {
            Some(open) => Ok(open),
            None => arrow_device_webgpu::open(index(id)),
        }
    }

    /// The context is the queue of the device. The WebGPU library is the one that this process
    /// loads.
    pub(super) unsafe fn open_in(
        queue: NonNull<c_void>,
        device: NonNull<c_void>,
        memory: i32,
    ) -> Result<Device> {
        if memory != crate::memory_kinds::ARDEV_MEMORY_AUTOMATIC {
            return Err(no_such_memory(DeviceType::WEBGPU, memory));
        }
        let handles = arrow_device_webgpu::Handles::new(device, queue);
        // SAFETY: UNS-29 and UNS-31, which the caller keeps, as the header asks. Without a lock a
        // device of Dawn that needs one is refused (UNS-30).
        unsafe { arrow_device_webgpu::open_from(handles) }
    }

    pub(super) unsafe fn open_for(_: *const c_void, id: i64) -> Result<Device> {
        arrow_device_webgpu::open_for(id)
    }
}

#[cfg(feature = "vpi")]
mod vpi {
    use super::*;

    pub(super) fn list() -> Result<Vec<(i64, String)>> {
        let devices = arrow_device_vpi::devices()?.into_iter();
        Ok(devices.map(|device| (number(device.index), device.name)).collect())
    }

    /// The one that is open by this number, or a new one.
    pub(super) fn open(id: i64) -> Result<Device> {
        arrow_device_vpi::open(index(id))
    }
}

#[cfg(feature = "cuda")]
mod cuda {
    use super::*;
    use arrow_device_cuda::Kind;

    pub(super) fn list(kind: Kind) -> Result<Vec<(i64, String)>> {
        let has =
            |device: &arrow_device_cuda::Listed| kind != Kind::Managed || device.has_managed_memory;
        let devices = arrow_device_cuda::devices()?.into_iter().filter(has);
        Ok(devices.map(|device| (number(device.ordinal), device.name)).collect())
    }

    pub(super) fn open(id: i64, kind: Kind) -> Result<Device> {
        arrow_device_cuda::open_with(super::ordinal(id, kind == Kind::Device), kind)
    }
}

#[cfg(feature = "rocm")]
mod rocm {
    use super::*;
    use arrow_device_rocm::Kind;

    pub(super) fn list() -> Result<Vec<(i64, String)>> {
        let devices = arrow_device_rocm::devices()?.into_iter();
        Ok(devices.map(|device| (number(device.ordinal), device.name)).collect())
    }

    pub(super) fn open(id: i64, kind: Kind) -> Result<Device> {
        arrow_device_rocm::open_with(super::ordinal(id, kind == Kind::Device), kind)
    }
}

/// The GPU that a number stands for. Pinned and managed memory belong to all, and carry -1 for
/// that.
#[cfg(any(feature = "cuda", feature = "rocm"))]
fn ordinal(id: i64, is_of_one: bool) -> usize {
    let id = if id == -1 && !is_of_one { 0 } else { id };
    index(id)
}

#[cfg(feature = "hexagon")]
mod hexagon {
    use super::*;
    use arrow_device_hexagon::{domain, is_available};

    /// The compute DSP. Whether there are more DSPs shows when an application opens a session.
    pub(super) fn list() -> Result<Vec<(i64, String)>> {
        is_available()?;
        Ok(vec![(domain::CDSP.into(), "memory of the compute DSP".to_owned())])
    }

    pub(super) fn open(id: i64) -> Result<Device> {
        arrow_device_hexagon::open(u32::try_from(id).unwrap_or(u32::MAX))
    }
}

#[cfg(feature = "software")]
mod software {
    use std::sync::{Mutex, PoisonError};

    use super::*;
    use arrow_device::driver::PerProcess;
    use arrow_device_sim::Sim;

    /// Kept for the process: a simulator goes after all that is on it.
    static SIMS: PerProcess<Mutex<Vec<Sim>>> = PerProcess::new(Mutex::new(Vec::new()));

    /// One that is open, or a new one with this seed.
    pub(super) fn open(id: i64) -> Result<Device> {
        if let Some(open) = Device::find(DeviceId::new(DeviceType::EXT_DEV, id)) {
            return Ok(open);
        }
        let sim = Sim::builder().seed(id.cast_unsigned()).backtraces(false).build();
        let device = sim.device();
        SIMS.get().lock().unwrap_or_else(PoisonError::into_inner).push(sim);
        Ok(device)
    }

    pub(super) fn mistakes(id: DeviceId) -> Option<String> {
        let sims = SIMS.get().lock().unwrap_or_else(PoisonError::into_inner);
        let sim = sims.iter().find(|sim| sim.device().id() == id)?;
        let reports: Vec<String> = sim.take_reports().iter().map(ToString::to_string).collect();
        (!reports.is_empty()).then(|| reports.join("\n\n"))
    }
}
