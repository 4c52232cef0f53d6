//! What holds for every major.

pub use super::{STEP, arrow, ours};

pub mod batches;
mod errors;
mod hostile;
mod matrix;
mod readers;
pub mod samples;
mod streams;
mod theirs;
mod types;
