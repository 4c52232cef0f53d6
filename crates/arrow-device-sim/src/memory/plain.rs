//! The fallback: bytes in ordinary memory, with numbers as their device addresses.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::PAGE;

/// The first device address. Programs cannot use addresses from here on, neither on x86-64 nor on
/// aarch64: the bits 54 and 55 are set and those above are not. x86-64 does not accept such an
/// address at all, and aarch64 gives it to the kernel.
const FIRST: u64 = 0x00c0_0000_0000_0000;

static NEXT: AtomicUsize = AtomicUsize::new(FIRST as usize);

/// An allocation of the host, and its device address.
#[derive(Debug)]
pub(super) struct Storage {
    bytes: NonNull<u8>,
    layout: Layout,
    address: *mut u8,
}

// SAFETY: the bytes belong to this value alone, and the address is a number that nothing here goes
// through.
unsafe impl Send for Storage {}

impl Storage {
    pub(super) fn reserve(len: usize, host_readable: bool) -> Option<Self> {
        let layout = Layout::from_size_align(len.max(1), PAGE).ok()?;
        // SAFETY: the size is not zero.
        let bytes = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        let has_numbers = usize::BITS == 64;
        let address = if host_readable || !has_numbers {
            bytes.as_ptr()
        } else {
            // Keeps a page free between two allocations, so that an address just past the end of
            // one does not lie in the next.
            let whole = len.div_ceil(PAGE).saturating_add(1).saturating_mul(PAGE);
            std::ptr::without_provenance_mut(NEXT.fetch_add(whole, Ordering::Relaxed))
        };
        Some(Self { bytes, layout, address })
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.address
    }

    /// Changes nothing: this memory is always readable by the host, or never.
    pub(super) fn set_host_readable(&self, _readable: bool) -> bool {
        true
    }

    pub(super) fn bytes(&self) -> NonNull<u8> {
        self.bytes
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        // SAFETY: allocated in `reserve` with this layout, and freed once.
        unsafe { std::alloc::dealloc(self.bytes.as_ptr(), self.layout) }
    }
}

pub(super) fn contains(address: usize) -> bool {
    usize::BITS == 64 && (FIRST as usize..NEXT.load(Ordering::Relaxed)).contains(&address)
}
