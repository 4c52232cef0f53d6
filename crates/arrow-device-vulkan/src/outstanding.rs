//! What is still to be done by this crate once a point of a lane has passed: events to be
//! destroyed, and bytes to be written to host memory.

use std::ptr::NonNull;

use ash::vk;

use crate::lane::Point;
use crate::staging::StagingBuffer;

/// An event that was destroyed by its owner, and that a command is still to set.
#[derive(Debug)]
pub(crate) struct DoomedEvent {
    pub(crate) event: vk::Event,
    pub(crate) point: Point,
}

/// Bytes that go from a staging buffer to host memory once a point has passed.
#[derive(Debug)]
pub(crate) struct HostWrite {
    pub(crate) point: Point,
    pub(crate) staging: StagingBuffer,
    pub(crate) pieces: Vec<Piece>,
}

/// The place of a region in host memory and in the staging buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) host: NonNull<u8>,
    pub(crate) staging: u64,
    pub(crate) len: u64,
}

// SAFETY: memory that the caller of `Driver::copy` keeps until the queue has passed, for whichever
// thread.
unsafe impl Send for Piece {}
