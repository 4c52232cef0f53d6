//! [`List`]: a table whose length is known before it is filled, in recycled memory.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use super::block::Block;
use crate::{Error, ErrorKind, Result};

/// A list of entries that are copied, in a block of the [pool](super). The value is one pointer;
/// the length is in the block, before the entries.
pub(crate) struct List<T: Copy> {
    block: Block,
    entries: PhantomData<T>,
}

/// The header of the block.
#[repr(align(16))]
struct ListHeader {
    capacity: usize,
    length: usize,
}

impl<T: Copy> List<T> {
    /// An empty list with room for `capacity` entries. An error where there is no memory.
    pub(crate) fn with_capacity(capacity: usize) -> Result<Self> {
        const { assert!(align_of::<T>() <= 16, "blocks are aligned to 16") };
        let bytes = capacity.checked_mul(size_of::<T>());
        let bytes = bytes.and_then(|bytes| bytes.checked_add(size_of::<ListHeader>()));
        let bytes = bytes.ok_or_else(|| {
            Error::new(ErrorKind::OutOfMemory, format!("{capacity} entries asked for"))
        })?;
        let block = Block::new(bytes)?;
        // SAFETY: the block has room for a header, is aligned to 16, and nobody else's.
        unsafe { block.bytes().cast().write(ListHeader { capacity, length: 0 }) };
        Ok(Self { block, entries: PhantomData })
    }

    fn header(&self) -> &ListHeader {
        // SAFETY: `with_capacity` wrote it, and only `push` changes it, which has the list for
        // itself.
        unsafe { self.block.bytes().cast().as_ref() }
    }

    #[inline(always)]
    fn entries(&self) -> NonNull<T> {
        // SAFETY: the header lies in the block, and the entries behind it.
        unsafe { self.block.bytes().cast::<ListHeader>().add(1) }.cast()
    }

    /// Adds an entry. Without room for the entry, the list stays as it was.
    #[inline(always)]
    pub(crate) fn push(&mut self, entry: T) {
        let ListHeader { capacity, length } = *self.header();
        if length < capacity {
            // SAFETY: the block has room for `capacity` entries, and this is one of them.
            let place = unsafe { self.entries().add(length) };
            // SAFETY: the block has room for `capacity` entries, of which this is one, and `&mut
            // self` keeps others away.
            unsafe { place.write(entry) };
            let mut header = self.block.bytes().cast::<ListHeader>();
            // SAFETY: `with_capacity` wrote a header there, and `&mut self` keeps others away.
            unsafe { header.as_mut() }.length = length + 1;
        }
    }
}

impl<T: Copy> Deref for List<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: so many entries were written behind the header of the block, which is aligned for
        // them and stays.
        unsafe { std::slice::from_raw_parts(self.entries().as_ptr(), self.header().length) }
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
