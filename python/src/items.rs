//! A Python iterable of arrays as the source of a stream.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_device::{Array, DeviceType, Error, ErrorKind, Result};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyStopIteration};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use crate::attach::{Held, Seen, attached};
use crate::take;

/// The exception that ended a stream, for whoever reads it in Python.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failure(Arc<Mutex<Raised>>);

#[derive(Debug)]
enum Raised {
    /// Somebody may ask for the exception.
    Wanted(Option<Held>),
    /// The stream is read by another library, which is told the text alone.
    Unwanted,
}

impl Default for Raised {
    fn default() -> Self {
        Self::Wanted(None)
    }
}

impl Failure {
    fn set(&self, exception: Held) {
        // What is not kept is dropped after the lock is free.
        let mut dropped = Some(exception);
        if let Raised::Wanted(raised) = &mut *self.lock() {
            std::mem::swap(raised, &mut dropped);
        }
    }

    /// The exception, for whoever raises it.
    pub(crate) fn take(&self) -> Option<Held> {
        match &mut *self.lock() {
            Raised::Wanted(raised) => raised.take(),
            Raised::Unwanted => None,
        }
    }

    /// Keeps no exception from now on, because nobody asks for one. A frame of a kept exception may
    /// refer to the stream that keeps the exception. The collector of cycles does not see such a
    /// cycle, which would never be freed.
    pub(crate) fn forget(&self) {
        // What was kept is dropped after the lock is free.
        let _forgotten = std::mem::replace(&mut *self.lock(), Raised::Unwanted);
    }

    fn lock(&self) -> MutexGuard<'_, Raised> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls an iterator of Python's whenever the next array is wanted, on whatever thread. It is
/// dropped on any thread, too.
#[derive(Debug)]
pub(crate) struct Items {
    iterator: Held,
    /// Was taken to learn the schema or the type of device.
    first: Option<Array>,
    failure: Failure,
}

impl Items {
    pub(crate) fn new(
        iterator: Bound<'_, PyIterator>,
        first: Option<Array>,
        failure: Failure,
    ) -> Self {
        Self { iterator: Held::new(iterator.into_any()), first, failure }
    }

    /// What the collector of cycles is shown by whoever owns this.
    pub(crate) fn seen(&self) -> Seen {
        self.iterator.seen()
    }

    /// The type of device that the arrays are on: that of the next one, which is asked for. An
    /// iterator without one is as good as one of the host's.
    pub(crate) fn device_type(&mut self) -> Result<DeviceType> {
        if self.first.is_none() {
            self.first = self.next().transpose()?;
        }
        let first = self.first.as_ref();
        Ok(first.map_or(DeviceType::CPU, |first| first.device().device_type))
    }

    fn advance(&self, py: Python<'_>) -> Result<Option<Array>> {
        let next = self.iterator.bind(py).cast().map_err(PyErr::from).and_then(next);
        next.map_err(|exception| {
            let kind = if exception.is_instance_of::<PyMemoryError>(py) {
                ErrorKind::OutOfMemory
            } else {
                ErrorKind::Peer
            };
            let text = exception.to_string();
            let exception = Held::new(exception.into_value(py).into_bound(py).into_any());
            self.failure.set(exception);
            Error::new(kind, text)
        })
    }
}

/// The next array of an iterator.
pub(crate) fn next(iterator: &Bound<'_, PyIterator>) -> PyResult<Option<Array>> {
    let Some(object) = iterator.clone().next().transpose()? else { return Ok(None) };
    let py = iterator.py();
    take::array(&object).map(Some).map_err(|exception| {
        let raised = if exception.is_instance_of::<PyStopIteration>(py) {
            // Whoever reads the stream would take it for the stream's end.
            let raised = PyRuntimeError::new_err("taking an array over raised StopIteration");
            raised.set_cause(py, Some(exception));
            raised
        } else {
            exception
        };
        keep(py, &raised, &object);
        raised
    })
}

/// Gives an exception the item that was read, which the iterator does not have any more. An
/// exception that takes no attributes stays as it is.
fn keep(py: Python<'_>, raised: &PyErr, item: &Bound<'_, PyAny>) {
    let exception = raised.value(py);
    let note = "The attribute `item` of this exception is the item that was read.";
    if exception.setattr(intern!(py, "item"), item).is_ok() {
        let _ = exception.call_method1(intern!(py, "add_note"), (note,));
    }
}

impl Iterator for Items {
    type Item = Result<Array>;

    fn next(&mut self) -> Option<Result<Array>> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        let advanced = attached(|py| self.advance(py));
        let ended = || Err(Error::new(ErrorKind::Cancelled, "the interpreter has ended"));
        advanced.unwrap_or_else(ended).transpose()
    }
}
