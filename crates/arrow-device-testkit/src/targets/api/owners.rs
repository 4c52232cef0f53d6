//! Owners of memory that are counted. Some do what destructors should not do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::driver::{Raw, Spot};
use arrow_device::{Array, Buffer, Device, DeviceId, Memory, Result, deferred};

/// How many owners exist, and how many of them panicked.
#[derive(Debug, Default)]
pub(super) struct OwnerBooks {
    pub(super) live: AtomicUsize,
    pub(super) panicked: AtomicUsize,
}

/// The behaviour of an owner when it is dropped, besides giving its memory back.
pub(super) enum Habit {
    Quiet,
    /// Asks for releases and for memory, and waits for releases for a moment.
    Calls,
    /// Drops another array.
    Owns(Array),
    Panics,
}

/// Integers that are overwritten when they are given back.
struct Owner {
    /// Not a box, because moving a box ends every other pointer to its contents.
    numbers: Vec<i64>,
    habit: Habit,
    books: Arc<OwnerBooks>,
}

/// Makes a buffer on the host with these integers.
pub(super) fn buffer(numbers: &[i64], habit: Habit, books: &Arc<OwnerBooks>) -> Buffer {
    books.live.fetch_add(1, Ordering::SeqCst);
    let owner = Owner { numbers: numbers.into(), habit, books: books.clone() };
    let (address, len) = (owner.numbers.as_ptr(), size_of_val(&*owner.numbers));
    // SAFETY: UNS-17: the integers stay where they are until the owner is dropped, and nobody
    // writes to them.
    unsafe { Buffer::foreign(DeviceId::CPU, address.cast(), len as u64, owner) }
}

/// Memory of a device that is freed at once when it is given back, as some allocators do.
pub(super) struct Block {
    device: Device,
    raw: Raw<Memory>,
    len: u64,
}

impl Block {
    pub(super) fn new(device: &Device, len: u64) -> Result<Self> {
        // SAFETY: UNS-22: no handle is named.
        let raw = unsafe { device.driver().allocate(len, None) }?;
        Ok(Self { device: device.clone(), raw, len })
    }

    /// Returns the place of the memory, for work that writes it before it is shared.
    pub(super) fn spot(&self) -> Spot {
        Spot { base: self.raw, offset: 0 }
    }

    /// Makes a buffer for an array that is ready after the work that writes it.
    pub(super) fn into_buffer(self) -> Buffer {
        self.device.driver().share(self.raw, self.len);
        let (id, base, len) = (self.device.id(), self.raw.as_ptr().cast_const().cast(), self.len);
        // SAFETY: UNS-17: the memory is freed by the drop of the owner.
        unsafe { Buffer::foreign(id, base, len, self) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: UNS-22: allocated by this driver with this length, and freed once.
        unsafe { self.device.driver().free(self.raw, self.len) };
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.numbers.fill(-0x2222_2222_2222_2223);
        self.books.live.fetch_sub(1, Ordering::SeqCst);
        match std::mem::replace(&mut self.habit, Habit::Quiet) {
            Habit::Quiet => {}
            Habit::Owns(array) => drop(array),
            Habit::Calls => {
                deferred::release_finished();
                let _ = deferred::wait_until_released(std::time::Duration::ZERO);
                drop(Device::host().allocate(64));
            }
            Habit::Panics => {
                self.books.panicked.fetch_add(1, Ordering::SeqCst);
                // Panics without the hook, which would print.
                std::panic::resume_unwind(Box::new("an owner panics, as it was told"));
            }
        }
    }
}
