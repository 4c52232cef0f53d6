//! Schemas and arrays through the C structs: validation, import, export and release, on the host
//! and on devices.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod builder;
mod came_back;
mod conventions;
mod device_arrays;
mod hostile;
mod judged;
mod matrix;
mod memory;
mod moves;
mod nesting;
mod schemas;
mod threads;
mod validate_data;
mod validate_structs;
mod within;
