//! Keyword arguments that are not known yet.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Refuses all that are not `None`: "producers MUST raise `NotImplementedError` for keyword
/// arguments they do not recognise".
pub(crate) fn refuse_unknown(method: &str, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    let Some(kwargs) = kwargs else { return Ok(()) };
    for (name, value) in kwargs {
        if !value.is_none() {
            let message = format!("{method} does not know the argument {name}={}", value.repr()?);
            return Err(PyNotImplementedError::new_err(message));
        }
    }
    Ok(())
}
