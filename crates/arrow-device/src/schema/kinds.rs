//! [`Kinds`]: what the format strings of a schema say, each read once.
//!
//! A schema of a thousand columns has a few formats. The first node of a kind has its format parsed, and those after it are told
//! by comparing eight bytes.

use std::ffi::{CStr, c_char};
use std::sync::{Arc, LazyLock};

use super::check::{Nulls, Rule};
use super::format::{self, Shape};
use super::text::TextSpan;
use super::{DataType, Field, Layout, Text};
use crate::{Error, ErrorKind, Result};

/// What a format says of a node, whatever lies below it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Kind {
    pub(super) nulls: Nulls,
    pub(super) role: Role,
    /// How many children there must be; `None` where any number will do.
    pub(super) children: Option<u32>,
}

/// What a node of a kind can be for those beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Nothing in particular.
    Plain,
    /// The indices of a dictionary.
    Index,
    /// The same, or the run ends of a run-end encoded node.
    IndexOrRunEnds,
    /// The entries of a map, if it has two children.
    Struct,
    /// A parent of entries.
    Map,
    /// A parent of run ends and values.
    RunEndEncoded,
}

/// The kinds of one schema, by number. That is also the number of their rule.
#[derive(Default)]
pub(super) struct Kinds {
    keys: Vec<u64>,
    kinds: Vec<Kind>,
    pub(super) rules: Vec<Rule>,
    /// Where in the text the format string is.
    pub(super) formats: Vec<TextSpan>,
}

/// Like columns stand together, and there are few kinds; a schema with many is not searched for long.
const SEARCHED: usize = 16;

impl Kinds {
    /// The number of the kind of this format, which is added to the text if it is new.
    ///
    /// # Safety
    /// `format` is NUL-terminated.
    #[inline(always)]
    pub(super) unsafe fn number_of(
        &mut self,
        format: *const c_char,
        text: &mut Vec<u8>,
    ) -> Result<(u32, Kind)> {
        // SAFETY: as promised by the caller.
        let key = unsafe { key_of(format) };
        if is_whole(key) {
            // The newest of them that is the same.
            let recent = self.keys.iter().zip(&self.kinds).enumerate().rev().take(SEARCHED);
            if let Some((number, (_, kind))) = { recent }.find(|(_, (known, _))| **known == key) {
                return Ok((number as u32, *kind));
            }
        }
        // SAFETY: as promised by the caller.
        let format = unsafe { CStr::from_ptr(format) };
        self.add(key, format, text)
    }

    #[cold]
    fn add(&mut self, key: u64, format: &CStr, text: &mut Vec<u8>) -> Result<(u32, Kind)> {
        let bytes = format.to_bytes();
        let of_number = |number: usize| {
            let TextSpan { start, len } = *self.formats.get(number)?;
            text.get(start as usize..)?.get(..len as usize)
        };
        let is_long = !is_whole(key);
        let recent = (0..self.keys.len()).rev().take(if is_long { SEARCHED } else { 0 });
        let same = { recent }.find(|number| of_number(*number) == Some(bytes));
        if let Some((number, kind)) = same.and_then(|same| Some((same, self.kinds.get(same)?))) {
            return Ok((number as u32, *kind));
        }
        if let Err(error) = std::str::from_utf8(bytes) {
            return Err(not_utf8(error.valid_up_to()));
        }
        let (kind, rule) = Kind::read(bytes)?;
        let span = TextSpan { start: text.len() as u32, len: bytes.len() as u32 };
        text.extend_from_slice(format.to_bytes_with_nul());
        check_len(text)?;
        self.keys.push(key);
        self.kinds.push(kind);
        self.rules.push(rule);
        self.formats.push(span);
        Ok((self.keys.len() as u32 - 1, kind))
    }

    /// A kind by its number.
    pub(super) fn get(&self, number: u32) -> Option<&Kind> {
        self.kinds.get(number as usize)
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        let Self { keys, kinds, rules, formats } = self;
        keys.clear();
        kinds.clear();
        rules.clear();
        formats.clear();
    }
}

/// The first eight bytes of a format, with zeros for those behind its end.
///
/// # Safety
/// `format` is NUL-terminated.
#[inline(always)]
unsafe fn key_of(format: *const c_char) -> u64 {
    let mut key = 0;
    for index in 0..8 {
        // SAFETY: no byte before this one was the NUL, so this one belongs to the string.
        let byte = unsafe { format.wrapping_add(index).cast::<u8>().read() };
        if byte == 0 {
            break;
        }
        key |= u64::from(byte) << (8 * index);
    }
    key
}

/// Whether the whole format is in its key: whether a NUL is.
#[inline(always)]
fn is_whole(key: u64) -> bool {
    key >> 56 == 0
}

impl Kind {
    /// What the format says, and the rule of arrays of such a type.
    fn read(format: &[u8]) -> Result<(Self, Rule)> {
        let shape = format::read(format, &mut |_| Text::EMPTY)?;
        let children = shape.children().map(|children| children as u32);
        let role = match &shape {
            Shape::Leaf(DataType::Int16 | DataType::Int32 | DataType::Int64) => {
                Role::IndexOrRunEnds
            }
            Shape::Leaf(leaf) if leaf.is_integer() => Role::Index,
            Shape::Struct => Role::Struct,
            Shape::Map => Role::Map,
            Shape::RunEndEncoded => Role::RunEndEncoded,
            _ => Role::Plain,
        };
        let data_type = stand_in(shape);
        let layout = Layout::of(&data_type);
        let nulls = Nulls::of(&data_type, &layout);
        Ok((Self { nulls, role, children }, Rule::new(&data_type, &layout)))
    }
}

/// A type of this shape, whose children are not the real ones.
fn stand_in(shape: Shape) -> DataType {
    static CHILD: LazyLock<Arc<Field>> =
        LazyLock::new(|| Arc::new(Field::new(Text::EMPTY, DataType::Null, true)));
    let child = || Arc::clone(&CHILD);
    match shape {
        Shape::Leaf(leaf) => leaf,
        Shape::List(list) => list(child()),
        Shape::FixedSizeList(size) => DataType::FixedSizeList(child(), size),
        Shape::Struct => DataType::Struct(Arc::default()),
        Shape::Map => DataType::Map { entries: child(), keys_sorted: false },
        Shape::Union(mode, _) => {
            DataType::Union { mode, type_ids: Arc::default(), fields: Arc::default() }
        }
        Shape::RunEndEncoded => DataType::RunEndEncoded { run_ends: child(), values: child() },
    }
}

/// The longest length has a meaning of its own, see [`Text`].
#[inline(always)]
pub(super) fn check_len(text: &[u8]) -> Result<()> {
    if text.len() < u32::MAX as usize { Ok(()) } else { Err(too_long()) }
}

#[cold]
fn too_long() -> Error {
    let message = "the names of a schema together are 4 GiB or longer";
    Error::new(ErrorKind::LimitExceeded, message)
}

#[cold]
pub(super) fn not_utf8(at: usize) -> Error {
    Error::new(ErrorKind::Malformed, format!("a text is not UTF-8 from byte {at} on"))
}
