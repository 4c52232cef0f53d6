//! The fallback: bytes in ordinary memory, and addresses that are only numbers.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::PAGE;

/// Neither x86-64 nor aarch64 lets a program use addresses from here on: the bits 54 and 55 are set
/// and those above are not, which the first does not accept at all and the second gives to the
/// kernel.
const FIRST: u64 = 0x00c0_0000_0000_0000;

static NEXT: AtomicUsize = AtomicUsize::new(FIRST as usize);

/// An allocation of the host, and the number that the device has for it.
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
            // A page between two allocations, so that a step past the end of one is not the next
            // one.
            let whole = len.div_ceil(PAGE).saturating_add(1).saturating_mul(PAGE);
            std::ptr::without_provenance_mut(NEXT.fetch_add(whole, Ordering::Relaxed))
        };
        Some(Self { bytes, layout, address })
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.address
    }

    /// It always is, or never.
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
