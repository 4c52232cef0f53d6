//! The devices that this crate makes itself: one `WGPUDevice` for each adapter, kept until the
//! process ends. In place of a device that is lost, or on which work has failed, the next opening
//! makes another, and the old one goes with the last that was made of it.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arrow_device::driver::PerProcess;
use arrow_device::{Error, ErrorKind, Result};

use crate::Listed;
use crate::api::{
    AdapterInfo, AdapterOptions, Api, CallbackInfo, DeviceDescriptor, DeviceLimits,
    ErrorCallbackInfo, Handle, Requested, SUCCESS, SYNCHRONIZED, Text,
};
use crate::handles::Handles;
use crate::loader;
use crate::logical::{Logical, lock, unusable};

/// How often an answer that does not come at once is looked for, with a millisecond in between.
const LOOKS: u32 = 10_000;

/// An instance and its adapters, all of which are kept.
#[derive(Default)]
struct Own {
    instance: Option<Instance>,
    /// The devices that were opened, by their index.
    opened: Vec<(usize, Arc<Logical>)>,
}

struct Instance {
    handle: Handle,
    adapters: Vec<Adapter>,
}

#[derive(Clone)]
struct Adapter {
    handle: Handle,
    name: String,
    description: String,
    limits: DeviceLimits,
}

// SAFETY: handles, which may be used on any thread: an instance and its adapters are of wgpu-native
// or Dawn, which lock what they change.
unsafe impl Send for Own {}

static OWN: PerProcess<Mutex<Own>> =
    PerProcess::new(Mutex::new(Own { instance: None, opened: Vec::new() }));

/// The answer to a request, which a callback gives.
#[derive(Default)]
struct Answer {
    is_there: AtomicBool,
    given: Mutex<(usize, String)>,
}

extern "C" fn requested(
    status: u32,
    object: Handle,
    text: Text,
    answer: *mut c_void,
    _: *mut c_void,
) {
    // SAFETY: the pointer is of `request`, and a callback is called once ("the callback is called
    // exactly once").
    let answer = unsafe { Arc::from_raw(answer.cast::<Answer>()) };
    // SAFETY: the text is the library's, for the time of the callback.
    let text = unsafe { text.to_string() };
    let object = if status == SUCCESS { object.expose_provenance() } else { 0 };
    *lock(&answer.given) = (object, text);
    answer.is_there.store(true, Ordering::Release);
}

/// Makes a request, and waits for its answer.
fn request(
    api: &Api,
    instance: Handle,
    operation: &'static str,
    ask: impl FnOnce(CallbackInfo<Requested>),
) -> Result<Handle> {
    let answer = Arc::new(Answer::default());
    let share = Arc::into_raw(answer.clone()).cast_mut().cast();
    ask(CallbackInfo::new(requested, share));
    for _ in 0..LOOKS {
        if answer.is_there.load(Ordering::Acquire) {
            break;
        }
        // SAFETY: the instance is never released.
        unsafe { (api.process_events)(instance) };
        if !answer.is_there.load(Ordering::Acquire) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    let (object, text) = lock(&answer.given).clone();
    if object == 0 {
        let why = if text.is_empty() { "WebGPU gave no reason".to_owned() } else { text };
        return Err(Error::new(ErrorKind::DeviceMissing, why).during(operation));
    }
    Ok(ptr::with_exposed_provenance_mut(object))
}

/// Makes the instance and asks for its adapters, the first time.
fn instance<'a>(api: &Api, own: &'a mut Own) -> Result<&'a Instance> {
    let made = match own.instance.take() {
        Some(made) => made,
        None => {
            // SAFETY: without a descriptor, an instance has the library's defaults.
            let handle = unsafe { (api.create_instance)(ptr::null()) };
            if handle.is_null() {
                let message = "WebGPU gave no instance";
                return Err(Error::new(ErrorKind::DriverMissing, message).during("open"));
            }
            loader::loaded();
            let adapters = adapters(api, handle)?;
            loader::loaded();
            Instance { handle, adapters }
        }
    };
    Ok(own.instance.insert(made))
}

/// The adapters that can be used: all of wgpu-native, and the one that Dawn gives.
fn adapters(api: &Api, instance: Handle) -> Result<Vec<Adapter>> {
    let handles = match api.native {
        Some(native) => {
            // SAFETY: the instance is alive; without a place for them, adapters are counted.
            let count = unsafe { (native.adapters)(instance, ptr::null(), ptr::null_mut()) };
            let mut handles = vec![ptr::null_mut(); count];
            // SAFETY: the instance is alive, and the list has room for as many as were counted.
            unsafe { (native.adapters)(instance, ptr::null(), handles.as_mut_ptr()) };
            handles
        }
        None => {
            let mut options = AdapterOptions {
                next: ptr::null_mut(),
                feature_level: 0,
                power_preference: 0,
                force_fallback: 0,
                backend: 0,
                surface: ptr::null_mut(),
            };
            let ask = |options: &AdapterOptions| {
                request(api, instance, "list devices", |info| {
                    // SAFETY: the instance is alive, and so are the options during the call.
                    unsafe { (api.request_adapter)(instance, options, info) };
                })
            };
            let found = ask(&options).or_else(|_| {
                // Adapters that run on the processor may be given only to those who ask for them.
                options.force_fallback = 1;
                ask(&options)
            });
            found.into_iter().collect()
        }
    };
    let mut usable = Vec::new();
    for handle in handles.into_iter().filter(|handle: &Handle| !handle.is_null()) {
        let mut info = AdapterInfo::EMPTY;
        // SAFETY: the adapter is alive, and the struct has room for all members. The texts are the
        // library's; they are left to the end of the process, as the adapter is.
        unsafe { (api.adapter_info)(handle, &mut info) };
        // SAFETY: the text was just written by the library.
        let name = unsafe { info.device.to_string() };
        // SAFETY: the text was just written by the library.
        let description = unsafe { info.description.to_string() };
        let mut limits = DeviceLimits::ZEROED;
        // SAFETY: the adapter is alive, and the struct has room for all members.
        unsafe { (api.adapter_limits)(handle, &mut limits) };
        if unusable(info.backend).is_none() && limits.buffer_size > 0 {
            usable.push(Adapter { handle, name, description, limits });
        }
    }
    Ok(usable)
}

pub(crate) fn list() -> Result<Vec<Listed>> {
    let api = loader::load()?;
    let mut own = lock(OWN.get());
    let instance = instance(&api, &mut own)?;
    let describe = |(index, adapter): (usize, &Adapter)| Listed {
        index,
        name: adapter.name.clone(),
        driver_version: adapter.description.clone(),
        limits: adapter.limits.told(),
    };
    Ok(instance.adapters.iter().enumerate().map(describe).collect())
}

/// The references to a device and its queue that making the device gave.
struct Made {
    api: Api,
    device: NonNull<c_void>,
    queue: NonNull<c_void>,
}

// SAFETY: handles, which may be used on any thread: wgpu-native needs no lock, and devices of Dawn
// were made with the feature that makes one unnecessary.
unsafe impl Send for Made {}
// SAFETY: nothing is done by a shared reference.
unsafe impl Sync for Made {}

impl Drop for Made {
    fn drop(&mut self) {
        // `Logical` keeps this in a child of `fork`, and after the process has begun to exit.
        // SAFETY: the reference is the one that asking the device for its queue gave.
        unsafe { (self.api.release_queue)(self.queue.as_ptr()) };
        // SAFETY: the reference is the one that making the device gave.
        unsafe { (self.api.release_device)(self.device.as_ptr()) };
    }
}

/// Returns the device of this index. All callers get the same device, as long as it works.
pub(crate) fn open(index: usize) -> Result<Arc<Logical>> {
    let api = loader::load()?;
    let known = |own: &Own| {
        let found = own.opened.iter().find(|(known, _)| *known == index);
        found.map(|(_, logical)| logical.clone())
    };
    let opened = known(&lock(OWN.get()));
    // Without the lock: the answer is polled for, which may run callbacks of the application.
    if let Some(logical) = opened.filter(|logical| logical.works()) {
        return Ok(logical);
    }
    let (handle, adapter) = {
        let mut own = lock(OWN.get());
        let instance = instance(&api, &mut own)?;
        let adapter = instance.adapters.get(index).cloned().ok_or_else(|| {
            let message = format!("WebGPU has no device {index}: `devices()` lists what there is");
            Error::new(ErrorKind::DeviceMissing, message).during("open")
        })?;
        (instance.handle, adapter)
    };
    // Without the lock: the answer is polled for, which may run callbacks of the application.
    let (device, is_lost) = create_device(&api, handle, &adapter)?;
    // Declared before the lock, and so dropped after it: the last share closes a device.
    let replaced;
    let mut own = lock(OWN.get());
    if let Some(logical) = known(&own).filter(|logical| logical.is_not_known_to_fail()) {
        // Another thread was faster.
        // SAFETY: the reference is the one that making the device gave.
        unsafe { (api.release_device)(device.as_ptr()) };
        return Ok(logical);
    }
    // SAFETY: the device was just made, and is released by `Made`.
    let queue = unsafe { (api.device_queue)(device.as_ptr()) };
    let Some(queue) = NonNull::new(queue) else {
        let message = "WebGPU gave no queue";
        return Err(Error::new(ErrorKind::Driver, message).during("open"));
    };
    let made = Made { api, device, queue };
    let handles = Handles::new(device, queue).with_loss(is_lost).with_name(adapter.name);
    let mut handles = handles.kept_by(made);
    handles.instance = NonNull::new(handle);
    // SAFETY: the handles were just made, belong together and are kept by their owner; wgpu-native
    // needs no lock, and devices of Dawn were made with the feature that makes one unnecessary.
    let logical = unsafe { Logical::of(handles, api) }?;
    loader::loaded();
    let old = own.opened.iter().position(|(known, _)| *known == index);
    replaced = old.map(|old| own.opened.swap_remove(old));
    own.opened.push((index, logical.clone()));
    drop(own);
    drop(replaced);
    Ok(logical)
}

/// Makes a device with the largest limits that the adapter allows, and a flag that the callback of
/// the device sets when the device is lost.
fn create_device(
    api: &Api,
    instance: Handle,
    adapter: &Adapter,
) -> Result<(NonNull<c_void>, Arc<AtomicBool>)> {
    let is_lost = Arc::new(AtomicBool::new(false));
    let features = [SYNCHRONIZED];
    // SAFETY: the adapter is never released.
    let has_feature = unsafe { (api.adapter_has_feature)(adapter.handle, SYNCHRONIZED) } & 0xff;
    let needs_feature = api.dawn.is_some();
    if needs_feature && has_feature == 0 {
        let message = "this Dawn has no ImplicitDeviceSynchronization, without which its devices may not be used by several threads: install a newer one";
        return Err(Error::new(ErrorKind::Unsupported, message).during("open"));
    }
    let share = Arc::into_raw(is_lost.clone()).cast_mut().cast();
    let descriptor = DeviceDescriptor {
        next: ptr::null_mut(),
        label: Text::EMPTY,
        feature_count: usize::from(needs_feature),
        features: features.as_ptr(),
        limits: &adapter.limits,
        queue_next: ptr::null_mut(),
        queue_label: Text::EMPTY,
        lost: CallbackInfo::new(lost, share),
        uncaptured: ErrorCallbackInfo {
            next: ptr::null_mut(),
            callback: uncaptured,
            first: ptr::null_mut(),
            second: ptr::null_mut(),
        },
    };
    let device = request(api, instance, "open", |info| {
        // SAFETY: the adapter is never released; the descriptor and all that it points to are alive
        // during the call.
        unsafe { (api.request_device)(adapter.handle, &descriptor, info) };
    })?;
    let missing = || Error::new(ErrorKind::Driver, "WebGPU gave no device").during("open");
    Ok((NonNull::new(device).ok_or_else(missing)?, is_lost))
}

/// The callback of a device that is lost. The flag is never freed: some libraries call again.
extern "C" fn lost(_: *const Handle, _: u32, _: Text, is_lost: *mut c_void, _: *mut c_void) {
    // SAFETY: the pointer is of `create_device`, which gave away a share for ever.
    let is_lost = unsafe { &*is_lost.cast::<AtomicBool>() };
    is_lost.store(true, Ordering::Release);
}

/// The callback for errors that no scope caught: those of the application's own calls. Without this
/// callback wgpu-native would end the process.
extern "C" fn uncaptured(_: *const Handle, _: u32, _: Text, _: *mut c_void, _: *mut c_void) {}
