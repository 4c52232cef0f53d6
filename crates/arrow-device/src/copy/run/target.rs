//! Where a copy goes: one allocation, or one for each buffer.

use std::sync::Arc;

use crate::copy::plan::pack::Pieces;
use crate::copy::plan::piece::Piece;
use crate::copy::plan::target_layout::TargetLayout;
use crate::copy::source::host_len;
use crate::device::driver::{Raw, Spot};
use crate::device::{BytesOwner, Parted};
use crate::{Buffer, Error, Memory, Queue, Result};

/// The memory of a shared result, by the pieces in it.
pub(in crate::copy) enum TargetParts {
    /// One allocation, in which the pieces lie one behind the other.
    Packed { memory: Arc<Parted>, shift: u64 },
    /// An allocation for each piece.
    Separate(Arc<[TargetBlock]>),
}

impl TargetParts {
    /// The address or handle of the buffer that a piece fills. `None` for a piece that the target
    /// was not allocated for.
    #[inline]
    pub(in crate::copy) fn raw(&self, number: usize, piece: &Piece) -> Option<Raw<Memory>> {
        match self {
            Self::Packed { memory, shift } => Some(memory.raw(number, shift + piece.to)),
            Self::Separate(blocks) => blocks.get(number).map(TargetBlock::begin),
        }
    }

    /// The owner of all pieces.
    pub(in crate::copy) fn into_owner(self) -> BytesOwner {
        match self {
            Self::Packed { memory, .. } => memory,
            Self::Separate(blocks) => Arc::new(blocks),
        }
    }
}

/// The memory of a result that is being filled.
#[derive(Debug)]
pub(in crate::copy) struct Target {
    blocks: Vec<TargetBlock>,
    is_packed: bool,
}

/// A target that could not be allocated.
pub(in crate::copy) struct Unallocated {
    pub(in crate::copy) error: Error,
    /// The allocations of the target that were made before one failed.
    pub(in crate::copy) taken: Vec<Memory>,
}

/// An allocation of a target.
#[derive(Debug)]
pub(in crate::copy) struct TargetBlock {
    memory: Memory,
    spot: Spot,
    /// How far the first byte was moved to reach the alignment. 0 on a device with handles.
    shift: u64,
}

impl TargetBlock {
    /// The address of the first byte in use, or the handle of the allocation.
    fn begin(&self) -> Raw<Memory> {
        Raw::from_ptr(self.spot.base.as_ptr().wrapping_byte_add(host_len(self.shift)))
    }
}

impl Target {
    /// Allocates a target for the queue by this function.
    pub(in crate::copy) fn allocate(
        layout: TargetLayout,
        pieces: &Pieces,
        queue: &Queue,
        allocate: impl Fn(u64) -> Result<Memory>,
    ) -> Result<Self, Unallocated> {
        let block = |len: u64, slack: u64| -> Result<TargetBlock> {
            let mut memory = allocate(len.saturating_add(slack))?;
            let spot = memory.spot_to_fill(queue)?;
            let shift = match slack {
                0 => 0,
                // Up to the next multiple of the alignment, for which the allocation has room.
                alignment => (spot.base.bits() as u64).wrapping_neg() & (alignment - 1),
            };
            Ok(TargetBlock { memory, spot, shift })
        };
        let mut blocks = Vec::with_capacity(match layout {
            TargetLayout::Packed { .. } => usize::from(pieces.total() > 0),
            TargetLayout::Separate { .. } => pieces.list().len(),
        });
        let mut add = |len: u64, slack: u64| match block(len, slack) {
            Ok(block) => {
                blocks.push(block);
                Ok(())
            }
            Err(error) => {
                let taken = std::mem::take(&mut blocks).into_iter();
                let taken = taken.map(|block: TargetBlock| block.memory).collect();
                Err(Unallocated { error, taken })
            }
        };
        let is_packed = match layout {
            TargetLayout::Packed { .. } if pieces.total() == 0 => true,
            TargetLayout::Packed { slack } => {
                add(pieces.total(), slack)?;
                true
            }
            TargetLayout::Separate { slack } => {
                pieces.list().iter().try_for_each(|piece| add(piece.len, slack))?;
                false
            }
        };
        Ok(Self { blocks, is_packed })
    }

    /// Records that the host wrote the data, and that nothing was submitted.
    pub(in crate::copy) fn was_filled_by_host(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.memory.forget_queues());
    }

    /// Whether the target is one allocation.
    pub(in crate::copy) fn is_packed(&self) -> bool {
        self.is_packed
    }

    /// Where a byte of the packed result is.
    pub(in crate::copy) fn packed_spot(&self, offset: u64) -> Option<Spot> {
        let block = self.blocks.first().filter(|_| self.is_packed)?;
        Some(Spot { base: block.spot.base, offset: block.shift + offset })
    }

    /// Where a byte of a piece goes. `None` for a piece that the target was not allocated for.
    pub(in crate::copy) fn spot(&self, number: usize, piece: &Piece, at: u64) -> Option<Spot> {
        if self.is_packed {
            return self.packed_spot(piece.to + at);
        }
        let block = self.blocks.get(number)?;
        Some(Spot { base: block.spot.base, offset: block.shift + at })
    }

    /// The bytes of a piece, in a target that is host memory.
    ///
    /// # Safety
    /// The target is host memory that holds the piece, initialised, and that nobody else uses as
    /// long as the result.
    pub(in crate::copy) unsafe fn bytes(&mut self, number: usize, piece: &Piece) -> &mut [u8] {
        let Some(spot) = self.spot(number, piece, 0) else { return &mut [] };
        // SAFETY: the target is host memory that holds the piece, initialised, and that nobody else
        // uses as long as the result, as the caller promises; it was allocated for this piece
        // alone.
        unsafe {
            std::slice::from_raw_parts_mut(
                crate::copy::source::host_address(spot),
                host_len(piece.len),
            )
        }
    }

    /// Whether the host may write to a packed target before the queue that it was allocated for
    /// does anything.
    pub(in crate::copy) fn may_be_filled_by_host(&self, queue: &Queue) -> bool {
        self.blocks.iter().all(|block| block.memory.may_be_filled_by_host(queue))
    }

    /// Shares the target under one owner. `None` if there are no pieces.
    ///
    /// # Safety
    /// All pieces are written by the time that the array made of them is ready.
    pub(in crate::copy) unsafe fn into_parts(
        self,
        pieces: &[Piece],
    ) -> Result<Option<TargetParts>> {
        if !self.is_packed && !self.blocks.is_empty() {
            self.blocks.iter().for_each(|block| block.memory.tell_shared());
            return Ok(Some(TargetParts::Separate(self.blocks.into())));
        }
        let Some(TargetBlock { memory, shift, .. }) = self.blocks.into_iter().next() else {
            return Ok(None);
        };
        let parts = pieces.iter().map(|piece| (shift + piece.to, piece.len));
        // SAFETY: the parts are the pieces, which are written by the time that the array is ready,
        // as the caller promises.
        let memory = unsafe { memory.into_parts(parts) }?.into();
        Ok(Some(TargetParts::Packed { memory, shift }))
    }

    /// Shares a target of separate allocations under an owner for each: a buffer for each piece.
    ///
    /// # Safety
    /// As for [`into_parts`](Self::into_parts).
    pub(in crate::copy) unsafe fn into_buffers(self, pieces: &[Piece]) -> Vec<Buffer> {
        let each = self.blocks.into_iter().zip(pieces);
        let share = |(block, piece): (TargetBlock, &Piece)| {
            // SAFETY: promised by the caller; each block was allocated for its piece, and has room
            // for it behind the shift.
            unsafe { block.memory.into_written_part(block.shift, piece.len) }
        };
        each.map(share).collect()
    }
}
