//! Schemas in a message: what an `ArrowSchema` says, node by node, parents before their children.
//!
//! A node is its format string, its name, its metadata as the C data interface encodes them, its
//! flags, the number of its children, and whether there is a dictionary. Then come the children and
//! the dictionary.

use arrow_device::driver::SharingDomain;
use arrow_device::{DataType, DeviceId, DeviceType, Field, Metadata, Result, Schema};

use crate::problem::{limited, malformed};
use crate::wire::{Reader, Writer};

/// The longest name of a way to share memory.
const MAX_WAY: usize = 32;

/// How deep a schema of a message may be nested. The library's own limit is the same or smaller.
const MAX_DEPTH: usize = 64;

/// The domain of the memory that the arrays after this message lie in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryDomain {
    pub(crate) device_type: DeviceType,
    /// Empty, where no array has come yet.
    pub(crate) way: String,
    pub(crate) device: [u8; 16],
}

impl MemoryDomain {
    pub(crate) fn of(id: DeviceId, domain: Option<SharingDomain>) -> Self {
        let way = domain.map_or("", |domain| domain.way);
        let way = way.get(..MAX_WAY).unwrap_or(way).to_owned();
        let device = domain.map_or([0; 16], |domain| domain.device);
        Self { device_type: id.device_type, way, device }
    }

    pub(crate) fn is(&self, domain: SharingDomain) -> bool {
        self.way == domain.way && self.device == domain.device
    }
}

/// The body of a message that says what the arrays after it are.
pub(crate) fn encode(schema: &Schema, domain: &MemoryDomain) -> Vec<u8> {
    let mut out = Writer::default();
    out.u32(domain.device_type.0.cast_unsigned());
    out.bytes(domain.way.as_bytes());
    out.raw(&domain.device);
    encode_field(&mut out, schema.field());
    out.0
}

fn encode_field(out: &mut Writer, field: &Field) {
    let data_type = field.data_type();
    out.bytes(data_type.format().as_str().as_bytes());
    out.bytes(field.name().as_bytes());
    out.bytes(field.metadata().as_encoded_bytes().unwrap_or(&[]));
    out.i64(field.flags());
    out.u32(u32::try_from(data_type.child_count()).unwrap_or(u32::MAX));
    out.u8(data_type.dictionary_values().is_some().into());
    let below = data_type.children().chain(data_type.dictionary_values());
    below.for_each(|field| encode_field(out, field));
}

/// Reads what [`encode`] wrote.
pub(crate) fn decode(body: &[u8]) -> Result<(Schema, MemoryDomain)> {
    let mut from = Reader::new(body);
    let device_type = DeviceType(from.u32()?.cast_signed());
    let way = from.text()?;
    if way.len() > MAX_WAY {
        return Err(malformed("the name of a way to share memory is too long"));
    }
    let way = way.to_owned();
    let mut device = [0; 16];
    device.copy_from_slice(from.raw(16)?);
    let field = decode_field(&mut from, 0)?;
    from.finish()?;
    Ok((Schema::new(field)?, MemoryDomain { device_type, way, device }))
}

/// The bytes of a field without any text: the lengths of the format, the name and the metadata, the
/// flags, the number of children, and whether there is a dictionary.
const LEAST_FIELD: usize = 4 + 4 + 4 + 8 + 4 + 1;

fn decode_field(from: &mut Reader<'_>, depth: usize) -> Result<Field> {
    if depth > MAX_DEPTH {
        return Err(limited(format!("a schema is nested more than {MAX_DEPTH} levels deep")));
    }
    let format = from.bytes()?;
    let name = from.text()?;
    let metadata = match from.bytes()? {
        [] => Metadata::default(),
        bytes => {
            let (metadata, read) = Metadata::decode(bytes)?;
            if read != bytes.len() {
                return Err(malformed("metadata are shorter than they say"));
            }
            metadata
        }
    };
    let flags = from.i64()?;
    let children = from.u32()? as usize;
    let has_dictionary = from.u8()? != 0;
    if children.saturating_mul(LEAST_FIELD) > from.left() {
        return Err(malformed(format!("{children} children are announced, and are not there")));
    }
    let children: Vec<Field> =
        (0..children).map(|_| decode_field(from, depth + 1)).collect::<Result<_>>()?;
    let dictionary = if has_dictionary { Some(decode_field(from, depth + 1)?) } else { None };
    let data_type = DataType::from_format(format, children, dictionary, flags)?;
    let nullable = flags & NULLABLE != 0;
    Ok(Field::new(name, data_type, nullable).with_metadata(metadata))
}

/// `ARROW_FLAG_NULLABLE` of the C data interface.
const NULLABLE: i64 = 2;
