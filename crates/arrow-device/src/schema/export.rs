//! Exports an `ArrowSchema`.
//!
//! The first export of a schema makes an image: everything that the structs say, but for their
//! links. Every export copies the image into one arena and shares the strings. A schema of one node
//! needs no arena.

use crate::numbered::all_numbered;
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;

use super::storage::{Image, Table};
use super::{Schema, Text};
use crate::Result;
use crate::abi::ArrowSchema;
use crate::ffi::build::{ArenaRoom, as_uninit};
use crate::ffi::node::{CNode, ChildNumbers, Links, TreeOwner, TreeShare, TreeSource};
use crate::ffi::release::{release, release_share};

impl Schema {
    /// Hands the schema to a consumer: fills the struct that the consumer allocated.
    ///
    /// The struct is overwritten without being released. From then on it is the consumer's, and
    /// independent of this schema and of any array.
    pub fn export(&self, out: &mut ArrowSchema) -> Result<()> {
        self.exported(as_uninit(out))
    }

    /// [`export`](Self::export) into memory that may not be initialised.
    ///
    /// # Safety
    /// `out` may be written (UNS-13).
    pub unsafe fn export_to(&self, out: *mut ArrowSchema) -> Result<()> {
        // SAFETY: UNS-13, which the caller promises, and nothing is read there.
        self.exported(unsafe { &mut *out.cast::<MaybeUninit<ArrowSchema>>() })
    }

    fn exported(&self, out: &mut MaybeUninit<ArrowSchema>) -> Result<()> {
        let image = self.image().get_or_make(|| Image::new(self));
        let [root, rest @ ..] = &*image.nodes else { unreachable!("a schema has a root") };
        if rest.is_empty() {
            out.write(self.exported_leaf(root));
            return Ok(());
        }
        let root = (0, ArrowSchema { ..*root });
        let (room, source) = (ArenaRoom::new(image.nodes.len())?, Drawing { schema: self, image });
        let owner = (ExportedSchema(self.clone()), ());
        room.build(root, &source, owner, ptr::null_mut(), out)?;
        Ok(())
    }

    /// The struct of a schema with one node. It needs no arena, and holds a share of the schema.
    fn exported_leaf(&self, root: &ArrowSchema) -> ArrowSchema {
        ArrowSchema {
            release: Some(release_share::<ArrowSchema, Table>),
            private_data: self.clone().into_raw().cast_mut(),
            ..*root
        }
    }
}

impl Image {
    fn new(schema: &Schema) -> Self {
        let formats: Box<[Text]> =
            schema.nodes().iter().map(|node| node.field.data_type().format()).collect();
        let draw = |(node, format): (&super::SchemaNode, &Text)| ArrowSchema {
            format: c_text(format),
            name: c_text(node.field.name_text()),
            metadata: node
                .field
                .metadata()
                .as_encoded_bytes()
                .map_or(ptr::null(), |bytes| bytes.as_ptr().cast()),
            flags: node.field.flags(),
            ..ArrowSchema::empty()
        };
        let nodes = schema.nodes().iter().zip(&formats).map(draw).collect();
        Self { nodes, _formats: formats }
    }
}

fn c_text(text: &Text) -> *const c_char {
    // No text of a schema has a NUL byte inside.
    text.as_c_str().map_or(c"".as_ptr(), |text| text.as_ptr())
}

/// Keeps an exported schema. All its strings lie in a few blobs, so the share of one node keeps the
/// whole schema.
#[derive(Clone)]
pub(crate) struct ExportedSchema(Schema);

impl TreeOwner for ExportedSchema {
    type Share = Self;

    fn share(&self, _source: u32) -> Self {
        Self(self.0.clone())
    }
}

impl TreeShare for ExportedSchema {
    fn narrow(&self, _source: u32) -> Self {
        Self(self.0.clone())
    }
}

/// A schema that is being exported.
struct Drawing<'schema> {
    schema: &'schema Schema,
    image: &'schema Image,
}

impl TreeSource<ArrowSchema> for Drawing<'_> {
    fn below(&self, source: u32) -> ChildNumbers {
        self.schema.below(source)
    }

    fn children(&self, numbers: Range<u32>) -> impl ExactSizeIterator<Item = ArrowSchema> {
        let nodes = all_numbered(&self.image.nodes, numbers.start as usize..numbers.end as usize);
        nodes.iter().map(|node| ArrowSchema { ..*node })
    }
}

impl CNode for ArrowSchema {
    type Owner = ExportedSchema;
    type Plain = Self;
    type Origin = ();

    fn linked(plain: Self, links: Links<Self>) -> Self {
        Self {
            n_children: links.n_children,
            children: links.children,
            dictionary: links.dictionary,
            release: Some(links.release),
            private_data: links.private_data,
            ..plain
        }
    }

    fn callback() -> unsafe extern "C" fn(*mut Self) {
        release
    }

    fn release_mut(&mut self) -> &mut Option<unsafe extern "C" fn(*mut Self)> {
        &mut self.release
    }

    fn private_data(&self) -> *mut c_void {
        self.private_data
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;
    use crate::{DataType, Field};

    #[test]
    fn a_schema_of_one_node_stays_until_its_last_struct_is_released() {
        let zone = DataType::Timestamp(crate::TimeUnit::Second, Some("UTC".into()));
        let schema = Schema::new(Field::new("when", zone, true)).unwrap();
        let [mut first, mut second] = [ArrowSchema::empty(), ArrowSchema::empty()];
        schema.export(&mut first).unwrap();
        schema.export(&mut second).unwrap();
        drop(schema);
        let mut moved = std::mem::replace(&mut first, ArrowSchema::empty());
        let release = moved.release.unwrap();
        // SAFETY: a struct that was exported here, at another address.
        unsafe { release(&raw mut moved) };
        assert!(moved.is_released());
        // SAFETY: `release_share` tolerates a released struct, which the specification does not ask
        // for and shipped consumers need.
        unsafe { release(&raw mut moved) };
        // SAFETY: not released, so its strings are there.
        assert_eq!(unsafe { CStr::from_ptr(second.format) }, c"tss:UTC");
        // SAFETY: not released, so its strings are there.
        assert_eq!(unsafe { CStr::from_ptr(second.name) }, c"when");
        // SAFETY: what was exported here keeps the rules.
        let again = unsafe { Schema::import(&raw mut second) }.unwrap();
        assert!(second.is_released());
        assert_eq!(again.to_string(), "when: timestamp[s, UTC]");
    }
}
