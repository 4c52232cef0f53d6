//! Whatever is sent from any device to any other one has the values that it had.
#![allow(
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod golden;
mod streams;
mod values;
mod ways;

use arrow_device::copy::Options;

/// The ways to ask for the same.
fn choices(number: usize) -> Options {
    let options = Options::new().always(true);
    match number % 5 {
        0 => options,
        1 => options.trim(false),
        2 => options.separate(true),
        3 => options.chunk(64),
        _ => options.alignment(1024).chunk(192),
    }
}
