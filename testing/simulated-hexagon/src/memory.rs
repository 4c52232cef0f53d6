//! `rpcmem` and the mappings of FastRPC, over files of memory.
//!
//! As in Qualcomm's library, `rpcmem_to_fd` knows an allocation by the address of its first byte
//! only, and `rpcmem_free` ignores other addresses. A child of `fork` must not call: the list is
//! behind a lock.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow_device_hexagon::Functions;

/// `AEE_EBADPARM`.
const BAD_PARAMETER: c_int = 14;

/// What the library has allocated and mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How many allocations there are.
    pub allocations: usize,
    /// How many of them are mapped for the DSP.
    pub mappings: usize,
    /// How many calls of `fastrpc_mmap` and `fastrpc_munmap` were wrong.
    pub mistakes: usize,
}

struct Allocated {
    len: usize,
    descriptor: c_int,
    is_mapped: bool,
}

struct State {
    allocated: BTreeMap<usize, Allocated>,
    mistakes: usize,
    mapping_fails: Option<c_int>,
}

static STATE: Mutex<State> =
    Mutex::new(State { allocated: BTreeMap::new(), mistakes: 0, mapping_fails: None });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The functions, as an application has them that has linked the library.
pub fn functions() -> Functions {
    Functions {
        rpcmem_alloc2: Some(rpcmem_alloc2),
        rpcmem_alloc,
        rpcmem_free,
        rpcmem_to_fd,
        fastrpc_mmap: Some(fastrpc_mmap),
        fastrpc_munmap: Some(fastrpc_munmap),
    }
}

/// What the functions of [`functions`] have allocated and mapped.
pub fn counts() -> Counts {
    let state = state();
    let mappings = state.allocated.values().filter(|allocated| allocated.is_mapped).count();
    Counts { allocations: state.allocated.len(), mappings, mistakes: state.mistakes }
}

/// Has `fastrpc_mmap` answer with this code from now on.
pub fn fail_mappings(code: Option<c_int>) {
    state().mapping_fails = code;
}

/// Allocates memory.
#[unsafe(no_mangle)]
pub extern "C" fn rpcmem_alloc2(_heap: c_int, _flags: u32, size: usize) -> *mut c_void {
    let (Ok(len), true) = (libc::off_t::try_from(size), size > 0) else { return ptr::null_mut() };
    // SAFETY: the name is a C string.
    let descriptor = unsafe { libc::memfd_create(c"rpcmem".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return ptr::null_mut();
    }
    // SAFETY: the descriptor was just opened.
    let is_long = unsafe { libc::ftruncate(descriptor, len) } == 0;
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let mapped = match is_long {
        // SAFETY: the file is as long, and the system chooses the address.
        true => unsafe { libc::mmap(ptr::null_mut(), size, both, libc::MAP_SHARED, descriptor, 0) },
        false => libc::MAP_FAILED,
    };
    if mapped == libc::MAP_FAILED {
        // SAFETY: the descriptor was opened above, and nobody else knows it.
        unsafe { libc::close(descriptor) };
        return ptr::null_mut();
    }
    let allocated = Allocated { len: size, descriptor, is_mapped: false };
    state().allocated.insert(mapped.addr(), allocated);
    mapped
}

/// Allocates memory of less than 2 GiB.
#[unsafe(no_mangle)]
pub extern "C" fn rpcmem_alloc(heap: c_int, flags: u32, size: c_int) -> *mut c_void {
    usize::try_from(size).map_or(ptr::null_mut(), |size| rpcmem_alloc2(heap, flags, size))
}

/// Frees memory, and ignores addresses at which no allocation begins.
///
/// # Safety
/// Nothing uses the memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpcmem_free(address: *mut c_void) {
    let mut state = state();
    let Some(allocated) = state.allocated.remove(&address.addr()) else { return };
    state.mistakes += usize::from(allocated.is_mapped);
    drop(state);
    // SAFETY: it was mapped with this length, and nothing uses it, as the caller promises.
    unsafe { libc::munmap(address, allocated.len) };
    // SAFETY: the descriptor was opened with the memory, and goes with it.
    unsafe { libc::close(allocated.descriptor) };
}

/// Returns the descriptor of the allocation that begins at an address, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn rpcmem_to_fd(address: *mut c_void) -> c_int {
    state().allocated.get(&address.addr()).map_or(-1, |allocated| allocated.descriptor)
}

/// Notes that an allocation is mapped for the DSP.
#[unsafe(no_mangle)]
pub extern "C" fn fastrpc_mmap(
    _domain: c_int,
    descriptor: c_int,
    address: *mut c_void,
    offset: c_int,
    len: usize,
    flags: c_int,
) -> c_int {
    let mut state = state();
    if let Some(code) = state.mapping_fails {
        return code;
    }
    match state.allocated.get_mut(&address.addr()) {
        Some(allocated)
            if (descriptor, offset, flags) == (allocated.descriptor, 0, 2)
                && len == allocated.len
                && !allocated.is_mapped =>
        {
            allocated.is_mapped = true;
            0
        }
        _ => {
            state.mistakes += 1;
            BAD_PARAMETER
        }
    }
}

/// Notes that an allocation is not mapped for the DSP any more.
#[unsafe(no_mangle)]
pub extern "C" fn fastrpc_munmap(
    _domain: c_int,
    descriptor: c_int,
    address: *mut c_void,
    len: usize,
) -> c_int {
    let mut state = state();
    match state.allocated.get_mut(&address.addr()) {
        Some(allocated)
            if (descriptor, len) == (allocated.descriptor, allocated.len)
                && allocated.is_mapped =>
        {
            allocated.is_mapped = false;
            0
        }
        _ => {
            state.mistakes += 1;
            BAD_PARAMETER
        }
    }
}
