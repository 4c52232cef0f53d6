//! What an iterable of Python's gives, as a list of Rust's.

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// After so many items, signals are looked at.
const LOOK: usize = 1024;

/// A list with room for so many items. `MemoryError` where there is no memory for them.
pub(crate) fn with_room<T>(items: usize) -> PyResult<Vec<T>> {
    let mut all = Vec::new();
    let reserved = all.try_reserve_exact(items);
    reserved.map_err(|_| PyMemoryError::new_err(format!("no memory for {items} items")))?;
    Ok(all)
}

/// The keys and values of a dictionary, as they are now. No code of Python runs meanwhile.
pub(crate) fn pairs<'py>(
    of: &Bound<'py, PyDict>,
) -> PyResult<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
    let mut all = with_room(of.len())?;
    all.extend(of.iter());
    Ok(all)
}

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
