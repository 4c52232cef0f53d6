//! What JavaScript holds, by number, and the last error that it was told of.
//!
//! An object is taken out of the table while it is used or dropped: both may call JavaScript, which
//! may call the module again.

use std::cell::RefCell;

use arrow_device::copy::PolledCopy;
use arrow_device::{Batch, Device, Error, ErrorKind, Queue, Result, Schema};
use arrow_device_ipc::{Decoder, FileReader, FileWriter, StreamReader, StreamWriter};

use crate::driver::Progress;

/// Something that JavaScript has the number of.
#[derive(Debug)]
pub(crate) enum Object {
    /// Bytes that JavaScript writes: room for them, and how many they are.
    Input(Vec<u64>, usize),
    /// Bytes that JavaScript reads.
    Output(Vec<u8>),
    Device(OpenDevice),
    Reader(Reader),
    /// A stream whose messages come one by one.
    Messages(Box<Messages>),
    Schema(Schema),
    Batch(Batch),
    /// A batch on its way to the host.
    Copy(PolledCopy),
    /// A batch that has arrived there.
    Fetched(Batch),
    Writer(Writer),
}

/// A device and its queue.
#[derive(Clone, Debug)]
pub(crate) struct OpenDevice {
    pub(crate) queue: Queue,
    pub(crate) progress: std::sync::Arc<Progress>,
}

impl OpenDevice {
    pub(crate) fn new(device: &Device, progress: std::sync::Arc<Progress>) -> Result<Self> {
        Ok(Self { queue: device.open_queue()?, progress })
    }
}

/// A reader of either format.
#[derive(Debug)]
pub(crate) enum Reader {
    Stream(Box<StreamReader>),
    File { reader: FileReader, next: usize },
}

impl Reader {
    pub(crate) fn schema(&self) -> &Schema {
        match self {
            Self::Stream(reader) => reader.schema(),
            Self::File { reader, .. } => reader.schema(),
        }
    }

    /// Returns the next batch, in host memory.
    pub(crate) fn next(&mut self) -> Option<Result<Batch>> {
        match self {
            Self::Stream(reader) => reader.next(),
            Self::File { reader, next } => {
                let number = *next;
                *next += 1;
                (number < reader.batch_count()).then(|| reader.batch(number))
            }
        }
    }
}

/// A decoder, and the names of the columns that are asked for until their numbers are known.
#[derive(Debug)]
pub(crate) struct Messages {
    pub(crate) decoder: Decoder,
    pub(crate) names: Option<Vec<u8>>,
}

/// A writer of either format.
pub(crate) enum Writer {
    Stream(StreamWriter<Vec<u8>>),
    File(FileWriter<Vec<u8>>),
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Stream(_) => "Writer(stream)",
            Self::File(_) => "Writer(file)",
        })
    }
}

#[derive(Default)]
struct Table {
    slots: Vec<Option<Object>>,
    free: Vec<usize>,
    error: Option<Error>,
}

thread_local! {
    static TABLE: RefCell<Table> = RefCell::default();
}

/// Gives an object a number, from 1 on.
pub(crate) fn add(object: Object) -> Result<i32> {
    TABLE.with_borrow_mut(|table| {
        let slot = table.free.pop().unwrap_or(table.slots.len());
        if slot == table.slots.len() {
            table.slots.push(None);
        }
        let number = i32::try_from(slot + 1);
        let number =
            number.map_err(|_| Error::new(ErrorKind::LimitExceeded, "too many objects"))?;
        if let Some(place) = table.slots.get_mut(slot) {
            *place = Some(object);
        }
        Ok(number)
    })
}

fn slot_of(number: i32) -> Option<usize> {
    usize::try_from(number).ok()?.checked_sub(1)
}

/// Takes an object out. Its number is given out again.
pub(crate) fn take(number: i32) -> Option<Object> {
    TABLE.with_borrow_mut(|table| {
        let slot = slot_of(number)?;
        let object = table.slots.get_mut(slot)?.take()?;
        table.free.push(slot);
        Some(object)
    })
}

/// Calls `look` with an object, which is out of the table meanwhile.
pub(crate) fn with<T>(number: i32, look: impl FnOnce(&mut Object) -> Result<T>) -> Result<T> {
    let slot = slot_of(number).ok_or_else(|| unknown(number))?;
    let taken = TABLE.with_borrow_mut(|table| table.slots.get_mut(slot).and_then(Option::take));
    let mut object = taken.ok_or_else(|| unknown(number))?;
    let result = look(&mut object);
    TABLE.with_borrow_mut(|table| {
        if let Some(place) = table.slots.get_mut(slot) {
            *place = Some(object);
        }
    });
    result
}

/// An error: no such object, or one of another kind.
#[cold]
pub(crate) fn unknown(number: i32) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("{number} is the number of no such object"))
}

/// Keeps an error for JavaScript, and returns the number that says so.
pub(crate) fn fail(error: Error) -> i32 {
    TABLE.with_borrow_mut(|table| table.error = Some(error));
    -1
}

/// Takes the error that was kept last.
pub(crate) fn take_error() -> Option<Error> {
    TABLE.with_borrow_mut(|table| table.error.take())
}
