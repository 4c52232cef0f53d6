//! What both directions of the exchange stand on: the arena of exported trees, its pool, and the guard of callbacks.

pub(crate) mod arena;
pub(crate) mod guard;
pub(crate) mod list;
pub(crate) mod pool;
pub(crate) mod shared;
