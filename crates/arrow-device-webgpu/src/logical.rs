//! A `WGPUDevice` with its queue, and what is under way on the queue. All who open one `WGPUDevice`
//! share one [`Logical`].
//!
//! WebGPU has one queue, which is in order. Three things are added to it here:
//!
//! * **Writes** (`wgpuQueueWriteBuffer`) take their bytes at once, and stay in the library until
//!   something is submitted. They are counted, and submitted with the next commands, when somebody
//!   asks about the queue, or when they are many ([`flush`](Logical::flush)). So a list of writes,
//!   and many lists, take one submission.
//! * **Points** are made of callbacks: see [`marker`](crate::marker).
//! * **Reads** pass through staging buffers: see [`reads`](crate::reads).
//!
//! What must stay true: no lock of a [`Logical`] is held in calls in which the runtime may run
//! callbacks of the application. These are polls and submissions (wgpu-native polls inside
//! `wgpuQueueSubmit`). Locks are taken in this order: the application's lock, then the lock of the
//! scopes or that of the reads. Nothing is called under the lock of the state.

use std::collections::HashSet;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arrow_device::driver::{PerProcess, ask_for_a_moment, ask_until};
use arrow_device::{DeviceId, DeviceType, Error, ErrorKind, Result};

use crate::api::{
    AdapterInfo, Api, BufferDescriptor, CallbackInfo, DeviceLimits, Handle, SYNCHRONIZED, Text,
    error_type, filter, usage,
};
use crate::error::{Caught, Scope, popped};
use crate::handles::{Handles, Owner};
use crate::loader;
use crate::marker::{Failure, Marker, Point, work_done};
use crate::reads::Reads;
use crate::uploads::Uploads;

/// How many bytes of writes, and how many lists of them, wait for the next submission.
const WAITING_BYTES: u64 = 32 << 20;
const WAITING_LISTS: u64 = 4096;
/// After how many questions a wait looks whether the device is lost.
const LOSS_TURNS: u32 = 2048;
/// How often a scope that has not answered at once is asked again.
const LOOKS: u32 = 20_000;

pub(crate) struct Logical {
    pub(crate) api: Api,
    pub(crate) device: Handle,
    pub(crate) queue: Handle,
    /// The instance whose events are processed, where the library is not wgpu-native.
    instance: Handle,
    /// Whether this has a reference to the instance.
    holds_instance: bool,
    pub(crate) id: DeviceId,
    /// Tells several openings of one device apart, of which all but one have failed.
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) limits: crate::Limits,
    is_lost: Arc<AtomicBool>,
    /// The lock that everybody takes for each call, where the runtime wants one.
    lock: Option<Arc<Mutex<()>>>,
    /// Keeps this crate's error scopes apart.
    scopes: Mutex<()>,
    state: Mutex<State>,
    pub(crate) reads: Mutex<Reads>,
    pub(crate) uploads: Mutex<Uploads>,
    pub(crate) begun_reads: AtomicU64,
    order: AtomicU64,
    pub(crate) failure: Arc<Failure>,
    /// The buffers that were allocated here and not freed, by their handles.
    allocated: Mutex<HashSet<usize>>,
    owner: Option<Owner>,
}

// SAFETY: handles, which may be used on any thread, or under the lock of `lock`, which every call
// takes: `Handles` asks for that.
unsafe impl Send for Logical {}
// SAFETY: handles, which may be used on several threads at once, or under the lock of `lock`, which
// every call takes: `Handles` asks for that. Everything that changes is atomic or in a mutex.
unsafe impl Sync for Logical {}

#[derive(Default)]
struct State {
    /// How many lists of writes were given to the library, and how many were submitted.
    writes: u64,
    submitted: u64,
    /// The bytes of the writes since the last submission.
    waiting_bytes: u64,
    /// The marker for points behind writes that were not submitted.
    batch: Option<Batch>,
    /// A marker of a question whether the queue is idle, which had not passed.
    idle: Option<Arc<Marker>>,
}

struct Batch {
    marker: Arc<Marker>,
    /// The number of lists that the points of the batch stand behind.
    writes: u64,
}

/// The devices that are open, by their handles.
static OPEN: PerProcess<Mutex<Vec<Weak<Logical>>>> = PerProcess::new(Mutex::new(Vec::new()));
/// The number of the next opening.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Logical {
    /// The open device of these handles, or a new one. A device on which work has failed is opened
    /// anew.
    ///
    /// # Safety
    /// UNS-29 and UNS-30, as [`open_from`](crate::open_from) has them.
    pub(crate) unsafe fn of(handles: Handles, api: Api) -> Result<Arc<Self>> {
        let device = handles.device.as_ptr();
        // Declared before the lock, and so dropped after it: the last share closes a device.
        let known: Vec<Arc<Self>>;
        let mut open = lock(OPEN.get());
        known = open.iter().filter_map(Weak::upgrade).collect();
        let is_this = |known: &&Arc<Self>| known.device == device && !known.failure.is_told();
        if let Some(found) = known.iter().find(is_this).cloned() {
            return Ok(found);
        }
        // SAFETY: UNS-29 and UNS-30, which the caller promises.
        let made = Arc::new(unsafe { Self::new(handles, api) }?);
        open.retain(|known| known.strong_count() > 0);
        open.push(Arc::downgrade(&made));
        Ok(made)
    }

    /// # Safety
    /// UNS-29 and UNS-30, as [`open_from`](crate::open_from) has them.
    unsafe fn new(handles: Handles, api: Api) -> Result<Self> {
        let (device, queue) = (handles.device.as_ptr(), handles.queue.as_ptr());
        let id = DeviceId::new(DeviceType::WEBGPU, device.addr() as i64);
        let refused = |message: String| {
            Error::new(ErrorKind::Unsupported, message).during("open").on_device(id)
        };
        let locked = handles.lock.clone();
        let _calling = locked.as_deref().map(lock);
        let mut instance = handles.instance.map_or(ptr::null_mut(), |given| given.as_ptr());
        let (mut name, mut holds_instance) = (handles.name.clone(), false);
        if let Some(dawn) = api.dawn {
            // SAFETY: UNS-29: the device is alive.
            let is_synchronized = unsafe { (api.device_has_feature)(device, SYNCHRONIZED) } & 0xff;
            if handles.lock.is_none() && is_synchronized == 0 {
                return Err(refused(
                    "the device has no ImplicitDeviceSynchronization, so every call needs a lock: give it to `Handles::with_lock`".to_owned(),
                ));
            }
            // SAFETY: UNS-29: the device is alive. The reference is released below.
            let adapter = unsafe { (dawn.adapter_of_device)(device) };
            let mut info = AdapterInfo::EMPTY;
            // SAFETY: the adapter is alive, and the struct has room for all members. The texts are
            // the library's, and so few that they are left to the end of the process.
            unsafe { (api.adapter_info)(adapter, &mut info) };
            if let Some(why) = unusable(info.backend) {
                return Err(refused(format!("the device cannot be used: {why}")));
            }
            // SAFETY: the text was just written by the library.
            name = unsafe { info.device.to_string() };
            if instance.is_null() {
                holds_instance = true;
                // SAFETY: the adapter is alive. The reference is released when this is dropped.
                instance = unsafe { (dawn.instance_of_adapter)(adapter) };
            }
            // SAFETY: the reference is the one that was taken above.
            unsafe { (dawn.release_adapter)(adapter) };
        }
        if instance.is_null() && api.native.is_none() {
            return Err(refused(
                "the library is neither wgpu-native nor Dawn: give the instance to `Handles::with_instance`".to_owned(),
            ));
        }
        let mut limits = DeviceLimits::ZEROED;
        // SAFETY: UNS-29: the device is alive; the struct has room for all members.
        unsafe { (api.device_limits)(device, &mut limits) };
        // SAFETY: UNS-29: the device is alive. The reference is released when this is dropped.
        unsafe { (api.retain_device)(device) };
        // SAFETY: UNS-29: the queue is alive. The reference is released when this is dropped.
        unsafe { (api.retain_queue)(queue) };
        Ok(Self {
            api,
            device,
            queue,
            instance,
            holds_instance,
            id,
            number: NEXT.fetch_add(1, Ordering::Relaxed) as usize,
            name,
            limits: limits.told(),
            is_lost: handles.is_lost.unwrap_or_default(),
            lock: handles.lock,
            scopes: Mutex::new(()),
            state: Mutex::default(),
            reads: Mutex::default(),
            uploads: Mutex::default(),
            begun_reads: AtomicU64::new(0),
            order: AtomicU64::new(0),
            failure: Arc::new(Failure::new()),
            allocated: Mutex::default(),
            owner: handles.owner,
        })
    }

    /// The device with this id that was opened last.
    pub(crate) fn find(id: DeviceId) -> Option<Arc<Self>> {
        let open = lock(OPEN.get());
        // Shares are dropped only after the lock is given back: the last one closes a device.
        let known: Vec<Arc<Self>> = open.iter().filter_map(Weak::upgrade).collect();
        drop(open);
        known.into_iter().rfind(|known| known.id == id)
    }

    pub(crate) fn error(&self, kind: ErrorKind, message: &'static str) -> Error {
        Error::new(kind, message).on_device(self.id)
    }

    /// An error once the device is lost. What is under way is given up then.
    pub(crate) fn check_lost(&self) -> Result<()> {
        if !self.is_lost.load(Ordering::Acquire) {
            return Ok(());
        }
        let _calling = self.calling();
        lock(&self.reads).give_up(&self.api);
        lock(&self.uploads).release_all(&self.api);
        Err(self.error(ErrorKind::DeviceLost, "the WebGPU device is lost"))
    }

    /// Whether the device can still be used, as far as it is known.
    pub(crate) fn is_not_known_to_fail(&self) -> bool {
        !self.is_lost.load(Ordering::Acquire) && !self.failure.is_told()
    }

    /// Whether the device can still be used. Asks a device that may be lost in silence.
    pub(crate) fn works(&self) -> bool {
        if self.is_not_known_to_fail() && self.is_lost_in_silence() {
            self.is_lost.store(true, Ordering::Release);
        }
        self.is_not_known_to_fail()
    }

    /// The application's lock, where there is one.
    pub(crate) fn calling(&self) -> Option<MutexGuard<'_, ()>> {
        self.lock.as_deref().map(lock)
    }

    /// The number of the next work.
    pub(crate) fn next_order(&self) -> u64 {
        self.order.fetch_add(1, Ordering::AcqRel)
    }

    // ---- errors

    /// Makes calls under error scopes. Returns what a scope caught. `call` makes no call in which
    /// the runtime may run a callback of the application.
    pub(crate) fn scoped<R>(&self, call: impl FnOnce(&Api) -> R) -> (R, Option<Caught>) {
        const ALL: [u32; 3] = [filter::INTERNAL, filter::OUT_OF_MEMORY, filter::VALIDATION];
        // wgpu-native ends the process for a filter that it does not know.
        let filters = if self.api.native.is_some() { &ALL[1..] } else { &ALL };
        let answers: [Arc<Scope>; 3] = std::array::from_fn(|_| Arc::default());
        let result = {
            let _calling = self.calling();
            let _turn = lock(&self.scopes);
            for filter in filters {
                // SAFETY: the device is alive, by a reference of this.
                unsafe { (self.api.push_error_scope)(self.device, *filter) };
            }
            let result = call(&self.api);
            for (answer, _) in answers.iter().zip(filters) {
                let info = CallbackInfo::new(popped as _, answer.for_callback());
                // SAFETY: the device is alive, by a reference of this, and has a scope that was
                // pushed above.
                unsafe { (self.api.pop_error_scope)(self.device, info) };
            }
            result
        };
        let mut caught = None;
        for answer in answers.iter().take(filters.len()) {
            for _ in 0..LOOKS {
                if answer.is_answered() {
                    break;
                }
                self.poll();
                std::thread::yield_now();
            }
            if !answer.is_answered() {
                let text = "an error scope does not answer".to_owned();
                caught = Some(Caught { error_type: error_type::INTERNAL, text });
            }
            caught = answer.take().or(caught);
        }
        (result, caught)
    }

    /// The error for what a scope caught. A device that refuses a buffer of four bytes is lost:
    /// wgpu-native tells of the loss by errors of calls, and by no callback.
    pub(crate) fn refused(&self, caught: &Caught, operation: &'static str) -> Error {
        if caught.error_type == error_type::VALIDATION && self.is_lost_in_silence() {
            self.is_lost.store(true, Ordering::Release);
        }
        match self.check_lost() {
            Err(lost) => lost.during(operation),
            Ok(()) => caught.error(operation).on_device(self.id),
        }
    }

    /// Whether a device of wgpu-native is lost, which tells that by no callback. Dawn has one stack
    /// of scopes for all threads, so that a refusal there may be one of the application's.
    fn is_lost_in_silence(&self) -> bool {
        self.api.native.is_some() && self.refuses_all()
    }

    fn refuses_all(&self) -> bool {
        let (buffer, caught) =
            self.scoped(|api| make_buffer(api, self.device, 4, usage::COPY_DST, false));
        if !buffer.is_null() {
            self.release_buffer(buffer);
        }
        caught.is_some_and(|caught| caught.error_type == error_type::VALIDATION)
    }

    // ---- buffers

    /// Makes a buffer of a size that the device allows.
    pub(crate) fn create_buffer(&self, size: u64, usage: u64) -> Result<Handle> {
        self.create(size, usage, false)
    }

    /// Makes a buffer that is mapped for writing.
    pub(crate) fn create_mapped(&self, size: u64, usage: u64) -> Result<Handle> {
        self.create(size, usage, true)
    }

    fn create(&self, size: u64, usage: u64, is_mapped: bool) -> Result<Handle> {
        const OPERATION: &str = "allocate";
        let (mut buffer, mut caught) =
            self.scoped(|api| make_buffer(api, self.device, size, usage, is_mapped));
        if caught.as_ref().is_some_and(|caught| caught.error_type == error_type::OUT_OF_MEMORY) {
            // Buffers that were released are freed when the library is polled.
            {
                let _calling = self.calling();
                lock(&self.uploads).release_all(&self.api);
            }
            if !buffer.is_null() {
                self.release_buffer(buffer);
            }
            self.poll();
            (buffer, caught) =
                self.scoped(|api| make_buffer(api, self.device, size, usage, is_mapped));
        }
        let Some(caught) = caught else {
            return if buffer.is_null() {
                Err(self.error(ErrorKind::OutOfMemory, "WebGPU gave no buffer").during(OPERATION))
            } else {
                Ok(buffer)
            };
        };
        if !buffer.is_null() {
            self.release_buffer(buffer);
        }
        Err(self.refused(&caught, OPERATION))
    }

    /// Notes that a buffer is memory of this opening of the device.
    pub(crate) fn note_allocated(&self, buffer: Handle) {
        lock(&self.allocated).insert(buffer.addr());
    }

    /// Forgets a buffer before it is released: another may get its handle at once.
    pub(crate) fn note_freed(&self, buffer: Handle) {
        lock(&self.allocated).remove(&buffer.addr());
    }

    pub(crate) fn has_allocated(&self, buffer: Handle) -> bool {
        lock(&self.allocated).contains(&buffer.addr())
    }

    pub(crate) fn release_buffer(&self, buffer: Handle) {
        let _calling = self.calling();
        // SAFETY: whoever calls this has the reference of `create_buffer`, and does not use the
        // handle after this.
        unsafe { (self.api.release_buffer)(buffer) };
    }

    // ---- commands

    /// Records commands and submits them, with all writes before them.
    pub(crate) fn submit(
        &self,
        operation: &'static str,
        encode: impl FnOnce(&Api, Handle),
    ) -> Result<()> {
        let (commands, caught) = self.scoped(|api| {
            // SAFETY: the device is alive, by a reference of this; without a descriptor the encoder
            // is a plain one.
            let encoder = unsafe { (api.create_encoder)(self.device, ptr::null()) };
            encode(api, encoder);
            // SAFETY: the encoder was just made, and is finished once.
            let commands = unsafe { (api.finish_encoder)(encoder, ptr::null()) };
            // SAFETY: the reference is the one that making the encoder gave.
            unsafe { (api.release_encoder)(encoder) };
            commands
        });
        if let Some(caught) = caught {
            // Commands that are not valid are not submitted: wgpu-native would end the process.
            if !commands.is_null() {
                let _calling = self.calling();
                // SAFETY: the reference is the one that finishing the encoder gave.
                unsafe { (self.api.release_commands)(commands) };
            }
            return Err(self.refused(&caught, operation));
        }
        let writes = lock(&self.state).writes;
        {
            let _calling = self.calling();
            // SAFETY: the queue is alive, by a reference of this, and so are the commands, which
            // are valid and are submitted once.
            unsafe { (self.api.submit)(self.queue, 1, &commands) };
            // SAFETY: the reference is the one that finishing the encoder gave.
            unsafe { (self.api.release_commands)(commands) };
        }
        self.note_submission(writes);
        Ok(())
    }

    /// This many lists of writes were submitted.
    fn note_submission(&self, writes: u64) {
        let mut state = lock(&self.state);
        state.submitted = state.submitted.max(writes);
        if state.submitted == state.writes {
            state.waiting_bytes = 0;
        }
        let submitted = state.submitted;
        let batch = state.batch.take_if(|batch| batch.writes <= submitted);
        drop(state);
        if let Some(batch) = batch {
            self.announce(&batch.marker);
        }
    }

    /// A list of writes was given to the library.
    pub(crate) fn note_writes(&self, bytes: u64) -> Result<()> {
        let mut state = lock(&self.state);
        state.writes += 1;
        state.waiting_bytes += bytes;
        let are_many =
            state.waiting_bytes > WAITING_BYTES || state.writes - state.submitted > WAITING_LISTS;
        drop(state);
        if are_many { self.flush() } else { Ok(()) }
    }

    /// Submits the writes that were not submitted yet.
    pub(crate) fn flush(&self) -> Result<()> {
        let state = lock(&self.state);
        let is_done = state.writes == state.submitted;
        drop(state);
        if is_done { Ok(()) } else { self.submit("submit writes", |_, _| {}) }
    }

    /// Has the runtime call back behind all that was submitted.
    fn announce(&self, marker: &Arc<Marker>) {
        let _calling = self.calling();
        let info = CallbackInfo::new(work_done as _, marker.for_callback());
        // SAFETY: the queue is alive, by a reference of this; the callback takes what it is given.
        unsafe { (self.api.on_work_done)(self.queue, info) };
    }

    // ---- points

    /// The point behind all that was submitted by now.
    pub(crate) fn point(self: &Arc<Self>) -> Point {
        let reads = self.begun_reads.load(Ordering::Acquire);
        let mut state = lock(&self.state);
        // Under the lock: no point of a batch has a smaller number than the marker.
        let order = self.next_order();
        let marker = if state.writes > state.submitted {
            let writes = state.writes;
            let fresh = || Marker::new(order, self.failure.clone());
            let batch = state.batch.get_or_insert_with(|| Batch { marker: fresh(), writes });
            batch.writes = writes;
            batch.marker.clone()
        } else {
            drop(state);
            let marker = Marker::new(order, self.failure.clone());
            self.announce(&marker);
            marker
        };
        let has_passed = AtomicBool::new(false);
        Point { logical: self.clone(), marker, order, reads, has_passed }
    }

    /// Whether the point has passed. Failed work is an error.
    pub(crate) fn has_passed(&self, point: &Point) -> Result<bool> {
        self.check_lost()?;
        if point.has_passed.load(Ordering::Acquire) {
            return Ok(true);
        }
        if point.marker.is_waiting() {
            self.flush()?;
        }
        if !self.is_over(point) {
            self.poll();
            self.finish_reads();
            self.check_lost()?;
        }
        if !self.is_over(point) {
            return Ok(false);
        }
        // Another thread that found the device lost may have given up the reads meanwhile.
        self.check_lost()?;
        if self.failure.reaches(point.order) {
            return Err(self.work_failed());
        }
        point.has_passed.store(true, Ordering::Release);
        Ok(true)
    }

    fn is_over(&self, point: &Point) -> bool {
        point.marker.has_passed() && !lock(&self.reads).has_before(point.reads)
    }

    /// The error of work that failed: that the device is lost, if the loss is the reason.
    fn work_failed(&self) -> Error {
        if self.is_lost_in_silence() {
            self.is_lost.store(true, Ordering::Release);
        }
        if let Err(lost) = self.check_lost() {
            return lost;
        }
        let message = "WebGPU told that work of the queue failed; its results are not there";
        self.error(ErrorKind::WorkFailed, message)
    }

    /// Waits until the point has passed or the time is over.
    pub(crate) fn wait(&self, point: &Point, timeout: Option<Duration>) -> Result<bool> {
        let mut asked = 0_u32;
        ask_until(timeout, || {
            asked = asked.wrapping_add(1);
            if asked.is_multiple_of(LOSS_TURNS) && self.is_lost_in_silence() {
                self.is_lost.store(true, Ordering::Release);
            }
            self.has_passed(point)
        })
    }

    /// Whether all that was submitted by now has passed.
    pub(crate) fn is_idle(self: &Arc<Self>) -> Result<bool> {
        self.check_lost()?;
        self.flush()?;
        self.poll();
        let earlier = lock(&self.state).idle.clone();
        if earlier.is_some_and(|earlier| !earlier.has_passed()) {
            return Ok(false);
        }
        let point = self.point();
        let is_idle = ask_for_a_moment(|| self.has_passed(&point));
        lock(&self.state).idle = Some(point.marker);
        is_idle
    }

    /// Lets the runtime find out what is done, and call back. This also runs callbacks of the
    /// application.
    pub(crate) fn poll(&self) {
        let _calling = self.calling();
        match self.api.native {
            // What the call returns is not used: only callbacks tell what is done.
            // SAFETY: the device is alive, by a reference of this; the call does not wait.
            Some(native) => _ = unsafe { (native.poll)(self.device, 0, ptr::null()) },
            // SAFETY: the instance is alive: the application keeps it (UNS-29), or a reference was
            // taken when the device was opened.
            None => unsafe { (self.api.process_events)(self.instance) },
        }
    }

    /// Moves the bytes of reads whose buffers are mapped to host memory.
    pub(crate) fn finish_reads(&self) {
        let _calling = self.calling();
        lock(&self.reads).finish(&self.api, &self.failure);
    }
}

fn make_buffer(api: &Api, device: Handle, size: u64, usage: u64, is_mapped: bool) -> Handle {
    let (next, label, mapped_at_creation) = (ptr::null_mut(), Text::EMPTY, u32::from(is_mapped));
    let descriptor = BufferDescriptor { next, label, usage, size, mapped_at_creation };
    // SAFETY: the device is alive, in its `Logical`, which calls this; the descriptor has no
    // pointers but null.
    unsafe { (api.create_buffer)(device, &descriptor) }
}

/// Why devices of a `WGPUBackendType` cannot be used.
pub(crate) fn unusable(backend: u32) -> Option<&'static str> {
    match backend {
        1 => Some("it is the Null backend, which does no work"),
        7 | 8 => Some("it is OpenGL, where submitting work waits for the work"),
        _ => None,
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Logical {
    fn drop(&mut self) {
        // In a child of `fork`, and after the process has begun to exit, no runtime is called.
        if loader::enter().is_err() {
            std::mem::forget(self.owner.take());
            return;
        }
        let is_lost = self.is_lost.load(Ordering::Acquire);
        let locked = self.lock.clone();
        let _calling = locked.as_deref().map(lock);
        let mut reads = lock(&self.reads);
        // Usually all work has passed, because everything that uses memory keeps the device open
        // until it has.
        if !is_lost && reads.has_before(u64::MAX) {
            std::mem::forget(self.owner.take());
            return;
        }
        reads.give_up(&self.api);
        lock(&self.uploads).release_all(&self.api);
        // SAFETY: the reference is the one that `new` took.
        unsafe { (self.api.release_queue)(self.queue) };
        // SAFETY: the reference is the one that `new` took.
        unsafe { (self.api.release_device)(self.device) };
        if let Some(dawn) = self.api.dawn.filter(|_| self.holds_instance) {
            // SAFETY: the reference is the one that `new` took.
            unsafe { (dawn.release_instance)(self.instance) };
        }
    }
}

impl std::fmt::Debug for Logical {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Logical({}, opening {})", self.id, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_do_no_work_or_wait_for_it_are_not_used() {
        let usable: Vec<u32> = (0..=8).filter(|backend| unusable(*backend).is_none()).collect();
        // Unknown, WebGPU of a browser, D3D11, D3D12, Metal and Vulkan.
        assert_eq!(usable, [0, 2, 3, 4, 5, 6]);
        assert!(unusable(1).unwrap().contains("Null"));
    }
}
