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
//! | handle headers alone, and leave the buffers where they lie | [`Encoder::encode_apart`], [`Decoder::decode_apart`] |
//!
//! A message of IPC has a small header, which says how long the columns are and where their buffers
//! lie, and a body with the bytes of all buffers. Reading decodes the header on the host and makes
//! an array whose buffers lie in the body, wherever the body is: in memory that was read, in a file
//! that the caller mapped, at an odd address in a packet of the network. Nothing is copied. A copy
//! to a device ([`StreamReader::on`], or [`Batch::copy_to`](arrow_device::Batch::copy_to)) then
//! takes the live bytes of all buffers from the body in one plan: one allocation, one submission.
//! Bodies that are compressed are unpacked first, buffer by buffer.
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
//!   LZ4 and ZSTD, by the features `lz4` and `zstd`, which are on by default. For targets without a
//!   C compiler, such as WebAssembly, the feature `ruzstd` reads ZSTD by a decoder in Rust.
//! * Only the columns that are asked for ([`ReadOptions::columns`]). From a file, the bytes of
//!   other columns are not read at all.
//! * Data in the other byte order is not read: it is refused with an error that says so.
//!
//! # Speed
//!
//! Two cores of a virtual machine that other programs used meanwhile (a load of 12 to 14), PoCL and
//! lavapipe as devices, medians of one run of the crate `benchmarks`, in a build without
//! optimisation across crates: `arrow-device-times --quick --only "read IPC"`,
//! `"read IPC in memory"`, `"write IPC"`, `"read IPC onto OpenCL"` and `"read IPC onto Vulkan"`. A
//! turn of the first four rows reads the schema and eight messages. A plain copy is one write of as
//! many bytes to memory that was used before.
//!
//! | what | here | beside it |
//! |---|---|---|
//! | 8 messages of 8 columns, 8 MiB each, read piece by piece | 20.1 ms | arrow-rs 17.8 ms |
//! | 8 messages of 1,000 columns, 4 MiB each, read piece by piece | 8.3 ms | arrow-rs 14.0 ms |
//! | 8 messages of 8 columns in memory, which stay there | 37 µs | arrow-rs 20 µs |
//! | 8 messages of 1,000 columns in memory, which stay there | 1.9 ms | arrow-rs 5.3 ms |
//! | one message of 8 columns, 8 MiB, onto OpenCL | 0.75 ms | one plain copy 1.32 ms |
//! | the same onto Vulkan | 0.55 ms | one plain copy 1.74 ms |
//! | one message of 1,000 columns, 4 MiB, onto OpenCL | 0.97 ms | one plain copy 0.38 ms |
//! | the same onto Vulkan | 0.86 ms | one plain copy 0.59 ms |
//! | one message of 8 columns, 8 MiB, written to memory | 0.83 ms | arrow-rs 0.81 ms |
//! | one message of 1,000 columns, 4 MiB, written to memory | 0.77 ms | arrow-rs 0.53 ms |
//!
//! The columns of a message whose body is not compressed become one array with one table of
//! buffers, in a dozen allocations.
//!
//! # Hostile input
//!
//! Headers are verified before a number in them is used, and lengths are compared with the bytes
//! that are there and with [limits](ReadOptions) before memory is taken. The data in the buffers is
//! not looked at, unless [`ReadOptions::validate`] asks for that: an array with wrong data is safe
//! to use, and [`Array::validate`](arrow_device::Array::validate) says what is wrong. A file is
//! read and not mapped, so if another process makes the file shorter meanwhile, reading is an error
//! and not a fault.

mod apart;
mod compression;
mod cut_views;
mod decode;
mod decoder;
mod dictionaries;
mod encode;
mod file_reader;
mod file_writer;
mod framing;
mod options;
mod output;
mod pieces;
mod problem;
mod ranges;
mod schema_from;
mod schema_to;
mod shape;
mod source;
mod stream_reader;
mod stream_writer;

pub use apart::{BufferApart, MessageApart};
pub use decoder::{Decoded, Decoder};
pub use file_reader::{FileReader, ReadAt};
pub use file_writer::FileWriter;
pub use options::{Compression, ReadOptions, WriteOptions};
pub use stream_reader::StreamReader;
pub use stream_writer::{EncodedMessage, Encoder, StreamWriter};
