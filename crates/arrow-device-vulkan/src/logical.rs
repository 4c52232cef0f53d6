//! A `VkDevice`, and everything that this process keeps for it: its functions, lanes, buffers and
//! events.
//!
//! There is one [`Logical`] for each `VkDevice`, however often it is opened, found by the handle.
//! It owns the lanes, the staging buffers and the events that were destroyed before they passed.
//! The `VkDevice` belongs to the application, or to the process.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arrow_device::{DeviceId, DeviceType, Error, ErrorKind, Result};
use ash::vk::{self, Handle};

use crate::Handles;
use crate::error::{check_on, error};
use crate::external::External;
use crate::lane::{Lane, Point, Work};
use crate::loader::{self, require};
use crate::memory_types::{BufferLocation, MemoryTypes};
use crate::outstanding::{DoomedEvent, HostWrite};
use crate::staging::{Spare, StagingBuffer};

/// How long dropping waits for the last work. After that, the objects of the device are leaked.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct Logical {
    pub(crate) vk: ash::Device,
    pub(crate) id: DeviceId,
    pub(crate) name: String,
    pub(crate) lanes: Vec<Lane>,
    /// The families of the lanes, each once.
    pub(crate) families: Vec<u32>,
    pub(crate) types: MemoryTypes,
    pub(crate) blocks: Mutex<HashMap<u64, BufferLocation>>,
    /// How memory is exported and imported, where the device does so.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) external: Option<External>,
    pub(crate) spare: Spare,
    /// The staging buffers that others copy from and to, by the address of their first byte.
    pub(crate) pinned: Mutex<BTreeMap<usize, StagingBuffer>>,
    pub(crate) writes: Mutex<Vec<HostWrite>>,
    pub(crate) write_count: AtomicUsize,
    /// The events that were made here. A recorded event has the point that it stands for.
    pub(crate) events: Mutex<HashMap<u64, Option<Point>>>,
    pub(crate) doomed: Mutex<Vec<DoomedEvent>>,
    next_lane: AtomicUsize,
    is_lost: AtomicBool,
    handles: Handles,
}

/// All devices that are open.
static OPEN: Mutex<Vec<(u64, Weak<Logical>)>> = Mutex::new(Vec::new());

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Logical {
    /// Returns the device with this handle, if it is open.
    pub(crate) fn find(device: u64) -> Option<Arc<Self>> {
        let open = lock(&OPEN);
        open.iter().filter(|(known, _)| *known == device).find_map(|(_, found)| found.upgrade())
    }

    /// Returns the device with these handles: the open one, or a new one.
    ///
    /// # Safety
    /// UNS-29 and UNS-30, as [`open_from`](crate::open_from) has them.
    pub(crate) unsafe fn of(handles: Handles) -> Result<Arc<Self>> {
        loader::enter()?;
        let refused = |message| Error::new(ErrorKind::InvalidArgument, message).during("open");
        if [handles.instance, handles.physical_device, handles.device].contains(&0) {
            return Err(refused("a handle is null"));
        }
        if handles.queues.is_empty() || handles.queues.iter().any(|queue| queue.handle == 0) {
            return Err(refused("at least one queue is needed, and none may be null"));
        }
        let mut open = lock(&OPEN);
        open.retain(|(_, known)| known.strong_count() > 0);
        let known = open.iter().filter(|(known, _)| *known == handles.device);
        if let Some(found) = known.filter_map(|(_, found)| found.upgrade()).next() {
            // If this is the last reference to the device, the device ends without the lock.
            drop(open);
            let is_known =
                |queue: &crate::SharedQueue| found.lane_of(Handle::from_raw(queue.handle)).is_ok();
            if !handles.queues.iter().all(is_known) {
                let message = "this VkDevice is open already, with other queues";
                return Err(found.error(ErrorKind::InvalidArgument, message).during("open"));
            }
            return Ok(found);
        }
        let device = handles.device;
        // SAFETY: UNS-29 and UNS-30, which the caller promises.
        let made = Arc::new(unsafe { Self::new(handles) }?);
        open.push((device, Arc::downgrade(&made)));
        Ok(made)
    }

    /// # Safety
    /// UNS-29 and UNS-30, as [`open_from`](crate::open_from) has them.
    unsafe fn new(mut handles: Handles) -> Result<Self> {
        let get_instance_proc_addr = loader::proc_addr(handles.loader)?;
        handles.loader = loader::as_pointer(get_instance_proc_addr);
        let id = DeviceId::new(DeviceType::VULKAN, handles.device.cast_signed());
        // SAFETY: UNS-29 and UNS-30, which the caller promises.
        let instance = unsafe {
            loader::instance_functions(get_instance_proc_addr, Handle::from_raw(handles.instance))
        }?;
        // SAFETY: UNS-29 and UNS-30, which the caller promises.
        let vk = unsafe { device_functions(&instance, Handle::from_raw(handles.device)) }
            .map_err(|error| error.on_device(id))?;

        let physical = Handle::from_raw(handles.physical_device);
        let mut limits = vk::PhysicalDeviceMaintenance3Properties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut limits);
        // SAFETY: UNS-29, which the caller keeps: the physical device is one of the instance's.
        unsafe { instance.get_physical_device_properties2(physical, &mut properties) };
        let name = name_of(&properties.properties);
        let largest = limits.max_memory_allocation_size;
        // SAFETY: UNS-29, which the caller keeps: the physical device is one of the instance's.
        let memory = unsafe { instance.get_physical_device_memory_properties(physical) };

        let mut families: Vec<u32> = handles.queues.iter().map(|queue| queue.family).collect();
        families.sort_unstable();
        families.dedup();
        // SAFETY: UNS-29, which the caller keeps: the physical device is one of the instance's.
        let all = unsafe { instance.get_physical_device_queue_family_properties(physical) };
        require_events(&families, &all).map_err(|error| error.on_device(id))?;
        let types = check_on(MemoryTypes::new(&vk, &families, &memory, largest), "open", id)?;
        let external = match handles.has_external_memory {
            // SAFETY: UNS-29, which the caller promises.
            true => unsafe { External::of(&instance, physical, &vk, &families, &types) },
            false => None,
        };
        // SAFETY: UNS-29 and UNS-30, which the caller promises.
        let lanes = unsafe { open_lanes(&vk, &handles) };
        Ok(Self {
            lanes: check_on(lanes, "open", id)?,
            vk,
            id,
            name,
            families,
            types,
            blocks: Mutex::default(),
            external,
            spare: Spare::default(),
            pinned: Mutex::default(),
            writes: Mutex::default(),
            write_count: AtomicUsize::new(0),
            events: Mutex::default(),
            doomed: Mutex::default(),
            next_lane: AtomicUsize::new(0),
            is_lost: AtomicBool::new(false),
            handles,
        })
    }

    pub(crate) fn handles(&self) -> Handles {
        self.handles.clone()
    }

    /// Whether every event of another library is set on the only lane.
    pub(crate) fn has_one_queue(&self) -> bool {
        self.handles.has_all_queues && self.lanes.len() == 1
    }

    /// Returns the lane of a queue of the device.
    pub(crate) fn lane_of(&self, queue: vk::Queue) -> Result<&Lane> {
        self.lanes.iter().find(|lane| lane.queue == queue).ok_or_else(|| {
            let message = "the VkQueue is not one of those that the device was opened with";
            self.error(ErrorKind::InvalidArgument, message)
        })
    }

    /// Returns the next lane. All lanes take turns.
    pub(crate) fn next_lane(&self) -> Result<&Lane> {
        let next = self.next_lane.fetch_add(1, Ordering::Relaxed) % self.lanes.len().max(1);
        self.lanes.get(next).ok_or_else(|| self.error(ErrorKind::InvalidArgument, "no queue"))
    }

    /// Submits work to a lane. Returns the point that stands for the end of the work.
    ///
    /// # Safety
    /// The commands keep to Vulkan's rules, and what else they use stays until the value is
    /// reached.
    pub(crate) unsafe fn submit(
        &self,
        lane: &Lane,
        work: Work<'_>,
        staging: &mut Option<StagingBuffer>,
    ) -> Result<Point> {
        self.tidy();
        // SAFETY: the commands keep to Vulkan's rules, and what else they use stays until the value
        // is reached, as the caller promises.
        let submitted = unsafe { lane.submit(&self.vk, work, staging) };
        let value = self.check(submitted, "submit")?;
        Ok(Point { lane: lane.index, value })
    }

    /// Whether a point has passed. If so, everything that came before it is also written to host
    /// memory.
    pub(crate) fn has_passed(&self, point: Point) -> Result<bool> {
        self.require_life()?;
        let has_passed = match self.lanes.get(point.lane) {
            Some(lane) => self.check(lane.passed(&self.vk), "ask the timeline")? >= point.value,
            None => false,
        };
        if has_passed {
            self.finish_writes()?;
            self.tidy();
        }
        Ok(has_passed)
    }

    /// Waits for a point on the host. Returns whether the point has passed.
    pub(crate) fn wait_for(&self, point: Point, timeout: Option<Duration>) -> Result<bool> {
        self.require_life()?;
        let Some(lane) = self.lanes.get(point.lane) else { return Ok(false) };
        let waited = lane.wait(&self.vk, point.value, timeout);
        let has_passed = self.check(waited, "wait on the host")?;
        if has_passed {
            self.finish_writes()?;
            self.tidy();
        }
        Ok(has_passed)
    }

    /// Gives back everything that is not needed any more. Never waits.
    fn tidy(&self) {
        for lane in &self.lanes {
            self.return_staging(lane.retire(&self.vk));
        }
        self.destroy_doomed();
    }

    pub(crate) fn require_life(&self) -> Result<()> {
        match self.is_lost.load(Ordering::Relaxed) {
            true => {
                let lost = error(vk::Result::ERROR_DEVICE_LOST, "use the device");
                Err(lost.on_device(self.id))
            }
            false => Ok(()),
        }
    }

    /// Converts the error of a result of Vulkan. A device that is lost stays lost, and writes
    /// nothing to host memory any more.
    pub(crate) fn check<T>(
        &self,
        result: Result<T, vk::Result>,
        operation: &'static str,
    ) -> Result<T> {
        if matches!(result, Err(vk::Result::ERROR_DEVICE_LOST)) {
            self.is_lost.store(true, Ordering::Relaxed);
            self.give_up_writes();
        }
        check_on(result, operation, self.id)
    }

    pub(crate) fn error(
        &self,
        kind: ErrorKind,
        message: impl Into<std::borrow::Cow<'static, str>>,
    ) -> Error {
        Error::new(kind, message).on_device(self.id)
    }
}

impl Drop for Logical {
    fn drop(&mut self) {
        let is_lost = self.is_lost.load(Ordering::Relaxed);
        let is_idle = |lane: &Lane| {
            // Usually all work has passed, because everything that uses memory keeps the device
            // open until it has.
            is_lost
                || lane
                    .wait(&self.vk, lane.last(), Some(PATIENCE))
                    .unwrap_or_else(|code| code == vk::Result::ERROR_DEVICE_LOST)
        };
        if !self.lanes.iter().all(is_idle) {
            // Work is still being executed. All that it may use is leaked.
            std::mem::forget(self.handles.owner.take());
            return;
        }
        let _ = self.finish_writes();
        self.give_up_writes();
        for lane in &self.lanes {
            // SAFETY: nothing is being executed, and nobody has the lane any more.
            let staging = unsafe { lane.destroy(&self.vk) };
            self.return_staging(staging);
        }
        let pinned = std::mem::take(&mut *lock(&self.pinned));
        for rest in self.spare.take_all().into_iter().chain(pinned.into_values()) {
            // SAFETY: every lane was idle or lost, so nothing is being executed, and nobody else
            // has the buffer.
            unsafe { self.free_memory(rest.buffer, rest.memory) };
        }
        for doomed in lock(&self.doomed).drain(..) {
            // SAFETY: every lane was idle or lost, so nothing is being executed, and nobody else
            // has the event.
            unsafe { self.vk.destroy_event(doomed.event, None) };
        }
    }
}

/// Refuses a family whose queues cannot set events: "The VkCommandPool that commandBuffer was
/// allocated from must support VK_QUEUE_COMPUTE_BIT, VK_QUEUE_GRAPHICS_BIT, ... operations".
fn require_events(families: &[u32], all: &[vk::QueueFamilyProperties]) -> Result<()> {
    let sets_events = vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE;
    for number in families {
        let family = all.get(*number as usize);
        if !family.is_some_and(|family| family.queue_flags.intersects(sets_events)) {
            let message = match family {
                Some(_) => format!(
                    "queues of family {number} cannot set events: it has to compute or draw"
                ),
                None => format!("the device has no queue family {number}"),
            };
            return Err(Error::new(ErrorKind::InvalidArgument, message).during("open"));
        }
    }
    Ok(())
}

/// # Safety
/// The device is alive and was made through this instance.
unsafe fn device_functions(instance: &ash::Instance, device: vk::Device) -> Result<ash::Device> {
    const NEEDED: &[&CStr] = &[
        c"vkAllocateCommandBuffers",
        c"vkAllocateMemory",
        c"vkBeginCommandBuffer",
        c"vkBindBufferMemory",
        c"vkCmdCopyBuffer",
        c"vkCmdPipelineBarrier",
        c"vkCmdSetEvent",
        c"vkCmdWaitEvents",
        c"vkCreateBuffer",
        c"vkCreateCommandPool",
        c"vkCreateEvent",
        c"vkCreateSemaphore",
        c"vkDestroyBuffer",
        c"vkDestroyCommandPool",
        c"vkDestroyEvent",
        c"vkDestroySemaphore",
        c"vkEndCommandBuffer",
        c"vkFreeMemory",
        c"vkGetBufferMemoryRequirements",
        c"vkGetEventStatus",
        c"vkGetSemaphoreCounterValue",
        c"vkMapMemory",
        c"vkQueueSubmit",
        c"vkWaitSemaphores",
    ];
    let find = |name: &CStr| {
        // SAFETY: the device is alive and was made through this instance, as the caller promises;
        // the name ends with a zero.
        unsafe { instance.get_device_proc_addr(device, name.as_ptr()) }
    };
    let why = "the device was made for a version older than 1.2";
    require(NEEDED, |name| find(name).is_some(), why)?;
    // SAFETY: the device is alive and was made through this instance, as the caller promises.
    Ok(unsafe { ash::Device::load(instance.fp_v1_0(), device) })
}

/// # Safety
/// UNS-29 and UNS-30, as [`open_from`](crate::open_from) has them.
unsafe fn open_lanes(vk: &ash::Device, handles: &Handles) -> Result<Vec<Lane>, vk::Result> {
    let mut lanes: Vec<Lane> = Vec::with_capacity(handles.queues.len());
    for queue in &handles.queues {
        if lanes.iter().any(|lane| lane.queue.as_raw() == queue.handle) {
            continue;
        }
        // SAFETY: UNS-29 and UNS-30, which the caller promises.
        match unsafe { Lane::new(vk, lanes.len(), queue) } {
            Ok(lane) => lanes.push(lane),
            Err(code) => {
                for lane in &lanes {
                    // SAFETY: nothing was submitted to it.
                    let _ = unsafe { lane.destroy(vk) };
                }
                return Err(code);
            }
        }
    }
    Ok(lanes)
}

pub(crate) fn name_of(properties: &vk::PhysicalDeviceProperties) -> String {
    let name = properties.device_name_as_c_str().unwrap_or(c"a device without a name");
    name.to_string_lossy().into_owned()
}
