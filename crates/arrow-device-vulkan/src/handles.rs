//! The handles of a Vulkan device: what an application passes to [`open_from`](crate::open_from),
//! and what [`handles_of`](crate::handles_of) returns.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// An instance, a device of the instance with its queues, and the function through which Vulkan is
/// called.
///
/// Handles are numbers here, as `as_raw()` of ash's handles returns them, so both sides may use
/// different crates of bindings.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use arrow_device_vulkan::Handles;
///
/// # let (instance, physical_device, device, queue, family) = (1, 2, 3, 4, 0);
/// // The lock that the application takes around its own `vkQueueSubmit`.
/// let lock = Arc::new(Mutex::new(()));
/// let handles =
///     Handles::new(instance, physical_device, device).with_queue(queue, family, lock);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Handles {
    /// `vkGetInstanceProcAddr` of the loader that made the other handles; `None` for the system's
    /// loader.
    pub loader: Option<NonNull<c_void>>,
    /// The `VkInstance`, made for Vulkan 1.2 or later.
    pub instance: u64,
    /// The `VkPhysicalDevice`.
    pub physical_device: u64,
    /// The `VkDevice`, with the feature `timelineSemaphore`.
    pub device: u64,
    /// The queues that may be used.
    pub queues: Vec<SharedQueue>,
    /// Whether no other queue of the device sets events of arrays.
    pub(crate) has_all_queues: bool,
    /// Whether the device was made with the extension by which memory is exported.
    pub(crate) has_external_memory: bool,
    pub(crate) owner: Option<Owner>,
}

/// The owner that keeps the handles alive.
pub(crate) type Owner = Arc<dyn Any + Send + Sync>;

// SAFETY: the address of a function, and handles. Vulkan's handles may be used on any thread
// ("Vulkan is intended to provide scalable performance when used on multiple host threads"), with
// locks for those it names.
unsafe impl Send for Handles {}
// SAFETY: the members do not change. Vulkan's handles may be used on several threads at once
// ("Vulkan is intended to provide scalable performance when used on multiple host threads"), with
// locks for those it names.
unsafe impl Sync for Handles {}

/// A `VkQueue` that other libraries submit to as well.
#[derive(Clone)]
#[non_exhaustive]
pub struct SharedQueue {
    /// The `VkQueue`.
    pub handle: u64,
    /// The index of its family.
    pub family: u32,
    /// The lock that everybody holds while submitting to the queue.
    pub lock: Arc<dyn SubmitLock>,
}

/// Keeps two threads from submitting to one `VkQueue` at the same time, as Vulkan requires of its
/// callers.
///
/// A [`Mutex`] is such a lock. A thread that holds it must not call into this library or drop
/// values of this library.
pub trait SubmitLock: Send + Sync {
    /// Calls `submit` once, while nobody else submits to the queue. Does not panic. A further call
    /// of `submit` does nothing, and without a call the submission is an error.
    fn while_locked(&self, submit: &mut dyn FnMut());
}

impl<T: Send> SubmitLock for Mutex<T> {
    fn while_locked(&self, submit: &mut dyn FnMut()) {
        let _locked = self.lock().unwrap_or_else(PoisonError::into_inner);
        submit();
    }
}

impl Handles {
    /// Handles without a queue yet. Vulkan is called through the system's loader.
    pub fn new(instance: u64, physical_device: u64, device: u64) -> Self {
        Self {
            loader: None,
            instance,
            physical_device,
            device,
            queues: Vec::new(),
            has_all_queues: false,
            has_external_memory: false,
            owner: None,
        }
    }

    /// Adds a queue, whose family has to compute or draw. A family that only transfers is refused
    /// when the device is opened, because its queues cannot set the events that others wait for.
    pub fn with_queue(mut self, handle: u64, family: u32, lock: Arc<dyn SubmitLock>) -> Self {
        self.queues.push(SharedQueue { handle, family, lock });
        self
    }

    /// Declares that the events of all arrays are set on the queues that were added, and on no
    /// other queue of the device. If there is only one queue, it then waits for such an event by a
    /// command, and the host does not wait.
    pub fn with_all_queues(mut self) -> Self {
        self.has_all_queues = true;
        self
    }

    /// Declares that the device was made with the extension `VK_KHR_external_memory_fd`. Then other
    /// processes can open memory of the device:
    /// [`Device::shareable`](arrow_device::Device::shareable) allocates such memory, where the
    /// physical device can. A device that is opened again is as its first opening said.
    pub fn with_external_memory(mut self) -> Self {
        self.has_external_memory = true;
        self
    }

    /// Sets the `vkGetInstanceProcAddr` through which Vulkan is called.
    pub fn with_loader(mut self, get_instance_proc_addr: NonNull<c_void>) -> Self {
        self.loader = Some(get_instance_proc_addr);
        self
    }

    /// Sets an owner that is kept as long as anything of the device that is opened with these
    /// handles. The owner may destroy the device when it is dropped.
    pub fn kept_by(mut self, owner: impl Any + Send + Sync) -> Self {
        self.owner = Some(Arc::new(owner));
        self
    }
}

impl fmt::Debug for Handles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { instance, device, queues, .. } = self;
        write!(f, "Handles(instance {instance:#x}, device {device:#x}, {queues:?})")
    }
}

impl fmt::Debug for SharedQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue {:#x} of family {}", self.handle, self.family)
    }
}

/// The choice of a device's memory, and of the way in which data gets there and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// The device's own memory. Where the host can read it fast (integrated GPUs, and drivers for
    /// the processor), the host uses it in place as with [`HostVisible`](Self::HostVisible).
    #[default]
    Automatic,
    /// Memory that the host reads and writes in place.
    HostVisible,
    /// The device's own memory, which the host does not access: data goes through staging buffers.
    DeviceOnly,
}
