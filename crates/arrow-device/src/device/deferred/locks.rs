//! The atomics and locks that timelines are built from. The tests of the model compile
//! `timeline.rs` with others in their place.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Arc, Mutex};

pub(super) use crate::sync::lock;
