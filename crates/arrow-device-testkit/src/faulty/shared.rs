//! The state that the wrapped devices of one `Faulty` share.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_device::driver::Driver;

use super::Fault;
use super::blocks::Blocks;
use super::ends::{Callback, KeptNotice};
use super::late::Lines;
use super::shadows::Shadows;

/// The state that the wrapped devices of one [`Faulty`](super::Faulty) share.
#[derive(Debug)]
pub(super) struct FaultyShared {
    pub(super) members: Vec<Arc<dyn Driver>>,
    pub(super) fault: Option<Fault>,
    pub(super) is_late: bool,
    pub(super) may_wait: bool,
    pub(super) is_lost: AtomicBool,
    pub(super) callback: Callback,
    state: Mutex<FaultyState>,
}

#[derive(Debug, Default)]
pub(super) struct FaultyState {
    pub(super) lines: Lines,
    pub(super) blocks: Blocks,
    pub(super) notices: Vec<KeptNotice>,
    pub(super) shadows: Shadows,
    pub(super) copies: usize,
}

impl FaultyShared {
    pub(super) fn new(
        members: Vec<Arc<dyn Driver>>,
        fault: Option<Fault>,
        is_late: bool,
        may_wait: bool,
    ) -> Self {
        let mut state = FaultyState::default();
        state.lines.is_backwards = fault == Some(Fault::OutOfOrder);
        let (is_lost, callback) = (AtomicBool::new(false), Callback::default());
        let state = Mutex::new(state);
        Self { members, fault, is_late, may_wait, is_lost, callback, state }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, FaultyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
