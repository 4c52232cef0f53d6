//! The way in for HIP: as for CUDA, and each thread remembers its last error.

use crate::call::{self, Arguments, Then};
use crate::code::{Answer, Code};
use crate::machine::Machine;
use crate::thread;

/// A call that waits for nothing.
pub(super) fn call(
    name: &'static str,
    arguments: Arguments<'_>,
    body: impl FnOnce(&mut Machine) -> Answer,
) -> i32 {
    noted(call::call(name, arguments, body))
}

/// A call that may have to wait.
pub(super) fn call_then(
    name: &'static str,
    arguments: Arguments<'_>,
    body: impl FnOnce(&mut Machine) -> Answer<Then>,
) -> i32 {
    noted(call::call_then(name, arguments, body))
}

/// "Not ready" is an answer and no error.
fn noted(code: i32) -> i32 {
    if code != 0 && code != Code::NOT_READY.0 {
        thread::with(|thread| thread.last_error = code);
    }
    code
}
