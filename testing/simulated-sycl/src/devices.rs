//! The devices, and contexts of all of them.

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::memory::LIMIT;
use crate::objects::{Handle, find, give, take};

/// What a device has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aspects {
    pub(crate) cpu: bool,
    pub(crate) device: bool,
    pub(crate) host: bool,
    pub(crate) shared: bool,
    pub(crate) shares_at_once: bool,
}

/// A device by its index. A part of a device has an index that no list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Device(pub(crate) usize);

/// A context of all devices.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) number: usize,
}

/// A list of devices.
#[derive(Debug)]
pub(crate) struct DeviceList(Vec<Device>);

impl Device {
    pub(crate) fn aspects(self) -> Aspects {
        let all =
            Aspects { cpu: true, device: true, host: true, shared: true, shares_at_once: true };
        match self.0 {
            0 => all,
            1 => Aspects { cpu: false, shares_at_once: false, ..all },
            _ => {
                Aspects { device: false, host: false, shared: false, shares_at_once: false, ..all }
            }
        }
    }

    /// Whether its queues wait to be flushed.
    pub(crate) fn waits_for_flush(self) -> bool {
        self.0 == 1
    }
}

const NAMES: [&CStr; 3] = [c"Simulated processor", c"Simulated GPU", c"Simulated without USM"];

fn count() -> usize {
    let is_none = std::env::var_os("SIMULATED_SYCL").is_some_and(|value| value == "none");
    if is_none { 0 } else { NAMES.len() }
}

fn text(text: &CStr) -> *const c_char {
    text.to_owned().into_raw()
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLDeviceMgr_GetDevices(_which: i32) -> Handle {
    give(Arc::new(DeviceList((0..count()).map(Device).collect())))
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLDeviceVector_Size(list: Handle) -> usize {
    find::<DeviceList>(list).map_or(0, |list| list.0.len())
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLDeviceVector_GetAt(list: Handle, index: usize) -> Handle {
    let device = find::<DeviceList>(list).and_then(|list| list.0.get(index).copied());
    device.map_or(ptr::null_mut(), |device| give(Arc::new(device)))
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLDeviceVector_Delete(list: Handle) {
    take::<DeviceList>(list);
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLDeviceMgr_GetPositionInDevices(device: Handle, _which: i32) -> i32 {
    let index = find::<Device>(device).map(|device| device.0).filter(|index| *index < count());
    index.and_then(|index| i32::try_from(index).ok()).unwrap_or(-1)
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLDeviceMgr_GetCachedContext(device: Handle) -> Handle {
    static DEFAULT: OnceLock<Arc<Context>> = OnceLock::new();
    if find::<Device>(device).is_none() {
        return ptr::null_mut();
    }
    give(DEFAULT.get_or_init(new_context).clone())
}

fn new_context() -> Arc<Context> {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    Arc::new(Context { number: NEXT.fetch_add(1, Ordering::SeqCst) })
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLContext_Create(device: Handle, _handler: Handle, _properties: i32) -> Handle {
    find::<Device>(device).map_or(ptr::null_mut(), |_| give(new_context()))
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLContext_AreEq(one: Handle, other: Handle) -> bool {
    let [one, other] = [one, other].map(find::<Context>);
    one.zip(other).is_some_and(|(one, other)| one.number == other.number)
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLContext_Delete(context: Handle) {
    take::<Context>(context);
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLDevice_GetName(device: Handle) -> *const c_char {
    let name = find::<Device>(device).and_then(|device| NAMES.get(device.0).copied());
    text(name.unwrap_or(c"part of a simulated device"))
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLDevice_GetDriverVersion(_device: Handle) -> *const c_char {
    text(c"1.0")
}

/// # Safety
/// The text is one of this library's, and is not used after this.
#[unsafe(no_mangle)]
unsafe extern "C" fn DPCTLCString_Delete(text: *const c_char) {
    if !text.is_null() {
        // SAFETY: `text` made it by `CString::into_raw`, as the caller promises.
        drop(unsafe { CString::from_raw(text.cast_mut()) });
    }
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLDevice_GetGlobalMemSize(_device: Handle) -> u64 {
    LIMIT as u64
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLDevice_HasAspect(device: Handle, aspect: i32) -> bool {
    find::<Device>(device).is_some_and(|device| device.aspects().has(aspect))
}

/// All devices are driven by OpenCL.
#[unsafe(no_mangle)]
extern "C" fn DPCTLDevice_GetBackend(_device: Handle) -> i32 {
    1 << 18
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLDevice_Delete(device: Handle) {
    take::<Device>(device);
}

/// A part of a device, which no list has.
#[unsafe(no_mangle)]
extern "C" fn simulated_sycl_part_of_device() -> Handle {
    give(Arc::new(Device(1000)))
}
