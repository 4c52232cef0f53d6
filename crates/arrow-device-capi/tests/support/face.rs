//! The library as a C program sees it: everything goes through the functions of the header.
#![allow(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)]

use std::any::Any;
use std::ffi::c_int;
use std::ptr;

use arrow_device::abi::{ArrowDeviceArray, ArrowDeviceArrayStream, ArrowSchema};
use arrow_device::{Array, Error, ErrorKind, NodePath, Queue, Result, Schema, Step};
use arrow_device_capi::*;
use arrow_device_testkit::consumer::{self, SeenSchema};
use arrow_device_testkit::hostile::Importer;
use arrow_device_testkit::stream::StreamSeen;
use arrow_device_testkit::suite::Exchange;

/// What a function answered, with all that the error struct tells.
pub(crate) fn call(function: impl FnOnce(*mut ArdevError) -> c_int) -> Result<()> {
    let mut error = ArdevError::EMPTY;
    let code = function(&mut error);
    if code == 0 {
        return Ok(());
    }
    assert_eq!(code, error.code);
    let text = error.text();
    let place = place_in(&text).unwrap_or_default();
    let kind = ErrorKind::ALL[usize::try_from(error.kind).unwrap()];
    Err(Error::new(kind, text).at(place))
}

/// An object that a function gave.
pub(crate) fn made<T>(
    function: impl FnOnce(*mut *mut T, *mut ArdevError) -> c_int,
) -> Result<*mut T> {
    // Whatever was there before, there is nothing after a failure.
    let mut out = ptr::dangling_mut();
    let outcome = call(|error| function(&mut out, error));
    assert_eq!(out.is_null(), outcome.is_err());
    outcome.map(|()| out)
}

/// The place in a tree that a message names.
fn place_in(text: &str) -> Option<NodePath> {
    let word = text.split(": ").find(|word| *word == "root" || word.starts_with("root."))?;
    let steps = word.split('.').skip(1).map(|step| match step.strip_prefix("child[") {
        Some(index) => Step::Child(index.trim_end_matches(']').parse().unwrap()),
        None => Step::Dictionary,
    });
    Some(NodePath::new(steps))
}

/// An array object, which ends with this.
#[derive(Debug)]
pub(crate) struct Owned(pub(crate) *mut ArdevArray);

impl Drop for Owned {
    fn drop(&mut self) {
        unsafe { ardev_array_free(self.0) };
    }
}

pub(crate) fn import(schema: &mut ArrowSchema, array: &mut ArrowDeviceArray) -> Result<Owned> {
    let schema = made(|out, error| unsafe { ardev_schema_import(schema, out, error) })?;
    let array = made(|out, error| unsafe { ardev_array_import(array, schema, out, error) });
    unsafe { ardev_schema_free(schema) };
    array.map(Owned)
}

pub(crate) fn export(array: &Owned) -> Result<(ArrowSchema, ArrowDeviceArray)> {
    let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    c_array.reserved = [-1; 3];
    let schema = made(|out, error| unsafe { ardev_array_schema(array.0, out, error) })?;
    let exported = call(|error| unsafe { ardev_schema_export(schema, &mut c_schema, error) });
    unsafe { ardev_schema_free(schema) };
    exported?;
    call(|error| unsafe { ardev_array_export(array.0, ptr::null(), &mut c_array, error) })
        .inspect_err(|_| consumer::release(consumer::move_out(&raw mut c_schema)).unwrap())?;
    Ok((c_schema, c_array))
}

/// The same array of the library, handed over as C does.
pub(crate) fn to_rust(array: Owned) -> Result<Array> {
    let (mut c_schema, mut c_array) = export(&array)?;
    drop(array);
    let schema = unsafe { Schema::import(&mut c_schema) }?;
    unsafe { Array::import(&mut c_array, &schema) }
}

pub(crate) fn from_rust(array: &Array) -> Result<Owned> {
    let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    array.schema()?.export(&mut c_schema)?;
    array.export(&mut c_array)?;
    import(&mut c_schema, &mut c_array)
}

/// Does something with the queue as an object.
pub(crate) fn with_queue<T>(
    queue: &Queue,
    act: impl FnOnce(*mut ArdevQueue) -> Result<T>,
) -> Result<T> {
    let id = queue.device().id();
    let device =
        made(|out, error| unsafe { ardev_device_find(id.device_type.0, id.id, out, error) })?;
    let handle = queue.raw().as_ptr();
    let adopted = made(|out, error| unsafe {
        ardev_queue_adopt(device, handle, ptr::null_mut(), None, out, error)
    })?;
    let outcome = act(adopted);
    unsafe { ardev_queue_free(adopted) };
    unsafe { ardev_device_free(device) };
    outcome
}

/// The suite's steps through the header's functions.
#[derive(Debug)]
pub(crate) struct Face;

impl Exchange for Face {
    fn import(&self, schema: &mut ArrowSchema, array: &mut ArrowDeviceArray) -> Result<Array> {
        to_rust(import(schema, array)?)
    }

    fn export(&self, array: &Array) -> Result<(ArrowSchema, ArrowDeviceArray)> {
        export(&from_rust(array)?)
    }

    fn to_device(&self, array: &Array, queue: &Queue) -> Result<Array> {
        let options = ArdevCopyOptions { flags: ARDEV_COPY_WHOLE, ..ArdevCopyOptions::default() };
        let array = from_rust(array)?;
        let there = with_queue(queue, |queue| {
            made(|out, error| unsafe { ardev_array_copy(array.0, queue, &options, out, error) })
        });
        to_rust(Owned(there?))
    }

    fn to_host(&self, array: &Array, queue: &Queue) -> Result<Array> {
        let array = from_rust(array)?;
        let back = with_queue(queue, |through| {
            let options = ArdevCopyOptions {
                flags: ARDEV_COPY_WHOLE,
                through,
                ..ArdevCopyOptions::default()
            };
            made(|out, error| unsafe {
                ardev_array_copy(array.0, ptr::null(), &options, out, error)
            })
        });
        to_rust(Owned(back?))
    }
}

impl Importer for Face {
    fn schema(&self, schema: &mut ArrowSchema) -> Result<Schema> {
        let schema = made(|out, error| unsafe { ardev_schema_import(schema, out, error) })?;
        let mut c_schema = ArrowSchema::empty();
        let exported = call(|error| unsafe { ardev_schema_export(schema, &mut c_schema, error) });
        unsafe { ardev_schema_free(schema) };
        exported?;
        unsafe { Schema::import(&mut c_schema) }
    }

    fn array(&self, array: &mut ArrowDeviceArray, schema: &Schema) -> Result<Box<dyn Any>> {
        let mut c_schema = ArrowSchema::empty();
        schema.export(&mut c_schema)?;
        let imported = import(&mut c_schema, array)?;
        let (c_schema, c_array) = export(&imported)?;
        consumer::release(c_schema).unwrap();
        consumer::release(c_array.array).unwrap();
        Ok(Box::new(imported))
    }
}

/// Takes a stream over and hands it on.
pub(crate) fn relay(c_stream: &mut ArrowDeviceArrayStream) -> Result<ArrowDeviceArrayStream> {
    let stream = made(|out, error| unsafe { ardev_stream_import(c_stream, out, error) })?;
    let mut out = ArrowDeviceArrayStream::empty();
    let exported =
        call(|error| unsafe { ardev_stream_export(stream, ptr::null(), &mut out, error) });
    unsafe { ardev_stream_free(stream) };
    exported.map(|()| out)
}

/// Reads a stream to its end, or its first error.
pub(crate) fn read(c_stream: &mut ArrowDeviceArrayStream) -> StreamSeen {
    let mut outcome = StreamSeen::default();
    let mut error = ArdevError::EMPTY;
    let (mut stream, mut schema) = (ptr::null_mut(), ptr::null_mut());
    let told = |code: c_int, error: &ArdevError| (code != 0).then(|| (code, error.text()));
    outcome.error = told(unsafe { ardev_stream_import(c_stream, &mut stream, &mut error) }, &error);
    if outcome.error.is_some() {
        return outcome;
    }
    call(|error| unsafe { ardev_stream_schema(stream, &mut schema, error) }).unwrap();
    let mut c_schema = ArrowSchema::empty();
    call(|error| unsafe { ardev_schema_export(schema, &mut c_schema, error) }).unwrap();
    outcome.format = SeenSchema::of(&c_schema).format;
    consumer::release(c_schema).unwrap();
    unsafe { ardev_schema_free(schema) };
    loop {
        let mut array = ptr::null_mut();
        outcome.error = told(unsafe { ardev_stream_next(stream, &mut array, &mut error) }, &error);
        if array.is_null() {
            break;
        }
        let array = Owned(array);
        outcome.lengths.push(inspect(&array).length);
    }
    unsafe { ardev_stream_free(stream) };
    outcome
}

pub(crate) fn inspect(array: &Owned) -> ArdevArrayInfo {
    let mut info = ArdevArrayInfo::default();
    call(|error| unsafe { ardev_array_inspect(array.0, &mut info, error) }).unwrap();
    info
}
