//! [`Counts`]: what a client or a server has moved.

/// What one side of a stream has moved so far.
///
/// The bytes of `packed_bytes` passed through memory of the host on this side. Those of
/// `shared_bytes` did not: the other side was told where they lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// How many messages with a header: the schema, dictionaries, batches.
    pub messages: u64,
    /// The bytes of headers.
    pub header_bytes: u64,
    /// The bytes of bodies that were in messages.
    pub packed_bytes: u64,
    /// The bytes of buffers whose addresses were in messages.
    pub shared_bytes: u64,
    /// How many bodies the client has freed.
    pub freed: u64,
    /// How many messages came again and were passed over.
    pub repeated: u64,
}
