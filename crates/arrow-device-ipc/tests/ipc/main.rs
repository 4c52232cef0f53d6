//! Reading and writing, held against arrow-rs, on the host and on the software device.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod devices;
mod dictionaries;
mod failing;
mod files;
mod generated;
mod golden;
mod hostile;
mod kept;
mod overlapping;
mod scale;
mod shared;
mod shortened;
mod support;
mod target;
mod versions;
mod writing;
