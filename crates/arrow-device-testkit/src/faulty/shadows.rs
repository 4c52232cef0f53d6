//! Mappings that show other bytes than those of the device.

use std::ptr::NonNull;

use arrow_device::Memory;
use arrow_device::driver::Raw;

use super::driver::PATTERN;

/// Bytes that the host sees instead of the device's.
pub(super) struct Shadow {
    pub(super) base: Raw<Memory>,
    pub(super) bytes: Vec<u8>,
    /// The mapping of the memory itself, if there is one.
    pub(super) mapped: Option<NonNull<u8>>,
}

// SAFETY: the address of a mapping is a number here; whoever called `map` may call `unmap` on any
// thread (DRV-1).
unsafe impl Send for Shadow {}

#[derive(Default)]
pub(super) struct Shadows(Vec<Shadow>);

impl Shadows {
    /// Adds a shadow, and returns the address of its bytes.
    pub(super) fn add(&mut self, mut shadow: Shadow) -> NonNull<u8> {
        shadow.bytes.reserve(1);
        let address = NonNull::new(shadow.bytes.as_mut_ptr()).expect("a vector's address");
        self.0.push(shadow);
        address
    }

    pub(super) fn take(&mut self, address: NonNull<u8>) -> Option<Shadow> {
        let is_it = |shadow: &Shadow| std::ptr::eq(shadow.bytes.as_ptr(), address.as_ptr());
        let index = self.0.iter().position(is_it)?;
        Some(self.0.swap_remove(index))
    }

    /// Ends all other mappings of the memory, although somebody may still read there.
    pub(super) fn end_all_of(&mut self, base: Raw<Memory>) {
        for shadow in self.0.iter_mut().filter(|shadow| shadow.base == base) {
            shadow.bytes.fill(PATTERN);
        }
    }
}

impl std::fmt::Debug for Shadows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} mappings", self.0.len())
    }
}
