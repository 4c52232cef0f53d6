//! What the rows of GPUs need: how their devices are listed and numbered.

use arrow_device::{Device, DeviceId, DeviceType, Result};
use arrow_device_cuda::Kind;

use crate::found::{Found, index, number};

/// By the place in the driver's list. The number that arrays carry is a handle, which there is once
/// a device is open.
pub(crate) fn list_vulkan() -> Result<Vec<Found>> {
    arrow_device_vulkan::is_available()?;
    let listed = arrow_device_vulkan::devices()?.into_iter().filter(|device| device.can_open);
    let found = listed.map(|device| Found {
        id: DeviceId::new(DeviceType::VULKAN, number(device.index)),
        name: device.name,
    });
    Ok(found.collect())
}

/// By the place in the library's list. The number that arrays carry is a handle, too.
pub(crate) fn list_webgpu() -> Result<Vec<Found>> {
    arrow_device_webgpu::is_available()?;
    let found = arrow_device_webgpu::devices()?.into_iter().map(|device| Found {
        id: DeviceId::new(DeviceType::WEBGPU, number(device.index)),
        name: device.name,
    });
    Ok(found.collect())
}

/// By the place in the list, as Vulkan's.
pub(crate) fn list_metal() -> Result<Vec<Found>> {
    arrow_device_metal::is_available()?;
    let found = arrow_device_metal::devices()?.into_iter().map(|device| Found {
        id: DeviceId::new(DeviceType::METAL, number(device.index)),
        name: device.name,
    });
    Ok(found.collect())
}

/// By the place in the list, or by what arrays carry.
pub(crate) fn open_metal(id: DeviceId) -> Result<Device> {
    match index(id).and_then(arrow_device_metal::open) {
        Ok(device) => Ok(device),
        Err(_) => arrow_device_metal::open_for(id.id),
    }
}

/// The compute DSP. Whether there are more DSPs shows when an application opens a session.
pub(crate) fn list_hexagon() -> Result<Vec<Found>> {
    arrow_device_hexagon::is_available()?;
    let id = DeviceId::new(DeviceType::HEXAGON, arrow_device_hexagon::domain::CDSP.into());
    Ok(vec![Found { id, name: "memory of the compute DSP".into() }])
}

/// Each device with its own memory, then the memory that it shares with the host.
pub(crate) fn list_cuda() -> Result<Vec<Found>> {
    let of = |device: arrow_device_cuda::Listed| {
        let managed = device.has_managed_memory.then_some((DeviceType::CUDA_MANAGED, "managed"));
        let shared = [Some((DeviceType::CUDA_HOST, "pinned")), managed];
        kinds(DeviceType::CUDA, device.ordinal, &device.name, shared)
    };
    Ok(arrow_device_cuda::devices()?.into_iter().flat_map(of).collect())
}

/// The same for ROCm, which has no type for managed memory.
pub(crate) fn list_rocm() -> Result<Vec<Found>> {
    let of = |device: arrow_device_rocm::Listed| {
        let shared = [Some((DeviceType::ROCM_HOST, "pinned")), None];
        kinds(DeviceType::ROCM, device.ordinal, &device.name, shared)
    };
    Ok(arrow_device_rocm::devices()?.into_iter().flat_map(of).collect())
}

fn kinds(
    own: DeviceType,
    ordinal: usize,
    name: &str,
    shared: [Option<(DeviceType, &str)>; 2],
) -> Vec<Found> {
    let id = |of| DeviceId::new(of, number(ordinal));
    let shared = shared.into_iter().flatten();
    let shared =
        shared.map(|(of, what)| Found { id: id(of), name: format!("{name}, {what} memory") });
    [Found { id: id(own), name: name.to_owned() }].into_iter().chain(shared).collect()
}

/// Which memory a type stands for.
pub(crate) fn kind(of: DeviceType) -> Kind {
    match of {
        DeviceType::CUDA_HOST | DeviceType::ROCM_HOST => Kind::Host,
        DeviceType::CUDA_MANAGED => Kind::Managed,
        _ => Kind::Device,
    }
}

/// The GPU that a number stands for. Pinned and managed memory belong to all, and carry -1 for
/// that.
pub(crate) fn ordinal(id: DeviceId) -> Result<usize> {
    if id.id == -1 && kind(id.device_type) != Kind::Device { Ok(0) } else { index(id) }
}
