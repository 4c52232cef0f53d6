//! The calls of Vulkan that an application makes itself: an instance, a device, a queue, a compute
//! shader, a gate.
//!
//! With validation, the Khronos layer is switched on, and every message of it is kept. One thread
//! at a time uses the layer.

use std::ffi::{CStr, c_void};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::vk;

use super::Attempt;

const LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// A device with one queue, destroyed with its instance when it is dropped.
pub struct Vulkan {
    /// Keeps the loader loaded.
    _entry: ash::Entry,
    /// The instance.
    pub instance: ash::Instance,
    messenger: Option<(ash::ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    /// The messages of the validation layer.
    messages: Arc<Mutex<Vec<String>>>,
    /// The physical device of the device.
    pub physical: vk::PhysicalDevice,
    /// The device.
    pub device: ash::Device,
    /// The family of the queue.
    pub family: u32,
    /// The queue.
    pub queue: vk::Queue,
    /// The lock that everybody holds while submitting to the queue.
    pub lock: Arc<Mutex<()>>,
    /// Whether the device was made with `VK_KHR_external_memory_fd`.
    pub shares_memory: bool,
}

impl Vulkan {
    /// Opens the first device of the system. A validated device is opened once no other thread is
    /// left that has opened one: a thread uses the layer alone until the thread ends.
    pub fn new(validated: bool) -> Attempt<Arc<Self>> {
        if validated {
            use_layer_alone();
        }
        // SAFETY: the Vulkan loader.
        let entry = unsafe { ash::Entry::load() }?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let layers = [LAYER.as_ptr()];
        let extensions =
            [ash::ext::debug_utils::NAME.as_ptr(), ash::ext::validation_features::NAME.as_ptr()];
        let enabled = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
        let mut features =
            vk::ValidationFeaturesEXT::default().enabled_validation_features(&enabled);
        let mut info = vk::InstanceCreateInfo::default().application_info(&application);
        if validated {
            info = info
                .enabled_layer_names(&layers)
                .enabled_extension_names(&extensions)
                .push_next(&mut features);
        }
        // SAFETY: everything that the description points to is alive.
        let instance = unsafe { entry.create_instance(&info, None) }?;
        let messages = Arc::default();
        let messenger = match validated {
            true => Some(listen(&entry, &instance, &messages)?),
            false => None,
        };
        // SAFETY: the instance was just made.
        let all = unsafe { instance.enumerate_physical_devices() }?;
        let physical = *all.first().ok_or("no device")?;
        // SAFETY: it was just listed.
        let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
        let computes = |family: &vk::QueueFamilyProperties| {
            family.queue_flags.contains(vk::QueueFlags::COMPUTE)
        };
        let family = families.iter().position(computes).ok_or("no queue computes")? as u32;

        let priorities = [1.0];
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(family)
            .queue_priorities(&priorities)];
        let mut timeline =
            vk::PhysicalDeviceTimelineSemaphoreFeatures::default().timeline_semaphore(true);
        let sharing = ash::khr::external_memory_fd::NAME;
        // SAFETY: the physical device is one of the instance's.
        let all = unsafe { instance.enumerate_device_extension_properties(physical) }?;
        let shares_memory =
            all.iter().any(|extension| extension.extension_name_as_c_str() == Ok(sharing));
        let extensions: Vec<_> = shares_memory.then_some(sharing.as_ptr()).into_iter().collect();
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&extensions)
            .push_next(&mut timeline);
        // SAFETY: everything that the description points to is alive.
        let device = unsafe { instance.create_device(physical, &info, None) }?;
        // SAFETY: one queue of this family was asked for.
        let queue = unsafe { device.get_device_queue(family, 0) };
        let lock = Arc::default();
        Ok(Arc::new(Self {
            _entry: entry,
            instance,
            messenger,
            messages,
            physical,
            device,
            family,
            queue,
            lock,
            shares_memory,
        }))
    }

    /// Whether the validation layer is installed.
    pub fn has_layer() -> bool {
        // SAFETY: the Vulkan loader.
        let Ok(entry) = (unsafe { ash::Entry::load() }) else { return false };
        // SAFETY: a question to the loader.
        let layers = unsafe { entry.enumerate_instance_layer_properties() }.unwrap_or_default();
        layers.iter().any(|layer| layer.layer_name_as_c_str() == Ok(LAYER))
    }

    /// Returns the messages of the validation layer, which stay after everything is destroyed.
    pub fn messages(&self) -> Arc<Mutex<Vec<String>>> {
        self.messages.clone()
    }

    /// Records commands in a pool of their own.
    pub fn record(
        &self,
        record: &dyn Fn(vk::CommandBuffer),
    ) -> Attempt<(vk::CommandPool, vk::CommandBuffer)> {
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(self.family);
        // SAFETY: the family is one of the device's.
        let pool = unsafe { self.device.create_command_pool(&info, None) }?;
        let info =
            vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
        // SAFETY: the pool was just made.
        let made = unsafe { self.device.allocate_command_buffers(&info) }?;
        let commands = *made.first().ok_or("no commands")?;
        let info = vk::CommandBufferBeginInfo::default();
        // SAFETY: they were just made.
        unsafe { self.device.begin_command_buffer(commands, &info) }?;
        record(commands);
        // SAFETY: they are being recorded.
        unsafe { self.device.end_command_buffer(commands) }?;
        Ok((pool, commands))
    }

    /// Submits commands while holding the lock.
    pub fn submit(&self, commands: &[vk::CommandBuffer]) -> Attempt<()> {
        let batch = vk::SubmitInfo::default().command_buffers(commands);
        let _locked = self.lock.lock().map_err(|_| "the lock is poisoned")?;
        // SAFETY: the lock is held, and the handles are alive.
        Ok(unsafe { self.device.queue_submit(self.queue, &[batch], vk::Fence::null()) }?)
    }

    /// Waits until the queue has done all its work.
    pub fn finish(&self) -> Attempt<()> {
        let _locked = self.lock.lock().map_err(|_| "the lock is poisoned")?;
        // SAFETY: the lock is held.
        Ok(unsafe { self.device.queue_wait_idle(self.queue) }?)
    }
}

impl fmt::Debug for Vulkan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vulkan").finish_non_exhaustive()
    }
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        // SAFETY: whoever was given the device kept this.
        unsafe { self.device.destroy_device(None) };
        if let Some((debug, messenger)) = self.messenger.take() {
            // SAFETY: made for this instance.
            unsafe { debug.destroy_debug_utils_messenger(messenger, None) };
        }
        // SAFETY: all that was made of it is destroyed.
        unsafe { self.instance.destroy_instance(None) };
    }
}

/// Waits until no other thread uses the validation layer. From then on this thread uses the layer,
/// until the thread ends.
///
/// The layer finds the state of a device in a map that it does not lock. A call for one device
/// while another device is made or destroyed can end the process
/// (KhronosGroup/Vulkan-ValidationLayers, issue 4391).
fn use_layer_alone() {
    static LAYER_USE: Mutex<()> = Mutex::new(());
    thread_local! {
        static TURN: MutexGuard<'static, ()> =
            LAYER_USE.lock().unwrap_or_else(PoisonError::into_inner);
    }
    TURN.with(|_| ());
}

/// Keeps every message of the validation layer.
fn listen(
    entry: &ash::Entry,
    instance: &ash::Instance,
    messages: &Arc<Mutex<Vec<String>>>,
) -> Attempt<(ash::ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)> {
    let debug = ash::ext::debug_utils::Instance::new(entry, instance);
    // The share that the messenger has stays until the process ends.
    let kept = Arc::into_raw(messages.clone()).cast_mut().cast::<c_void>();
    let info = vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(
            vk::DebugUtilsMessageSeverityFlagsEXT::ERROR
                | vk::DebugUtilsMessageSeverityFlagsEXT::WARNING,
        )
        .message_type(
            vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION
                | vk::DebugUtilsMessageTypeFlagsEXT::PERFORMANCE,
        )
        .pfn_user_callback(Some(hear))
        .user_data(kept);
    // SAFETY: the instance is alive and has the extension.
    let messenger = unsafe { debug.create_debug_utils_messenger(&info, None) }?;
    Ok((debug, messenger))
}

unsafe extern "system" fn hear(
    _severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _kind: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    kept: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the layer shows something that is alive during the call.
    let data = unsafe { &*data };
    // SAFETY: its message ends with a zero.
    let message = unsafe { data.message_as_c_str() };
    let text = message.map_or_else(Default::default, CStr::to_string_lossy).into_owned();
    // SAFETY: `listen` gave a share that stays.
    let messages = unsafe { &*kept.cast::<Mutex<Vec<String>>>() };
    if let Ok(mut messages) = messages.lock() {
        messages.push(text);
    }
    vk::FALSE
}

/// A gate that holds back what is submitted to a queue until it is opened: commands that wait for
/// an event which the host sets.
#[derive(Debug)]
pub struct HostEventGate {
    vulkan: Arc<Vulkan>,
    commands: vk::CommandPool,
    event: vk::Event,
    is_closed: bool,
}

impl HostEventGate {
    /// Closes a gate in front of everything that is submitted to the queue from now on.
    pub fn before(vulkan: &Arc<Vulkan>) -> Attempt<Self> {
        let info = vk::EventCreateInfo::default();
        // SAFETY: the device is alive.
        let event = unsafe { vulkan.device.create_event(&info, None) }?;
        let wait = |commands| {
            let (from, to) = (vk::PipelineStageFlags::HOST, vk::PipelineStageFlags::ALL_COMMANDS);
            // SAFETY: the commands are being recorded, and the event stays until they are done.
            unsafe { vulkan.device.cmd_wait_events(commands, &[event], from, to, &[], &[], &[]) };
        };
        let (commands, recorded) = vulkan.record(&wait)?;
        let gate = Self { vulkan: vulkan.clone(), commands, event, is_closed: true };
        vulkan.submit(&[recorded])?;
        Ok(gate)
    }

    /// Lets the work go on.
    pub fn open(&mut self) -> Attempt<()> {
        if !std::mem::take(&mut self.is_closed) {
            return Ok(());
        }
        // SAFETY: the event is alive, and nobody else sets it.
        Ok(unsafe { self.vulkan.device.set_event(self.event) }?)
    }
}

impl Drop for HostEventGate {
    fn drop(&mut self) {
        let _ = self.open();
        // The queue goes on, because the gate was opened above.
        let _ = self.vulkan.finish();
        // SAFETY: what waited for it has passed.
        unsafe { self.vulkan.device.destroy_event(self.event, None) };
        // SAFETY: what was submitted with commands of this pool has passed.
        unsafe { self.vulkan.device.destroy_command_pool(self.commands, None) };
    }
}
