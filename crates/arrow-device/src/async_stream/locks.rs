//! The locks that the protocol is built from. The tests of the model compile the protocol with
//! others in their place.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

pub(crate) use crate::device::nesting::drop_owned as drop_nested;
