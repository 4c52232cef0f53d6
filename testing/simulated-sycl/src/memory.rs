//! Unified shared memory. The addresses of a device's memory are pages that nobody can read. The
//! bytes of that memory are kept elsewhere.

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::Mutex;

use crate::devices::{Aspects, Context};
use crate::objects::{Handle, find, lock, mistake};
use crate::queues::Queue;
use crate::work;

/// What a device has in all.
pub(crate) const LIMIT: usize = 4 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Device = 1,
    Shared = 2,
    Host = 3,
}

#[derive(Debug)]
struct Allocation {
    kind: Kind,
    context: usize,
    len: usize,
    layout: Layout,
    /// Where the bytes are: for memory of a device elsewhere, otherwise at the address itself.
    bytes: usize,
}

static ALLOCATIONS: Mutex<BTreeMap<usize, Allocation>> = Mutex::new(BTreeMap::new());

pub(crate) fn live() -> u64 {
    lock(&ALLOCATIONS).len() as u64
}

fn with<R>(address: usize, look: impl FnOnce(usize, &Allocation) -> R) -> Option<R> {
    let allocations = lock(&ALLOCATIONS);
    let (start, allocation) = allocations.range(..=address).next_back()?;
    let offset = address - start;
    (offset < allocation.len).then(|| look(offset, allocation))
}

/// Whether a copy in this context may use these bytes: all of them lie in one allocation of the
/// context, or the first one lies in no allocation.
pub(crate) fn may_use(context: usize, address: usize, len: usize) -> bool {
    with(address, |offset, allocation| {
        allocation.context == context && len <= allocation.len - offset
    })
    .unwrap_or(true)
}

/// Copies bytes from one place to the other, wherever they are.
pub(crate) fn copy(to: usize, from: usize, len: usize) {
    let [to, from] = [to, from].map(|address| {
        with(address, |offset, allocation| allocation.bytes + offset).unwrap_or(address)
    });
    let from: *const u8 = ptr::with_exposed_provenance(from);
    let to: *mut u8 = ptr::with_exposed_provenance_mut(to);
    // SAFETY: UNS-21, which whoever submits a copy keeps: so many bytes may be read and written
    // there until the work has ended.
    unsafe { ptr::copy(from, to, len) };
}

fn allocate(kind: Kind, alignment: usize, len: usize, queue: Handle) -> Handle {
    let Some(queue) = find::<Queue>(queue) else { return ptr::null_mut() };
    let aspects = queue.device.aspects();
    let has = match kind {
        Kind::Device => aspects.device,
        Kind::Host => aspects.host,
        Kind::Shared => aspects.shared,
    };
    if !has && kind == Kind::Host {
        eprintln!("simulated SYCL: an exception leaves DPCTLaligned_alloc_host");
        std::process::abort();
    }
    let Ok(layout) = Layout::from_size_align(len, alignment) else { return ptr::null_mut() };
    if !has || len == 0 || len > LIMIT {
        return ptr::null_mut();
    }
    // SAFETY: the layout has at least one byte.
    let bytes = unsafe { std::alloc::alloc(layout) };
    if bytes.is_null() {
        return ptr::null_mut();
    }
    // Bytes that nobody has written are not zeros.
    // SAFETY: so many bytes were just allocated.
    unsafe { bytes.write_bytes(0xa5, len) };
    let bytes_at = bytes.expose_provenance();
    let address = match kind {
        Kind::Device => match unreadable(len) {
            Some(address) => address,
            None => {
                // SAFETY: it was just allocated with this layout.
                unsafe { std::alloc::dealloc(bytes, layout) };
                return ptr::null_mut();
            }
        },
        Kind::Host | Kind::Shared => bytes_at,
    };
    let context = queue.context.number;
    let made = Allocation { kind, context, len, layout, bytes: bytes_at };
    lock(&ALLOCATIONS).insert(address, made);
    ptr::with_exposed_provenance_mut(address)
}

/// Addresses that nobody can read.
fn unreadable(len: usize) -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new pages at an address of the system's choice.
    let pages = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
    (pages != libc::MAP_FAILED).then(|| pages.expose_provenance())
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLaligned_alloc_device(alignment: usize, len: usize, queue: Handle) -> Handle {
    allocate(Kind::Device, alignment, len, queue)
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLaligned_alloc_host(alignment: usize, len: usize, queue: Handle) -> Handle {
    allocate(Kind::Host, alignment, len, queue)
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLaligned_alloc_shared(alignment: usize, len: usize, queue: Handle) -> Handle {
    allocate(Kind::Shared, alignment, len, queue)
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLfree_with_context(memory: Handle, context: Handle) {
    let Some(context) = find::<Context>(context) else { return };
    let address = memory.addr();
    let len = with(address, |offset, allocation| (offset == 0).then_some(allocation.len));
    let Some(len) = len.flatten() else {
        return mistake(&format!("{memory:?} is no allocation to be freed"));
    };
    if work::uses(address, len) {
        mistake(&format!("{memory:?} is freed while work uses it"));
    }
    let Some(gone) = lock(&ALLOCATIONS).remove(&address) else { return };
    if gone.context != context.number {
        mistake(&format!("{memory:?} is freed in another context"));
    }
    if gone.kind == Kind::Device {
        // SAFETY: `unreadable` mapped so many bytes there, and the table had them once.
        let _ = unsafe { libc::munmap(memory, gone.len) };
    }
    let bytes: *mut u8 = ptr::with_exposed_provenance_mut(gone.bytes);
    // SAFETY: it was allocated with this layout, and the table had it once.
    unsafe { std::alloc::dealloc(bytes, gone.layout) };
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLUSM_GetPointerType(memory: Handle, context: Handle) -> i32 {
    let Some(context) = find::<Context>(context) else { return 0 };
    let kind = with(memory.addr(), |_, allocation| {
        if allocation.context == context.number { allocation.kind as i32 } else { 0 }
    });
    kind.unwrap_or(0)
}

impl Aspects {
    /// By dpctl's numbers.
    pub(crate) fn has(self, aspect: i32) -> bool {
        match aspect {
            1 => self.cpu,
            2 => !self.cpu,
            12 => self.device,
            13 => self.host,
            14 => self.shared,
            16 => self.host,
            17 => self.shares_at_once,
            _ => false,
        }
    }
}
