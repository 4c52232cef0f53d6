//! Conversion between `arrow-device` and arrow-rs, without copying.
//!
//! arrow-rs computes on the host; `arrow-device` carries arrays between runtimes and devices. Here
//! the one's arrays, record batches, readers and types become the other's and stay where they are
//! in memory.
//!
//! arrow-rs has a new major each quarter, and to the compiler the types of two majors have nothing
//! in common. So there is a module for each of the last three, `v58`, `v59` and `v60`, switched on
//! by a feature of the same name: `arrow-58`, `arrow-59`, `arrow-60`. None is on by default,
//! because only the user knows which one the rest of the program uses. All of them can be on at
//! once, and then an array goes from one major to another through this crate.
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
//! # How it works, and what it costs
//!
//! **From arrow-rs**, through one block of C structs, which is imported. Our schema leads the walk:
//! each array is looked at as the one that its type says, without a share of it. Numbers and text
//! of a batch are then right by the way in which they were written, and are not checked again;
//! where anything else is among the columns all are, as in any import. A batch, however wide, is
//! three allocations. arrow-rs's own way to C structs is not used: it goes through `ArrayData`,
//! allocates seven times a column, and copies bitmaps that begin in the middle of a byte. No data
//! is looked at, because arrow-rs vouches for it.
//!
//! **To arrow-rs**, through `ArrayData` and `Buffer`s that hold a share of our array. arrow-rs has
//! an object for each array and each buffer, so this allocates about seven times a column. Its C
//! importer is not used: it does not look at the data, and its arrays rely on that. Here `ToArrow`
//! checks all of it first, at the cost of [`Array::validate`](arrow_device::Array::validate): a
//! pass over offsets, keys, views and text, nothing for numbers; and for text and views with nulls
//! a second pass, because arrow-rs reads them where they are null, too. Whoever knows that the data
//! is valid says so with `ToArrowUnchecked`.
//!
//! Four things are copied, and nothing else:
//!
//! * from arrow-rs, a validity bitmap that begins at another bit than the data and cannot be told
//!   otherwise: one that was put together with data from elsewhere, and that of a struct or a
//!   fixed-size list that was sliced;
//! * from arrow-rs, the sizes of the data buffers of views, which it does not keep in memory;
//! * to arrow-rs, a buffer that is not aligned for its type. Arrow recommends alignment and does
//!   not ask for it; arrow-rs cannot do without. Decimals of 128 and 256 bits need 16 bytes;
//! * all buffers that are empty: arrow-rs brings its own.
//!
//! A batch taken from arrow-rs is one tree with one owner: a column that is picked out of it keeps
//! all of it. Convert the column alone to keep no more than that.
//!
//! # What does not fit
//!
//! What the other side has no place for is an error,
//! [`Unsupported`](arrow_device::ErrorKind::Unsupported), and is not lost: metadata that is not
//! UTF-8 or has a key twice, metadata of the values of a dictionary, a scale past 8 bits, an
//! ordered dictionary inside a dictionary, arrays on a device (copy them with
//! [`to_host`](arrow_device::Array::to_host) first). What arrow-rs has and C cannot say is an
//! [`InvalidArgument`](arrow_device::ErrorKind::InvalidArgument): names with a NUL byte, empty time
//! zones.
//!
//! These are left out, as having no meaning: the name and nullability of a dictionary's values, the
//! name and flags of a batch's root, flags that nobody has defined, the order of metadata (pairs
//! come out of arrow-rs sorted by key), a bitmap without a null in it, a run-end encoded array's
//! values past the last run.

#![allow(clippy::duplicate_mod, reason = "the majors of arrow-rs share one source")]

#[cfg(any(feature = "arrow-58", feature = "arrow-59", feature = "arrow-60"))]
mod block;

/// The most levels that a schema has, asked before a type is followed down.
#[cfg(any(feature = "arrow-58", feature = "arrow-59", feature = "arrow-60"))]
const MAX_DEPTH: usize = 64;

/// The most fields that a schema has, asked while a type is followed down.
#[cfg(any(feature = "arrow-58", feature = "arrow-59", feature = "arrow-60"))]
const MAX_FIELDS: usize = 1 << 18;

#[cfg(feature = "arrow-58")]
pub mod v58;
#[cfg(feature = "arrow-59")]
pub mod v59;
#[cfg(feature = "arrow-60")]
pub mod v60;
