//! [`Kinds`]: what the format strings of a schema say, each read once.
//!
//! A schema of a thousand columns has a few formats. The first node of a kind has its format parsed, and those after it are told
//! by comparing eight bytes.

use std::ffi::{CStr, c_char};
use std::sync::{Arc, LazyLock};

use super::check::{Check, Nulls, Rule};
use super::format::{self, Shape};
use super::text::TextSpan;
use super::{DataType, Field, Layout, Text};
use crate::{Error, ErrorKind, Result};

/// What a format says of a node, whatever lies below it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) role: Role,
    /// What arrays of a node of this kind have to keep to if there is nothing below it.
    pub(super) leaf: Check,
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
pub(super) struct Kinds {
    pub(super) named: Vec<Named>,
    pub(super) rules: Vec<Rule>,
    /// Kinds of this and earlier schemas, each at the place that its key leads to.
    remembered: [Remembered; REMEMBERED],
    /// Which schema this is.
    schema: u64,
}

/// A kind with its format.
#[derive(Clone, Copy)]
pub(super) struct Named {
    key: u64,
    kind: Kind,
    /// Where in the text the format string is, if it is longer than its key.
    format: TextSpan,
}

impl Named {
    /// Gives the format, and where in the text it is, if it is there, to a reader.
    pub(super) fn with_format<T>(
        &self,
        text: &str,
        read: impl FnOnce(&[u8], Option<TextSpan>) -> T,
    ) -> T {
        if is_whole(self.key) {
            let (bytes, len) = whole(self.key);
            read(bytes.get(..len).unwrap_or_default(), None)
        } else {
            read(self.format.bytes(text.as_bytes()), Some(self.format))
        }
    }
}

pub(super) const NO_TEXT: TextSpan = TextSpan { start: 0, len: 0 };

/// A kind whose whole format is in its key.
#[derive(Clone, Copy)]
struct Remembered {
    key: u64,
    kind: Kind,
    rule: Rule,
    /// The last schema that had it. Its number there is that of its rule.
    schema: u64,
}

/// Like columns stand together, and there are few kinds; a schema with many is not searched for long.
const SEARCHED: usize = 16;

/// How many kinds are remembered: a power of two.
const REMEMBERED: usize = 1 << REMEMBERED_LOG;
const REMEMBERED_LOG: u32 = 6;

impl Kinds {
    /// The kind of this format, which is added to the text if it is new: the check of a leaf, and whether there can be one.
    ///
    /// # Safety
    /// `format` is NUL-terminated.
    #[inline(always)]
    pub(super) unsafe fn of(
        &mut self,
        format: *const c_char,
        text: &mut Vec<u8>,
    ) -> Result<(Check, bool)> {
        // SAFETY: as promised by the caller.
        let key = unsafe { key_of(format) };
        let is_this = |known: &&Remembered| known.key == key && known.schema == self.schema;
        if let Some(known) = self.remembered.get(place_of(key)).filter(is_this) {
            return Ok((known.kind.leaf, known.kind.can_be_leaf()));
        }
        // SAFETY: as promised by the caller.
        let kind = unsafe { self.add(key, format, text) }?;
        Ok((kind.leaf, kind.can_be_leaf()))
    }

    /// # Safety
    /// `format` is NUL-terminated, and has this key.
    #[inline(never)]
    unsafe fn add(&mut self, key: u64, format: *const c_char, text: &mut Vec<u8>) -> Result<Kind> {
        if !is_whole(key) {
            // SAFETY: as promised by the caller.
            return self.add_long(key, unsafe { CStr::from_ptr(format) }, text);
        }
        let place = place_of(key);
        let known = self.remembered.get(place).filter(|known| known.key == key);
        let (kind, rule) = match known.map(|known| (known.kind, known.rule)) {
            // Of an earlier schema: there is none of this one, since that would have its place.
            Some(known) => known,
            None => {
                // Another one may have its place.
                if let Some(kind) = self.recent(|named| named.key == key) {
                    return Ok(kind);
                }
                let (bytes, len) = whole(key);
                Kind::read(bytes.get(..len).unwrap_or_default())?
            }
        };
        let kind = self.push(key, kind, rule, NO_TEXT);
        if let Some(place) = self.remembered.get_mut(place) {
            *place = Remembered { key, kind, rule, schema: self.schema };
        }
        Ok(kind)
    }

    /// A kind whose format is longer than its key, and so a part of the text.
    #[inline(never)]
    fn add_long(&mut self, key: u64, format: &CStr, text: &mut Vec<u8>) -> Result<Kind> {
        let bytes = format.to_bytes();
        if let Some(kind) =
            self.recent(|named| named.key == key && named.format.bytes(text) == bytes)
        {
            return Ok(kind);
        }
        let (kind, rule) = Kind::read(bytes)?;
        let span = TextSpan { start: text.len() as u32, len: bytes.len() as u32 };
        text.extend_from_slice(format.to_bytes_with_nul());
        check_len(text)?;
        Ok(self.push(key, kind, rule, span))
    }

    fn recent(&self, is_this: impl Fn(&Named) -> bool) -> Option<Kind> {
        let recent = self.named.iter().rev().take(SEARCHED);
        { recent }.find(|named| is_this(named)).map(|named| named.kind)
    }

    fn push(&mut self, key: u64, mut kind: Kind, rule: Rule, format: TextSpan) -> Kind {
        kind.leaf.rule = self.named.len() as u32;
        self.named.push(Named { key, kind, format });
        self.rules.push(rule);
        kind
    }

    /// A kind by its number.
    pub(super) fn get(&self, number: u32) -> Option<&Kind> {
        self.named.get(number as usize).map(|named| &named.kind)
    }

    /// Begins the next schema.
    pub(super) fn clear(&mut self) {
        self.named.clear();
        self.rules.clear();
        self.schema += 1;
    }
}

impl Default for Kinds {
    fn default() -> Self {
        // A key that no whole format has.
        let nothing = Remembered {
            key: u64::MAX,
            kind: Kind { role: Role::Plain, leaf: Check::leaf(Nulls::None), children: None },
            rule: Rule::NONE,
            schema: 0,
        };
        Self { named: Vec::new(), rules: Vec::new(), remembered: [nothing; REMEMBERED], schema: 1 }
    }
}

/// Where a kind with this key is remembered.
#[inline(always)]
fn place_of(key: u64) -> usize {
    // Any odd number whose bits are mixed spreads them.
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - REMEMBERED_LOG)) as usize
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

/// The bytes of a format that is whole in its key, and how many of them it has.
fn whole(key: u64) -> ([u8; 8], usize) {
    (key.to_le_bytes(), (u64::BITS - key.leading_zeros()).div_ceil(8) as usize)
}

/// Whether the whole format is in its key: whether a NUL is.
#[inline(always)]
fn is_whole(key: u64) -> bool {
    key >> 56 == 0
}

impl Kind {
    #[inline(always)]
    fn can_be_leaf(&self) -> bool {
        self.children.unwrap_or(0) == 0
    }

    /// What the format says, and the rule of arrays of such a type.
    fn read(format: &[u8]) -> Result<(Self, Rule)> {
        if let Err(error) = std::str::from_utf8(format) {
            return Err(not_utf8(error.valid_up_to()));
        }
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
        let leaf = Check::leaf(Nulls::of(&data_type, &layout));
        Ok((Self { role, leaf, children }, Rule::new(&data_type, &layout)))
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

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::super::examples::examples;
    use super::*;

    fn of(kinds: &mut Kinds, format: &[u8], text: &mut Vec<u8>) -> Result<(u32, Kind)> {
        let format = CString::new(format).unwrap();
        // SAFETY: it ends with a NUL.
        let (leaf, can_be_leaf) = unsafe { kinds.of(format.as_ptr(), text) }?;
        let kind = *kinds.get(leaf.rule).unwrap();
        assert_eq!((leaf.nulls, can_be_leaf), (kind.leaf.nulls, kind.can_be_leaf()));
        Ok((leaf.rule, kind))
    }

    #[test]
    fn a_format_says_the_same_whatever_was_read_before() {
        // More than are searched, and more than are remembered.
        let mut formats: Vec<String> =
            examples().iter().map(|example| example.format.to_owned()).collect();
        formats.extend((1..=38).map(|precision| format!("d:{precision},2")));
        formats.extend((0..50).map(|size| format!("w:{size}")));
        formats.extend((0..20).map(|zone| format!("tsu:Somewhere/{zone}")));
        let mut kinds = Kinds::default();
        for _ in 0..3 {
            let mut text = Vec::new();
            for format in formats.iter().chain(formats.iter().rev()) {
                let (number, kind) = of(&mut kinds, format.as_bytes(), &mut text).unwrap();
                let (expected, rule) = Kind::read(format.as_bytes()).unwrap();
                assert_eq!(kinds.rules[number as usize], rule, "{format}");
                assert_eq!((kind.role, kind.children), (expected.role, expected.children));
                let text = std::str::from_utf8(&text).unwrap();
                let named = &kinds.named[number as usize];
                named.with_format(text, |bytes, _| assert_eq!(bytes, format.as_bytes()));
            }
            kinds.clear();
        }
    }

    #[test]
    fn like_formats_are_one_kind_of_a_schema() {
        let mut kinds = Kinds::default();
        let mut numbers = |formats: &[&str]| {
            let mut text = Vec::new();
            let number = |format: &&str| of(&mut kinds, format.as_bytes(), &mut text).unwrap().0;
            let numbers: Vec<u32> = formats.iter().map(number).collect();
            kinds.clear();
            (numbers, text)
        };
        let (paris, zone) = ("tsu:Europe/Paris", b"tsu:Europe/Paris\0".to_vec());
        let rome = "tsu:Europe/Rome";
        assert_eq!(numbers(&["l", "u", "l", paris, "u", paris]).0, [0, 1, 0, 2, 1, 2]);
        assert_eq!(numbers(&["u", paris, "l", paris]), (vec![0, 1, 2, 1], zone));
        assert_eq!(numbers(&[paris, rome, paris]).0, [0, 1, 0], "the same eight bytes");
    }

    #[test]
    fn what_is_no_format_is_refused_each_time() {
        let mut kinds = Kinds::default();
        for wrong in [&b""[..], b"x", b"ll", b"\xff\xff\xff\xff\xff\xff\xff\xff", b"tsu:Here\xff"] {
            for _ in 0..2 {
                let error = of(&mut kinds, wrong, &mut Vec::new()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Malformed, "{wrong:?}");
            }
        }
        assert!(kinds.named.is_empty());
    }
}
