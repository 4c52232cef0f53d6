//! Arrow IPC, the formats that Arrow data has in files and on the network, read to and written from
//! the memory of any device.
//!
//! | to | use |
//! |---|---|
//! | read a stream, from a reader or in memory | [`StreamReader`] |
//! | read a file, any batch of it | [`FileReader`] |
//! | put the batches on a device | [`StreamReader::on`], [`FileReader::on`] |
//! | write a stream or a file, from any device | [`StreamWriter`], [`FileWriter`] |
//! | handle single messages, which something else carries | [`Decoder`], [`Encoder`] |
//!
//! A message of IPC has a small header, which says how long the columns are and where their buffers
//! lie, and a body with the bytes of all buffers. Reading decodes the header on the host and makes
//! an array whose buffers lie in the body, wherever the body is: in memory that was read, in a file
//! that the caller mapped, at an odd address in a packet of the network. Nothing is copied. A copy
//! to a device ([`StreamReader::on`], or [`Batch::copy_to`](arrow_device::Batch::copy_to)) then
//! takes the live bytes of all buffers from the body in one plan: one allocation, one submission.
//! Only bodies that are compressed are unpacked first, buffer by buffer.
//!
//! Writing goes the other way. What the host has is written from where it lies. A large batch on a
//! device stays there, and its buffers pass through two windows of host memory in turn: the device
//! fills one while the other is written ([`WriteOptions::staging`]). A slice is cut on its way.
//!
//! ```
//! use std::io::Cursor;
//!
//! use arrow_device::{Array, Batch, DataType};
//! use arrow_device_ipc::{ReadOptions, StreamReader, StreamWriter, WriteOptions};
//!
//! let numbers = Array::from_values(DataType::Int64, [Some(1_i64), None, Some(3)])?;
//! let batch = Batch::from_columns([("n", numbers)])?;
//!
//! let mut writer = StreamWriter::new(Vec::new(), &batch.schema()?, WriteOptions::new())?;
//! writer.write(&batch)?;
//! let bytes = writer.finish()?;
//!
//! let mut reader = StreamReader::new(Cursor::new(bytes), ReadOptions::new())?;
//! let again = reader.next().transpose()?.expect("a batch was written");
//! assert!(again.as_array().equals(batch.as_array())?);
//! # Ok::<(), arrow_device::Error>(())
//! ```
//!
//! # What is read
//!
//! * The stream and the file format of versions 4 and 5, streams from before version 0.15 too, all
//!   types, dictionaries with replacement and delta, custom metadata, and bodies compressed with
//!   LZ4 and ZSTD, by the features `lz4` and `zstd`, which are on by default.
//! * Only the columns that are asked for ([`ReadOptions::columns`]). Of a file, the bytes of other
//!   columns are not read.
//! * Data of machines with the other byte order is refused, with an error that says so.
//!
//! # Hostile input
//!
//! Headers are verified before a number in them is believed, and lengths are compared with the
//! bytes that are there and with [limits](ReadOptions) before memory is taken. The data in the
//! buffers is not looked at, unless [`ReadOptions::validate`] asks for that: an array with wrong
//! data is safe to use, and [`Array::validate`](arrow_device::Array::validate) says what is wrong.
//! A file is read and not mapped, so that a file which another process makes shorter meanwhile is
//! an error.

mod compression;
mod decode;
mod decoder;
mod dictionaries;
mod encode;
mod file_reader;
mod file_writer;
mod framing;
mod options;
mod pieces;
mod problem;
mod ranges;
mod schema_from;
mod schema_to;
mod shape;
mod source;
mod stream_reader;
mod stream_writer;

pub use decoder::{Decoded, Decoder};
pub use file_reader::{FileReader, ReadAt};
pub use file_writer::FileWriter;
pub use options::{Compression, ReadOptions, WriteOptions};
pub use stream_reader::StreamReader;
pub use stream_writer::{EncodedMessage, Encoder, StreamWriter};
