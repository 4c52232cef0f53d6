//! The steps that the suite has the library do, or a wrapper that is wrong in one place.

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::copy::{Options, PolledCopy};
use arrow_device::{Array, ArrayBuilder, Queue, Result, Schema, View};

use super::pace::Pace;

/// The steps of an exchange. By default each is done by the library. Wrappers of the library
/// override them, and so do tests that want to see a check fail.
pub trait Exchange {
    /// Takes an array over.
    fn import(&self, schema: &mut ArrowSchema, array: &mut ArrowDeviceArray) -> Result<Array> {
        // SAFETY: the suite's producers keep to the interface.
        let schema = unsafe { Schema::import(schema) }?;
        // SAFETY: the suite's producers keep to the interface (UNS-1, UNS-3 to UNS-6).
        unsafe { Array::import(array, &schema) }
    }

    /// Hands an array on.
    fn export(&self, array: &Array) -> Result<(ArrowSchema, ArrowDeviceArray)> {
        let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
        // The consumer's memory holds arbitrary bytes.
        c_array.reserved = [-1; 3];
        array.schema()?.export(&mut c_schema)?;
        match array.export(&mut c_array) {
            Ok(()) => Ok((c_schema, c_array)),
            Err(error) => {
                let _ = crate::consumer::release(c_schema);
                Err(error)
            }
        }
    }

    /// Finishes an array whose data this queue is still writing.
    fn finish(&self, builder: ArrayBuilder, queue: &Queue) -> Result<Array> {
        builder.finish_on(queue)
    }

    /// Orders a queue behind the data, for work on it.
    fn view(&self, array: &Array, queue: &Queue) -> Result<View> {
        array.on(queue)
    }

    /// Copies from the host to a device.
    fn to_device(&self, array: &Array, queue: &Queue) -> Result<Array> {
        array.copy_with(queue, &Options::new().trim(false))
    }

    /// Copies from a device to the host.
    fn to_host(&self, array: &Array, queue: &Queue) -> Result<Array> {
        array.copy_with(&Queue::host(), &Options::new().through(queue).trim(false))
    }
}

/// The library itself.
#[derive(Clone, Copy, Debug)]
pub struct Library;

impl Exchange for Library {}

/// The library where the host may not wait: copies are polled.
pub(super) struct Polled<'a>(pub(super) Pace<'a>);

impl Polled<'_> {
    fn finish(&self, copy: Result<PolledCopy>) -> Result<Array> {
        let (mut copy, mut result) = (copy?, None);
        self.0.until(|| {
            result = copy.poll()?;
            Ok(result.is_some())
        })?;
        Ok(result.expect("the copy is over"))
    }
}

impl Exchange for Polled<'_> {
    fn to_device(&self, array: &Array, queue: &Queue) -> Result<Array> {
        Polled::finish(self, array.copy_polled(queue, &Options::new().trim(false)))
    }

    fn to_host(&self, array: &Array, queue: &Queue) -> Result<Array> {
        let options = Options::new().through(queue).trim(false);
        Polled::finish(self, array.copy_polled(&Queue::host(), &options))
    }
}
