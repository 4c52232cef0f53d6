//! Host memory that becomes unreadable when it is released, and has nothing behind it. A peer that
//! reads it later, or reads past its end, ends its process.

#[cfg(unix)]
use std::ffi::c_void;

use arrow_device_testkit::plan::{Content, Plan};

/// Memory of whole pages, which can be protected.
#[cfg(unix)]
pub(super) struct Pages {
    address: *mut c_void,
    len: usize,
}

// SAFETY: nobody but the system has to do with what the address is to this struct.
#[cfg(unix)]
unsafe impl Send for Pages {}

#[cfg(unix)]
impl Drop for Pages {
    /// Makes the pages unreadable. The addresses stay taken, so that nothing else comes to lie
    /// there.
    fn drop(&mut self) {
        // SAFETY: the pages were mapped by `new`, and only this struct unmaps or protects them.
        unsafe { libc::mprotect(self.address, self.len, libc::PROT_NONE) };
    }
}

/// The size of a page, or a multiple of it, on all machines that this is built for.
#[cfg(unix)]
const PAGE: usize = 1 << 16;

/// The padding of buffers, as the format recommends.
#[cfg(unix)]
const PADDING: usize = 64;

#[cfg(unix)]
impl Pages {
    /// Returns memory that ends with these bytes and their padding. `None` where the system has
    /// none.
    fn new(bytes: &[u8]) -> Option<(Self, usize)> {
        let padded = bytes.len().next_multiple_of(PADDING);
        let len = padded.next_multiple_of(PAGE);
        let (rights, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new pages at an address that the system chooses, one of which stays closed.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), len + PAGE, libc::PROT_NONE, kind, -1, 0) };
        if address == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the pages were mapped just now.
        if unsafe { libc::mprotect(address, len, rights) } != 0 {
            return None;
        }
        let first = address.cast::<u8>().wrapping_add(len - padded);
        // SAFETY: from `first` on there are as many bytes as the padding makes them, and more than
        // these.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), first, bytes.len()) };
        Some((Self { address, len }, first.expose_provenance()))
    }
}

/// Moves the buffers of a plan to such memory. Returns that memory too. Where the system has none,
/// a buffer stays where it is.
#[cfg(unix)]
pub(super) fn on_pages(mut plan: Plan) -> (Plan, Vec<Pages>) {
    let mut all = Vec::new();
    for buffer in &mut plan.buffers {
        let Content::Bytes(bytes) = buffer else { continue };
        if let Some((pages, address)) = Pages::new(bytes) {
            all.push(pages);
            *buffer = Content::At(address);
        }
    }
    let below = |plan: Plan, all: &mut Vec<Pages>| {
        let (plan, pages) = on_pages(plan);
        all.extend(pages);
        plan
    };
    plan.children = plan.children.into_iter().map(|child| below(child, &mut all)).collect();
    plan.dictionary = plan.dictionary.map(|values| Box::new(below(*values, &mut all)));
    (plan, all)
}

#[cfg(not(unix))]
pub(super) fn on_pages(plan: Plan) -> (Plan, Vec<Content>) {
    (plan, Vec::new())
}
