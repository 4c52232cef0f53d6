//! [`Record`]: what an imported node says beside its format.

use super::text::TextSpan;

/// What a node says beside its format and what is below it, which its [`Check`] tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) name: TextSpan,
    pub(super) flags: i64,
    /// Where in the metadata of all nodes that of this one starts, plus one; 0 where there is none.
    pub(super) metadata: u32,
    pub(super) parent: u32,
}
