//! Reading an `ArrowSchema`.
//!
//! The struct is moved in, read from top to bottom, and released before anything is returned: a [`Schema`] keeps no pointer
//! into it. Each struct is read once, as a whole; every count is compared with what is left of the budget before the table
//! behind it is looked at.

use std::ffi::{CStr, c_char};
use std::sync::Arc;

use super::metadata::encoded;
use super::table::{MAX_DEPTH, MAX_NODES};
use super::text::{TextBlob, TextBlobBuilder, TextSpan};
use super::{Field, Metadata, Schema, format};
use crate::abi::ArrowSchema;
use crate::{Error, ErrorKind, Place, Result, Step};

impl Schema {
    /// Takes a schema over from the producer that filled the struct.
    ///
    /// The struct is moved: the source is marked released. It is released in here in any case, and the result refers to
    /// nothing of it.
    ///
    /// # Safety
    /// `schema` is null, or points to a struct that may be read and written and that holds what the Arrow C data interface
    /// says: either it is released (`release` is null), or
    ///
    /// * `format`, `name` and `metadata` are null or point to what the interface describes,
    /// * `children` is null or a table of `n_children` entries, each null or such a struct; `dictionary` is null or one,
    /// * `release` can be called once, on this thread.
    ///
    /// Counts that are negative or too large, missing tables, unknown formats, trees without end and the like need not be
    /// ruled out: they are errors.
    pub unsafe fn import(schema: *mut ArrowSchema) -> Result<Self> {
        // SAFETY: as promised by the caller.
        let Some(source) = (unsafe { schema.as_mut() }) else {
            return Err(Error::new(ErrorKind::InvalidArgument, "no schema: a null pointer")
                .during("import"));
        };
        let foreign = ForeignSchema(std::mem::replace(source, ArrowSchema::empty()));
        if foreign.0.is_released() {
            return Err(Error::new(ErrorKind::Released, "the schema is released").during("import"));
        }
        let mut reader =
            Reader { texts: TextBlobBuilder::default(), metadata: Vec::new(), nodes: Vec::new() };
        // SAFETY: the caller vouches for the struct and everything below it.
        unsafe { reader.read(&foreign.0, None, 0) }?;
        drop(foreign);
        reader.finish()
    }
}

/// A struct that was moved in. Released when dropped.
struct ForeignSchema(ArrowSchema);

impl Drop for ForeignSchema {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: moved here and not released; `import`'s caller says that it can be called once.
            unsafe { release(&raw mut self.0) }
        }
    }
}

/// What was read of a node. Nodes are in the order of a walk that visits a node before its children.
struct Raw {
    format: TextSpan,
    name: TextSpan,
    metadata: Option<usize>,
    flags: i64,
    children: usize,
    has_dictionary: bool,
    /// The number of the parent, and the step from there; nothing for the root.
    way: Option<(usize, Step)>,
}

struct Reader {
    texts: TextBlobBuilder,
    metadata: Vec<u8>,
    nodes: Vec<Raw>,
}

impl Reader {
    /// Reads a node and everything below it.
    ///
    /// # Safety
    /// As for [`Schema::import`].
    unsafe fn read(
        &mut self,
        node: &ArrowSchema,
        way: Option<(usize, Step)>,
        depth: usize,
    ) -> Result<()> {
        let here = |reader: &Self, error: Error| error.at(reader.place(way));
        let malformed = |message: String| Error::new(ErrorKind::Malformed, message);
        if depth > MAX_DEPTH {
            let message = format!("a schema is nested more than {MAX_DEPTH} levels deep");
            return Err(here(self, Error::new(ErrorKind::LimitExceeded, message)));
        }
        if node.format.is_null() {
            return Err(here(self, malformed("the format is null".into())));
        }
        // SAFETY: the caller vouches for the strings.
        let format = unsafe { self.read_text(node.format) }.map_err(|error| here(self, error))?;
        // SAFETY: as above.
        let name = unsafe { self.read_text(node.name) }.map_err(|error| here(self, error))?;
        // SAFETY: as above.
        let metadata =
            unsafe { self.read_metadata(node.metadata) }.map_err(|error| here(self, error))?;
        let children = usize::try_from(node.n_children).map_err(|_| {
            here(self, malformed(format!("the number of children is {}", node.n_children)))
        })?;
        let has_dictionary = !node.dictionary.is_null();
        let number = self.nodes.len();
        self.nodes.push(Raw {
            format,
            name,
            metadata,
            flags: node.flags,
            children,
            has_dictionary,
            way,
        });
        if children > MAX_NODES - self.nodes.len().min(MAX_NODES) {
            let message =
                format!("a schema with {children} children here has more than {MAX_NODES} fields");
            return Err(here(self, Error::new(ErrorKind::LimitExceeded, message)));
        }
        if children > 0 && node.children.is_null() {
            return Err(here(self, malformed(format!("the table of {children} children is null"))));
        }
        for index in 0..children {
            // SAFETY: the table has `n_children` entries.
            let child = unsafe { node.children.wrapping_add(index).read() };
            // SAFETY: as for this node.
            unsafe { self.read_below(child, (number, Step::Child(index)), depth) }?;
        }
        if has_dictionary {
            // SAFETY: as for this node.
            unsafe { self.read_below(node.dictionary, (number, Step::Dictionary), depth) }?;
        }
        Ok(())
    }

    /// # Safety
    /// `node` is null or as [`Schema::import`] says.
    unsafe fn read_below(
        &mut self,
        node: *const ArrowSchema,
        way: (usize, Step),
        depth: usize,
    ) -> Result<()> {
        // SAFETY: null or a struct, says the caller.
        let Some(node) = (unsafe { node.as_ref() }) else {
            let error = Error::new(ErrorKind::Malformed, "a null pointer in place of a schema");
            return Err(error.at(self.place(Some(way))));
        };
        if node.is_released() {
            let error = Error::new(ErrorKind::Released, "this part of the schema is released");
            return Err(error.at(self.place(Some(way))));
        }
        // SAFETY: as promised by the caller.
        unsafe { self.read(node, Some(way), depth + 1) }
    }

    fn place(&self, mut way: Option<(usize, Step)>) -> Place {
        let mut steps = Vec::new();
        while let Some((parent, step)) = way {
            steps.push(step);
            way = self.nodes.get(parent).and_then(|parent| parent.way);
        }
        steps.reverse();
        Place::new(steps)
    }

    /// # Safety
    /// `text` is null or NUL-terminated.
    unsafe fn read_text(&mut self, text: *const c_char) -> Result<TextSpan> {
        if text.is_null() {
            return self.texts.push(b"");
        }
        // SAFETY: the C data interface: `format` and `name` are "null-terminated, UTF8-encoded strings".
        let text = unsafe { CStr::from_ptr(text) };
        self.texts.push(text.to_bytes())
    }

    /// Copies the metadata and returns where it lies.
    ///
    /// # Safety
    /// `metadata` is null or in the encoding of the C data interface.
    unsafe fn read_metadata(&mut self, metadata: *const c_char) -> Result<Option<usize>> {
        // SAFETY: as promised by the caller.
        let Some(bytes) = (unsafe { encoded(metadata) })? else { return Ok(None) };
        let start = self.metadata.len();
        self.metadata.extend_from_slice(bytes);
        Ok(Some(start))
    }

    /// Builds the fields, from the last node to the first, so that children are there before their parents.
    fn finish(mut self) -> Result<Schema> {
        let texts = std::mem::take(&mut self.texts).finish();
        let metadata: Arc<[u8]> = std::mem::take(&mut self.metadata).into();
        // Those that have no parent yet, the next one last.
        let mut waiting: Vec<Field> = Vec::new();
        for node in self.nodes.iter().rev() {
            let built = node.build(&mut waiting, &texts, &metadata);
            waiting.push(built.map_err(|error| error.at(self.place(node.way)))?);
        }
        match waiting.pop() {
            Some(root) => Schema::flatten(root),
            None => Err(Error::new(ErrorKind::Malformed, "a schema without a root")),
        }
    }
}

impl Raw {
    fn build(
        &self,
        waiting: &mut Vec<Field>,
        texts: &TextBlob,
        metadata: &Arc<[u8]>,
    ) -> Result<Field> {
        // They were pushed last child first, the dictionary before all of them.
        let children = waiting.split_off(waiting.len().saturating_sub(self.children));
        let dictionary = if self.has_dictionary { waiting.pop() } else { None };
        let format = texts.text(self.format);
        let mut timezone = |zone: &str| texts.text(self.format.last(zone.len()));
        let children = children.into_iter().rev();
        let data_type = format::parse(
            format.as_str().as_bytes(),
            children,
            dictionary,
            self.flags,
            &mut timezone,
        )?;
        let metadata = match self.metadata {
            Some(start) => Metadata::decode_shared(metadata, start)?.0,
            None => Metadata::EMPTY,
        };
        Ok(Field::from_parts(texts.text(self.name), data_type, metadata, self.flags))
    }
}
