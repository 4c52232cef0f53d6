//! Where a copy goes: one allocation, or one for each buffer.

use std::sync::Arc;

use super::options::Options;
use super::pack::{Piece, Pieces};
use super::source::host_len;
use crate::device::driver::{Addressing, Properties, Raw, Spot};
use crate::device::{BytesOwner, Parted};
use crate::{Buffer, Memory, Queue, Result};

/// How the result is divided into allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetLayout {
    /// One. It may have to be so much larger that its beginning can be moved to the alignment.
    Packed {
        slack: u64,
    },
    Separate {
        slack: u64,
    },
}

impl TargetLayout {
    pub(super) fn choose(properties: &Properties, options: &Options) -> Self {
        let has_addresses = properties.addressing == Addressing::Address;
        let is_aligned = options.alignment <= properties.alignment as u64;
        let slack = if is_aligned || !has_addresses { 0 } else { options.alignment };
        // Without addresses and without parts nothing can name what is inside an allocation.
        let is_divisible = has_addresses || properties.parts;
        match options.separate || !is_divisible {
            true => Self::Separate { slack },
            false => Self::Packed { slack },
        }
    }

    pub(super) fn allocations(self, pieces: &Pieces) -> u64 {
        match self {
            Self::Packed { .. } => u64::from(pieces.total() > 0),
            Self::Separate { .. } => pieces.list().len() as u64,
        }
    }

    pub(super) fn allocated(self, pieces: &Pieces) -> u64 {
        match self {
            Self::Packed { .. } if pieces.total() == 0 => 0,
            Self::Packed { slack } => pieces.total() + slack,
            Self::Separate { slack } => pieces.list().iter().map(|piece| piece.len + slack).sum(),
        }
    }
}

/// The memory of a result that is shared, piece by piece.
pub(super) struct PackedParts {
    memory: Arc<Parted>,
    shift: u64,
}

impl PackedParts {
    /// What `buffers[i]` is for a piece.
    #[inline]
    pub(super) fn raw(&self, number: usize, piece: &Piece) -> Raw<Memory> {
        self.memory.raw(number, self.shift + piece.to)
    }

    /// The owner of all of them.
    pub(super) fn into_owner(self) -> BytesOwner {
        self.memory
    }
}

/// The memory of a result that is being filled.
#[derive(Debug)]
pub(super) struct Target {
    blocks: Vec<PackedMemory>,
    is_packed: bool,
}

#[derive(Debug)]
struct PackedMemory {
    memory: Memory,
    spot: Spot,
    /// Where the first byte is, after its beginning was moved to the alignment.
    shift: u64,
}

impl Target {
    /// Allocates it.
    pub(super) fn allocate(
        layout: TargetLayout,
        pieces: &Pieces,
        queue: &Queue,
        options: &Options,
    ) -> Result<Self> {
        let block = |len: u64, slack: u64| -> Result<PackedMemory> {
            let mut memory =
                queue.allocate_by(len.saturating_add(slack), options.allocator.as_deref())?;
            let spot = memory.spot(queue)?;
            let shift = match slack {
                0 => 0,
                // Up to the next multiple, which the slack has room for.
                alignment => (spot.base.bits() as u64).wrapping_neg() & (alignment - 1),
            };
            Ok(PackedMemory { memory, spot, shift })
        };
        let (blocks, is_packed) = match layout {
            TargetLayout::Packed { .. } if pieces.total() == 0 => (Vec::new(), true),
            TargetLayout::Packed { slack } => (vec![block(pieces.total(), slack)?], true),
            TargetLayout::Separate { slack } => {
                let each = pieces.list().iter().map(|piece| block(piece.len, slack));
                (each.collect::<Result<_>>()?, false)
            }
        };
        Ok(Self { blocks, is_packed })
    }

    /// The data is there, and nothing was submitted.
    pub(super) fn was_filled_by_host(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.memory.forget_queues());
    }

    /// Whether it is one allocation.
    pub(super) fn is_packed(&self) -> bool {
        self.is_packed
    }

    /// Where a byte of the packed result is.
    pub(super) fn packed_spot(&self, offset: u64) -> Option<Spot> {
        let block = self.blocks.first().filter(|_| self.is_packed)?;
        Some(Spot { base: block.spot.base, offset: block.shift + offset })
    }

    /// Where a byte of a piece goes. `None` for a piece that the target was not allocated for.
    pub(super) fn spot(&self, number: usize, piece: &Piece, at: u64) -> Option<Spot> {
        if self.is_packed {
            return self.packed_spot(piece.to + at);
        }
        let block = self.blocks.get(number)?;
        Some(Spot { base: block.spot.base, offset: block.shift + at })
    }

    /// The bytes of a piece, in a target that is host memory.
    ///
    /// # Safety
    /// The target is host memory that holds the piece, initialised, and that nobody else uses as long as the result.
    pub(super) unsafe fn bytes(&mut self, number: usize, piece: &Piece) -> &mut [u8] {
        let Some(spot) = self.spot(number, piece, 0) else { return &mut [] };
        // SAFETY: promised by the caller; it was allocated for this piece alone.
        unsafe {
            std::slice::from_raw_parts_mut(super::source::host_address(spot), host_len(piece.len))
        }
    }

    /// Shares one that is packed. Nothing, if there are no pieces.
    pub(super) fn into_parts(self, pieces: &[Piece]) -> Result<Option<PackedParts>> {
        let Some(PackedMemory { memory, shift, .. }) = self.blocks.into_iter().next() else {
            return Ok(None);
        };
        let parts = pieces.iter().map(|piece| (shift + piece.to, piece.len));
        Ok(Some(PackedParts { memory: memory.into_parts(parts)?.into(), shift }))
    }

    /// Shares one that is not: a buffer for each piece.
    pub(super) fn into_buffers(self, pieces: &[Piece]) -> Result<Vec<Buffer>> {
        let each = self.blocks.into_iter().zip(pieces);
        each.map(|(block, piece)| block.memory.into_buffer().slice(block.shift, piece.len))
            .collect()
    }
}
