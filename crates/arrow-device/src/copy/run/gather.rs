//! Copies that the host makes itself: into host memory, and straight into a device's memory where
//! the host can write there.

use super::target::Target;
use crate::copy::plan::piece::{Change, Piece};
use crate::copy::source::{CopySource, copy_bytes, host_address, host_len};
use crate::copy::step::{self, no_way};
use crate::device::driver::Filled;
use crate::device::staging::zeroed;
use crate::{Event, Queue, Result};

/// Copies all pieces into host memory.
///
/// # Safety
/// The host reads the source, which is ready; the target is host memory that was allocated for
/// these pieces.
pub(in crate::copy) unsafe fn into_target(
    source: &CopySource,
    pieces: &[Piece],
    target: &mut Target,
) -> Result<()> {
    for (number, piece) in pieces.iter().enumerate() {
        let to = target.spot(number, piece, 0).ok_or_else(no_way)?;
        // SAFETY: the host reads the source, which is ready; the target is host memory that was
        // allocated for these pieces, as the caller promises.
        unsafe { fill(source, piece, host_address(to)) }?;
    }
    Ok(())
}

/// Copies all pieces into the memory of a device, if the host can write there. Returns when the
/// bytes are written. Memory that may only be used in the order of a queue is left to that queue.
///
/// # Safety
/// The host reads the source, which is ready; the target is memory of the queue's device that was
/// allocated for these pieces and for this queue, and nothing was submitted for it since.
pub(in crate::copy) unsafe fn into_mapping(
    source: &CopySource,
    pieces: &[Piece],
    target: &Target,
    queue: &Queue,
    total: u64,
) -> Result<Option<Filled>> {
    let Some(spot) = target.packed_spot(0) else { return Ok(None) };
    if !target.may_be_filled_by_host(queue) {
        return Ok(None);
    }
    let driver = queue.driver();
    // SAFETY: UNS-22: the target is memory of the queue's device, as the caller promises; nothing
    // that was submitted before uses the memory, or the driver itself allocated it in the order of
    // this queue.
    let mapped = unsafe { driver.map_to_fill(queue.raw(), spot, total) };
    let Some(address) = mapped.map_err(|error| error.at_step(step::MAP))? else { return Ok(None) };
    let filled = pieces.iter().try_for_each(|piece| {
        let to = address.as_ptr().wrapping_add(host_len(piece.to));
        // SAFETY: the host reads the source, which is ready, as the caller promises; the mapping
        // has room for all pieces (DRV-25).
        unsafe { fill(source, piece, to) }
    });
    // SAFETY: ends what began above, with the same place and length.
    let unmapped = unsafe { driver.unmap_filled(queue.raw(), spot, total, address) };
    let unmapped = unmapped.map_err(|error| error.at_step(step::MAP));
    if let (Err(_), Ok(Filled::After(event))) = (&filled, &unmapped) {
        // Nobody waits for this event.
        drop(Event::owned_alone(queue.device().clone(), *event));
    }
    filled.and(unmapped).map(Some)
}

/// The bytes of a piece that changes on its way.
///
/// # Safety
/// The host reads the source, which is ready.
pub(in crate::copy) unsafe fn changed(source: &CopySource, piece: &Piece) -> Result<Vec<u8>> {
    let mut bytes = zeroed(piece.len).map_err(|error| error.at_step(step::STAGE))?;
    // SAFETY: the host reads the source, which is ready, as the caller promises; there is room for
    // the piece.
    unsafe { fill(source, piece, bytes.as_mut_ptr()) }?;
    Ok(bytes)
}

/// # Safety
/// The host reads the source, which is ready; as many bytes as the piece has may be written at
/// `to`.
#[inline(always)]
unsafe fn fill(source: &CopySource, piece: &Piece, to: *mut u8) -> Result<()> {
    if let (CopySource::Host, Change::Nothing) = (source, &piece.change) {
        // SAFETY: the host reads the source, which is ready; as many bytes as the piece has may be
        // written at `to`, as the caller promises; fresh memory does not overlap with anything.
        unsafe { copy_bytes(host_address(piece.from), to, piece.len) };
        return Ok(());
    }
    // SAFETY: the host reads the source, which is ready; as many bytes as the piece has may be
    // written at `to`, as the caller promises.
    unsafe { fill_otherwise(source, piece, to) }
}

/// Fills a piece that changes or is mapped, as [`fill`] does for other pieces.
///
/// # Safety
/// The host reads the source, which is ready; as many bytes as the piece has may be written at
/// `to`.
unsafe fn fill_otherwise(source: &CopySource, piece: &Piece, to: *mut u8) -> Result<()> {
    if piece.has_source() {
        // SAFETY: the host reads the source, which is ready; as many bytes as the piece has may be
        // written at `to`, as the caller promises.
        unsafe { copy_piece(source, piece, to) }?;
    } else {
        // SAFETY: as many bytes as the piece has may be written at `to`, as the caller promises.
        unsafe { to.write_bytes(0, host_len(piece.len)) };
    }
    // SAFETY: these bytes were written just now, and nobody else has them.
    let bytes = unsafe { std::slice::from_raw_parts_mut(to, host_len(piece.len)) };
    piece.change.apply(bytes, 0);
    Ok(())
}

/// # Safety
/// The host reads the source, which is ready; as many bytes as the piece has may be written at
/// `to`.
unsafe fn copy_piece(source: &CopySource, piece: &Piece, to: *mut u8) -> Result<()> {
    if let CopySource::Host = source {
        // SAFETY: the host reads the source, which is ready; as many bytes as the piece has may be
        // written at `to`, as the caller promises; fresh memory does not overlap with anything.
        unsafe { copy_bytes(host_address(piece.from), to, piece.len) };
        return Ok(());
    }
    // SAFETY: the host reads the source, which is ready; as many bytes as the piece has may be
    // written at `to`, as the caller promises.
    let shown = unsafe { source.show(piece.span()) }.map_err(|error| error.at_step(step::MAP))?;
    // SAFETY: as the caller promises, the piece has as many bytes as are shown, and there is room
    // for them at `to`; fresh memory does not overlap with anything.
    unsafe { copy_bytes(shown.address(), to, piece.len) };
    Ok(())
}
