//! What a device needs to export its memory to other processes, and to import theirs.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

use std::ffi::CStr;

use arrow_device::driver::SharingDomain;
use ash::vk;

use crate::memory_types::{EXTERNAL, MemoryType, MemoryTypes, USAGE, needs_of_buffers};

/// The functions and the facts of `VK_KHR_external_memory_fd` on one device.
pub(crate) struct External {
    pub(crate) functions: ash::khr::external_memory_fd::Device,
    pub(crate) domain: SharingDomain,
    /// One bit for each type of memory that buffers with exported or imported memory can have.
    memory_types: u32,
    /// What the descriptors are.
    pub(crate) files: Files,
}

/// What the descriptors of a driver are, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    /// Files of memory whose length is sealed. The driver reads where the file begins, and maps it.
    Sealed,
    /// Files of memory.
    Memory,
    /// Something that the driver hands to the system's driver of the device, which knows its own.
    OfKernel,
}

/// What memory has to do with other processes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// The memory belongs to this process alone.
    Own,
    /// The memory can be exported.
    Exportable(Exportable),
    /// The memory was imported.
    Imported,
}

impl Origin {
    /// Whether buffers are made for such memory in a way of its own.
    pub(crate) fn is_external(self) -> bool {
        !matches!(self, Self::Own)
    }
}

/// An allocation that can be exported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exportable {
    /// The buffer of the whole allocation.
    pub(crate) buffer: vk::Buffer,
    pub(crate) len: u64,
    /// The size of the `VkDeviceMemory`.
    pub(crate) size: u64,
    pub(crate) memory_type: u32,
}

impl External {
    /// Returns what the device has of the extension. `None` where buffers of this crate cannot be
    /// shared.
    ///
    /// # Safety
    /// UNS-29, as [`open_from`](crate::open_from) has it. The device was made with the extension.
    pub(crate) unsafe fn of(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        device: &ash::Device,
        families: &[u32],
        types: &MemoryTypes,
    ) -> Option<Self> {
        const NEEDED: &[&CStr] = &[c"vkGetMemoryFdKHR", c"vkGetMemoryFdPropertiesKHR"];
        let is_there = |name: &&CStr| {
            // SAFETY: the device is alive and was made through this instance (UNS-29); the name
            // ends with a zero.
            unsafe { instance.get_device_proc_addr(device.handle(), name.as_ptr()) }.is_some()
        };
        if !NEEDED.iter().all(is_there) {
            return None;
        }
        let asked =
            vk::PhysicalDeviceExternalBufferInfo::default().usage(USAGE).handle_type(EXTERNAL);
        let mut found = vk::ExternalBufferProperties::default();
        // SAFETY: UNS-29: the physical device is one of the instance's.
        unsafe {
            instance.get_physical_device_external_buffer_properties(physical, &asked, &mut found);
        }
        let features = found.external_memory_properties.external_memory_features;
        let both =
            vk::ExternalMemoryFeatureFlags::EXPORTABLE | vk::ExternalMemoryFeatureFlags::IMPORTABLE;
        // Memory that is dedicated to one buffer has no parts, and parts are what the columns of an
        // array lie in.
        let is_dedicated = features.contains(vk::ExternalMemoryFeatureFlags::DEDICATED_ONLY);
        if !features.contains(both) || is_dedicated {
            return None;
        }
        let needs = needs_of_buffers(device, families, true).ok()?;
        // The alignment is a property of the device, whatever memory is used.
        if needs.alignment > types.alignment {
            return None;
        }
        let mut ids = vk::PhysicalDeviceIDProperties::default();
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut all =
            vk::PhysicalDeviceProperties2::default().push_next(&mut ids).push_next(&mut driver);
        // SAFETY: UNS-29: the physical device is one of the instance's, and knows both structures
        // since Vulkan 1.2, which the device was made for.
        unsafe { instance.get_physical_device_properties2(physical, &mut all) };
        let is_of_host = all.properties.device_type == vk::PhysicalDeviceType::CPU;
        let files = match driver.driver_id {
            vk::DriverId::MESA_LLVMPIPE => Files::Sealed,
            _ if is_of_host => Files::Memory,
            _ => Files::OfKernel,
        };
        // Opaque descriptors can be opened where both numbers are equal: the table of the
        // compatibility of external memory handle types asks of `OPAQUE_FD` that `driverUUID` and
        // `deviceUUID` match. (An exclusive or would not do in place of a hash: a driver that makes
        // one number from the other, or gives both the same value, would leave nothing of them.)
        let numbers: [&[u8]; 2] = [&ids.device_uuid, &ids.driver_uuid];
        let domain = SharingDomain::of("vulkan opaque fd", &numbers);
        let functions = ash::khr::external_memory_fd::Device::new(instance, device);
        Some(Self { functions, domain, memory_types: needs.memory_type_bits, files })
    }

    /// Whether memory of a type can be exported and imported.
    pub(crate) fn admits(&self, memory_type: MemoryType) -> bool {
        self.memory_types.checked_shr(memory_type.index).is_some_and(|bits| bits & 1 == 1)
    }
}
