//! Recycled memory: blocks that each thread keeps for the next array, and what is stored in such
//! blocks.

pub(crate) mod block;
pub(crate) mod list;
pub(crate) mod per_fork;
pub(crate) mod shared;
