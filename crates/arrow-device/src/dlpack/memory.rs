//! [`Memory`]: what the elements of a tensor lie in.
//!
//! That is an array, whose tree knows when it is ready and which queues use it. A tensor that was imported complete is no more
//! than the producer's struct at first: most are looked at and handed on, and need nothing else. The array is made when the
//! memory is shared, read, or used on a queue for the first time.

use std::sync::{Arc, Mutex, OnceLock};

use super::Dtype;
use super::managed::{Exported, Form, Managed};
use super::storage::plain_schema;
use super::tensor::ELEMENTS;
use crate::device::driver::Raw;
use crate::sync::lock;
use crate::{
    Array, ArrayBuilder, Buffer, DataType, DeviceId, Error, ErrorKind, Extent, Result, Schema,
};

/// The memory of a tensor, on one device.
pub(crate) struct Memory {
    held: Held,
    device: DeviceId,
    base: Raw<crate::Memory>,
}

/// Both have the elements in buffer [`ELEMENTS`], whatever the array's own type and window.
enum Held {
    Array(Array),
    Imported(Imported),
}

/// What was imported, as it came or as an array.
struct Imported {
    array: OnceLock<Array>,
    /// What the array will own, as long as there is none.
    unshared: Mutex<Option<Exported>>,
    /// How many bytes there are from the base on, at least.
    len: u64,
    /// What they are, if they lie one behind the other from the base on.
    elements: Option<Dtype>,
}

impl Memory {
    /// The memory of a buffer [`ELEMENTS`] of an array.
    #[inline]
    pub(crate) fn of(array: Array) -> Self {
        let base = Raw::from_ptr(array.node().buffer(ELEMENTS).cast_mut());
        Self { device: array.device(), base, held: Held::Array(array) }
    }

    /// What an imported tensor says that it is, which is ready: at most as many bytes as an array has.
    #[inline(always)]
    pub(crate) fn imported<F: Form>(
        managed: Managed<F>,
        device: DeviceId,
        base: Raw<crate::Memory>,
        len: u64,
        elements: Option<Dtype>,
    ) -> Self {
        let unshared = Mutex::new(Some(F::exported(managed)));
        let imported = Imported { array: OnceLock::new(), unshared, len, elements };
        Self { device, base, held: Held::Imported(imported) }
    }

    /// The memory as an array, which is made now if there was none.
    pub(crate) fn array(&self) -> &Array {
        match &self.held {
            Held::Array(array) => array,
            Held::Imported(imported) => imported.array.get_or_init(|| self.share(imported)),
        }
    }

    #[cold]
    fn share(&self, imported: &Imported) -> Array {
        let owner = lock(&imported.unshared).take().map(|managed| Arc::new(managed) as Arc<_>);
        let extent = Extent::AtLeast(imported.len);
        let buffer = Buffer::from_parts(self.device, self.base, 0, extent, owner);
        match array_of(buffer, imported.elements, ArrayBuilder::finish_ready) {
            Ok(array) => array,
            Err(error) => unreachable!("bytes on one device are an array: {error}"),
        }
    }

    /// The array, if there is one.
    pub(crate) fn shared(&self) -> Option<&Array> {
        match &self.held {
            Held::Array(array) => Some(array),
            Held::Imported(imported) => imported.array.get(),
        }
    }

    pub(crate) fn device(&self) -> DeviceId {
        self.device
    }

    pub(crate) fn base(&self) -> Raw<crate::Memory> {
        self.base
    }
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        let held = Held::Array(self.array().clone());
        Self { held, device: self.device, base: self.base }
    }
}

/// An array of all bytes of a buffer.
pub(crate) fn bytes_of(
    buffer: Buffer,
    finish: impl FnOnce(ArrayBuilder) -> Result<Array>,
) -> Result<Array> {
    array_of(buffer, None, finish)
}

/// An array of these elements or, where Arrow has none like them, of bytes.
pub(crate) fn array_of(
    buffer: Buffer,
    elements: Option<Dtype>,
    finish: impl FnOnce(ArrayBuilder) -> Result<Array>,
) -> Result<Array> {
    static BYTES: OnceLock<Option<Schema>> = OnceLock::new();
    let bytes = || BYTES.get_or_init(|| Schema::try_from(DataType::UInt8).ok()).as_ref();
    let plain = elements.and_then(|dtype| Some((plain_schema(dtype)?, dtype.byte_width()?)));
    let typed = plain.or_else(|| Some((bytes()?, 1)));
    let (schema, width) =
        typed.ok_or_else(|| Error::new(ErrorKind::OutOfMemory, "there is no schema for bytes"))?;
    let count = buffer.extent().at_least().checked_div(width).unwrap_or(0);
    let len = usize::try_from(count).unwrap_or(usize::MAX);
    let device = buffer.device();
    let buffer = (!buffer.is_null()).then_some(buffer);
    finish(Array::builder(schema).device(device).len(len).buffers([None, buffer]))
}
