//! Schemas and ids of devices for serde.
//!
//! A schema is serialized as a list of its fields, each before the fields below it, with what an
//! `ArrowSchema` says of it. So the serialized form is flat, however deep the type is nested.

use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::schema::{MAX_ENCODED_BYTES, MAX_NODES, MAX_PAIRS, MAX_TEXT};
use crate::{DataType, DeviceId, DeviceType, Error, ErrorKind, Field, Metadata, Result, Schema};

/// A field in its serialized form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldForm {
    format: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    flags: i64,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "pairs")]
    metadata: Pairs,
    /// How many of the following fields are children. The fields below a child come right after it.
    #[serde(default, skip_serializing_if = "is_zero")]
    children: u32,
    /// Whether the field behind the children has the values of the dictionary.
    #[serde(default, skip_serializing_if = "is_false")]
    dictionary: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_false(is_so: &bool) -> bool {
    !is_so
}

impl FieldForm {
    fn of(field: &Field) -> Self {
        let data_type = field.data_type();
        Self {
            format: data_type.format().to_string(),
            name: field.name().to_owned(),
            flags: field.flags(),
            metadata: field.metadata().into_iter().map(|(k, v)| (k.to_vec(), v.to_vec())).collect(),
            children: u32::try_from(data_type.child_count()).unwrap_or(u32::MAX),
            dictionary: data_type.dictionary_values().is_some(),
        }
    }

    /// The length in bytes of the texts of the field. A pair of metadata has two lengths in C.
    fn text_len(&self) -> usize {
        let pairs = self.metadata.iter().map(|(key, value)| 8 + key.len() + value.len());
        self.format.len() + self.name.len() + pairs.sum::<usize>()
    }

    /// Makes the field. The fields below it are the last ones of `built`, in reverse order.
    fn build(self, built: &mut Vec<Field>) -> Result<Field> {
        let too_few = || Error::new(ErrorKind::Malformed, "a field of the schema is missing");
        let count = self.children as usize;
        let start = built.len().checked_sub(count).ok_or_else(too_few)?;
        let children: Vec<Field> = built.drain(start..).rev().collect();
        let dictionary =
            if self.dictionary { Some(built.pop().ok_or_else(too_few)?) } else { None };
        let data_type = DataType::from_format(self.format, children, dictionary, self.flags)?;
        let metadata = Metadata::from_pairs(self.metadata)?;
        Ok(Field::from_parts(self.name.as_str().into(), data_type, metadata, self.flags))
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut forms = Vec::new();
        let mut open = vec![self.field()];
        while let Some(field) = open.pop() {
            forms.push(FieldForm::of(field));
            // The stack returns the first child first, and the dictionary last.
            open.extend(field.data_type().dictionary_values());
            open.extend(field.data_type().children().rev());
        }
        forms.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        schema_of(deserializer.deserialize_seq(Forms)?).map_err(D::Error::custom)
    }
}

/// Reads the fields of a schema, no more than there may be: the input may have no end.
struct Forms;

impl<'de> Visitor<'de> for Forms {
    type Value = Vec<FieldForm>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the fields of a schema")
    }

    fn visit_seq<A: SeqAccess<'de>>(
        self,
        mut fields: A,
    ) -> std::result::Result<Vec<FieldForm>, A::Error> {
        let (mut forms, mut text) = (Vec::new(), 0_usize);
        while let Some(form) = fields.next_element::<FieldForm>()? {
            text = text.saturating_add(form.text_len());
            if forms.len() == MAX_NODES || text > MAX_TEXT {
                let most = MAX_TEXT >> 20;
                let message = format!(
                    "a schema has at most {MAX_NODES} fields and {most} MiB of text, and this has more"
                );
                return Err(A::Error::custom(message));
            }
            forms.push(form);
        }
        Ok(forms)
    }
}

/// The keys and values of the metadata of a field.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Reads the metadata of a field, no more than there may be.
fn pairs<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Pairs, D::Error> {
    deserializer.deserialize_seq(ListOfPairs)
}

struct ListOfPairs;

impl<'de> Visitor<'de> for ListOfPairs {
    type Value = Pairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the metadata of a field")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut given: A) -> std::result::Result<Pairs, A::Error> {
        let (mut pairs, mut len) = (Vec::new(), 0_usize);
        while let Some((key, value)) = given.next_element::<(ByteList, ByteList)>()? {
            len = len.saturating_add(key.0.len() + value.0.len());
            if pairs.len() == MAX_PAIRS || len > MAX_ENCODED_BYTES {
                return Err(too_much_metadata());
            }
            pairs.push((key.0, value.0));
        }
        Ok(pairs)
    }
}

/// A key or a value of metadata, as a list of its bytes.
struct ByteList(Vec<u8>);

impl<'de> Deserialize<'de> for ByteList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_seq(ByteListVisitor).map(Self)
    }
}

struct ByteListVisitor;

impl<'de> Visitor<'de> for ByteListVisitor {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of bytes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut given: A) -> std::result::Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = given.next_element()? {
            if bytes.len() == MAX_ENCODED_BYTES {
                return Err(too_much_metadata());
            }
            bytes.push(byte);
        }
        Ok(bytes)
    }
}

#[cold]
fn too_much_metadata<E: serde::de::Error>() -> E {
    let most = MAX_ENCODED_BYTES >> 20;
    E::custom(format!(
        "the metadata of a field has at most {MAX_PAIRS} pairs and {most} MiB, and this has more"
    ))
}

fn schema_of(forms: Vec<FieldForm>) -> Result<Schema> {
    let mut built = Vec::new();
    // In reverse order, so that the fields below a field exist before it.
    for form in forms.into_iter().rev() {
        let field = form.build(&mut built)?;
        built.push(field);
    }
    match (built.pop(), built.is_empty()) {
        (Some(root), true) => Schema::new(root),
        _ => Err(Error::new(ErrorKind::Malformed, "the fields of a schema are those below one")),
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceIdForm {
    device_type: i32,
    device_id: i64,
}

impl Serialize for DeviceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        DeviceIdForm { device_type: self.device_type.0, device_id: self.id }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for DeviceId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let form = DeviceIdForm::deserialize(deserializer)?;
        Ok(Self::new(DeviceType(form.device_type), form.device_id))
    }
}
