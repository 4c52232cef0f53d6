//! Events and uses: data is used after its event, and memory goes back after its last use.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]

mod circles;
mod deferred;
mod destructors;
mod events;
mod nested;
mod shortage;

use arrow_device::{Device, Queue};
use arrow_device_testkit::manual::Manual;

/// A queue with work on it that is complete when a test says so.
fn busy_queue() -> (Manual, Device, Queue) {
    let (manual, device) = Manual::open();
    let queue = device.open_queue().unwrap();
    manual.submit(&queue);
    (manual, device, queue)
}
