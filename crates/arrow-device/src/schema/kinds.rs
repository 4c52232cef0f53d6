//! [`Kinds`]: what the format strings of a schema say, each parsed once.
//!
//! A schema of a thousand columns has a few format strings. Each thread remembers kinds that it has
//! read, from one schema to the next:
//!
//! 1. The key of a format string is its first eight bytes. A hash of the key gives the one place
//!    where a kind with this key may be remembered.
//! 2. If the kind at this place has the key, it is the kind of the format string, because only
//!    kinds whose strings are whole in their keys are remembered at such places. Nearly all nodes
//!    end here, after one comparison of eight bytes.
//! 3. If the kind at this place has another key, the last kinds of this schema are searched, in
//!    case the place was taken by another kind. A kind that is not found is parsed, and takes the
//!    place. A kind whose string is longer than its key has no such place.
//! 4. Each schema that is read gets a number. If the number of the kind's last schema is another
//!    one, the kind is added to this schema, together with its rule.
//!
//! What must stay true: a kind at its place that was last used in an earlier schema is new in this
//! schema. That holds because an entry only ever changes to a kind of the schema that is being
//! read.

use std::ffi::{CStr, c_char};
use std::sync::Arc;

use super::check::{Check, Nullability};
use super::format::{self, FormatShape};
use super::kind::{NO_TEXT, NamedKind, NodeKind, Role, is_whole, key_of};
use super::rules::Rule;
use super::storage::Draft;
use super::{DataType, Field, Layout, Text};
use crate::once::OnceBox;
use crate::{Error, ErrorKind, Result};

/// The kinds that a thread remembers.
pub(super) struct Kinds {
    /// Kinds whose format string is whole in its key, each at the place of its key. The last entry
    /// is for the last kind that is not at such a place.
    known: [KnownKind; REMEMBERED + 1],
    /// The number of the schema that is being read.
    schema: u64,
}

/// A kind that a thread remembers.
#[derive(Clone, Copy)]
pub(super) struct KnownKind {
    named: NamedKind,
    rule: Rule,
    /// The last schema in which the kind was used.
    schema: u64,
    /// The check in that schema of a node with nothing below it.
    leaf: Check,
}

/// How many kinds of a schema are searched. Columns of one type usually follow each other, and most
/// schemas have fewer kinds.
const SEARCHED: usize = 16;

/// How many kinds are remembered: a power of two.
const REMEMBERED: usize = 1 << REMEMBERED_LOG;
const REMEMBERED_LOG: u32 = 6;

/// The number of the entry behind the places of keys.
const OTHER: usize = REMEMBERED;

impl Kinds {
    /// The kind of this format string, which is added to the schema if it is new there.
    ///
    /// # Safety
    /// `format` is NUL-terminated.
    #[inline(always)]
    pub(super) unsafe fn of(
        &mut self,
        format: *const c_char,
        draft: &mut Draft,
    ) -> Result<&KnownKind> {
        // SAFETY: `format` is NUL-terminated, as the caller promises.
        let key = unsafe { key_of(format) };
        let mut place = place_of(key);
        if self.known.get(place).is_none_or(|known| known.named.key != key) {
            // SAFETY: `format` is NUL-terminated, as the caller promises.
            place = unsafe { self.add(key, format, draft) }?;
        }
        let Some(known) = self.known.get_mut(place) else { unreachable!("each key has a place") };
        // The kind is new in this schema. If it had been used here before, only a kind of this
        // schema could have replaced it.
        if known.schema != self.schema {
            known.leaf.rule = draft.add_kind(&known.named, &known.rule)?;
            known.schema = self.schema;
        }
        Ok(known)
    }

    /// Finds or parses a kind that is not at the place of its key, and returns where it is now.
    ///
    /// # Safety
    /// `format` is NUL-terminated, and has this key.
    #[cold]
    #[inline(never)]
    unsafe fn add(&mut self, key: u64, format: *const c_char, draft: &mut Draft) -> Result<usize> {
        // SAFETY: `format` is NUL-terminated, and has this key, as the caller promises.
        let format = unsafe { CStr::from_ptr(format) };
        let bytes = format.to_bytes();
        let text = &draft.packed().text;
        let is_this = |named: &NamedKind| {
            named.key == key && (is_whole(key) || named.format.bytes(text) == bytes)
        };
        let (place, known) = match recent(draft, is_this) {
            // Another kind has its place.
            Some((number, named)) => {
                let leaf = Check { rule: number, ..named.kind.leaf() };
                (OTHER, KnownKind { named, schema: self.schema, leaf, ..KnownKind::NOTHING })
            }
            None => {
                let (kind, rule) = NodeKind::read(bytes)?;
                let (place, format) = if is_whole(key) {
                    (place_of(key), NO_TEXT)
                } else {
                    (OTHER, draft.add_text(format)?)
                };
                let (named, leaf) = (NamedKind { key, kind, format }, kind.leaf());
                (place, KnownKind { named, rule, leaf, ..KnownKind::NOTHING })
            }
        };
        if let Some(at) = self.known.get_mut(place) {
            *at = known;
        }
        Ok(place)
    }

    /// Begins the next schema.
    pub(super) fn begin(&mut self) {
        self.schema += 1;
    }
}

impl Default for Kinds {
    fn default() -> Self {
        Self { known: [KnownKind::NOTHING; REMEMBERED + 1], schema: 0 }
    }
}

impl KnownKind {
    const NOTHING: Self = Self {
        named: NamedKind {
            // No format string has this key: a key has only zeros behind its first zero byte.
            key: u64::MAX << 8,
            kind: NodeKind { role: Role::Plain, nulls: Nullability::None, children: None },
            format: NO_TEXT,
        },
        rule: Rule::NONE,
        schema: 0,
        leaf: Check::leaf(Nullability::None),
    };

    pub(super) fn kind(&self) -> &NodeKind {
        &self.named.kind
    }

    /// The check of a node of this kind with nothing below it. Its `is_leaf` says whether there can
    /// be such a node.
    pub(super) fn leaf(&self) -> &Check {
        &self.leaf
    }
}

/// Finds a kind among those that were added to the schema last, with its number.
fn recent(draft: &Draft, is_this: impl Fn(&NamedKind) -> bool) -> Option<(u32, NamedKind)> {
    let recent = draft.packed().kinds.iter().enumerate().rev().take(SEARCHED);
    let found = { recent }.find(|(_, named)| is_this(named));
    found.map(|(number, named)| (number as u32, *named))
}

/// The place at which a kind with this key is remembered.
fn place_of(key: u64) -> usize {
    // A multiplicative hash. The factor can be any odd number with mixed bits.
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - REMEMBERED_LOG)) as usize
}

impl NodeKind {
    /// The check of a node with nothing below it, if there can be such a node. Its rule is set
    /// later.
    fn leaf(&self) -> Check {
        Check { is_leaf: self.children.unwrap_or(0) == 0, ..Check::leaf(self.nulls) }
    }

    /// Parses a format string: its kind, and the rule of arrays of such a type.
    fn read(format: &[u8]) -> Result<(Self, Rule)> {
        if let Err(error) = std::str::from_utf8(format) {
            return Err(not_utf8(error.valid_up_to()));
        }
        let shape = format::read(format, &mut |_| Text::EMPTY)?;
        let children = shape.children().map(|children| children as u32);
        let role = match &shape {
            FormatShape::Leaf(DataType::Int16 | DataType::Int32 | DataType::Int64) => {
                Role::IndexOrRunEnds
            }
            FormatShape::Leaf(leaf) if leaf.is_integer() => Role::Index,
            FormatShape::Struct => Role::Struct,
            FormatShape::Map => Role::Map,
            FormatShape::RunEndEncoded => Role::RunEndEncoded,
            _ => Role::Plain,
        };
        let data_type = stand_in(shape);
        let layout = Layout::of(&data_type);
        let nulls = Nullability::of(&data_type, &layout);
        Ok((Self { role, nulls, children }, Rule::new(&data_type, &layout)))
    }
}

/// A type of this shape, with stand-ins for its children.
fn stand_in(shape: FormatShape) -> DataType {
    static CHILD: OnceBox<Arc<Field>> = OnceBox::new();
    let field = || Arc::new(Field::new(Text::EMPTY, DataType::Null, true));
    let child = || CHILD.get_or_make(field).clone();
    match shape {
        FormatShape::Leaf(leaf) => leaf,
        FormatShape::List(list) => list(child()),
        FormatShape::FixedSizeList(size) => DataType::FixedSizeList(child(), size),
        FormatShape::Struct => DataType::Struct(Arc::default()),
        FormatShape::Map => DataType::Map { entries: child(), keys_sorted: false },
        FormatShape::Union(mode, _) => {
            DataType::Union { mode, type_ids: Arc::default(), fields: Arc::default() }
        }
        FormatShape::RunEndEncoded => {
            DataType::RunEndEncoded { run_ends: child(), values: child() }
        }
    }
}

#[cold]
pub(super) fn not_utf8(at: usize) -> Error {
    Error::new(ErrorKind::Malformed, format!("a text is not UTF-8 from byte {at} on"))
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::super::examples::examples;
    use super::super::storage::PackedRoom;
    use super::*;

    /// The number of this format string in the schema, and its kind.
    fn of(kinds: &mut Kinds, format: &[u8], draft: &mut Draft) -> Result<(u32, NodeKind)> {
        let format = CString::new(format).unwrap();
        // SAFETY: it ends with a NUL.
        let known = unsafe { kinds.of(format.as_ptr(), draft) }?;
        let (kind, leaf) = (*known.kind(), *known.leaf());
        assert_eq!((leaf.nulls, leaf.is_leaf), (kind.nulls, kind.children.unwrap_or(0) == 0));
        assert_eq!(draft.packed().kinds[leaf.rule as usize].kind, kind);
        Ok((leaf.rule, kind))
    }

    /// Begins a schema.
    fn begin(kinds: &mut Kinds) -> Draft {
        kinds.begin();
        Draft::new(PackedRoom::default()).unwrap()
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
            let mut draft = begin(&mut kinds);
            for format in formats.iter().chain(formats.iter().rev()) {
                let (number, kind) = of(&mut kinds, format.as_bytes(), &mut draft).unwrap();
                let (expected, rule) = NodeKind::read(format.as_bytes()).unwrap();
                let packed = draft.packed();
                assert_eq!((packed.rules[number as usize], kind), (rule, expected), "{format}");
                let text = std::str::from_utf8(&packed.text).unwrap();
                let named = &packed.kinds[number as usize];
                named.with_format(text, |bytes, _| assert_eq!(bytes, format.as_bytes()));
            }
        }
    }

    #[test]
    fn like_formats_are_one_kind_of_a_schema() {
        let mut kinds = Kinds::default();
        let mut numbers = |formats: &[&str]| {
            let mut draft = begin(&mut kinds);
            let number = |format: &&str| of(&mut kinds, format.as_bytes(), &mut draft).unwrap().0;
            let numbers: Vec<u32> = formats.iter().map(number).collect();
            (numbers, draft.packed().text.to_vec())
        };
        let (paris, zone) = ("tsu:Europe/Paris", b"tsu:Europe/Paris\0".to_vec());
        let rome = "tsu:Europe/Rome";
        assert_eq!(numbers(&["l", "u", "l", paris, "u", paris]).0, [0, 1, 0, 2, 1, 2]);
        assert_eq!(numbers(&["u", paris, "l", paris]), (vec![0, 1, 2, 1], zone));
        assert_eq!(numbers(&[paris, rome, paris]).0, [0, 1, 0], "the same eight bytes");
        let place =
            |format: &str| place_of(u64::from_le_bytes(*format.as_bytes().first_chunk().unwrap()));
        let beside = (10..9999).map(|size| format!("w:{size:0<6}"));
        let beside = beside
            .map(|format| format!("{format}\0\0"))
            .find(|format| place(format) == place("l\0\0\0\0\0\0\0"));
        let beside = beside.unwrap();
        let beside = beside.trim_end_matches('\0');
        assert_eq!(numbers(&["l", beside, "l", "u", "l", beside]).0, [0, 1, 0, 2, 0, 1]);
    }

    #[test]
    fn what_is_no_format_is_refused_each_time() {
        let mut kinds = Kinds::default();
        for wrong in [&b""[..], b"x", b"ll", b"\xff\xff\xff\xff\xff\xff\xff\xff", b"tsu:Here\xff"] {
            for _ in 0..2 {
                let mut draft = begin(&mut kinds);
                let error = of(&mut kinds, wrong, &mut draft).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Malformed, "{wrong:?}");
                assert!(draft.packed().kinds.is_empty() && draft.packed().text.is_empty());
            }
        }
    }
}
