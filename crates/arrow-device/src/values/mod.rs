//! Typed access: arrays from Rust values, and Rust values from arrays.
//!
//! Made for tests and small programs that have no other Arrow library at hand. The module copies,
//! works on the host only, and trusts nothing that a buffer holds: an offset, key, type id or run
//! end that leads outside is an [`InvalidData`](crate::ErrorKind::InvalidData) error that names the
//! place.
//!
//! - Building: [`Array::from_values`](crate::Array::from_values) and its siblings, in `build`,
//!   `strings` and `nested`.
//! - Reading: [`HostArray::values`](crate::HostArray::values) and its siblings, in `rows`, `bytes`,
//!   `lists` and `follow`.
//! - [`Value`]: one element of any type, which can be printed for people.
//! - Comparing and showing: `equals`, `describe`, `table`.

mod blocks;
mod build;
mod bytes;
mod calendar;
mod concat;
mod decimal;
mod describe;
mod equals;
mod follow;
mod lists;
mod native;
mod nested;
mod pieces;
mod rows;
mod show;
mod strings;
mod table;
mod value;
mod value_at;

#[cfg(test)]
mod tests;

pub use bytes::{Bytes, Texts};
pub use decimal::Decimal;
pub use lists::Lists;
pub use native::Native;
pub use rows::{Bools, IntoValues, Values, ValuesIter};
pub use value::Value;
