//! A named column: its type, whether it may hold nulls, and its metadata.

use std::hash::{Hash, Hasher};
use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::{DataType, Metadata, Text};
use crate::device::nesting;
use crate::{Error, ErrorKind, Result};

/// A type with a name, a nullability and metadata.
///
/// ```
/// use arrow_device::{DataType, Field};
///
/// let price =
///     Field::new("price", DataType::Decimal128 { precision: 10, scale: 2 }, false);
/// assert_eq!(price.to_string(), "price: decimal128(10, 2) not null");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Field {
    name: Text,
    data_type: DataType,
    metadata: Metadata,
    /// Nullability, and the bits that have no meaning here. Flags that follow from the type are not
    /// stored again.
    flags: i64,
}

/// The name and the parameters of an extension type, as the metadata has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// The name of the extension, such as `arrow.json`.
    pub name: &'a str,
    /// The parameters, in an encoding of the extension's own; empty where there are none.
    pub metadata: &'a [u8],
}

const EXTENSION_NAME: &str = "ARROW:extension:name";
const EXTENSION_METADATA: &str = "ARROW:extension:metadata";

impl Field {
    /// A field without metadata.
    pub fn new(name: impl Into<Text>, data_type: DataType, nullable: bool) -> Self {
        let flags = if nullable { NULLABLE } else { 0 };
        Self { name: name.into(), data_type, metadata: Metadata::EMPTY, flags }
    }

    /// A field of what an `ArrowSchema` says. `flags` are all of its flags, those included that
    /// follow from the type.
    pub(crate) fn from_parts(
        name: Text,
        data_type: DataType,
        metadata: Metadata,
        flags: i64,
    ) -> Self {
        let flags = flags & !type_flags_mask(&data_type);
        Self { name, data_type, metadata, flags }
    }

    /// This field with another name.
    pub fn with_name(mut self, name: impl Into<Text>) -> Self {
        self.name = name.into();
        self
    }

    /// This field, with or without nulls.
    pub fn with_nullable(mut self, nullable: bool) -> Self {
        self.flags = if nullable { self.flags | NULLABLE } else { self.flags & !NULLABLE };
        self
    }

    /// This field, with these pairs in place of its metadata.
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// This field, marked as an extension type. Its other metadata stays. Fails where the metadata
    /// grows too large.
    ///
    /// ```
    /// use arrow_device::{DataType, Field};
    ///
    /// let json =
    ///     Field::new("order", DataType::Utf8, true).with_extension("arrow.json", "")?;
    /// assert_eq!(json.extension().map(|extension| extension.name), Some("arrow.json"));
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn with_extension(mut self, name: &str, metadata: impl AsRef<[u8]>) -> Result<Self> {
        let of_extension = [
            (EXTENSION_NAME.as_bytes(), name.as_bytes()),
            (EXTENSION_METADATA.as_bytes(), metadata.as_ref()),
        ];
        let is_other = |key: &[u8]| of_extension.iter().all(|(taken, _)| *taken != key);
        let others = self.metadata.iter().filter(|(key, _)| is_other(key));
        self.metadata = Metadata::from_pairs(others.chain(of_extension))?;
        Ok(self)
    }

    /// The name; empty where the field has none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name as C reads it.
    pub fn name_text(&self) -> &Text {
        &self.name
    }

    /// The type.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Whether the column may hold nulls. This is a hint: even if the answer is no, an array may
    /// come with a validity bitmap.
    pub fn is_nullable(&self) -> bool {
        self.flags & NULLABLE != 0
    }

    /// The metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The extension type that the metadata names, whatever the storage type is.
    ///
    /// `None` also where the name is not UTF-8. The metadata still holds such a name.
    pub fn extension(&self) -> Option<Extension<'_>> {
        let name = std::str::from_utf8(self.metadata.get(EXTENSION_NAME)?).ok()?;
        Some(Extension {
            name,
            metadata: self.metadata.get(EXTENSION_METADATA).unwrap_or_default(),
        })
    }

    /// The flags as an `ArrowSchema` has them: 2 nullable, 1 dictionary ordered, 4 map keys sorted,
    /// and any other bits that the field came with.
    pub fn flags(&self) -> i64 {
        self.flags | type_flags(&self.data_type)
    }

    /// The bits of the flags that have no meaning here.
    pub(super) fn unknown_flags(&self) -> i64 {
        self.flags & !NULLABLE
    }

    /// Whether names, types and nullability are the same in this field and in all children.
    /// Metadata and unknown flags may differ.
    pub fn equals_ignoring_metadata(&self, other: &Self) -> bool {
        self.is_named_as(other, false) && self.data_type.equals_ignoring_metadata(&other.data_type)
    }

    /// Whether two fields are equal apart from their types. Without metadata, only names and
    /// nullability count.
    #[inline]
    pub(super) fn is_named_as(&self, other: &Self, with_metadata: bool) -> bool {
        self.name == other.name
            && if with_metadata {
                self.flags == other.flags && self.metadata == other.metadata
            } else {
                self.is_nullable() == other.is_nullable()
            }
    }

    /// Hashes everything but the type.
    pub(super) fn hash_name<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.metadata.hash(state);
        self.flags.hash(state);
    }

    /// The length in bytes of the name, the time zone and the metadata. Children are not counted.
    pub(super) fn text_len(&self) -> usize {
        let zone = match &self.data_type {
            DataType::Timestamp(_, Some(zone)) => zone.len(),
            _ => 0,
        };
        let metadata = self.metadata.as_encoded_bytes().map_or(0, <[u8]>::len);
        self.name.len().saturating_add(zone).saturating_add(metadata)
    }

    /// Refuses a field that cannot be written as an `ArrowSchema`. Its children are not checked.
    pub(crate) fn check(&self) -> Result<()> {
        if self.name.as_c_str().is_none() {
            let message =
                format!("the name {:?} holds a NUL byte, which C cannot carry", self.name);
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        self.data_type.check()
    }
}

impl Drop for Field {
    /// A type may be nested deeper than the stack reaches.
    #[inline]
    fn drop(&mut self) {
        let is_dictionary = matches!(self.data_type, DataType::Dictionary { .. });
        if is_dictionary || self.data_type.is_nested() {
            let data_type = std::mem::replace(&mut self.data_type, DataType::Null);
            let mut data_type = ManuallyDrop::new(data_type);
            // SAFETY: dropped once, here.
            unsafe { nesting::drop_bounded(&mut data_type) }
        }
    }
}

/// A nullable field called `item`, as for the elements of a list.
impl From<DataType> for Field {
    fn from(data_type: DataType) -> Self {
        Self::new(Text::from_static("item\0"), data_type, true)
    }
}

/// A shared nullable field called `item`.
impl From<DataType> for Arc<Field> {
    fn from(data_type: DataType) -> Self {
        Arc::new(data_type.into())
    }
}

pub(super) const DICTIONARY_ORDERED: i64 = 1;
const NULLABLE: i64 = 2;
pub(super) const MAP_KEYS_SORTED: i64 = 4;

/// The flags that follow from this type.
fn type_flags(data_type: &DataType) -> i64 {
    match data_type {
        DataType::Dictionary { ordered: true, .. } => DICTIONARY_ORDERED,
        DataType::Map { keys_sorted: true, .. } => MAP_KEYS_SORTED,
        _ => 0,
    }
}

/// The flags that can follow from types of this kind.
fn type_flags_mask(data_type: &DataType) -> i64 {
    match data_type {
        DataType::Dictionary { .. } => DICTIONARY_ORDERED,
        DataType::Map { .. } => MAP_KEYS_SORTED,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::UnionMode;
    use super::*;
    use crate::IndexType;

    #[test]
    fn an_extension_replaces_the_one_before_and_leaves_other_metadata() {
        let metadata = Metadata::from_pairs([("a", "1"), (EXTENSION_NAME, "old")]).unwrap();
        let field = Field::new("x", DataType::Utf8, true).with_metadata(metadata);
        let field = field.with_extension("new", "{}").unwrap();
        assert_eq!(field.extension(), Some(Extension { name: "new", metadata: b"{}" }));
        assert_eq!(field.metadata().len(), 3);
        assert_eq!(field.metadata().get("a"), Some(&b"1"[..]));
    }

    #[test]
    fn an_extension_needs_a_name_that_is_text() {
        let with = |key: &str, value: &[u8]| {
            let metadata = Metadata::from_pairs([(key, value)]).unwrap();
            Field::new("x", DataType::Utf8, true).with_metadata(metadata)
        };
        assert_eq!(with("a", b"b").extension(), None);
        assert_eq!(with(EXTENSION_METADATA, b"{}").extension(), None);
        assert_eq!(with(EXTENSION_NAME, b"\xff").extension(), None);
        let bare = Extension { name: "uuid", metadata: b"" };
        assert_eq!(with(EXTENSION_NAME, b"uuid").extension(), Some(bare));
    }

    #[test]
    fn metadata_makes_fields_differ_unless_it_is_ignored() {
        let plain = || Field::new("a", DataType::Int8, true);
        let marked = || plain().with_extension("some.thing", "").unwrap();
        let holders: [fn(Field) -> DataType; 4] = [
            DataType::list,
            |field| DataType::struct_([field]),
            |field| DataType::union(UnionMode::Dense, [field]),
            |field| DataType::Dictionary {
                index: IndexType::Int8,
                values: Arc::new(field),
                ordered: false,
            },
        ];
        for hold in holders {
            let holder = |field| Field::new("holder", hold(field), true);
            assert_ne!(holder(plain()), holder(marked()));
            assert!(holder(plain()).equals_ignoring_metadata(&holder(marked())));
            for other in [
                Field::new("b", DataType::Int8, true),
                Field::new("a", DataType::Int8, false),
                Field::new("a", DataType::UInt8, true),
            ] {
                let (one, other) = (holder(plain()), holder(other));
                assert!(!one.equals_ignoring_metadata(&other), "{one} and {other}");
            }
        }
    }

    #[test]
    fn a_name_that_c_cannot_carry_is_refused() {
        let error = Field::new("a\0b", DataType::Int8, true).check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        Field::new("a", DataType::Int8, true).check().unwrap();
    }
}
