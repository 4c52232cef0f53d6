//! What the readers of others make of a file that is broken, and the writers of others of data that
//! they do not know: errors, and panics, which become errors here and are said once.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::failure::Failure;

thread_local! {
    /// Whether a panic on this thread becomes an error.
    static IS_CAREFUL: Cell<bool> = const { Cell::new(false) };
}

/// Calls a reader or a writer. After the error of a panic nothing that it was given may be used
/// again.
pub(super) fn carefully<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    quiet_the_hook();
    IS_CAREFUL.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(call));
    IS_CAREFUL.set(false);
    outcome.map_err(|payload| words(&*payload))
}

/// Other panics are reported as ever.
fn quiet_the_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            if !IS_CAREFUL.get() {
                report(what);
            }
        }));
    });
}

fn words(payload: &(dyn Any + Send)) -> String {
    let words = payload.downcast_ref::<&str>().copied();
    let words = words.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    words.unwrap_or("it failed").to_owned()
}

/// What a reader says of a file that ends early, was changed, or has what the reader lacks: which
/// is which it does not tell.
pub(super) fn not_whole(what: &str, reason: impl Into<Failure>) -> Failure {
    let reason = reason.into();
    Failure::new(format!(
        "{what} cannot be read, because the file is not whole, is broken or has what this reader lacks; fetch or write it \
         again ({reason})"
    ))
}
