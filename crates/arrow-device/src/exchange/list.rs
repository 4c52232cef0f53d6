//! [`List`]: a table whose length is known before it is filled, in recycled memory.

use std::ops::Deref;
use std::ptr::NonNull;

use super::pool;
use crate::{Error, ErrorKind, Result};

/// Entries that are only copied, in a block of the [`pool`].
pub(crate) struct List<T: Copy> {
    block: NonNull<T>,
    capacity: usize,
    length: usize,
}

// SAFETY: it owns its entries, as a `Vec` does; a block may be given back on any thread.
unsafe impl<T: Copy + Send> Send for List<T> {}
// SAFETY: with a shared reference entries are only read.
unsafe impl<T: Copy + Sync> Sync for List<T> {}

impl<T: Copy> List<T> {
    /// An empty list, with room for so many. An error where there is no memory.
    pub(crate) fn with_capacity(capacity: usize) -> Result<Self> {
        const { assert!(align_of::<T>() <= 16, "blocks are aligned to 16") };
        let bytes = capacity.checked_mul(size_of::<T>()).ok_or_else(|| {
            Error::new(ErrorKind::OutOfMemory, format!("{capacity} entries asked for"))
        })?;
        Ok(Self { block: pool::take(bytes)?.cast(), capacity, length: 0 })
    }

    /// Adds an entry. One that there is no room for is not kept.
    #[inline(always)]
    pub(crate) fn push(&mut self, entry: T) {
        if self.length < self.capacity {
            // SAFETY: the block has room for `capacity` entries, and this is one of them.
            let place = unsafe { self.block.add(self.length) };
            // SAFETY: as above; the block is nobody else's.
            unsafe { place.write(entry) };
            self.length += 1;
        }
    }
}

impl<T: Copy> Deref for List<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: so many entries were written from the start of the block on, which is aligned for them and stays.
        unsafe { std::slice::from_raw_parts(self.block.as_ptr(), self.length) }
    }
}

impl<T: Copy> Drop for List<T> {
    fn drop(&mut self) {
        // SAFETY: `with_capacity` took it; entries that are only copied have no destructor.
        unsafe { pool::give(self.block.cast()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_holds_what_there_is_room_for() {
        let mut list = List::with_capacity(3).unwrap();
        assert!(list.is_empty());
        (1..=4_u64).for_each(|entry| list.push(entry));
        assert_eq!(*list, [1, 2, 3]);
    }

    #[test]
    fn its_memory_is_used_again_and_of_nothing_it_needs_none_to_be_there() {
        let address = List::<u64>::with_capacity(60).unwrap().as_ptr();
        assert_eq!(List::<u64>::with_capacity(61).unwrap().as_ptr(), address);
        assert!(List::<u64>::with_capacity(0).unwrap().is_empty());
        assert!(List::<u64>::with_capacity(usize::MAX / 8).is_err());
        assert!(List::<u64>::with_capacity(usize::MAX).is_err());
    }
}
