//! Copies: a list of regions becomes commands of one submission. Host memory is reached through
//! staging buffers.
//!
//! 1. Regions in a row between the same two buffers become one command.
//! 2. A copy from or to the host is cut into groups of at most [`STAGED_AT_ONCE`] bytes. Each group
//!    is one submission, with a staging buffer of its own.
//! 3. From the host, the bytes of a group are gathered in its staging buffer, and the commands copy
//!    them to their targets.
//! 4. To the host, the commands copy into the staging buffer, and it is noted what is to be written
//!    to host memory once they have passed.
//! 5. Host memory that was taken by [`Logical::pin`] is a staging buffer itself, and is copied
//!    directly.
//!
//! This is fast because many regions cost one submission. What must stay true: the source in host
//! memory that is not pinned is read before `copy` returns, and host memory that is a target is
//! written before anybody is told that the copy has passed. The first thread that learns that the
//! copy has passed writes it.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use arrow_device::driver::{Region, Route, Spot, staged_groups};
use arrow_device::{ErrorKind, Result};
use ash::vk::{self, Handle};

use crate::lane::{Lane, Point, Work};
use crate::logical::{Logical, lock};
use crate::memory_types::advance;
use crate::outstanding::{HostWrite, Piece};
use crate::staging::{STAGED_AT_ONCE, StagingBuffer};

/// Pieces in a staging buffer begin at multiples of this, which devices copy fast.
const PIECE: u64 = 16;

/// Regions that are copied between two buffers.
type Batch = ((vk::Buffer, vk::Buffer), Vec<vk::BufferCopy>);

impl Logical {
    /// # Safety
    /// UNS-21 and UNS-22, as [`Driver::copy`](arrow_device::driver::Driver::copy) has them.
    pub(crate) unsafe fn copy(
        &self,
        lane: &Lane,
        route: Route<'_>,
        regions: &[Region],
    ) -> Result<()> {
        self.require_life()?;
        let total = regions.iter().fold(0_u64, |sum, region| sum.saturating_add(region.len));
        if total <= STAGED_AT_ONCE || !matches!(route, Route::FromHost | Route::ToHost) {
            // SAFETY: UNS-21 and UNS-22, which the caller promises.
            return unsafe { self.copy_group(lane, route, regions) };
        }
        for (number, group) in staged_groups(regions, STAGED_AT_ONCE, PIECE).iter().enumerate() {
            if number > 0 {
                // A staging buffer whose copies have passed by now is used again. A copy never
                // waits.
                self.finish_writes()?;
            }
            let regions: Vec<Region> = group.regions.iter().map(|(part, _)| *part).collect();
            // SAFETY: UNS-21 and UNS-22, which the caller promises; the groups are parts of the
            // regions.
            unsafe { self.copy_group(lane, route, &regions) }?;
        }
        Ok(())
    }

    /// Submits copies as one submission.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy).
    unsafe fn copy_group(&self, lane: &Lane, route: Route<'_>, regions: &[Region]) -> Result<()> {
        let mut batches = Vec::new();
        match route {
            Route::FromHost => {
                let (pieces, mut staging) = self.stage(regions, |region| region.from)?;
                if let Some(staging) = &staging {
                    for piece in pieces.iter().flatten() {
                        // SAFETY: UNS-21 and UNS-22, which the caller promises; the staging buffer
                        // has room for all pieces.
                        unsafe { piece.read_into(staging) };
                    }
                }
                let added = self.add_host_copies(&mut batches, regions, &pieces, &staging, true);
                // SAFETY: UNS-21 and UNS-22, which the caller promises.
                let submitted = added
                    .and_then(|()| unsafe { self.submit_copies(lane, &batches, &mut staging) });
                self.return_staging(staging);
                submitted.map(drop)
            }
            Route::ToHost => {
                let (pieces, mut staging) = self.stage(regions, |region| region.to)?;
                let added = self.add_host_copies(&mut batches, regions, &pieces, &staging, false);
                // SAFETY: UNS-21 and UNS-22, which the caller promises.
                let submitted =
                    added.and_then(|()| unsafe { self.submit_copies(lane, &batches, &mut None) });
                match (submitted, staging.take()) {
                    (Ok(point), Some(staging)) => {
                        let pieces = pieces.into_iter().flatten().collect();
                        let mut writes = lock(&self.writes);
                        writes.push(HostWrite { point, staging, pieces });
                        self.write_count.store(writes.len(), Ordering::Release);
                        Ok(())
                    }
                    (submitted, staging) => {
                        self.return_staging(staging);
                        submitted.map(drop)
                    }
                }
            }
            // Drivers of one runtime share one `VkDevice`, so a peer's memory is copied like the
            // device's own.
            _ => {
                for region in regions {
                    let from = self.place(region.from, region.len)?;
                    let to = self.place(region.to, region.len)?;
                    add(&mut batches, from, to, region.len);
                }
                // SAFETY: UNS-21 and UNS-22, which the caller promises.
                unsafe { self.submit_copies(lane, &batches, &mut None) }.map(drop)
            }
        }
    }

    /// # Safety
    /// UNS-21, as [`copy`](Self::copy) has it; the staging is read by these copies only.
    unsafe fn submit_copies(
        &self,
        lane: &Lane,
        batches: &[Batch],
        staging: &mut Option<StagingBuffer>,
    ) -> Result<Point> {
        let record = |commands| {
            for ((from, to), regions) in batches {
                // SAFETY: the commands are being recorded; the regions lie inside both, as was
                // checked for buffers that are known here, and promised by the caller for others.
                unsafe { self.vk.cmd_copy_buffer(commands, *from, *to, regions) };
            }
        };
        let work = Work { record: Some(&record), ..Work::default() };
        // SAFETY: UNS-21, which the caller promises.
        unsafe { self.submit(lane, work, staging) }
    }

    /// Takes a staging buffer with room for all regions whose host side is not staging memory
    /// already. Returns the place of each region in the buffer, and the buffer.
    fn stage(
        &self,
        regions: &[Region],
        host_side: impl Fn(&Region) -> Spot,
    ) -> Result<(Vec<Option<Piece>>, Option<StagingBuffer>)> {
        let mut end = 0_u64;
        let mut pieces = Vec::with_capacity(regions.len());
        for region in regions {
            let host = host_address(host_side(region)).ok_or_else(|| {
                self.error(ErrorKind::InvalidArgument, "the host's address is null")
            })?;
            if self.pinned_place(host, region.len).is_some() {
                pieces.push(None);
                continue;
            }
            pieces.push(Some(Piece { host, staging: end, len: region.len }));
            end =
                end.saturating_add(region.len).checked_next_multiple_of(PIECE).unwrap_or(u64::MAX);
        }
        let staging = if end > 0 { Some(self.take_staging(end)?) } else { None };
        Ok((pieces, staging))
    }

    fn add_host_copies(
        &self,
        batches: &mut Vec<Batch>,
        regions: &[Region],
        pieces: &[Option<Piece>],
        staging: &Option<StagingBuffer>,
        is_upload: bool,
    ) -> Result<()> {
        for (region, piece) in regions.iter().zip(pieces) {
            let (host, device) = match is_upload {
                true => (region.from, region.to),
                false => (region.to, region.from),
            };
            let host = match (piece, staging) {
                (Some(piece), Some(staging)) => Some((staging.buffer, piece.staging)),
                _ => host_address(host).and_then(|host| self.pinned_place(host, region.len)),
            };
            let host = host.ok_or_else(|| {
                self.error(ErrorKind::InvalidArgument, "the host's memory was freed meanwhile")
            })?;
            let device = self.place(device, region.len)?;
            match is_upload {
                true => add(batches, host, device, region.len),
                false => add(batches, device, host, region.len),
            }
        }
        Ok(())
    }

    /// Returns the buffer and the place of a spot. Checks the length where that of the buffer is
    /// known, because Vulkan does not check it.
    fn place(&self, spot: Spot, len: u64) -> Result<(vk::Buffer, u64)> {
        let buffer = vk::Buffer::from_raw(spot.base.bits() as u64);
        let end = spot.offset.checked_add(len);
        let is_inside = match self.block_of(buffer) {
            Some(block) => end.is_some_and(|end| end <= block.len),
            None => end.is_some() && !spot.base.is_null(),
        };
        if !is_inside {
            let message = format!("bytes {}+{len} are not inside the buffer", spot.offset);
            return Err(self.error(ErrorKind::InvalidArgument, message).during("copy"));
        }
        Ok((buffer, spot.offset))
    }

    /// Returns where an address of the host lies in a staging buffer, if the address is from
    /// [`pin`](Self::pin).
    fn pinned_place(&self, host: NonNull<u8>, len: u64) -> Option<(vk::Buffer, u64)> {
        let pinned = lock(&self.pinned);
        let (start, staging) = pinned.range(..=host.addr().get()).next_back()?;
        let offset = (host.addr().get() - start) as u64;
        (offset.checked_add(len)? <= staging.len).then_some((staging.buffer, offset))
    }

    /// Takes host memory that the device copies from and to directly. All of it is zero.
    pub(crate) fn pin(&self, len: u64) -> Result<NonNull<u8>> {
        let staging = self.take_staging(len)?;
        let address = staging.address;
        // SAFETY: it is mapped, this long, and nobody else has it.
        unsafe { address.as_ptr().write_bytes(0, staging.len as usize) };
        lock(&self.pinned).insert(address.addr().get(), staging);
        Ok(address)
    }

    /// Gives memory of [`pin`](Self::pin) back. Nothing may use it any more.
    pub(crate) fn unpin(&self, address: NonNull<u8>) {
        let staging = lock(&self.pinned).remove(&address.addr().get());
        self.return_staging(staging);
    }

    /// Writes the results of copies to the host that have passed to host memory. After an error
    /// nobody may be told that anything has passed.
    pub(crate) fn finish_writes(&self) -> Result<()> {
        if self.write_count.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        // Other threads wait for the lock meanwhile: as soon as they have it, they may tell that
        // the copies have passed, and so everything has to be written by then.
        let mut writes = lock(&self.writes);
        let passed: Result<Vec<u64>, vk::Result> =
            self.lanes.iter().map(|lane| lane.passed(&self.vk)).collect();
        let passed = match passed {
            Ok(passed) => passed,
            Err(code) => {
                // `check` of a lost device takes this lock again.
                drop(writes);
                return self.check(Err(code), "ask the timeline");
            }
        };
        let is_over = |write: &mut HostWrite| {
            passed.get(write.point.lane).is_some_and(|passed| *passed >= write.point.value)
        };
        for over in writes.extract_if(.., is_over) {
            for piece in &over.pieces {
                // SAFETY: the copy into the staging buffer has passed, and the caller of
                // `Driver::copy` keeps the host's side until it knows that.
                unsafe { piece.write_from(&over.staging) };
            }
            self.return_staging([over.staging]);
        }
        self.write_count.store(writes.len(), Ordering::Release);
        Ok(())
    }

    /// Forgets what is still to be written to host memory. What a lost device does to the staging
    /// buffers is unknown, so they are not used again.
    pub(crate) fn give_up_writes(&self) {
        let mut writes = lock(&self.writes);
        for HostWrite { staging, .. } in writes.drain(..) {
            // SAFETY: the device is lost ("commands ... may be destroyed"), or closed.
            unsafe { self.free_memory(staging.buffer, staging.memory) };
        }
        self.write_count.store(0, Ordering::Release);
    }
}

impl Piece {
    /// # Safety
    /// The host's side may be read, and the staging buffer has room for this piece and no other
    /// user.
    unsafe fn read_into(&self, staging: &StagingBuffer) {
        let to = advance(staging.address, self.staging);
        // SAFETY: the host's side may be read, and the staging buffer has room for this piece and
        // no other user, as the caller promises.
        unsafe { self.host.copy_to_nonoverlapping(to, self.len as usize) };
    }

    /// # Safety
    /// The host's side may be written, and the staging buffer has this piece.
    unsafe fn write_from(&self, staging: &StagingBuffer) {
        let from = advance(staging.address, self.staging);
        // SAFETY: the host's side may be written, and the staging buffer has this piece, as the
        // caller promises.
        unsafe { self.host.copy_from_nonoverlapping(from, self.len as usize) };
    }
}

/// Adds a copy to the last batch, if that is one between the same two buffers, or to a new batch.
/// Each batch becomes one command.
fn add(batches: &mut Vec<Batch>, from: (vk::Buffer, u64), to: (vk::Buffer, u64), len: u64) {
    let region = vk::BufferCopy { src_offset: from.1, dst_offset: to.1, size: len };
    let buffers = (from.0, to.0);
    match batches.last_mut() {
        Some((known, regions)) if *known == buffers => regions.push(region),
        _ => batches.push((buffers, vec![region])),
    }
}

fn host_address(spot: Spot) -> Option<NonNull<u8>> {
    NonNull::new(spot.base.as_ptr().cast::<u8>().wrapping_add(spot.offset as usize))
}
