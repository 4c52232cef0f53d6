//! What those share who copy by hand: the bytes that travel, as addresses.

use std::ops::Range;

use arrow_device::{Batch, Queue};

/// The buffers of a batch, each so many bytes at an address. The batch stays, so that they do.
pub(super) struct Sources {
    pub(super) buffers: Vec<(*const u8, usize)>,
    _batch: Batch,
}

// SAFETY: addresses of host memory that is only read, and that the batch keeps.
unsafe impl Sync for Sources {}

impl Sources {
    /// The numbers of each column.
    pub(super) fn of(batch: &Batch) -> Self {
        let column = |index: usize| {
            let column = batch.column(index).unwrap();
            let view = column.on(&Queue::host()).unwrap();
            (view.buffer(1).location().address().cast(), column.len() * 8)
        };
        let buffers = (0..batch.column_count()).map(column).collect();
        Self { buffers, _batch: batch.clone() }
    }

    /// Where each goes, packed at multiples of the alignment, and the length of all.
    pub(super) fn places(&self, alignment: usize) -> (Vec<usize>, usize) {
        let mut end = 0_usize;
        let place = |(_, len): &(*const u8, usize)| {
            let place = end.next_multiple_of(alignment);
            end = place + len;
            place
        };
        let places = self.buffers.iter().map(place).collect();
        (places, end)
    }

    /// Copies some of them.
    ///
    /// # Safety
    /// There is room at `to` as [`places`](Self::places) says, and nobody else uses it.
    pub(super) unsafe fn gather(&self, places: &[usize], which: Range<usize>, to: *mut u8) {
        for ((from, len), place) in
            self.buffers.iter().zip(places).take(which.end).skip(which.start)
        {
            let to = to.wrapping_add(*place);
            // SAFETY: there is room at `to` as `places` says, and nobody else uses it, as the
            // caller promises; the batch keeps the source.
            unsafe { std::ptr::copy_nonoverlapping(*from, to, *len) };
        }
    }
}
