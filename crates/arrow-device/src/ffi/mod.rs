//! What every C face of this library needs: exported trees in one block of memory, and the guard that ends panics.

pub(crate) mod arena;
pub(crate) mod guard;
