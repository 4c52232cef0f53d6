//! A device of Metal: what is known of it, and what it makes. All drivers of a device share one
//! [`Home`], so that all of them know when the device is lost.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use arrow_device::{DeviceId, DeviceType, Error, ErrorKind, Result};

use crate::api::{Api, Id};
use crate::driver::DEFAULT;
use crate::error::device_lost;
use crate::object::{Object, Pool, made};

/// How many unfinished command buffers a queue of this crate may have. Whoever asks for one more
/// waits in Metal.
pub(crate) const MOST_COMMAND_BUFFERS: usize = 4096;
/// `MTLResourceStorageModeShared`, with the default cache mode and hazard tracking.
const SHARED: usize = 0;

pub(crate) struct Home {
    pub(crate) api: &'static Api,
    pub(crate) device: Object,
    pub(crate) id: DeviceId,
    pub(crate) is_default: bool,
    pub(crate) name: String,
    most_length: u64,
    is_lost: AtomicBool,
    /// Held for reading while bytes are brought to the host, and for writing when the device is
    /// found lost.
    copying: RwLock<()>,
}

/// The devices that were asked for, kept until the process ends.
static HOMES: Mutex<Vec<Arc<Home>>> = Mutex::new(Vec::new());

impl Home {
    /// Returns what is known of a device, the same for all who ask.
    pub(crate) fn of(device: Object) -> Result<Arc<Self>> {
        let api = device.api();
        let _pool = Pool::new(api);
        let id = registry_id(&device);
        let known = || {
            let homes = HOMES.lock().unwrap_or_else(PoisonError::into_inner);
            homes.iter().find(|home| home.id == id).cloned()
        };
        if let Some(home) = known() {
            return Ok(home);
        }
        let default = default_device(api)?;
        // SAFETY: `- (NSString *)name` of a device; there is a pool.
        let name = unsafe { api.send::<Id>(device.id(), api.selectors.name) };
        // SAFETY: the string is alive, and there is a pool.
        let name = unsafe { api.text(name) };
        // SAFETY: `- (NSUInteger)maxBufferLength` of a device.
        let most = unsafe { api.send::<usize>(device.id(), api.selectors.most_length) };
        let is_default = registry_id(&default) == id;
        let (is_lost, copying, most_length) =
            (AtomicBool::new(false), RwLock::new(()), most as u64);
        let home = Self { api, device, id, is_default, name, most_length, is_lost, copying };
        let mut homes = HOMES.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have asked meanwhile.
        if let Some(home) = homes.iter().find(|home| home.id == id) {
            return Ok(home.clone());
        }
        let home = Arc::new(home);
        homes.push(home.clone());
        Ok(home)
    }

    /// The device at an address that the application gave.
    ///
    /// # Safety
    /// The pointer is a `MTLDevice` that is alive.
    pub(crate) unsafe fn of_pointer(
        api: &'static Api,
        device: NonNull<c_void>,
    ) -> Result<Arc<Self>> {
        let _pool = Pool::new(api);
        // SAFETY: the object is alive, as the caller promises.
        if !unsafe { api.conforms(device.as_ptr(), c"MTLDevice") } {
            let error = Error::new(ErrorKind::InvalidArgument, "the object is no MTLDevice");
            return Err(error.during("open"));
        }
        // SAFETY: the object is alive, as the caller promises.
        Self::of(unsafe { Object::retained(api, device) })
    }

    /// Returns an error once the device is lost.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_lost() { Err(device_lost(self.id)) } else { Ok(()) }
    }

    /// A pool for the messages of one operation.
    pub(crate) fn pool(&self) -> Pool {
        Pool::new(self.api)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::SeqCst)
    }

    /// Notes the loss of the device, once nothing is copied to the host any more.
    pub(crate) fn lose(&self) {
        let nothing_is_copied = self.copying.write().unwrap_or_else(PoisonError::into_inner);
        self.is_lost.store(true, Ordering::SeqCst);
        drop(nothing_is_copied);
    }

    /// Copies to the host, unless the device is lost. The loss is told to nobody meanwhile.
    pub(crate) fn unless_lost<R>(&self, copy: impl FnOnce() -> R) -> Option<R> {
        let _copying = self.copying.read().unwrap_or_else(PoisonError::into_inner);
        (!self.is_lost()).then(copy)
    }

    /// A device that was asked for, by its id.
    pub(crate) fn find(id: DeviceId) -> Option<Arc<Self>> {
        let homes = HOMES.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |home: &&Arc<Self>| home.id == id || home.is_default && id == DEFAULT;
        homes.iter().find(is_it).cloned()
    }

    /// Makes a buffer of shared storage.
    pub(crate) fn new_buffer(&self, len: u64) -> Result<Object> {
        let too_long = || {
            let message = format!("{len} bytes are more than Metal has for a buffer now");
            Error::new(ErrorKind::OutOfMemory, message).during("allocate").on_device(self.id)
        };
        let length = usize::try_from(len).ok().filter(|_| len <= self.most_length);
        let length = length.ok_or_else(too_long)?;
        let selector = self.api.selectors.new_buffer;
        // SAFETY: `- (id)newBufferWithLength:(NSUInteger)length options:(NSUInteger)options` of a
        // device; the length is not 0 and not more than the device's limit.
        let buffer = unsafe { self.api.send_2(self.device.id(), selector, length, SHARED) };
        // SAFETY: methods whose names begin with `new` give the caller a reference, or null.
        unsafe { Object::owned(self.api, buffer) }.ok_or_else(too_long)
    }

    /// Makes a buffer of memory that is there. `None` where Metal does not.
    ///
    /// # Safety
    /// The address and the length are multiples of the size of a page, the pages may be used as
    /// long as the buffer is, and the length is not 0.
    pub(crate) unsafe fn buffer_around(&self, address: *mut c_void, len: usize) -> Option<Object> {
        if len as u64 > self.most_length {
            return None;
        }
        let (api, selector) = (self.api, self.api.selectors.new_buffer_around);
        let nothing: Id = ptr::null_mut();
        // SAFETY: `- (id)newBufferWithBytesNoCopy:(void *)pointer length:(NSUInteger)length
        // options:(NSUInteger)options deallocator:(void (^)(void *, NSUInteger))deallocator` of a
        // device; whole pages, as the caller promises; the deallocator may be null.
        let buffer: Id =
            unsafe { api.send_4(self.device.id(), selector, address, len, SHARED, nothing) };
        // SAFETY: methods whose names begin with `new` give the caller a reference, or null.
        unsafe { Object::owned(api, buffer) }
    }

    pub(crate) fn new_event(&self) -> Result<Object> {
        let selector = self.api.selectors.new_shared_event;
        // SAFETY: `- (id)newSharedEvent` of a device.
        let event = unsafe { self.api.send(self.device.id(), selector) };
        // SAFETY: methods whose names begin with `new` give the caller a reference, or null.
        unsafe { made(self.api, event, "event") }.map_err(|error| error.on_device(self.id))
    }

    pub(crate) fn new_queue(&self) -> Result<Object> {
        let selector = self.api.selectors.new_queue;
        let most = MOST_COMMAND_BUFFERS;
        // SAFETY: `- (id)newCommandQueueWithMaxCommandBufferCount:(NSUInteger)count` of a device.
        let queue = unsafe { self.api.send_1(self.device.id(), selector, most) };
        // SAFETY: methods whose names begin with `new` give the caller a reference, or null.
        unsafe { made(self.api, queue, "queue") }.map_err(|error| error.on_device(self.id))
    }
}

/// Returns the default device.
pub(crate) fn default_device(api: &'static Api) -> Result<Object> {
    let _pool = Pool::new(api);
    // SAFETY: the function can be called at any time.
    let device = unsafe { (api.default_device)() };
    // SAFETY: the function gives the caller a reference, or null.
    unsafe { Object::owned(api, device) }.ok_or_else(no_device)
}

/// Returns all devices, the default one first.
pub(crate) fn all_devices(api: &'static Api) -> Result<Vec<Object>> {
    let _pool = Pool::new(api);
    let default = default_device(api)?;
    let mut devices = vec![default];
    let Some(list) = api.all_devices else { return Ok(devices) };
    // SAFETY: the function can be called at any time.
    let array = unsafe { list() };
    // SAFETY: the function gives the caller a reference, or null.
    let Some(array) = (unsafe { Object::owned(api, array) }) else { return Ok(devices) };
    // SAFETY: `- (NSUInteger)count` of an array.
    let count = unsafe { api.send::<usize>(array.id(), api.selectors.count) };
    for index in 0..count {
        // SAFETY: `- (id)objectAtIndex:(NSUInteger)index` of an array, which throws for an index
        // that is not below the count.
        let device = unsafe { api.send_1::<Id, _>(array.id(), api.selectors.object_at, index) };
        let Some(device) = NonNull::new(device) else { continue };
        // SAFETY: the array keeps its elements alive.
        let device = unsafe { Object::retained(api, device) };
        if devices.iter().all(|known| registry_id(known) != registry_id(&device)) {
            devices.push(device);
        }
    }
    Ok(devices)
}

/// The id of a device: all 64 bits of its `registryID`.
pub(crate) fn registry_id(device: &Object) -> DeviceId {
    let api = device.api();
    // SAFETY: `- (uint64_t)registryID` of a device.
    let id = unsafe { api.send::<u64>(device.id(), api.selectors.registry_id) };
    DeviceId::new(DeviceType::METAL, id.cast_signed())
}

/// About how much memory a device has for one program.
pub(crate) fn memory_of(device: &Object) -> u64 {
    let (api, selector) = (device.api(), device.api().selectors.working_set);
    // SAFETY: the device is alive.
    if unsafe { api.responds(device.id(), selector) } {
        // SAFETY: `- (uint64_t)recommendedMaxWorkingSetSize` of a device that has it.
        unsafe { api.send::<u64>(device.id(), selector) }
    } else {
        0
    }
}

pub(crate) fn no_device() -> Error {
    let message = "Metal has no device: `devices()` lists what there is";
    Error::new(ErrorKind::DeviceMissing, message).during("open")
}
