//! What holds for every major.

pub use super::{STEP, arrow, ours};

mod hostile;
mod matrix;
mod readers;
pub mod samples;
mod theirs;
mod types;
