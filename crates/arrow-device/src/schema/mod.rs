//! What a column is: its type, its name, its metadata, and how all three are written in an `ArrowSchema`.
//!
//! - [`Text`] and [`Metadata`] are the strings and the key-value pairs, kept as the bytes that C sees.
//! - [`DataType`] and [`Field`] are the types; `format` reads and writes their format strings.
//! - [`Layout`] says which buffers an array of a type has.
//!
//! Everything in these files works on bytes that were read already. No pointer of a C struct is followed here.

mod data_type;
mod display;
mod field;
mod format;
mod layout;
mod metadata;
mod questions;
mod text;

#[cfg(test)]
mod examples;
#[cfg(test)]
mod tests;

pub use data_type::{DataType, IntervalUnit, TimeUnit, UnionMode};
pub use field::{Extension, Field};
pub use layout::{BufferKind, Layout};
pub use metadata::{Metadata, MetadataPairs};
pub use text::Text;
