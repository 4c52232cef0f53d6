//! [`Parted`]: memory that is shared by parts, each of which is a buffer of an array.
//!
//! Where memory is named by addresses, a part is an address inside. Where memory is named by
//! handles, the driver makes a handle for each part. The allocation keeps these handles, also in a
//! [`Recycler`](crate::Recycler): memory that is divided again as it was before makes no handles.

use super::{Memory, OwnedAllocation};
use crate::device::driver::{Addressing, Raw};
use crate::{Error, ErrorKind, Result};

/// A part of an allocation, and its handle.
#[derive(Clone, Copy)]
pub(super) struct AllocationPart {
    offset: u64,
    len: u64,
    pub(super) handle: Raw<Memory>,
}

/// An allocation that is shared by parts.
pub(crate) struct Parted {
    /// The allocation. It has the handles of the parts, if they have handles.
    whole: Memory,
}

impl Parted {
    /// The value for `buffers[i]` of the part with this number, which begins at this offset.
    #[inline]
    pub(crate) fn raw(&self, number: usize, offset: u64) -> Raw<Memory> {
        let OwnedAllocation { raw: base, parts, .. } = &*self.whole.block;
        match parts.get(number) {
            Some(part) => part.handle,
            // The memory is named by an address, or there is one part that is the whole.
            None => Raw::from_ptr(base.as_ptr().wrapping_byte_add(offset as usize)),
        }
    }

    /// Makes a handle for each part.
    fn divide(&mut self, parts: impl ExactSizeIterator<Item = (u64, u64)> + Clone) -> Result<()> {
        let OwnedAllocation { device, raw: base, len, parts: known, .. } = &mut *self.whole.block;
        let is_same =
            |(known, part): (&AllocationPart, (u64, u64))| (known.offset, known.len) == part;
        if known.len() == parts.len() && known.iter().zip(parts.clone()).all(is_same) {
            return Ok(());
        }
        let (driver, units) = (device.driver(), device.properties());
        let mut before = std::mem::take(known).into_iter().peekable();
        let free = |part: AllocationPart| {
            // SAFETY: `part` of this driver gave the handle, nobody has it any more, and the memory
            // is alive.
            unsafe { driver.free_part(part.handle) }
        };
        let mut handle_of = |(offset, len): (u64, u64)| {
            let is_same = |known: &AllocationPart| (known.offset, known.len) == (offset, len);
            while let Some(other) =
                before.next_if(|known| known.offset <= offset && !is_same(known))
            {
                free(other);
            }
            let handle = match before.next_if(is_same) {
                Some(known) => known.handle,
                // SAFETY: the memory is this driver's and alive in `self`; the part lies inside,
                // also in whole units, which an allocation has (DRV-9).
                None => unsafe { driver.part(*base, offset, units.whole(len)) }?,
            };
            known.push(AllocationPart { offset, len, handle });
            Ok(())
        };
        let is_whole = parts.clone().eq([(0, *len)]);
        let divided = match is_whole {
            true => Ok(()),
            false => parts.into_iter().try_for_each(&mut handle_of),
        };
        before.for_each(free);
        divided
    }
}

impl Memory {
    /// Shares parts of the memory, one behind the other, each given by its offset and its length.
    /// On a device with handles each part gets a handle. Recycled memory that is divided as it was
    /// before uses its former handles again.
    ///
    /// # Safety
    /// An array that is made of the parts is ready after the work that writes them. (The bytes
    /// between the parts stay hidden.)
    pub(crate) unsafe fn into_parts(
        self,
        parts: impl ExactSizeIterator<Item = (u64, u64)> + DoubleEndedIterator + Clone,
    ) -> Result<Parted> {
        self.tell_shared();
        let (len, driver) = (self.block.len, self.block.device.driver());
        debug_assert!(parts.clone().is_sorted_by(|one, next| one.0 + one.1 <= next.0));
        if let Some((offset, part_len)) = parts.clone().next_back()
            && offset.checked_add(part_len).is_none_or(|end| end > len)
        {
            let message = format!("bytes {offset}+{part_len} are not inside {len}");
            let error = Error::new(ErrorKind::InvalidArgument, message);
            return Err(error.on_device(driver.id()));
        }
        let has_handles = driver.properties().addressing == Addressing::Handle;
        let mut parted = Parted { whole: self };
        if has_handles {
            parted.divide(parts)?;
        }
        Ok(parted)
    }
}
