//! [`Span`]: a range of bytes of an allocation.

/// Bytes of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) allocation: usize,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}
