//! What a producing stream and its tasks share, and how the stream is woken from inside a call of
//! its consumer.

use std::cell::Cell;
use std::ptr;

use super::failure::Failure;
use super::protocol::Sound;
use super::protocol::producer::Credit;
use crate::{Array, DeviceType, Error, ErrorKind, Result, Schema};

pub(super) type ProducerCredit = Credit<Sound, Failure>;

/// What a stream and its tasks share.
pub(super) struct Outlet {
    pub(super) promise: StreamPromise,
    pub(super) credit: ProducerCredit,
}

/// What a stream says of all its arrays.
#[derive(Debug)]
pub(super) struct StreamPromise {
    pub(super) schema: Schema,
    pub(super) device_type: DeviceType,
}

impl StreamPromise {
    pub(super) fn check(&self, array: &Array) -> Result<()> {
        if array.device().device_type != self.device_type {
            let message = format!("the stream is on devices of type {}", self.device_type);
            return Err(Error::new(ErrorKind::SchemaMismatch, message).on_device(array.device()));
        }
        if !array.fits(&self.schema) {
            let message = format!(
                "the stream has arrays of type {}, and this one is of type {}",
                self.schema.data_type(),
                array.data_type()
            );
            return Err(Error::new(ErrorKind::SchemaMismatch, message));
        }
        Ok(())
    }
}

thread_local! {
    /// The stream that is being woken from inside a call of its consumer.
    static WAKING: Cell<usize> = const { Cell::new(0) };
}

/// Does what may wake the stream. It will not call its consumer meanwhile: `request` "must not
/// synchronously call `on_next_task` or `on_error`".
pub(super) fn with_waking<T>(credit: &ProducerCredit, body: impl FnOnce() -> T) -> T {
    let before =
        WAKING.try_with(|waking| waking.replace(ptr::from_ref(credit).addr())).unwrap_or(0);
    let outcome = body();
    let _ = WAKING.try_with(|waking| waking.set(before));
    outcome
}

pub(super) fn is_waking(credit: &ProducerCredit) -> bool {
    WAKING.try_with(|waking| waking.get() == ptr::from_ref(credit).addr()).unwrap_or(false)
}
