//! Conversion between `arrow-device` and arrow-rs, without copying.
//!
//! arrow-rs computes on the host; `arrow-device` carries arrays between runtimes and devices. This
//! crate makes arrays, record batches, readers and types of either library from those of the other.
//! The data stays where it is in memory.
//!
//! arrow-rs has a new major each quarter, and to the compiler the types of two majors have nothing
//! in common. So there is a module for each of the last three: `v58`, switched on by the feature
//! `arrow-58`, `v59` by `arrow-59`, and `v60` by `arrow-60`. None is on by default, because only
//! the user knows which major the rest of the program uses. All of them can be on at once, and then
//! an array goes from one major to another through this crate.
#![cfg_attr(feature = "arrow-60", doc = "```")]
#![cfg_attr(not(feature = "arrow-60"), doc = "```ignore")]
//! use std::sync::Arc;
//!
//! use arrow_array_60::{ArrayRef, Int32Array, RecordBatch};
//! use arrow_device::Batch;
//! use arrow_device_arrow::v60::{FromArrow as _, ToArrow as _};
//!
//! let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
//! let batch = RecordBatch::try_from_iter([("n", numbers)])?;
//!
//! let ours = Batch::from_arrow(batch.clone())?;
//! assert_eq!(ours.column(0)?.null_count(), Some(1));
//! // Now it can be exported as C structs, or copied to a device and back.
//! assert_eq!(ours.to_arrow()?, batch);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With two majors in one file, name the trait: `v58::ToArrow::to_arrow(&ours)`.
//!
//! # Streams
//!
//! | of arrow-rs | to arrays, which go to a device | and back, from the host |
//! |---|---|---|
//! | `RecordBatchReader` | `ArrayStream::from_arrow(reader)` | `Reader::new(stream.to_host())` |
//! | a `Stream` of `Result<RecordBatch, E>` | `AsyncArrays::from_arrow((schema, stream))` | `AsyncReader::new(schema, stream.to_host())` |
//!
//! For a synchronous stream, [`ArrayStream::copy_to`](arrow_device::ArrayStream::copy_to) moves the
//! arrays to a device. For an asynchronous one,
//! [`ArraysExt::copy_to`](arrow_device::async_stream::ArraysExt::copy_to) does. `prefetch` copies
//! the next arrays while one is used. All of these streams are lazy, keep the schema with its
//! metadata where there is no batch at all, and end after the first error.
#![cfg_attr(feature = "arrow-60", doc = "```")]
#![cfg_attr(not(feature = "arrow-60"), doc = "```ignore")]
//! use arrow_array_60::{RecordBatch, RecordBatchReader};
//! use arrow_device::async_stream::ArraysExt as _;
//! use arrow_device::{ArrayStream, Queue, Result};
//! use arrow_device_arrow::v60::{AsyncArrays, AsyncReader, FromArrow as _, Reader};
//! use arrow_schema_60::{ArrowError, SchemaRef};
//! use futures_core::Stream;
//!
//! /// Batches that a device has seen.
//! fn through<R>(reader: R, queue: &Queue) -> Result<impl RecordBatchReader + use<R>>
//! where
//!     R: RecordBatchReader + Send + 'static,
//! {
//!     let there = ArrayStream::from_arrow(reader)?.copy_to(queue).prefetch(2);
//!     Reader::new(there.to_host().prefetch(2))
//! }
//!
//! /// The same, without a blocked thread.
//! fn through_async<S>(
//!     schema: SchemaRef,
//!     batches: S,
//!     queue: &Queue,
//! ) -> Result<impl Stream<Item = Result<RecordBatch, ArrowError>> + use<S>>
//! where
//!     S: Stream<Item = Result<RecordBatch, ArrowError>> + Unpin,
//! {
//!     let arrays = AsyncArrays::from_arrow((schema, batches))?;
//!     let schema = arrays.schema().clone();
//!     let there = arrays.copy_to(queue).prefetch(2);
//!     AsyncReader::new(schema, there.to_host().prefetch(2))
//! }
//! ```
//!
//! `ErrorExt` converts errors both ways. arrow-rs has no structs for arrays on a device. Once
//! arrow-rs declares the structs of the C interface, they need no conversion: a pointer to such a
//! struct is a pointer to [`abi::ArrowDeviceArray`](arrow_device::abi::ArrowDeviceArray), for
//! [`Array::import`](arrow_device::Array::import) and
//! [`Array::export`](arrow_device::Array::export).
//!
//! # How it works, and what it costs
//!
//! **From arrow-rs**, the conversion writes one block of C structs and imports it. Each array is
//! read by reference, as the type in the schema says. The structs of numbers and text are right by
//! construction and are not checked again. Where a batch has columns of any other type, all columns
//! are checked, as in any import. A batch, however wide, is at most three allocations. arrow-rs's
//! own way to C structs is not used: it goes through `ArrayData`, allocates seven times a column,
//! and copies bitmaps that begin in the middle of a byte. No data is looked at, because arrow-rs
//! vouches for its data.
//!
//! **To arrow-rs**, the conversion makes `ArrayData` and `Buffer`s that share ownership of the
//! array. arrow-rs has an object for each array and each buffer, so this allocates about seven
//! times a column. The C importer of arrow-rs is not used, because it does not look at the data,
//! and arrays of arrow-rs rely on valid data. `ToArrow` checks all data first, at the cost of
//! [`Array::validate`](arrow_device::Array::validate): a pass over offsets, keys, views and text,
//! and nothing for numbers. Text and views with nulls take a second pass, because arrow-rs also
//! reads the elements that are null. For data that is known to be valid, `ToArrowUnchecked` leaves
//! the checks out.
//!
//! Four things are copied, and nothing else:
//!
//! * from arrow-rs, a validity bitmap that begins at another bit than the data, where the elements
//!   before the first one cannot make up for it: that of an array whose bitmap was put together
//!   with data from elsewhere, and that of a sliced struct or fixed-size list;
//! * from arrow-rs, the sizes of the data buffers of views, because arrow-rs has no array of them
//!   in memory;
//! * to arrow-rs, a buffer that is not aligned for its type. Arrow recommends alignment and does
//!   not require it, and arrow-rs requires it. Decimals of 128 and 256 bits need 16 bytes;
//! * all buffers that are empty, which arrow-rs replaces by its own.
//!
//! A batch taken from arrow-rs is one tree with one owner: a column that is picked out of the batch
//! keeps the memory of all columns. To keep only one column's memory, convert that column alone.
//!
//! # What does not fit
//!
//! A value that the other side has no place for is not lost silently, but refused as
//! [`Unsupported`](arrow_device::ErrorKind::Unsupported): metadata that is not UTF-8 or has a key
//! twice, metadata of the values of a dictionary, a scale past 8 bits, an ordered dictionary inside
//! a dictionary, arrays on a device (copy them with [`to_host`](arrow_device::Array::to_host)
//! first). What arrow-rs has and C cannot express is an
//! [`InvalidArgument`](arrow_device::ErrorKind::InvalidArgument): names with a NUL byte, empty time
//! zones.
//!
//! The following have no meaning and are left out: the name and nullability of a dictionary's
//! values, the name and flags of a batch's root, flags that nobody has defined, the order of
//! metadata (pairs come out of arrow-rs sorted by key), a bitmap without a null in it, a run-end
//! encoded array's values past the last run.

#![allow(clippy::duplicate_mod, reason = "the majors of arrow-rs share one source")]

#[cfg(any(feature = "arrow-58", feature = "arrow-59", feature = "arrow-60"))]
mod asked;
#[cfg(any(feature = "arrow-58", feature = "arrow-59", feature = "arrow-60"))]
mod block;

/// The most levels that a schema may have. Checked before a type is followed down.
#[cfg(any(feature = "arrow-58", feature = "arrow-59", feature = "arrow-60"))]
const MAX_DEPTH: usize = 64;

/// The most fields that a schema may have. Checked while a type is followed down.
#[cfg(any(feature = "arrow-58", feature = "arrow-59", feature = "arrow-60"))]
const MAX_FIELDS: usize = 1 << 18;

/// The most bytes of names, time zones and metadata that a schema may have. Checked while a type is
/// followed down.
#[cfg(any(feature = "arrow-58", feature = "arrow-59", feature = "arrow-60"))]
const MAX_TEXT: usize = 48 << 20;

#[cfg(feature = "arrow-58")]
pub mod v58;
#[cfg(feature = "arrow-59")]
pub mod v59;
#[cfg(feature = "arrow-60")]
pub mod v60;
