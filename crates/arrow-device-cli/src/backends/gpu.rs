//! What CUDA and ROCm devices have in common: one GPU is a device of several types, one for each
//! kind of its memory.

use arrow_device::{DeviceType, Result};
use arrow_device_gpu::{Diagnosis, Kind};

use super::{Found, Name};

/// All devices of the GPUs that were found, in the order of their types.
pub(super) fn found(types: &[DeviceType], diagnosis: Diagnosis) -> Result<Vec<Found>> {
    if let Some(problem) = diagnosis.problem {
        return Err(problem);
    }
    let mut found = Vec::new();
    for &device_type in types {
        let kind = kind(device_type);
        let gpus = diagnosis.devices.iter();
        let gpus = gpus.filter(|gpu| kind != Kind::Managed || gpu.has_managed_memory);
        found.extend(gpus.map(|gpu| Found {
            name: Name { device_type, number: gpu.ordinal },
            title: gpu.name.clone(),
            // Pinned memory is the host's.
            memory: (kind != Kind::Host).then_some(gpu.memory),
            driver_version: diagnosis.version.clone(),
        }));
    }
    Ok(found)
}

/// The memory that a type of device means.
pub(super) fn kind(device_type: DeviceType) -> Kind {
    match device_type {
        DeviceType::CUDA_HOST | DeviceType::ROCM_HOST => Kind::Host,
        DeviceType::CUDA_MANAGED => Kind::Managed,
        _ => Kind::Device,
    }
}
