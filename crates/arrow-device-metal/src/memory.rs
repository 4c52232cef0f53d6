//! The buffers that this process knows, by the addresses of their bytes.
//!
//! Arrow names memory of Metal by address, and Metal by an object and an offset. What this crate
//! allocates, and what the application [names](crate::NamedBuffer), is found here. For other
//! memory, which came in an array, Metal makes a buffer around its pages when a copy needs one.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow_device::driver::{Raw, Spot};
use arrow_device::{DeviceId, Error, ErrorKind, Memory, Result};

use crate::api::{Api, Id};
use crate::driver::DEFAULT;
use crate::home::Home;
use crate::object::Object;

/// `MTLStorageModeShared`.
const SHARED: usize = 0;

/// A buffer and the place of its first byte in it.
pub(crate) struct Place {
    pub(crate) buffer: Object,
    pub(crate) offset: usize,
}

#[derive(Clone)]
struct KnownBuffer {
    buffer: Object,
    len: usize,
    device: DeviceId,
    /// How many owners have named it.
    names: usize,
}

static BUFFERS: Mutex<BTreeMap<usize, KnownBuffer>> = Mutex::new(BTreeMap::new());

fn buffers() -> MutexGuard<'static, BTreeMap<usize, KnownBuffer>> {
    BUFFERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The size of a page. Memory of arrays begins at a page.
#[cfg(unix)]
pub(crate) fn page() -> usize {
    // SAFETY: the function has no requirements.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(page).ok().filter(|page| page.is_power_of_two()).unwrap_or(4096)
}

/// The size of a page. There is no Metal on this system.
#[cfg(not(unix))]
pub(crate) fn page() -> usize {
    4096
}

/// The address of a buffer's bytes.
pub(crate) fn contents(buffer: &Object) -> *mut c_void {
    let api = buffer.api();
    // SAFETY: `- (void *)contents` of a buffer.
    unsafe { api.send::<*mut c_void>(buffer.id(), api.selectors.contents) }
}

/// Makes a buffer known by the address of its bytes. A buffer that is known is named once more. An
/// error where some of the bytes are known as those of another buffer, because a byte leads to one
/// buffer only.
pub(crate) fn add(buffer: Object, len: usize, device: DeviceId) -> Result<(), &'static str> {
    let address = contents(&buffer).addr();
    let mut buffers = buffers();
    // What is known does not overlap, so that the last one that begins before the end tells.
    let last = buffers.range_mut(..address.saturating_add(len)).next_back();
    if let Some((start, known)) = last
        && known.len > address.saturating_sub(*start)
    {
        if *start != address || known.buffer.id() != buffer.id() {
            return Err("the bytes are known as those of another MTLBuffer");
        }
        known.names += 1;
        return Ok(());
    }
    buffers.insert(address, KnownBuffer { buffer, len, device, names: 1 });
    Ok(())
}

/// Takes back what [`add`] did.
pub(crate) fn remove(address: usize) {
    let mut buffers = buffers();
    let Some(known) = buffers.get_mut(&address) else { return };
    known.names -= 1;
    let gone = if known.names == 0 { buffers.remove(&address) } else { None };
    // The buffer is released without the lock.
    drop(buffers);
    drop(gone);
}

/// What `of` says of the known buffer that an address lies in, and the place there. `of` is called
/// with the lock, and sends no message but `retain`.
fn find<R>(address: usize, of: impl FnOnce(&KnownBuffer, usize) -> R) -> Option<R> {
    let buffers = buffers();
    let (start, known) = buffers.range(..=address).next_back()?;
    let offset = address - start;
    (offset < known.len).then(|| of(known, offset))
}

/// The object of the buffer that an address lies in, and its place there, if the buffer is known.
pub(crate) fn object_at(address: usize) -> Option<(NonNull<c_void>, usize)> {
    find(address, |known, offset| (known.buffer.pointer(), offset))
}

/// The device of a known buffer, and how many bytes there are from an address to its end.
pub(crate) fn extent_of(address: usize) -> Option<(DeviceId, u64)> {
    find(address, |known, offset| (known.device, (known.len - offset) as u64))
}

/// Finds or makes the buffer for `len` bytes of a device's memory.
///
/// # Safety
/// The bytes are memory of the device, and stay valid as long as the result.
pub(crate) unsafe fn buffer_for(home: &Home, spot: Spot, len: usize) -> Result<Place> {
    let refused = |kind, message| Err(Error::new(kind, message).during("copy").on_device(home.id));
    let start = spot.base.as_ptr().wrapping_byte_add(spot.offset as usize);
    match find(start.addr(), |known, offset| (known.clone(), offset)) {
        Some((known, _)) if known.device != home.id => {
            return refused(ErrorKind::NotReachable, "the memory is another device's");
        }
        Some((known, offset)) if len <= known.len - offset => {
            return Ok(Place { buffer: known.buffer, offset });
        }
        Some(_) => return refused(ErrorKind::InvalidArgument, "the memory ends before the copy"),
        None => {}
    }
    let (page, refusal) = (page(), "Metal makes no buffer of this memory");
    let before = start.addr() % page;
    let Some(whole) = before.checked_add(len).and_then(|len| len.checked_next_multiple_of(page))
    else {
        return refused(ErrorKind::InvalidArgument, refusal);
    };
    // SAFETY: whole pages, which hold bytes of the device's memory: shared storage is allocated by
    // pages, so that all of them belong to it.
    match unsafe { home.buffer_around(start.wrapping_byte_sub(before), whole) } {
        Some(buffer) => Ok(Place { buffer, offset: before }),
        None => refused(ErrorKind::Unsupported, refusal),
    }
}

/// The device and the address of a buffer that somebody else made. The default device is named by
/// -1, as in arrays of other libraries.
///
/// # Safety
/// The object is alive.
pub(crate) unsafe fn memory_of(
    api: &'static Api,
    buffer: NonNull<c_void>,
) -> Result<(DeviceId, Raw<Memory>)> {
    let refused = |problem| Error::new(ErrorKind::Unsupported, problem).during("ask a buffer");
    // SAFETY: the object is alive, as the caller promises.
    let buffer = unsafe { Object::retained(api, buffer) };
    if let Some(problem) = problem_of_any(&buffer) {
        return Err(refused(problem));
    }
    let device = device_of(&buffer).ok_or_else(|| refused("the buffer has no device"))?;
    let home = Home::of(device)?;
    let id = if home.is_default { DEFAULT } else { home.id };
    Ok((id, Raw::from_ptr(contents(&buffer))))
}

/// The device of a buffer.
fn device_of(buffer: &Object) -> Option<Object> {
    let (api, names) = (buffer.api(), &buffer.api().selectors);
    // SAFETY: `- (id)device` of a buffer.
    let device: Id = unsafe { api.send(buffer.id(), names.device) };
    // SAFETY: a buffer keeps its device alive.
    NonNull::new(device).map(|device| unsafe { Object::retained(api, device) })
}

/// What is wrong with a buffer for memory of this device, if anything.
pub(crate) fn problem_of(home: &Home, buffer: &Object) -> Option<&'static str> {
    problem_of_any(buffer).or_else(|| {
        let is_its = device_of(buffer).is_some_and(|of| ptr::eq(of.id(), home.device.id()));
        (!is_its).then_some("the buffer belongs to another MTLDevice")
    })
}

/// What is wrong with a buffer for memory of any device, if anything.
fn problem_of_any(buffer: &Object) -> Option<&'static str> {
    let (api, names) = (buffer.api(), &buffer.api().selectors);
    // SAFETY: the object is alive.
    if !unsafe { api.conforms(buffer.id(), c"MTLBuffer") } {
        return Some("the object is no MTLBuffer");
    }
    // SAFETY: `- (MTLStorageMode)storageMode` of a buffer, which is a resource.
    let mode = unsafe { api.send::<usize>(buffer.id(), names.storage_mode) };
    let is_shared = mode == SHARED && !contents(buffer).is_null();
    (!is_shared).then_some("the storage of the buffer is not shared")
}

/// The length of a buffer.
pub(crate) fn length_of(buffer: &Object) -> usize {
    let api = buffer.api();
    // SAFETY: `- (NSUInteger)length` of a buffer.
    unsafe { api.send::<usize>(buffer.id(), api.selectors.length) }
}
