//! A consumer of C structs: reads every member, moves structs byte by byte, and releases them.

#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_safety_doc,
    clippy::not_unsafe_ptr_arg_deref,
    reason = "they are as programs in C are, and trust what they are shown: see the page of the crate"
)]

use std::ffi::CStr;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, BufferKind, DataType, Layout};

use crate::{Verdict, require};

/// The contents of an array's structs, with buffers as the numbers that their pointers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The length.
    pub length: i64,
    /// The null count.
    pub null_count: i64,
    /// The offset.
    pub offset: i64,
    /// The buffer pointers.
    pub buffers: Vec<usize>,
    /// The children.
    pub children: Vec<Seen>,
    /// The values of its dictionary.
    pub dictionary: Option<Box<Seen>>,
}

/// The contents of a schema's structs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenSchema {
    /// The format string.
    pub format: Vec<u8>,
    /// The name. A null pointer counts as an empty name.
    pub name: Vec<u8>,
    /// The metadata. A null pointer counts as no pairs.
    pub metadata: Vec<u8>,
    /// The flags.
    pub flags: i64,
    /// The children.
    pub children: Vec<SeenSchema>,
    /// The type of the values of a dictionary.
    pub dictionary: Option<Box<SeenSchema>>,
}

impl Seen {
    /// Reads a struct that is not released, and everything below it except the bytes of buffers.
    pub fn of(array: &ArrowArray) -> Self {
        assert!(!array.is_released(), "a released array was to be read");
        let buffer = |index: i64| unsafe { *array.buffers.add(index as usize) }.expose_provenance();
        let child = |index: i64| Self::of(unsafe { &**array.children.add(index as usize) });
        Self {
            length: array.length,
            null_count: array.null_count,
            offset: array.offset,
            buffers: (0..array.n_buffers).map(buffer).collect(),
            children: (0..array.n_children).map(child).collect(),
            dictionary: unsafe { array.dictionary.as_ref() }
                .map(|values| Box::new(Self::of(values))),
        }
    }

    /// Sets the null counts that can be known without looking at buffers: an array without a bitmap
    /// has no nulls.
    pub fn with_known_nulls(mut self, schema: &SeenSchema) -> Self {
        let has_bitmap = !matches!(&*schema.format, [b'n', ..] | [b'+', b'r' | b'u', ..]);
        self.null_count = match &*schema.format {
            b"n" => self.length,
            _ if !has_bitmap || self.buffers.first() == Some(&0) => 0,
            _ => self.null_count,
        };
        let children = self.children.into_iter().zip(&schema.children);
        self.children = children.map(|(child, schema)| child.with_known_nulls(schema)).collect();
        self.dictionary = self
            .dictionary
            .zip(schema.dictionary.as_ref())
            .map(|(values, schema)| Box::new(values.with_known_nulls(schema)));
        self
    }

    /// Checks that a buffer is a null pointer only where its type gives the buffer no bytes, or
    /// where the buffer says which elements are null. A buffer of offsets has bytes also where
    /// there are no elements.
    pub fn require_buffers(&self, data_type: &DataType) -> Verdict {
        let elements = (self.offset + self.length) as u64;
        let layout = Layout::of(data_type);
        for (index, kind) in layout.buffers().iter().enumerate() {
            let needed = match kind {
                BufferKind::Validity => 0,
                _ => kind.byte_len(elements).unwrap_or(0),
            };
            require(needed == 0 || self.buffers[index] != 0, || {
                format!(
                    "buffer {index} of {data_type} is a null pointer, and has {needed} bytes for {} elements from {} on",
                    self.length, self.offset
                )
            })?;
        }
        for (child, field) in self.children.iter().zip(data_type.children()) {
            child.require_buffers(field.data_type())?;
        }
        match (&self.dictionary, data_type.dictionary_values()) {
            (Some(values), Some(field)) => values.require_buffers(field.data_type()),
            _ => Ok(()),
        }
    }

    /// Checks that these contents equal others, with buffers at the same addresses.
    pub fn require_same(&self, expected: &Self) -> Verdict {
        let numbers = |seen: &Self| (seen.length, seen.null_count, seen.offset);
        require(numbers(self) == numbers(expected), || {
            format!(
                "length, null count and offset are {:?} and not {:?}",
                numbers(self),
                numbers(expected)
            )
        })?;
        let (ours, theirs) = (&self.buffers, &expected.buffers);
        require(ours == theirs, || {
            format!("buffers moved: they are {ours:x?} and were {theirs:x?}")
        })?;
        require(self.children.len() == expected.children.len(), || {
            format!("{} children and not {}", self.children.len(), expected.children.len())
        })?;
        for (child, expected) in self.children.iter().zip(&expected.children) {
            child.require_same(expected)?;
        }
        match (&self.dictionary, &expected.dictionary) {
            (Some(values), Some(expected)) => values.require_same(expected),
            (None, None) => Ok(()),
            _ => Err("a dictionary is missing, or there is one too many".into()),
        }
    }
}

impl SeenSchema {
    /// Reads a struct that is not released, and everything below it.
    pub fn of(schema: &ArrowSchema) -> Self {
        assert!(!schema.is_released(), "a released schema was to be read");
        let text = |text: *const std::ffi::c_char| {
            if text.is_null() {
                vec![]
            } else {
                unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()
            }
        };
        let child = |index: i64| Self::of(unsafe { &**schema.children.add(index as usize) });
        Self {
            format: text(schema.format),
            name: text(schema.name),
            metadata: read_metadata(schema.metadata.cast()),
            flags: schema.flags,
            children: (0..schema.n_children).map(child).collect(),
            dictionary: unsafe { schema.dictionary.as_ref() }
                .map(|values| Box::new(Self::of(values))),
        }
    }
}

pub(crate) fn read_metadata(start: *const u8) -> Vec<u8> {
    if start.is_null() {
        return vec![];
    }
    let length_at = |at: usize| unsafe { start.add(at).cast::<i32>().read_unaligned() };
    let pairs = length_at(0);
    let len = (0..pairs * 2).fold(4, |at, _| at + 4 + length_at(at) as usize);
    if pairs == 0 { vec![] } else { unsafe { std::slice::from_raw_parts(start, len) }.to_vec() }
}

/// A struct with a release callback.
pub trait Releasable: Sized {
    /// A released struct.
    const EMPTY: Self;

    /// Returns the release callback, `None` if the struct is released.
    fn callback(&self) -> Option<unsafe extern "C" fn(*mut Self)>;
}

impl Releasable for ArrowArray {
    const EMPTY: Self = ArrowArray::empty();

    fn callback(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.release
    }
}

impl Releasable for ArrowSchema {
    const EMPTY: Self = ArrowSchema::empty();

    fn callback(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.release
    }
}

/// Exports an array, and checks that its structs have all buffers that have bytes: see
/// [`Seen::require_buffers`].
pub fn require_buffers_of(array: &Array) -> Verdict {
    let mut exported = ArrowDeviceArray::empty();
    array.export(&mut exported).map_err(|error| error.to_string())?;
    let verdict = Seen::of(&exported.array).require_buffers(array.data_type());
    release(exported.array)?;
    verdict
}

/// Moves a struct as the specification describes it: copies the bytes, then marks the source as
/// released.
pub fn move_out<T: Releasable>(source: *mut T) -> T {
    unsafe { source.replace(T::EMPTY) }
}

/// Copies the bytes of a struct. Only one of the two structs may be released.
pub fn copy_of<T: Releasable>(source: &T) -> T {
    unsafe { std::ptr::read(source) }
}

/// A struct of another producer that says what this struct says, and releases this struct when it
/// is released: what a library hands on that was given the struct.
pub fn handed_on(inner: ArrowArray) -> ArrowArray {
    unsafe extern "C" fn release(outer: *mut ArrowArray) {
        let inner = unsafe { Box::from_raw((*outer).private_data.cast::<ArrowArray>()) };
        // A release has nobody to complain to.
        let _ = self::release(*inner);
        unsafe { (*outer).release = None };
    }
    let outer = copy_of(&inner);
    let private_data = Box::into_raw(Box::new(inner)).cast();
    ArrowArray { release: Some(release), private_data, ..outer }
}

/// Releases a struct. It is a complaint if the struct is not marked as released then.
pub fn release<T: Releasable>(mut moved: T) -> Verdict {
    let release = moved.callback().ok_or("released already")?;
    unsafe { release(&raw mut moved) };
    require(moved.callback().is_none(), || "the release left the struct unreleased".into())
}

/// Moves all children out, and the dictionary last.
pub fn move_out_all(array: &ArrowArray) -> Vec<ArrowArray> {
    let children =
        (0..array.n_children as usize).map(|index| unsafe { *array.children.add(index) });
    let dictionary = (!array.dictionary.is_null()).then_some(array.dictionary);
    children.chain(dictionary).map(move_out).collect()
}

/// The order in which a consumer releases an array and what it moved out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Nothing is moved out.
    Whole,
    /// Children first, then the parent.
    ChildrenFirst,
    /// The parent first, then the children from the last to the first. Children of children are
    /// moved out of moved children.
    ParentFirst,
    /// Every other child is moved out and outlives the parent.
    Half,
}

impl Order {
    /// All orders.
    pub const ALL: [Self; 4] = [Self::Whole, Self::ChildrenFirst, Self::ParentFirst, Self::Half];
}

/// Releases an array in this order, and checks after each release that what is not released yet is
/// unchanged.
pub fn release_in_order(array: ArrowArray, order: Order) -> Verdict {
    let seen = Seen::of(&array);
    let below: Vec<Seen> =
        seen.children.iter().chain(seen.dictionary.as_deref()).cloned().collect();
    match order {
        Order::Whole => release(array),
        Order::ChildrenFirst => {
            move_out_all(&array).into_iter().try_for_each(release)?;
            release(array)
        }
        Order::ParentFirst => {
            let moved = move_out_all(&array);
            release(array)?;
            for (child, expected) in moved.into_iter().zip(&below).rev() {
                Seen::of(&child).require_same(expected)?;
                release_in_order(child, order)?;
            }
            Ok(())
        }
        Order::Half => {
            let mut moved = Vec::new();
            for (index, expected) in seen.children.iter().enumerate().step_by(2) {
                moved.push((move_out(unsafe { *array.children.add(index) }), expected));
            }
            release(array)?;
            for (child, expected) in moved {
                Seen::of(&child).require_same(expected)?;
                release(child)?;
            }
            Ok(())
        }
    }
}

/// Copies a base structure elsewhere, and overwrites the place where it was, which a move in Rust
/// does not do.
pub fn move_and_scribble(array: ArrowDeviceArray) -> ArrowDeviceArray {
    let (mut array, mut elsewhere) = (Box::new(array), Box::new(ArrowDeviceArray::empty()));
    let source = &raw mut *array;
    unsafe {
        std::ptr::copy(source, &raw mut *elsewhere, 1);
        source.cast::<u8>().write_bytes(0xaa, size_of::<ArrowDeviceArray>());
        // Dropping the boxes releases nothing, because the struct has no destructor.
    }
    *elsewhere
}
