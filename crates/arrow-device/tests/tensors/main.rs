//! Tensors through the structs of DLPack.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod dlpack_advertised;
mod dlpack_arrays;
mod dlpack_copies;
mod dlpack_deleters;
mod dlpack_export;
mod dlpack_import;
// The page is read from the repository.
#[cfg(not(miri))]
mod dlpack_table;
