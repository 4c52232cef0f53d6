//! The devices that this crate opens itself: one `VkDevice` with one queue for each physical
//! device, kept until the process ends.

use std::ffi::{CStr, c_char};
use std::sync::{Arc, Mutex};

use arrow_device::{Error, ErrorKind, Result};
use ash::vk::{self, Handle};

use crate::error::check;
use crate::loader;
use crate::logical::{Logical, lock, name_of};
use crate::{Handles, Listed};

/// The devices that were opened, by the handles of their physical devices.
static OPENED: Mutex<Vec<(u64, Arc<Logical>)>> = Mutex::new(Vec::new());

pub(crate) fn list() -> Result<Vec<Listed>> {
    let instance = loader::own_instance()?;
    let describe = |(index, physical): (usize, vk::PhysicalDevice)| {
        // SAFETY: the physical device was just listed.
        let properties = unsafe { instance.get_physical_device_properties(physical) };
        let can_open = lack(&instance, physical, &properties).is_none();
        let driver_version = driver_version(&instance, physical, &properties);
        let memory = memory(&instance, physical);
        Listed { index, name: name_of(&properties), memory, driver_version, can_open }
    };
    Ok(physical_devices(&instance)?.into_iter().enumerate().map(describe).collect())
}

/// Returns the device of this number. All callers get the same device.
pub(crate) fn open(index: usize) -> Result<Arc<Logical>> {
    let instance = loader::own_instance()?;
    let missing = || {
        let message = format!("Vulkan has no device {index}: `devices()` lists what there is");
        Error::new(ErrorKind::DeviceMissing, message).during("open")
    };
    let physical = physical_devices(&instance)?.get(index).copied().ok_or_else(missing)?;
    let mut opened = lock(&OPENED);
    if let Some((_, known)) = opened.iter().find(|(known, _)| *known == physical.as_raw()) {
        return Ok(known.clone());
    }
    let handles = create_device(&instance, physical)?;
    // SAFETY: the device was just made, with the feature and the queue that are named, and is never
    // destroyed.
    let logical = unsafe { Logical::of(handles) }?;
    opened.push((physical.as_raw(), logical.clone()));
    Ok(logical)
}

fn physical_devices(instance: &ash::Instance) -> Result<Vec<vk::PhysicalDevice>> {
    // SAFETY: the instance is never destroyed.
    check(unsafe { instance.enumerate_physical_devices() }, "list devices")
}

/// Returns the bytes of the heaps that are the device's own, or of all heaps where none is marked
/// as such.
fn memory(instance: &ash::Instance, physical: vk::PhysicalDevice) -> u64 {
    // SAFETY: the physical device is one of the instance's.
    let properties = unsafe { instance.get_physical_device_memory_properties(physical) };
    let heaps = properties.memory_heaps_as_slice();
    let is_own = |heap: &&vk::MemoryHeap| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL);
    let bytes = |heap: &vk::MemoryHeap| heap.size;
    match heaps.iter().filter(is_own).map(bytes).sum() {
        0 => heaps.iter().map(bytes).sum(),
        own => own,
    }
}

/// Returns the version of the driver. From Vulkan 1.2 on this is the vendor's own text. Before, it
/// is a number, which each vendor encodes in its own way.
fn driver_version(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    properties: &vk::PhysicalDeviceProperties,
) -> String {
    let number = properties.driver_version;
    let parts = [vk::api_version_major, vk::api_version_minor, vk::api_version_patch];
    let [major, minor, patch] = parts.map(|part| part(number));
    let by_number = format!("{major}.{minor}.{patch}");
    if properties.api_version < vk::API_VERSION_1_2 {
        return by_number;
    }
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
    // SAFETY: the physical device is one of the instance's, and knows the structure since 1.2.
    unsafe { instance.get_physical_device_properties2(physical, &mut all) };
    let words = driver.driver_info_as_c_str().map(|words| words.to_string_lossy().into_owned());
    words.ok().filter(|words| !words.is_empty()).unwrap_or(by_number)
}

/// Returns what a device lacks that this crate needs.
fn lack(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    properties: &vk::PhysicalDeviceProperties,
) -> Option<&'static str> {
    if properties.api_version < vk::API_VERSION_1_2 {
        return Some("its driver is older than Vulkan 1.2");
    }
    let mut timeline = vk::PhysicalDeviceTimelineSemaphoreFeatures::default();
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut timeline);
    // SAFETY: the physical device is one of the instance's, and knows the structure since 1.2.
    unsafe { instance.get_physical_device_features2(physical, &mut features) };
    if timeline.timeline_semaphore == vk::FALSE {
        return Some("it has no timeline semaphores");
    }
    family_of(instance, physical).is_none().then_some("it has no queue that computes")
}

/// Returns the first family whose queues compute. Such queues can copy as well.
fn family_of(instance: &ash::Instance, physical: vk::PhysicalDevice) -> Option<u32> {
    // SAFETY: the physical device is one of the instance's.
    let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
    let computes = |family: &vk::QueueFamilyProperties| {
        family.queue_flags.contains(vk::QueueFlags::COMPUTE) && family.queue_count > 0
    };
    families.iter().position(computes).map(|index| index as u32)
}

fn create_device(instance: &ash::Instance, physical: vk::PhysicalDevice) -> Result<Handles> {
    // SAFETY: the physical device is one of the instance's.
    let properties = unsafe { instance.get_physical_device_properties(physical) };
    let refused = |why| {
        let message = format!("{} cannot be used: {why}", name_of(&properties));
        Error::new(ErrorKind::Unsupported, message).during("open")
    };
    if let Some(why) = lack(instance, physical, &properties) {
        return Err(refused(why));
    }
    let family = family_of(instance, physical).ok_or_else(|| refused("it has no queue"))?;
    let priorities = [1.0];
    let queues = [vk::DeviceQueueCreateInfo::default()
        .queue_family_index(family)
        .queue_priorities(&priorities)];
    let extensions = extensions_to_enable(instance, physical)?;
    let mut timeline =
        vk::PhysicalDeviceTimelineSemaphoreFeatures::default().timeline_semaphore(true);
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(&extensions)
        .push_next(&mut timeline);
    // SAFETY: everything that the description points to is alive, and what it asks for is there.
    let device = check(unsafe { instance.create_device(physical, &info, None) }, "open")?;
    // SAFETY: one queue of this family was asked for.
    let queue = unsafe { device.get_device_queue(family, 0) };
    let (instance, physical) = (instance.handle().as_raw(), physical.as_raw());
    let handles = Handles::new(instance, physical, device.handle().as_raw());
    let handles = handles.with_queue(queue.as_raw(), family, Arc::new(Mutex::new(())));
    let handles = handles.with_all_queues();
    let has_external_memory = extensions.contains(&ash::khr::external_memory_fd::NAME.as_ptr());
    Ok(if has_external_memory { handles.with_external_memory() } else { handles })
}

/// Returns those of the device's extensions that this crate wants. "If the
/// VK_KHR_portability_subset extension is included in pProperties ... ppEnabledExtensionNames must
/// include it".
fn extensions_to_enable(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
) -> Result<Vec<*const c_char>> {
    // SAFETY: the physical device is one of the instance's.
    let all = unsafe { instance.enumerate_device_extension_properties(physical) };
    let all = check(all, "open")?;
    let is_there =
        |name: &&CStr| all.iter().any(|extension| extension.extension_name_as_c_str() == Ok(name));
    let wanted = [ash::khr::portability_subset::NAME, ash::khr::external_memory_fd::NAME];
    Ok(wanted.into_iter().filter(is_there).map(CStr::as_ptr).collect())
}
