//! What JavaScript calls (`js/module.js`).
//!
//! A function returns the number of an object, or another number from 0 on, and -1 where there is
//! an [error](take_error). Bytes come in an [`Object::Input`] and leave in an [`Object::Output`],
//! whose addresses are good until the module is called again. The caller is the package's own code:
//! it passes addresses of its own allocations.

use std::alloc::Layout;
use std::ptr::{self, NonNull};

use arrow_device::{Batch, Buffer, Device, Error, ErrorKind, Result, Schema, deferred};
use arrow_device_abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device_ipc::{
    Decoded, Decoder, FileReader, FileWriter, ReadOptions, StreamReader, StreamWriter, WriteOptions,
};

use crate::driver::PageDriver;
use crate::objects::{self, Messages, Object, OpenDevice, Reader, Writer, unknown};

/// What the file format begins with.
const MAGIC: &[u8] = b"ARROW1";
/// The most bytes that the compressed buffers of a message may have when they are unpacked: half of
/// what the module can address.
const MAX_UNPACKED: u64 = 2 << 30;
/// Room in front of each allocation for its length, which keeps the alignment.
const HEAD: usize = 16;

/// The number of an object that a call has made, or -1.
fn answer(call: impl FnOnce() -> Result<i32>) -> i32 {
    call().unwrap_or_else(objects::fail)
}

/// Allocates memory for C structs, aligned to 16 bytes. 0 where there is none.
#[unsafe(no_mangle)]
extern "C" fn allocate(len: usize) -> *mut u8 {
    let whole = len.checked_add(HEAD);
    let layout = whole.and_then(|whole| Layout::from_size_align(whole, HEAD).ok());
    let Some(layout) = layout else { return ptr::null_mut() };
    // SAFETY: the layout has at least the bytes of the head.
    let Some(start) = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }) else {
        return ptr::null_mut();
    };
    // SAFETY: the allocation begins with the head, which is aligned and has room for a number.
    unsafe { start.cast::<usize>().write(layout.size()) };
    // SAFETY: the allocation is at least as long as the head.
    unsafe { start.add(HEAD) }.as_ptr()
}

/// Frees memory of [`allocate`]. Nothing happens for 0.
#[unsafe(no_mangle)]
extern "C" fn deallocate(address: *mut u8) {
    if address.is_null() {
        return;
    }
    let start = address.wrapping_sub(HEAD);
    // SAFETY: JavaScript gives back what `allocate` gave, which has the head in front.
    let size = unsafe { start.cast::<usize>().read() };
    if let Ok(layout) = Layout::from_size_align(size, HEAD) {
        // SAFETY: `allocate` made this block with this layout, and the caller frees it once.
        unsafe { std::alloc::dealloc(start, layout) };
    }
}

/// Makes room for bytes of JavaScript.
#[unsafe(no_mangle)]
extern "C" fn input(len: usize) -> i32 {
    answer(|| {
        let mut room = Vec::new();
        let words = len.div_ceil(size_of::<u64>());
        room.try_reserve_exact(words).map_err(|_| {
            let message = format!("{len} bytes do not fit into the module's memory");
            Error::new(ErrorKind::OutOfMemory, message)
        })?;
        room.resize(words, 0);
        objects::add(Object::Input(room, len))
    })
}

/// The address of an input or of an output, 0 for anything else.
#[unsafe(no_mangle)]
extern "C" fn address(object: i32) -> *const u8 {
    let found = objects::with(object, |object| match object {
        Object::Input(room, _) => Ok(room.as_ptr().cast()),
        Object::Output(bytes) => Ok(bytes.as_ptr()),
        _ => Ok(ptr::null()),
    });
    found.unwrap_or(ptr::null())
}

/// The length of an input or of an output.
#[unsafe(no_mangle)]
extern "C" fn length(object: i32) -> usize {
    let found = objects::with(object, |object| match object {
        Object::Input(_, len) => Ok(*len),
        Object::Output(bytes) => Ok(bytes.len()),
        _ => Ok(0),
    });
    found.unwrap_or(0)
}

/// Drops an object.
#[unsafe(no_mangle)]
extern "C" fn release(object: i32) {
    drop(objects::take(object));
    deferred::release_finished();
}

/// The last error, as an output: its kind and its text, with a line break between.
#[unsafe(no_mangle)]
extern "C" fn take_error() -> i32 {
    answer(|| {
        let text = objects::take_error().map_or_else(
            || "Driver\nno error".to_owned(),
            |error| format!("{:?}\n{error}", error.kind()),
        );
        objects::add(Object::Output(text.into_bytes()))
    })
}

/// Opens a device of the page. `name` is an input, which is used up.
#[unsafe(no_mangle)]
extern "C" fn device_open(number: u32, max_buffer: f64, name: i32) -> i32 {
    answer(|| {
        let name = String::from_utf8_lossy(&taken_bytes(name)?).into_owned();
        let driver = PageDriver::new(number, name, max_buffer as u64);
        let progress = driver.progress();
        objects::add(Object::Device(OpenDevice::new(&Device::new(driver), progress)?))
    })
}

/// The page's work has come to a mark.
#[unsafe(no_mangle)]
extern "C" fn device_passed(device: i32, mark: f64) {
    if let Ok(device) = device_of(device) {
        device.progress.pass(mark as u64);
    }
    deferred::release_finished();
}

/// The page's device is lost.
#[unsafe(no_mangle)]
extern "C" fn device_lost(device: i32) {
    if let Ok(device) = device_of(device) {
        device.progress.lose();
    }
    deferred::release_finished();
}

/// Reads a stream or a file. `bytes` is an input, which is used up. `columns` is 0 for all columns,
/// or an input with their names, each followed by a null, which is used up.
#[unsafe(no_mangle)]
extern "C" fn reader_open(bytes: i32, columns: i32) -> i32 {
    answer(|| {
        let Some(Object::Input(room, len)) = objects::take(bytes) else {
            return Err(unknown(bytes));
        };
        let head = room.first().copied().unwrap_or_default().to_ne_bytes();
        let is_file = head.starts_with(MAGIC);
        let buffer = Buffer::from(room).slice(0, len as u64)?;
        let options = read_options();
        let open = |options: ReadOptions| -> Result<Reader> {
            Ok(match is_file {
                true => {
                    let reader = FileReader::in_memory(buffer.clone(), options)?;
                    Reader::File { reader, next: 0 }
                }
                false => {
                    Reader::Stream(Box::new(StreamReader::in_memory(buffer.clone(), options)?))
                }
            })
        };
        let mut reader = open(options.clone())?;
        if columns != 0 {
            let names = taken_bytes(columns)?;
            let numbers = numbers_of(&names, reader.schema())?;
            reader = open(options.columns(numbers))?;
        }
        objects::add(Object::Reader(reader))
    })
}

/// Copies the next batch to a device. 0 at the end.
#[unsafe(no_mangle)]
extern "C" fn reader_next(reader: i32, device: i32) -> i32 {
    answer(|| {
        let queue = device_of(device)?.queue;
        let next = objects::with(reader, |object| match object {
            Object::Reader(reader) => Ok(reader.next()),
            _ => Err(unknown(reader)),
        })?;
        let Some(batch) = next else { return Ok(0) };
        objects::add(Object::Batch(batch?.copy_to(&queue)?))
    })
}

/// Begins a stream whose messages come one by one. `columns` is 0 or an input, as for
/// [`reader_open`].
#[unsafe(no_mangle)]
extern "C" fn messages_open(columns: i32) -> i32 {
    answer(|| {
        let names = if columns == 0 { None } else { Some(taken_bytes(columns)?) };
        let decoder = Decoder::new(read_options());
        objects::add(Object::Messages(Box::new(Messages { decoder, names })))
    })
}

/// How many bytes the body of a message has. `header` is an input, which stays.
#[unsafe(no_mangle)]
extern "C" fn messages_body(messages: i32, header: i32) -> f64 {
    let found = objects::with(header, |object| match object {
        Object::Input(room, len) => objects::with(messages, |object| match object {
            Object::Messages(messages) => messages.decoder.body_len(&bytes_of(room, *len)),
            _ => Err(unknown(messages)),
        }),
        _ => Err(unknown(header)),
    });
    found.map_or_else(|error| objects::fail(error).into(), |len| len as f64)
}

/// Reads the next message, and copies its batch to a device. 0 where the message has none. `header`
/// and `body` are inputs, which are used up.
#[unsafe(no_mangle)]
extern "C" fn messages_next(messages: i32, header: i32, body: i32, device: i32) -> i32 {
    answer(|| {
        let header = taken_bytes(header)?;
        let Some(Object::Input(room, len)) = objects::take(body) else {
            return Err(unknown(body));
        };
        let body = Buffer::from(room).slice(0, len as u64)?;
        let queue = device_of(device)?.queue;
        let decoded = objects::with(messages, |object| match object {
            Object::Messages(messages) => decoded(messages, &header, body),
            _ => Err(unknown(messages)),
        })?;
        match decoded {
            Decoded::Batch { batch, .. } => objects::add(Object::Batch(batch.copy_to(&queue)?)),
            _ => Ok(0),
        }
    })
}

/// Decodes a message. The columns that are asked for have numbers once the schema is known.
fn decoded(messages: &mut Messages, header: &[u8], body: Buffer) -> Result<Decoded> {
    if let Some(names) = messages.names.take() {
        let mut all = Decoder::new(read_options());
        all.decode(header, body.clone())?;
        if let Some(schema) = all.schema() {
            let numbers = numbers_of(&names, schema)?;
            messages.decoder = Decoder::new(read_options().columns(numbers));
        }
    }
    messages.decoder.decode(header, body)
}

fn read_options() -> ReadOptions {
    ReadOptions::new().max_unpacked(MAX_UNPACKED)
}

/// The schema of a reader or of a batch.
#[unsafe(no_mangle)]
extern "C" fn schema_of(object: i32) -> i32 {
    answer(|| {
        let schema = objects::with(object, |found| match found {
            Object::Reader(reader) => Ok(reader.schema().clone()),
            Object::Batch(batch) => batch.schema(),
            _ => Err(unknown(object)),
        })?;
        objects::add(Object::Schema(schema))
    })
}

/// Writes a schema as a C struct to memory of [`allocate`].
#[unsafe(no_mangle)]
extern "C" fn schema_export(schema: i32, to: *mut ArrowSchema) -> i32 {
    answer(|| {
        objects::with(schema, |object| match object {
            // SAFETY: JavaScript gives memory of its own for the struct.
            Object::Schema(found) => unsafe { found.export_to(to) },
            _ => Err(unknown(schema)),
        })?;
        Ok(0)
    })
}

/// Writes a share of a batch as a C struct to memory of [`allocate`], which is zeros.
#[unsafe(no_mangle)]
extern "C" fn batch_export(batch: i32, to: *mut ArrowDeviceArray) -> i32 {
    answer(|| {
        // SAFETY: JavaScript gives memory of its own for the struct, and zeros are a released one.
        let to = unsafe { to.as_mut() }.ok_or_else(|| unknown(0))?;
        objects::with(batch, |object| match object {
            Object::Batch(found) => found.export(to),
            _ => Err(unknown(batch)),
        })?;
        Ok(0)
    })
}

/// Takes a batch over from C structs in this memory. The schema is released in any case. The array
/// is released, or is the batch's, unless the schema was refused: then it is still the caller's.
#[unsafe(no_mangle)]
extern "C" fn batch_import(schema: *mut ArrowSchema, array: *mut ArrowDeviceArray) -> i32 {
    answer(|| {
        // SAFETY: UNS-1, UNS-2, UNS-6: JavaScript has written the struct, or had it written by what
        // exports such structs.
        let schema = unsafe { Schema::import(schema) }?;
        // SAFETY: UNS-1, UNS-3, UNS-4, UNS-6: the numbers of buffers are those that the page gave
        // out for buffers of this device, and the page keeps them until the struct is released.
        objects::add(Object::Batch(unsafe { Batch::import(array, &schema) }?))
    })
}

/// Begins to copy a batch to the host.
#[unsafe(no_mangle)]
extern "C" fn batch_fetch(batch: i32) -> i32 {
    answer(|| {
        let copy = objects::with(batch, |object| match object {
            Object::Batch(found) => found.fetch(),
            _ => Err(unknown(batch)),
        })?;
        objects::add(Object::Copy(copy))
    })
}

/// Goes on with a copy. 1 once the batch has arrived, 0 before.
#[unsafe(no_mangle)]
extern "C" fn copy_poll(copy: i32) -> i32 {
    answer(|| {
        objects::with(copy, |object| {
            let Object::Copy(polled) = object else { return Err(unknown(copy)) };
            let Some(array) = polled.poll()? else { return Ok(0) };
            *object = Object::Fetched(Batch::try_from(array)?);
            Ok(1)
        })
    })
}

/// Begins a stream, or a file, of batches with this schema.
#[unsafe(no_mangle)]
extern "C" fn writer_open(schema: i32, is_file: i32) -> i32 {
    answer(|| {
        let writer = objects::with(schema, |object| {
            let Object::Schema(schema) = object else { return Err(unknown(schema)) };
            let options = WriteOptions::new();
            Ok(match is_file {
                0 => Writer::Stream(StreamWriter::new(Vec::new(), schema, options)?),
                _ => Writer::File(FileWriter::new(Vec::new(), schema, options)?),
            })
        })?;
        objects::add(Object::Writer(writer))
    })
}

/// Writes a batch that has arrived on the host.
#[unsafe(no_mangle)]
extern "C" fn writer_write(writer: i32, fetched: i32) -> i32 {
    answer(|| {
        let batch = objects::with(fetched, |object| match object {
            Object::Fetched(batch) => Ok(batch.clone()),
            _ => Err(unknown(fetched)),
        })?;
        objects::with(writer, |object| match object {
            Object::Writer(Writer::Stream(found)) => found.write(&batch),
            Object::Writer(Writer::File(found)) => found.write(&batch),
            _ => Err(unknown(writer)),
        })?;
        Ok(0)
    })
}

/// Ends the stream or the file, and returns it as an output. The writer is used up.
#[unsafe(no_mangle)]
extern "C" fn writer_finish(writer: i32) -> i32 {
    answer(|| {
        let bytes = match objects::take(writer) {
            Some(Object::Writer(Writer::Stream(writer))) => writer.finish()?,
            Some(Object::Writer(Writer::File(writer))) => writer.finish()?,
            _ => return Err(unknown(writer)),
        };
        objects::add(Object::Output(bytes))
    })
}

fn device_of(number: i32) -> Result<OpenDevice> {
    objects::with(number, |object| match object {
        Object::Device(device) => Ok(device.clone()),
        _ => Err(unknown(number)),
    })
}

/// The bytes of an input, which is used up.
fn taken_bytes(number: i32) -> Result<Vec<u8>> {
    let Some(Object::Input(room, len)) = objects::take(number) else {
        return Err(unknown(number));
    };
    Ok(bytes_of(&room, len))
}

/// The bytes of an input.
fn bytes_of(room: &[u64], len: usize) -> Vec<u8> {
    room.iter().flat_map(|word| word.to_ne_bytes()).take(len).collect()
}

/// The numbers of the columns with these names.
fn numbers_of(names: &[u8], schema: &Schema) -> Result<Vec<usize>> {
    let names = names.strip_suffix(&[0]).unwrap_or(names).split(|byte| *byte == 0);
    names
        .map(|name| {
            let name = String::from_utf8_lossy(name);
            schema.column_index(&name).ok_or_else(|| {
                let message = format!("no column has the name `{name}`");
                Error::new(ErrorKind::InvalidArgument, message).during("read IPC")
            })
        })
        .collect()
}
