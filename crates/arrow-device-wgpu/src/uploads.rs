//! Copies of many pieces from the host: staging buffers that the host maps.
//!
//! The pieces of a list are gathered in a mapped buffer, one behind the other, and one submission
//! copies them to where they belong. Afterwards wgpu is asked to map the buffer again, which it
//! does once the queue has passed the copy, so the next list finds mapped memory that was used
//! before: fresh memory costs more than the copy.

use crate::reads::Mapping;

/// How many bytes, and how many buffers, are kept for their next use.
const KEPT_BYTES: u64 = 64 << 20;
const KEPT_BUFFERS: usize = 32;

/// A buffer that is mapped, or will be.
#[derive(Debug)]
struct Spare {
    staging: wgpu::Buffer,
    mapping: Mapping,
}

/// Staging buffers that wait for their next use.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    spare: Vec<Spare>,
}

impl Uploads {
    /// Takes a buffer of this size that is mapped.
    pub(crate) fn take(&mut self, size: u64) -> Option<wgpu::Buffer> {
        let fits = |spare: &Spare| spare.staging.size() == size && spare.mapping.is_mapped();
        let found = self.spare.iter().rposition(fits)?;
        Some(self.spare.remove(found).staging)
    }

    /// Keeps a buffer that wgpu was asked to map. The result is those that are too many or will
    /// never be mapped, for the caller to drop without a lock.
    pub(crate) fn keep(&mut self, staging: wgpu::Buffer, mapping: Mapping) -> Vec<wgpu::Buffer> {
        self.spare.push(Spare { staging, mapping });
        let mut kept: u64 = self.spare.iter().map(|spare| spare.staging.size()).sum();
        let mut gone = Vec::new();
        let mut index = 0;
        while let Some(spare) = self.spare.get(index) {
            // The oldest are in front.
            let are_many = kept > KEPT_BYTES || self.spare.len() > KEPT_BUFFERS;
            if are_many || spare.mapping.has_failed() {
                kept -= spare.staging.size();
                gone.push(self.spare.remove(index).staging);
            } else {
                index += 1;
            }
        }
        gone
    }

    /// Gives up all buffers: of a lost device, and where memory runs out. What callbacks say of
    /// them later is ignored.
    pub(crate) fn give_up(&mut self) -> Vec<wgpu::Buffer> {
        self.spare.drain(..).map(|spare| spare.staging).collect()
    }
}
