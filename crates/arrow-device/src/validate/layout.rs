//! Level 2: the structs against the type, on the host alone.
//!
//! The rules are those of the import. For arrays that exist already, the lengths of buffers are
//! checked too, where they are known.

use super::errors::place;
use crate::abi::ArrowDeviceArray;
use crate::array::check;
use crate::array::structs::ForeignArray;
use crate::schema::Schema;
use crate::{Array, DeviceId, DeviceType, Error, ErrorKind, Extent, Result};

/// Checks the structs of an array against a type, as [`Array::import`] does, without taking
/// anything over.
///
/// # Errors
/// The errors of [`Array::import`].
///
/// # Safety
/// UNS-12: the struct is as UNS-3 to UNS-5 of [`Array::import`] say, during the call. `release` is
/// not called.
pub unsafe fn layout(array: &ArrowDeviceArray, schema: &Schema) -> Result<()> {
    let ArrowDeviceArray { array, device_id, device_type, sync_event, .. } = array;
    let device = DeviceId::new(DeviceType(*device_type), *device_id);
    // SAFETY: UNS-12 and UNS-3 to UNS-5, which the caller promises.
    let checked = unsafe { check::check(array, device, *sync_event, schema) };
    checked.map(|_| ()).map_err(|error| error.during("validate"))
}

impl Array {
    /// Checks again, for this array and everything below it, what can be told without reading a
    /// buffer.
    ///
    /// An imported array was checked in this way before. An array that was put together here was
    /// checked piece by piece; this checks the whole. See [`validate`](crate::validate) for what
    /// each level sees.
    ///
    /// ```
    /// use arrow_device::{Array, DataType};
    ///
    /// let numbers = Array::builder(DataType::Int8)
    ///     .len(2)
    ///     .buffers([None, Some(vec![1_i8, 2].into())])
    ///     .finish_ready()?;
    /// numbers.validate_layout()?;
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn validate_layout(&self) -> Result<()> {
        let c_array = self.exported_ready()?;
        // SAFETY: the structs were written just now, from a tree that they keep alive, with tables
        // as long as they say.
        let checked = self.schema().and_then(|schema| unsafe { layout(&c_array, &schema) });
        drop(ForeignArray(c_array.array));
        checked?;
        self.nodes_below()?.iter().try_for_each(|node| {
            buffers_are_long_enough(node)
                .map_err(|error| error.at(place(self, node)).on_device(self.device()))
        })
    }
}

fn buffers_are_long_enough(array: &Array) -> Result<()> {
    if array.is_empty() {
        return Ok(());
    }
    let elements = array.window().end().unsigned_abs();
    for (index, kind) in array.schema_node().layout.buffers().iter().enumerate() {
        let is_there = !array.node().buffer(index).is_null();
        if let (Some(needed), Extent::Exact(len)) = (kind.byte_len(elements), array.extent(index))
            && is_there
            && len < needed
        {
            let message = format!("buffer {index} has {len} bytes and needs {needed}");
            return Err(Error::new(ErrorKind::Malformed, message).during("validate"));
        }
    }
    Ok(())
}
