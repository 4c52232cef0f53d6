//! What the protocol is built from. The model checker's tests compile the protocol over other locks
//! in the place of these.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

pub(crate) use crate::device::nesting::drop_owned as drop_nested;
