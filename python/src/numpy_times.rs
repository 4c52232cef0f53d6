//! Arrays of numpy of what neither DLPack nor the buffer protocol has: `datetime64` and
//! `timedelta64`, the same memory as integers, read as times; objects and text.

use arrow_device::{Array, DataType, Schema, TimeUnit};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;

use crate::error::{OrRaise, invalid};
use crate::leaf::{dtype_unit, unit_named};
use crate::{take, values};

/// The array of an ndarray of times; `None` for any other object.
pub(crate) fn take(object: &Bound<'_, PyAny>) -> PyResult<Option<Array>> {
    let py = object.py();
    let Some(dtype) = object.getattr_opt(intern!(py, "dtype"))? else { return Ok(None) };
    let Some(kind) = dtype.getattr_opt(intern!(py, "kind"))? else { return Ok(None) };
    let is_moment = match kind.extract::<String>().as_deref() {
        Ok("M") => true,
        Ok("m") => false,
        _ => return Ok(None),
    };
    let array = py.import("numpy")?.getattr("ndarray")?;
    if !object.is_instance(&array)? {
        return Ok(None);
    }
    if object.getattr("ndim")?.extract::<usize>()? != 1 {
        return Err(PyTypeError::new_err("an array of times has one dimension"));
    }
    let (name, step) = dtype_unit(&dtype)?;
    let known = unit_named(&name).filter(|_| step == 1);
    let (object, unit) = match known {
        Some(unit) => (object.clone(), unit),
        None if matches!(name.as_str(), "ps" | "fs" | "as") => {
            return Err(invalid(format!("Arrow has no times in {name}; make them nanoseconds")));
        }
        None if !is_moment && matches!(name.as_str(), "Y" | "M" | "generic") => {
            let message = format!("a timedelta64 in {name} is no length of time; make it seconds");
            return Err(invalid(message));
        }
        None => {
            let target = if is_moment { "datetime64[s]" } else { "timedelta64[s]" };
            (object.call_method1("astype", (target,))?, TimeUnit::Second)
        }
    };
    let is_days = is_moment && name == "D" && step == 1;
    let of = match (is_days, is_moment) {
        (true, _) => DataType::Date32,
        (_, true) => DataType::Timestamp(unit, None),
        _ => DataType::Duration(unit),
    };
    // In this machine's order of bytes; nothing is copied where that is the order already.
    let native = object.getattr("dtype")?.call_method1("newbyteorder", ("=",))?;
    let object = object.call_method1("astype", (native, "K", "unsafe", true, false))?;
    let integers = take::array(&object.call_method1("view", ("int64",))?)?;
    let times = py.detach(|| with_gaps(&integers, &of)).or_raise()?;
    match times {
        Some(array) => Ok(Some(array)),
        None => values::typed(&integers, &Schema::new(of).or_raise()?).map(Some),
    }
}

/// The elements of an ndarray of objects or of text, which are Python values; `None` for any other
/// object.
pub(crate) fn listed<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    let Some(dtype) = object.getattr_opt(intern!(py, "dtype"))? else { return Ok(None) };
    let Some(kind) = dtype.getattr_opt(intern!(py, "kind"))? else { return Ok(None) };
    if !matches!(kind.extract::<String>().as_deref(), Ok("O" | "U" | "S")) {
        return Ok(None);
    }
    let array = py.import("numpy")?.getattr("ndarray")?;
    let is_list = object.is_instance(&array)? && object.getattr("ndim")?.extract::<usize>()? == 1;
    if is_list { object.call_method0("tolist").map(Some) } else { Ok(None) }
}

/// A copy in which the least integer, numpy's "no time", is null; `None` where nothing has to be
/// copied.
fn with_gaps(integers: &Array, of: &DataType) -> arrow_device::Result<Option<Array>> {
    let host = integers.host()?;
    let counts = host.values::<i64>()?;
    let present = |count: Option<i64>| count.filter(|count| *count != i64::MIN);
    if *of == DataType::Date32 {
        let days = |count: i64| {
            // From numpy's seconds.
            let days = count.div_euclid(86_400);
            i32::try_from(days).map_err(|_| {
                let message = format!("{days} days from 1970 are no date");
                arrow_device::Error::new(arrow_device::ErrorKind::InvalidArgument, message)
            })
        };
        let mut all = Vec::with_capacity(counts.len());
        for count in counts.iter() {
            all.push(present(count).map(days).transpose()?);
        }
        return Array::from_values(of.clone(), all).map(Some);
    }
    if counts.iter().all(|count| present(count).is_some()) {
        return Ok(None);
    }
    Array::from_values(of.clone(), counts.iter().map(present)).map(Some)
}
