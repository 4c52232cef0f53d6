//! What timelines are built from. The tests of the model compile `timeline.rs` over other locks in
//! the place of these.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Arc, Mutex};

pub(super) use crate::sync::lock;
