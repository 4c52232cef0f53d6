//! What every C interface of this library needs: exported trees in one block of memory, their
//! release, and the guard that stops panics.

pub(crate) mod arena;
pub(crate) mod build;
pub(crate) mod guard;
pub(crate) mod node;
pub(crate) mod release;
