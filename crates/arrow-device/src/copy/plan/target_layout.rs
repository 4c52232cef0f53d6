//! [`TargetLayout`]: how the result of a copy is divided into allocations.

use super::pack::Pieces;
use crate::copy::options::Options;
use crate::device::driver::{Addressing, Properties};

/// How the result is divided into allocations: one for everything, or one for each piece. Each
/// allocation has `slack` bytes more than what it is for, so that its first byte in use can be
/// moved to the alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::copy) enum TargetLayout {
    /// One allocation for everything.
    Packed {
        slack: u64,
    },
    Separate {
        slack: u64,
    },
}

impl TargetLayout {
    pub(in crate::copy) fn choose(properties: &Properties, options: &Options) -> Self {
        let has_addresses = properties.addressing == Addressing::Address;
        let is_aligned = options.alignment <= properties.alignment as u64;
        let begins_inside = has_addresses && !properties.separate;
        let slack = if is_aligned || !begins_inside { 0 } else { options.alignment };
        // Without addresses, and without handles of parts, nothing can name a place inside an
        // allocation.
        let is_divisible = begins_inside || (properties.parts && !has_addresses);
        match options.separate || !is_divisible {
            true => Self::Separate { slack },
            false => Self::Packed { slack },
        }
    }

    pub(in crate::copy) fn allocations(self, pieces: &Pieces) -> u64 {
        match self {
            Self::Packed { .. } => u64::from(pieces.total() > 0),
            Self::Separate { .. } => pieces.list().len() as u64,
        }
    }

    pub(in crate::copy) fn allocated(self, pieces: &Pieces) -> u64 {
        match self {
            Self::Packed { .. } if pieces.total() == 0 => 0,
            Self::Packed { slack } => pieces.total() + slack,
            Self::Separate { slack } => pieces.list().iter().map(|piece| piece.len + slack).sum(),
        }
    }
}
