//! What a column is: its type, its name, its metadata, and how all three are written in an
//! `ArrowSchema`.
//!
//! - [`Text`] and [`Metadata`] are the strings and the key-value pairs, kept as the bytes that C
//!   sees.
//! - [`DataType`] and [`Field`] are the types; `format` reads and writes their format strings.
//! - [`Layout`] says which buffers an array of a type has.
//! - [`Schema`] is a type as a flat table, by which arrays are checked and walked. Only schemas are
//!   read from C structs (`import`, with `kinds` of format strings) and written to them (`export`).
//!   What an import reads goes into `storage`, and `fields` are made of it later. `rules` says what
//!   the C struct of a node must keep to, and `check` has that as numbers for each node.

mod check;
mod compare;
mod data_type;
mod display;
mod export;
mod field;
mod fields;
mod format;
mod import;
mod index_type;
mod kind;
mod kinds;
mod layout;
mod metadata;
mod node;
mod questions;
mod rules;
mod storage;
mod table;
mod text;

#[cfg(test)]
mod examples;
#[cfg(test)]
mod tests;

pub use data_type::{DataType, IntervalUnit, TimeUnit, UnionMode};
pub use field::{Extension, Field};
pub use index_type::IndexType;
pub use layout::{BufferKind, Layout};
pub use metadata::{Metadata, MetadataPairs};
pub use table::Schema;
pub use text::Text;

pub(crate) use check::{Check, Nullability};
#[cfg(feature = "serde")]
pub(crate) use metadata::{MAX_ENCODED_BYTES, MAX_PAIRS};
pub(crate) use node::SchemaNode;
pub(crate) use rules::{MAX_BUFFERS, NO_BUFFER, Rule, can_be_absent};
#[cfg(feature = "serde")]
pub(crate) use table::MAX_TEXT;
pub(crate) use table::{MAX_DEPTH, MAX_NODES};
