//! What holds for every major.

pub use super::{arrow, ours};

mod hostile;
mod matrix;
pub mod samples;
mod theirs;
mod types;
