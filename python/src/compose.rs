//! Batches with other columns, and several arrays as one.

use std::collections::HashMap;

use arrow_device::{Array, DataType, DeviceId, Field, Queue, Schema};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::array::PyArray;
use crate::error::{OrRaise, invalid};
use crate::schema::position;
use crate::{array, interrupt, iterable, values};

/// The columns of these names or places, in this order.
pub(crate) fn select(batch: &arrow_device::Batch, keys: &Bound<'_, PyAny>) -> PyResult<Array> {
    if keys.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(
            "columns are selected by a list of names; b[name] is one",
        ));
    }
    let fields = batch.fields();
    // A search for each name would take the square of their number.
    let mut places = HashMap::with_capacity(fields.len());
    for (place, field) in fields.iter().enumerate() {
        places.entry(field.name()).or_insert(place);
    }
    let find = |name: &str| places.get(name).copied();
    let chosen = iterable::all(keys, |key| position(&key, fields.len(), find))?;
    let columns = chosen.iter().map(|index| batch.column(*index).or_raise());
    let columns = columns.collect::<PyResult<_>>()?;
    let fields = chosen.iter().filter_map(|index| fields.get(*index).cloned()).collect();
    assemble(batch, fields, columns)
}

/// The same columns by other names: a list of all, or a dictionary of some.
pub(crate) fn rename(batch: &arrow_device::Batch, names: &Bound<'_, PyAny>) -> PyResult<Array> {
    let mut fields = batch.fields().to_vec();
    if let Ok(changed) = names.cast::<PyDict>() {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::with_capacity(fields.len());
        for (place, field) in batch.fields().iter().enumerate() {
            places.entry(field.name()).or_default().push(place);
        }
        for pair in changed.items() {
            let (old, new) = pair.extract::<(String, String)>()?;
            let Some(of_name) = places.get(&*old) else { return Err(PyKeyError::new_err(old)) };
            for place in of_name {
                if let Some(field) = fields.get_mut(*place) {
                    *field = field.clone().with_name(new.as_str());
                }
            }
        }
    } else {
        if names.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("columns are renamed by a list or a dictionary"));
        }
        let names = iterable::all(names, |name| name.extract::<String>())?;
        if names.len() != fields.len() {
            let message =
                format!("{} names are not those of {} columns", names.len(), fields.len());
            return Err(invalid(message));
        }
        fields = fields.into_iter().zip(names).map(|(field, name)| field.with_name(name)).collect();
    }
    assemble(batch, fields, batch.columns().or_raise()?)
}

/// A batch of as many rows, with the same metadata.
fn assemble(
    batch: &arrow_device::Batch,
    fields: Vec<Field>,
    columns: Vec<Array>,
) -> PyResult<Array> {
    let of = batch.as_array().field();
    let root = Field::new(of.name(), DataType::struct_(fields), of.is_nullable())
        .with_metadata(of.metadata().clone());
    let schema = Schema::new(root).or_raise()?;
    let whole = Array::builder(&schema).len(batch.row_count()).buffers([None]).children(columns);
    whole.device(batch.device()).finish_ready().or_raise()
}

/// All arrays as one, in host memory or on a device that was named.
pub(crate) fn concat(
    py: Python<'_>,
    parts: &[Bound<'_, PyArray>],
    to: Option<(DeviceId, Option<Queue>)>,
) -> PyResult<Array> {
    let mut arrays = Vec::with_capacity(parts.len());
    for part in parts {
        let host = match to {
            Some(_) => array::to_device(py, part.get().array(), DeviceId::CPU, None)?,
            None => part.get().for_host(py, "concat", "device=")?,
        };
        interrupt::wait(py, &host)?;
        arrays.push(host);
    }
    let all = {
        let arrays = arrays.clone();
        interrupt::interruptible(py, move || Array::concat(&arrays))?
    };
    let all = match arrays.first() {
        Some(first) => values::typed(&all, &first.schema().or_raise()?)?,
        None => all,
    };
    match to {
        Some((device, queue)) => array::to_device(py, &all, device, queue),
        None => Ok(all),
    }
}
