//! Checks of arrays, from cheap to thorough.
//!
//! | level | call | looks at | sees | does not see |
//! |---|---|---|---|---|
//! | structure | [`structure`], [`schema_structure`] | C structs, no type | negative or overflowing counts, missing tables, children that are null, released, misaligned or shared, trees without end, an event where there is none | whether any of it fits a type |
//! | layout | [`layout`], [`Array::validate_layout`] | C structs and the type | wrong numbers of buffers and children, buffers that are missing or known to be too short, children that do not cover their parent, missing dictionaries | what is in the buffers; how long another party's buffers really are |
//! | data | [`Array::validate`], [`Array::validate_on`] | the buffers too | everything below | how long another party's buffers really are; a pointer that leads nowhere |
//!
//! [`Array::import`] checks the layout of everything that is imported, so programs need not check
//! it again. The layout level is for looking at a struct without taking it, and for tests of
//! producers. The structure level is for a struct whose schema is not at hand. Only this level sees
//! shared children, because that takes a sort. The data level is for reading values of a producer
//! that is not trusted. It costs one pass over offsets, keys and text, and none over numbers.
//! [`Array::validate_on`] does this for memory that the host cannot read, and costs a copy of all
//! of it.
//!
//! # What the data level requires
//!
//! The data level requires what the Arrow columnar format demands, and no more. Elements are
//! counted from the beginning of the array, without its offset. A child is checked as an array of
//! its own: all of its elements are checked, even those that no element of the parent refers to.
//!
//! | type | rule |
//! |---|---|
//! | all with a bitmap | a null count that is known is that of the bitmap |
//! | text, bytes, lists, maps with offsets | the first offset is not negative, none is smaller than the one before, nulls included; the last is not past the bytes, where their number is known, or the child |
//! | text | each element that is not null is UTF-8. So is each alone: a character does not span two |
//! | list views | offset and size are not negative and stay within the child, nulls included |
//! | views, where not null | the length is not negative; up to 12 bytes are in the view and zeros fill it up; longer ones are within a data buffer, and begin as the prefix says |
//! | maps | entries and keys of an element that is not null are not null |
//! | dictionaries | keys that are not null point into the dictionary; the others may be anything |
//! | unions | type ids are known; dense offsets are within the child and do not decrease from one element of a child to the next |
//! | run-end encoding | run ends are not null, positive, strictly increasing, and the last covers offset and length |
//!
//! Three things are not checked:
//!
//! - A field that is not nullable and has nulls. The flag is a hint of the C interface, and the
//!   specification says that it "has no bearing on the array's physical layout".
//! - Decimals with more digits than their type says. They can be read safely, and comparing each
//!   value would make columns of numbers as expensive as text.
//! - Times past the end of the day, for the same reason.
//!
//! [`Array::import`]: crate::Array::import
//! [`Array::validate`]: crate::Array::validate
//! [`Array::validate_layout`]: crate::Array::validate_layout
//! [`Array::validate_on`]: crate::Array::validate_on

mod bitmap;
mod bytes;
mod data;
mod elements;
mod errors;
mod known;
mod layout;
mod lists;
mod references;
mod structure;

pub use layout::layout;
pub use structure::{schema_structure, structure};

/// The size of a tree of structs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The number of structs, dictionaries included.
    pub nodes: usize,
    /// The number of all buffers, null ones included.
    pub buffers: usize,
    /// The number of levels below the root.
    pub depth: usize,
}
