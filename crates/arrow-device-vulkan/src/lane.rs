//! A lane: a `VkQueue` whose submissions are kept in order.
//!
//! The commands of each submission stand between two full barriers, and each submission raises the
//! lane's timeline semaphore by one. (A submission without commands has no barriers: it waits for
//! another lane's semaphore, or only raises its own.) The order of the lane is that of submission
//! to the `VkQueue`, so work that others submit to the queue is part of it. The command buffer and
//! the staging buffer of a submission are taken back when the timeline has reached the submission's
//! value, by the next call that looks, and are used again.
//!
//! What must stay true: values are submitted in rising order, under the lane's lock and the queue's
//! lock. A lane owns its command pool and its semaphore. The `VkQueue` is the application's.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ash::vk;

use crate::handles::SubmitLock;
use crate::staging::StagingBuffer;

/// All accesses that a command can make to memory.
const ALL_ACCESS: vk::AccessFlags = vk::AccessFlags::from_raw(
    vk::AccessFlags::MEMORY_READ.as_raw() | vk::AccessFlags::MEMORY_WRITE.as_raw(),
);
const HOST_ACCESS: vk::AccessFlags = vk::AccessFlags::from_raw(
    vk::AccessFlags::HOST_READ.as_raw() | vk::AccessFlags::HOST_WRITE.as_raw(),
);
pub(crate) const ALL_COMMANDS: vk::PipelineStageFlags = vk::PipelineStageFlags::ALL_COMMANDS;

type VkResult<T> = Result<T, vk::Result>;

pub(crate) struct Lane {
    /// The position of the lane in the device's list.
    pub(crate) index: usize,
    pub(crate) queue: vk::Queue,
    pub(crate) lock: Arc<dyn SubmitLock>,
    timeline: vk::Semaphore,
    state: Mutex<State>,
}

/// The end of a submission: a value of a lane's timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) lane: usize,
    pub(crate) value: u64,
}

struct State {
    pool: vk::CommandPool,
    free: Vec<vk::CommandBuffer>,
    in_flight: VecDeque<Flight>,
    /// The value of the timeline after all that was submitted.
    last: u64,
}

/// The objects that a submission needs until the timeline has reached its value.
struct Flight {
    value: u64,
    commands: Option<vk::CommandBuffer>,
    staging: Option<StagingBuffer>,
}

/// The parts of a submission.
#[derive(Default)]
pub(crate) struct Work<'a> {
    /// Commands, between the barriers.
    pub(crate) record: Option<&'a dyn Fn(vk::CommandBuffer)>,
    /// A lane and the value that its timeline has to reach before this work begins.
    pub(crate) behind: Option<(&'a Lane, u64)>,
}

impl Lane {
    /// # Safety
    /// The device is alive until [`destroy`](Self::destroy), and the queue is one of it and of that
    /// family.
    pub(crate) unsafe fn new(
        device: &ash::Device,
        index: usize,
        queue: &crate::SharedQueue,
    ) -> VkResult<Self> {
        let pool = vk::CommandPoolCreateInfo::default()
            .queue_family_index(queue.family)
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        // SAFETY: the device is alive, says the caller.
        let pool = unsafe { device.create_command_pool(&pool, None) }?;
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let timeline = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the device is alive, says the caller, and has the feature `timelineSemaphore`.
        let timeline = unsafe { device.create_semaphore(&timeline, None) }.inspect_err(|_| {
            // SAFETY: it was just made, and nothing was allocated from it.
            unsafe { device.destroy_command_pool(pool, None) };
        })?;
        let (free, in_flight) = (Vec::new(), VecDeque::new());
        Ok(Self {
            index,
            queue: ash::vk::Handle::from_raw(queue.handle),
            lock: queue.lock.clone(),
            timeline,
            state: Mutex::new(State { pool, free, in_flight, last: 0 }),
        })
    }

    /// Submits work. Returns the value that the timeline has once the work is done. If submitting
    /// succeeds, the staging buffer is taken over, which only these commands use.
    ///
    /// # Safety
    /// The commands keep to Vulkan's rules, and what else they use stays until the value is
    /// reached.
    pub(crate) unsafe fn submit(
        &self,
        device: &ash::Device,
        work: Work<'_>,
        staging: &mut Option<StagingBuffer>,
    ) -> VkResult<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let commands = match work.record {
            None => None,
            // SAFETY: the commands keep to Vulkan's rules, and what else they use stays until the
            // value is reached, as the caller promises.
            Some(record) => Some(unsafe { state.record(device, record) }?),
        };
        let value = state.last + 1;
        // SAFETY: the commands keep to Vulkan's rules, and what else they use stays until the value
        // is reached, as the caller promises.
        let submitted = unsafe { self.hand_over(device, commands, work.behind, value) };
        if let Err(code) = submitted {
            // What a lost device does is unknown: it may still execute the commands.
            state.free.extend(commands.filter(|_| code != vk::Result::ERROR_DEVICE_LOST));
            return Err(code);
        }
        state.last = value;
        state.in_flight.push_back(Flight { value, commands, staging: staging.take() });
        Ok(value)
    }

    /// Takes back what finished submissions needed, and returns their staging buffers. Does nothing
    /// while another thread submits.
    pub(crate) fn retire(&self, device: &ash::Device) -> Vec<StagingBuffer> {
        let Ok(mut state) = self.state.try_lock() else { return Vec::new() };
        if state.in_flight.is_empty() {
            return Vec::new();
        }
        self.passed(device).map_or_else(|_| Vec::new(), |passed| state.retire(passed))
    }

    /// # Safety
    /// The commands keep to Vulkan's rules, and what else they use stays until the value is
    /// reached.
    unsafe fn hand_over(
        &self,
        device: &ash::Device,
        commands: Option<vk::CommandBuffer>,
        behind: Option<(&Self, u64)>,
        value: u64,
    ) -> VkResult<()> {
        let (wait, wait_value) = match behind {
            Some((lane, value)) => (vec![lane.timeline], vec![value]),
            None => (Vec::new(), Vec::new()),
        };
        let stages = vec![ALL_COMMANDS; wait.len()];
        let (signal, signal_value) = ([self.timeline], [value]);
        let commands: Vec<vk::CommandBuffer> = commands.into_iter().collect();
        let mut values = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&wait_value)
            .signal_semaphore_values(&signal_value);
        let batch = [vk::SubmitInfo::default()
            .wait_semaphores(&wait)
            .wait_dst_stage_mask(&stages)
            .command_buffers(&commands)
            .signal_semaphores(&signal)
            .push_next(&mut values)];
        let mut result = None;
        self.lock.while_locked(&mut || {
            // A lock that calls this again submits nothing again: the commands are in flight, and
            // the timeline may have reached the value.
            result.get_or_insert_with(|| {
                // SAFETY: the handles are alive and everybody who submits to the queue holds its
                // lock ("Host access to queue must be externally synchronized"); the commands are
                // promised by the caller, and submitted once.
                unsafe { device.queue_submit(self.queue, &batch, vk::Fence::null()) }
            });
        });
        result.unwrap_or(Err(vk::Result::ERROR_UNKNOWN))
    }

    /// Returns the value that the timeline has reached.
    pub(crate) fn passed(&self, device: &ash::Device) -> VkResult<u64> {
        // SAFETY: the semaphore is alive as long as this lane.
        unsafe { device.get_semaphore_counter_value(self.timeline) }
    }

    /// Waits until the timeline has reached a value, or the time is over. Returns whether it has.
    pub(crate) fn wait(
        &self,
        device: &ash::Device,
        value: u64,
        timeout: Option<Duration>,
    ) -> VkResult<bool> {
        let nanoseconds = timeout
            .map_or(u64::MAX, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        let (semaphores, values) = ([self.timeline], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: the semaphore is alive as long as this lane.
        match unsafe { device.wait_semaphores(&info, nanoseconds) } {
            Ok(()) => Ok(true),
            Err(vk::Result::TIMEOUT) => Ok(false),
            Err(code) => Err(code),
        }
    }

    /// Returns the value of the timeline after all that was submitted.
    pub(crate) fn last(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).last
    }

    /// Destroys what the lane owns, and returns the staging buffers that it still had.
    ///
    /// # Safety
    /// Nothing that was submitted is still being executed, and the lane is not used after this.
    pub(crate) unsafe fn destroy(&self, device: &ash::Device) -> Vec<StagingBuffer> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let staging = state.retire(u64::MAX);
        // SAFETY: nothing that was submitted is still being executed, and the lane is not used
        // after this, as the caller promises; this frees the command buffers, too.
        unsafe { device.destroy_command_pool(state.pool, None) };
        // SAFETY: nothing that was submitted is still being executed, and the lane is not used
        // after this, as the caller promises.
        unsafe { device.destroy_semaphore(self.timeline, None) };
        staging
    }
}

impl State {
    /// Takes back what submissions up to this value needed.
    fn retire(&mut self, passed: u64) -> Vec<StagingBuffer> {
        let mut staging = Vec::new();
        while self.in_flight.front().is_some_and(|flight| flight.value <= passed) {
            let Some(flight) = self.in_flight.pop_front() else { break };
            self.free.extend(flight.commands);
            staging.extend(flight.staging);
        }
        staging
    }

    /// # Safety
    /// The device is alive, and the commands keep to Vulkan's rules.
    unsafe fn record(
        &mut self,
        device: &ash::Device,
        record: &dyn Fn(vk::CommandBuffer),
    ) -> VkResult<vk::CommandBuffer> {
        let commands = match self.free.pop() {
            Some(commands) => commands,
            None => self.allocate(device)?,
        };
        let begin = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the buffer is of this lane's pool, which is locked, and not in use; beginning
        // resets it.
        let begun = unsafe { device.begin_command_buffer(commands, &begin) };
        let recorded = begun.and_then(|()| {
            // SAFETY: it was just begun.
            unsafe { full_barrier(device, commands) };
            record(commands);
            // SAFETY: it is still being recorded.
            unsafe { full_barrier(device, commands) };
            // SAFETY: the commands are still being recorded.
            unsafe { device.end_command_buffer(commands) }
        });
        match recorded {
            Ok(()) => Ok(commands),
            Err(code) => {
                self.free.push(commands);
                Err(code)
            }
        }
    }

    fn allocate(&self, device: &ash::Device) -> VkResult<vk::CommandBuffer> {
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: the pool is this lane's, which is locked.
        let made = unsafe { device.allocate_command_buffers(&info) }?;
        made.first().copied().ok_or(vk::Result::ERROR_UNKNOWN)
    }
}

/// Orders all work that was submitted before, and its effects on memory that device and host see,
/// before all work that comes later.
///
/// # Safety
/// The buffer is being recorded.
pub(crate) unsafe fn full_barrier(device: &ash::Device, commands: vk::CommandBuffer) {
    let (from, to) = (ALL_COMMANDS, ALL_COMMANDS | vk::PipelineStageFlags::HOST);
    let memory = [everything()];
    let none = vk::DependencyFlags::empty();
    // SAFETY: the buffer is being recorded, as the caller promises; these stages and accesses are
    // allowed on every queue.
    unsafe { device.cmd_pipeline_barrier(commands, from, to, none, &memory, &[], &[]) };
}

/// Makes all earlier writes visible to all later accesses.
pub(crate) fn everything() -> vk::MemoryBarrier<'static> {
    vk::MemoryBarrier::default()
        .src_access_mask(ALL_ACCESS)
        .dst_access_mask(ALL_ACCESS | HOST_ACCESS)
}
