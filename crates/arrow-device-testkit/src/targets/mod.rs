//! Fuzz targets: functions that take any bytes and panic where a promise is broken.
//!
//! The folder `fuzz` runs them under libFuzzer. A test runs the corpus through the same functions,
//! so that what was found once stays found. The bytes are [`Choices`](crate::generate::Choices), so
//! every string of them means something.
//!
//! | target | from bytes to | promise |
//! |---|---|---|
//! | [`formats`] | a format string, children, flags | a type that is written and read again as the same, or a typed error |
//! | [`metadata`] | the encoding of key-value pairs | accepted exactly where a naive reading accepts it, and then the same pairs |
//! | [`schemas`] | a tree of `ArrowSchema` structs | one release; what is accepted can be exported, and is the same when read again |
//! | [`arrays`] | a schema and a tree of `ArrowArray` structs | one release; what is accepted can be exported, moved and released in any order, and read where memory is honest |
//! | [`data`] | an array with any bytes in its buffers | validation and reading end with a value or an error, and what validation accepts can be read whole |
//! | [`api`] | a sequence of calls of the safe interface, on devices that are watched | nothing is undefined, unordered, freed early or kept for ever |
//! | [`twins`] | the same, where one id is open in two runtimes | the same, and no memory is taken for that of the other runtime |
//! | [`tensors`] | a tensor of DLPack, in both forms | one deletion; what is accepted is read, copied, converted and exported, and stays the same |

#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "they are as programs in C are, and trust what they are shown: see the page of the crate"
)]

mod api;
mod arrays;
mod data;
mod links;
mod schemas;
mod strings;
mod tensors;

pub use api::{api, twins};
pub use arrays::arrays;
pub use data::data;
pub use schemas::schemas;
pub use strings::{formats, metadata};
pub use tensors::tensors;

/// A function that is fuzzed.
pub type Target = fn(&[u8]);

/// All targets by their names.
pub const TARGETS: [(&str, Target); 8] = [
    ("formats", formats),
    ("metadata", metadata),
    ("schemas", schemas),
    ("arrays", arrays),
    ("data", data),
    ("tensors", tensors),
    ("api", api),
    ("twins", twins),
];
