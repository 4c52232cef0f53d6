//! What an iterable of Python's gives, as a list of Rust's.

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

/// After so many items, signals are looked at.
const LOOK: usize = 1024;

/// What `take` makes of each item of an iterable. Ctrl-C ends an iterable without end, and one that
/// is longer than memory is a `MemoryError`. Nobody is asked how many items there are: the answer
/// may be wrong, or an exception.
pub(crate) fn all<'py, T>(
    object: &Bound<'py, PyAny>,
    mut take: impl FnMut(Bound<'py, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    let mut all = Vec::new();
    for item in object.try_iter()? {
        let taken = take(item?)?;
        if all.try_reserve(1).is_err() {
            let message = format!("no memory for more than {} items", all.len());
            return Err(PyMemoryError::new_err(message));
        }
        all.push(taken);
        if all.len() % LOOK == 0 {
            object.py().check_signals()?;
        }
    }
    Ok(all)
}
