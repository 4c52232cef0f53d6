//! The Rust implementation of Arrow, by its own C data and C stream interfaces. It has no device
//! interface: what is on a device cannot go there.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array_60::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array_60::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array_60::{Array as _, RecordBatchIterator, RecordBatchReader, make_array};
use arrow_device::abi::ArrowArrayStream;
use arrow_schema_60::{ArrowError, Field};

use crate::{Said, Structs, build};

/// Its name and version for the page.
///
/// # Panics
/// Where the workspace's lock file does not name it.
pub fn name() -> String {
    let lock = std::fs::read_to_string(build::here("../../Cargo.lock")).expect("a lock file");
    let versions = lock.split("name = \"arrow-array\"\nversion = \"").skip(1);
    let version = versions.filter_map(|rest| rest.split('"').next());
    format!("arrow-rs {}", version.max().expect("arrow-array is locked"))
}

/// Imports an array and exports it again.
///
/// # Safety
/// The structs keep to the interface, and are on the host.
///
/// # Errors
/// What it says, also where it panics.
pub unsafe fn relay(mut structs: Structs) -> Result<Structs, String> {
    let schema = &raw mut structs.schema;
    // SAFETY: both are the `ArrowSchema` of the interface.
    let schema = unsafe { &*schema.cast::<FFI_ArrowSchema>() };
    let array = &raw mut structs.array.array;
    // SAFETY: both are the `ArrowArray` of the interface; it is taken out of `structs`.
    let array = unsafe { FFI_ArrowArray::from_raw(array.cast()) };
    let mut out = Structs::empty();
    caught(|| {
        let field = Field::try_from(schema)?;
        // SAFETY: the structs keep to the interface, and are on the host, as the caller promises.
        let data = unsafe { from_ffi(array, schema) }?;
        data.validate_full()?;
        let data = make_array(data).to_data();
        let array = FFI_ArrowArray::new(&data);
        let schema = FFI_ArrowSchema::try_from(&field)?;
        // SAFETY: the place may be written, as the caller promises; what was there is released.
        unsafe { (&raw mut out.array.array).cast::<FFI_ArrowArray>().write(array) };
        // SAFETY: the place may be written, as the caller promises; what was there is released.
        unsafe { (&raw mut out.schema).cast::<FFI_ArrowSchema>().write(schema) };
        (out.array.device_type, out.array.device_id) = (1, -1);
        out.array.sync_event = std::ptr::null_mut();
        Ok(())
    })?;
    Ok(out)
}

/// Imports a stream of batches.
///
/// # Safety
/// The stream keeps to the interface.
///
/// # Errors
/// What it says, also where it panics.
pub unsafe fn read_stream(mut stream: ArrowArrayStream) -> Result<RecordBatchStreamReader, String> {
    let stream = (&raw mut stream).cast::<FFI_ArrowArrayStream>();
    let mut reader = None;
    caught(|| {
        // SAFETY: both are the `ArrowArrayStream` of the interface.
        reader = Some(unsafe { RecordBatchStreamReader::from_raw(stream) }?);
        Ok(())
    })?;
    reader.ok_or_else(|| "no reader".into())
}

/// Exports a stream of batches.
pub fn export_stream(reader: impl RecordBatchReader + Send + 'static) -> ArrowArrayStream {
    let stream = FFI_ArrowArrayStream::new(Box::new(reader));
    let stream = std::mem::ManuallyDrop::new(stream);
    // SAFETY: both are the `ArrowArrayStream` of the interface; the original is not used any more.
    unsafe { (&raw const *stream).cast::<ArrowArrayStream>().read() }
}

/// Reads a stream to its end, checks the batches, and exports a stream of them.
///
/// # Safety
/// The stream keeps to the interface.
///
/// # Errors
/// What it says, also where it panics.
pub unsafe fn relay_stream(stream: ArrowArrayStream) -> Result<ArrowArrayStream, String> {
    // SAFETY: the stream keeps to the interface, as the caller promises.
    let reader = unsafe { read_stream(stream) }?;
    let (schema, mut batches) = (reader.schema(), Vec::new());
    caught(|| {
        for batch in reader {
            let batch = batch?;
            for column in batch.columns() {
                column.to_data().validate_full()?;
            }
            batches.push(batch);
        }
        Ok(())
    })?;
    let batches = batches.into_iter().map(Ok::<_, ArrowError>);
    Ok(export_stream(RecordBatchIterator::new(batches, schema)))
}

/// Runs what may panic.
fn caught(body: impl FnOnce() -> Result<(), ArrowError>) -> Said {
    let text = |error: &dyn Display| error.to_string();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result.map_err(|error| text(&error)),
        Err(payload) => {
            let said = payload.downcast_ref::<String>().cloned();
            let said = said.or_else(|| payload.downcast_ref::<&str>().map(|said| (*said).into()));
            Err(format!("panic: {}", said.unwrap_or_default()))
        }
    }
}
