//! Asks the driver about its objects, and lists its devices.

use std::ffi::c_void;
use std::ptr;

use arrow_device::{DeviceId, DeviceType, Result};

use crate::api::{Api, Code, Handle, Info};
use crate::error::check;

const ALL_DEVICES: u64 = 0xffff_ffff;
const NO_SUCH_DEVICE: Code = -1;

pub(crate) const DEVICE_NAME: u32 = 0x102b;
pub(crate) const DEVICE_PLATFORM: u32 = 0x1031;
const DEVICE_MEMORY: u32 = 0x101f;
pub(crate) const DRIVER_VERSION: u32 = 0x102d;
const DEVICE_ALIGNMENT_IN_BITS: u32 = 0x1019;
const DEVICE_UNIFIED_MEMORY: u32 = 0x1035;
const DEVICE_SVM_CAPABILITIES: u32 = 0x1053;
const COARSE_BUFFERS: u64 = 1;
pub(crate) const PLATFORM_NAME: u32 = 0x0902;
const CONTEXT_DEVICES: u32 = 0x1081;
const QUEUE_PROPERTIES: u32 = 0x1093;
const OUT_OF_ORDER: u64 = 1;
const MEMORY_SIZE: u32 = 0x1102;
const MEMORY_CONTEXT: u32 = 0x1106;
const MEMORY_ROOT: u32 = 0x1107;
const MEMORY_OFFSET: u32 = 0x1108;
const EVENT_QUEUE: u32 = 0x11d0;
const EVENT_STATUS: u32 = 0x11d3;
const EVENT_CONTEXT: u32 = 0x11d4;

/// A type of which any bytes are a value.
pub(crate) trait Plain: Copy {
    const ZERO: Self;
}
impl Plain for u32 {
    const ZERO: Self = 0;
}
impl Plain for i32 {
    const ZERO: Self = 0;
}
impl Plain for u64 {
    const ZERO: Self = 0;
}
impl Plain for usize {
    const ZERO: Self = 0;
}
impl Plain for Handle {
    const ZERO: Self = ptr::null_mut();
}

/// # Safety
/// `object` is alive and of the kind that `info` is about.
pub(crate) unsafe fn value<T: Plain>(
    info: Info,
    object: Handle,
    what: u32,
    operation: &'static str,
) -> Result<T> {
    let mut value = T::ZERO;
    let out = (&raw mut value).cast::<c_void>();
    // SAFETY: the object is promised by the caller. OpenCL writes at most as many bytes as it is
    // told fit.
    let code = unsafe { info(object, what, size_of::<T>(), out, ptr::null_mut()) };
    check(code, operation).map(|()| value)
}

/// # Safety
/// `object` is alive and of the kind that `info` is about.
pub(crate) unsafe fn list<T: Plain>(
    info: Info,
    object: Handle,
    what: u32,
    operation: &'static str,
) -> Result<Vec<T>> {
    let mut size = 0;
    // SAFETY: `object` is alive and of the kind that `info` is about, as the caller promises; with
    // no room given only the size is written.
    let code = unsafe { info(object, what, 0, ptr::null_mut(), &mut size) };
    check(code, operation)?;
    let mut values = vec![T::ZERO; size / size_of::<T>()];
    let room = size_of_val(values.as_slice());
    // SAFETY: `object` is alive and of the kind that `info` is about, as the caller promises;
    // `values` has this many bytes.
    let code = unsafe { info(object, what, room, values.as_mut_ptr().cast(), ptr::null_mut()) };
    check(code, operation).map(|()| values)
}

impl Plain for u8 {
    const ZERO: Self = 0;
}

/// # Safety
/// `object` is alive and of the kind that `info` is about.
pub(crate) unsafe fn text(
    info: Info,
    object: Handle,
    what: u32,
    operation: &'static str,
) -> Result<String> {
    // SAFETY: `object` is alive and of the kind that `info` is about, as the caller promises.
    let bytes = unsafe { list::<u8>(info, object, what, operation) }?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Ok(String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).trim().to_owned())
}

/// The properties of a device that a driver needs.
pub(crate) struct DeviceFacts {
    pub(crate) name: String,
    pub(crate) alignment: usize,
    pub(crate) is_unified: bool,
    pub(crate) has_svm: bool,
}

/// Returns what was found in all places together. A place that cannot be asked does not hide the
/// others. Its error is returned only where nothing is found.
pub(crate) fn those_that_answer<T>(places: impl Iterator<Item = Result<Vec<T>>>) -> Result<Vec<T>> {
    let (mut found, mut first_error) = (Vec::new(), None);
    for place in places {
        match place {
            Ok(some) => found.extend(some),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    match first_error {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

impl Api {
    /// Returns all devices of all platforms, in the loader's order.
    pub(crate) fn devices(&self) -> Result<Vec<Handle>> {
        let mut count = 0;
        // SAFETY: with no room given only the count is written.
        let code = unsafe { (self.get_platform_ids)(0, ptr::null_mut(), &mut count) };
        check(code, "list platforms")?;
        let mut platforms = vec![ptr::null_mut(); count as usize];
        // SAFETY: there is room for `count` platforms.
        let code =
            unsafe { (self.get_platform_ids)(count, platforms.as_mut_ptr(), ptr::null_mut()) };
        check(code, "list platforms")?;
        those_that_answer(platforms.into_iter().map(|platform| self.devices_on(platform)))
    }

    fn devices_on(&self, platform: Handle) -> Result<Vec<Handle>> {
        let mut count = 0;
        // SAFETY: the platform was just listed; with no room given only the count is written.
        let code =
            unsafe { (self.get_device_ids)(platform, ALL_DEVICES, 0, ptr::null_mut(), &mut count) };
        if code == NO_SUCH_DEVICE {
            return Ok(Vec::new());
        }
        check(code, "list devices")?;
        let mut devices = vec![ptr::null_mut(); count as usize];
        let room = devices.as_mut_ptr();
        // SAFETY: the platform was just listed; there is room for `count` devices.
        let code =
            unsafe { (self.get_device_ids)(platform, ALL_DEVICES, count, room, ptr::null_mut()) };
        check(code, "list devices").map(|()| devices)
    }

    /// Returns the number of a device in this process, -1 for a device that is not listed, such as
    /// a sub-device.
    pub(crate) fn id_of(&self, device: Handle) -> Result<DeviceId> {
        let position = self.devices()?.iter().position(|known| *known == device);
        Ok(DeviceId::new(DeviceType::OPENCL, position.map_or(-1, |index| index as i64)))
    }

    /// # Safety
    /// The device is one of this process.
    pub(crate) unsafe fn facts(&self, device: Handle) -> Result<DeviceFacts> {
        const ASK: &str = "ask the device";
        let info = self.get_device_info;
        // SAFETY: the device is one of this process, as the caller promises, as for the questions
        // below.
        let platform = unsafe { value(info, device, DEVICE_PLATFORM, ASK) }?;
        // SAFETY: the device's own platform.
        let platform = unsafe { text(self.get_platform_info, platform, PLATFORM_NAME, ASK) }?;
        // SAFETY: the device is alive, as the caller promises.
        let name = unsafe { text(info, device, DEVICE_NAME, ASK) }?;
        // SAFETY: the device is alive, as the caller promises; the answer is a `cl_uint`.
        let bits: u32 = unsafe { value(info, device, DEVICE_ALIGNMENT_IN_BITS, ASK) }?;
        // SAFETY: the device is alive, as the caller promises; the answer is a `cl_bool`, which is
        // a `cl_uint`.
        let is_unified: u32 = unsafe { value(info, device, DEVICE_UNIFIED_MEMORY, ASK) }?;
        // Before OpenCL 2.0 this is an error.
        // SAFETY: the device is alive, as the caller promises; the answer is a `cl_bitfield`, which
        // is a `cl_ulong`.
        let svm: u64 = unsafe { value(info, device, DEVICE_SVM_CAPABILITIES, ASK) }.unwrap_or(0);
        Ok(DeviceFacts {
            name: format!("{name} ({platform})"),
            alignment: (bits as usize / 8).max(1),
            is_unified: is_unified != 0,
            has_svm: svm & COARSE_BUFFERS != 0 && self.svm.is_some(),
        })
    }

    /// Returns how many bytes a device has, and the version of its driver.
    ///
    /// # Safety
    /// The device is one of this process.
    pub(crate) unsafe fn memory_and_version(&self, device: Handle) -> Result<(u64, String)> {
        let info = self.get_device_info;
        // SAFETY: the device is alive, as the caller promises; the answer is a `cl_ulong`.
        let memory = unsafe { value(info, device, DEVICE_MEMORY, "ask the device") }?;
        // SAFETY: the device is alive, as the caller promises.
        let version = unsafe { text(info, device, DRIVER_VERSION, "ask the device") }?;
        Ok((memory, version))
    }

    /// # Safety
    /// The context is alive.
    pub(crate) unsafe fn devices_of(&self, context: Handle) -> Result<Vec<Handle>> {
        // SAFETY: the context is alive, as the caller promises.
        unsafe { list(self.get_context_info, context, CONTEXT_DEVICES, "ask the context") }
    }

    /// # Safety
    /// The queue is alive.
    pub(crate) unsafe fn is_out_of_order(&self, queue: Handle) -> Result<bool> {
        // SAFETY: the queue is alive, as the caller promises.
        let properties: u64 =
            unsafe { value(self.get_queue_info, queue, QUEUE_PROPERTIES, "ask the queue") }?;
        Ok(properties & OUT_OF_ORDER != 0)
    }

    /// Returns the context and the size of a `cl_mem`.
    ///
    /// # Safety
    /// The memory is alive.
    pub(crate) unsafe fn extent_of(&self, memory: Handle) -> Result<(Handle, usize)> {
        let info = self.get_memory_info;
        // SAFETY: the memory is alive, as the caller promises; the answer is a `cl_context`.
        let context = unsafe { value(info, memory, MEMORY_CONTEXT, "ask the memory") }?;
        // SAFETY: the memory is alive, as the caller promises; the answer is a `size_t`.
        let size = unsafe { value(info, memory, MEMORY_SIZE, "ask the memory") }?;
        Ok((context, size))
    }

    /// Returns the root buffer of a `cl_mem`, and where in the root it begins.
    ///
    /// # Safety
    /// The memory is alive.
    pub(crate) unsafe fn root_of(&self, memory: Handle) -> Result<(Handle, usize)> {
        let info = self.get_memory_info;
        // SAFETY: the memory is alive, as the caller promises; the answer is a `cl_mem`.
        let root: Handle = unsafe { value(info, memory, MEMORY_ROOT, "ask the memory") }?;
        if root.is_null() {
            return Ok((memory, 0));
        }
        // SAFETY: the memory is alive, as the caller promises; the answer is a `size_t`.
        let offset = unsafe { value(info, memory, MEMORY_OFFSET, "ask the memory") }?;
        Ok((root, offset))
    }

    /// Returns the status of an event: 0 for complete, positive for pending work, negative for
    /// failed work.
    ///
    /// # Safety
    /// The event is alive.
    pub(crate) unsafe fn status_of(&self, event: Handle) -> Result<Code> {
        // SAFETY: the event is alive, as the caller promises.
        unsafe { value(self.get_event_info, event, EVENT_STATUS, "ask the event") }
    }

    /// # Safety
    /// The event is alive.
    pub(crate) unsafe fn context_of_event(&self, event: Handle) -> Result<Handle> {
        // SAFETY: the event is alive, as the caller promises.
        unsafe { value(self.get_event_info, event, EVENT_CONTEXT, "ask the event") }
    }

    /// Returns the queue of an event, null for a user event.
    ///
    /// # Safety
    /// The event is alive.
    pub(crate) unsafe fn queue_of_event(&self, event: Handle) -> Result<Handle> {
        // SAFETY: the event is alive, as the caller promises.
        unsafe { value(self.get_event_info, event, EVENT_QUEUE, "ask the event") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api;

    /// Platforms are numbers in this test. Only the last one has a device.
    unsafe extern "system" fn platforms(room: u32, out: *mut Handle, count: *mut u32) -> Code {
        for number in 0..room as usize {
            // SAFETY: there is room for so many.
            unsafe { out.wrapping_add(number).write(ptr::without_provenance_mut(number + 1)) };
        }
        if !count.is_null() {
            // SAFETY: it can be written.
            unsafe { count.write(3) };
        }
        0
    }

    /// The first platform is out of memory, the second has no device, the third has one.
    unsafe extern "system" fn devices(
        platform: Handle,
        _: u64,
        room: u32,
        out: *mut Handle,
        count: *mut u32,
    ) -> Code {
        let code = [-6, NO_SUCH_DEVICE, 0][platform.addr() - 1];
        if code == 0 && room > 0 {
            // SAFETY: there is room for it.
            unsafe { out.write(ptr::without_provenance_mut(7)) };
        }
        if code == 0 && !count.is_null() {
            // SAFETY: it can be written.
            unsafe { count.write(1) };
        }
        code
    }

    unsafe extern "system" fn no_devices(
        _: Handle,
        _: u64,
        _: u32,
        _: *mut Handle,
        _: *mut u32,
    ) -> Code {
        -6
    }

    #[test]
    fn a_platform_that_cannot_be_listed_hides_no_other() {
        let Ok(loaded) = api::load() else {
            return arrow_device_testkit::required::skip("opencl", "there is no loader");
        };
        let api = Api { get_platform_ids: platforms, get_device_ids: devices, ..loaded.clone() };
        assert_eq!(api.devices().unwrap(), [ptr::without_provenance_mut(7)]);
        let api = Api { get_device_ids: no_devices, ..api };
        let error = api.devices().unwrap_err();
        assert_eq!(error.vendor().unwrap().code, -6, "{error}");
    }

    #[test]
    fn what_one_place_said_is_the_error_where_there_is_nothing_else() {
        let error = || Err(arrow_device::Error::new(arrow_device::ErrorKind::Driver, "broken"));
        let list = |places: Vec<Result<Vec<i32>>>| those_that_answer(places.into_iter()).ok();
        assert_eq!(list(vec![error(), Ok(vec![1, 2]), error(), Ok(vec![3])]), Some(vec![1, 2, 3]));
        assert_eq!(list(vec![Ok(vec![]), error()]), None);
        assert_eq!(list(vec![Ok(vec![])]), Some(vec![]));
    }
}
