//! Reading an `ArrowSchema`.
//!
//! The struct is moved in, read level by level, and released before anything is returned: a [`Schema`] keeps no pointer
//! into it. Each struct is read once; every count is compared with what is left of the budget before the table behind it is
//! looked at. Names are copied into one text, which is checked as a whole. What is read is a table of plain values: everything
//! that fields are made of is checked here, but fields are made when somebody asks for one.

use std::cell::Cell;
use std::ffi::CStr;

use super::check::Check;
use super::kinds::{Kinds, NO_TEXT, Role, check_len, not_utf8};
use super::metadata::encoded;
use super::packed::{Packed, Parts};
use super::table::{MAX_DEPTH, MAX_NODES};
use super::text::TextSpan;
use super::{DataType, Field, Schema, Text, format};
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
        let mut reader = Reader::take();
        // SAFETY: the caller vouches for the struct and everything below it.
        unsafe { reader.read(&foreign.0) }?;
        drop(foreign);
        let packed = reader.packed()?;
        reader.give_back();
        Self::from_packed(packed)
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

/// What a node says beside its format and what is below it, which its [`Check`] tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) name: TextSpan,
    pub(super) flags: i64,
    /// Where in the metadata of all nodes that of this one starts, plus one; 0 where there is none.
    pub(super) metadata: u32,
    pub(super) parent: u32,
}

/// The table of a schema, as far as it was read. Nodes are numbered level by level.
#[derive(Default)]
struct Reader {
    checks: Vec<Check>,
    records: Vec<Record>,
    kinds: Kinds,
    text: Vec<u8>,
    metadata: Vec<u8>,
    /// Nodes with something below them, which is read when their turn comes.
    waiting: Vec<Waiting>,
    /// Whether there is a kind that asks for particular kinds below it.
    is_particular: bool,
}

/// A node that was read, but for what is below it.
#[derive(Clone, Copy)]
struct Waiting {
    number: u32,
    depth: u32,
    source: *const ArrowSchema,
}

thread_local! {
    /// The memory of the last reader of this thread.
    static IDLE: Cell<Option<Box<Reader>>> = const { Cell::new(None) };
}

/// A reader of more nodes or bytes than this is not kept.
const KEPT: usize = 1 << 16;

impl Reader {
    fn take() -> Box<Self> {
        // Where the thread is being torn down, there is none.
        IDLE.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    fn give_back(mut self: Box<Self>) {
        let Self { checks, records, kinds, text, metadata, waiting, is_particular } = &mut *self;
        if checks.capacity().max(text.capacity()).max(metadata.capacity()) > KEPT {
            return;
        }
        checks.clear();
        records.clear();
        kinds.clear();
        text.clear();
        metadata.clear();
        waiting.clear();
        *is_particular = false;
        // As above: it is dropped where it cannot be kept.
        _ = IDLE.try_with(|idle| idle.set(Some(self)));
    }

    /// Reads a tree.
    ///
    /// # Safety
    /// As for [`Schema::import`]; the struct is not released.
    unsafe fn read(&mut self, root: &ArrowSchema) -> Result<()> {
        // SAFETY: as promised by the caller.
        unsafe { self.add(root, 0, 0) }.map_err(|error| error.at(Place::new(Vec::new())))?;
        let mut next = 0;
        while let Some(waiting) = self.waiting.get(next).copied() {
            // SAFETY: the node was added with that depth, so it is a struct that the caller vouches for.
            unsafe { self.read_below(waiting) }?;
            next += 1;
        }
        if self.is_particular { self.check_particular() } else { Ok(()) }
    }

    /// Reads what is right below a node.
    ///
    /// # Safety
    /// As for [`Schema::import`].
    unsafe fn read_below(&mut self, Waiting { number, depth, source }: Waiting) -> Result<()> {
        // SAFETY: as promised by the caller.
        let node = unsafe { &*source };
        // `add_parent` has seen that it is not negative.
        let children = usize::try_from(node.n_children).unwrap_or(0);
        let has_dictionary = !node.dictionary.is_null();
        let first_child = self.checks.len();
        let room = MAX_NODES - first_child.min(MAX_NODES);
        if children > room || children + usize::from(has_dictionary) > room {
            return Err(too_many(children).at(self.place(number, None)));
        }
        self.checks.reserve(children);
        self.records.reserve(children);
        let mut has_only_leaves = true;
        for index in 0..children {
            // SAFETY: the table has `n_children` entries; `add_parent` has seen that it is not null.
            let child = unsafe { node.children.wrapping_add(index).read() };
            // SAFETY: as for this node.
            match unsafe { self.add_below(child, number, depth + 1) } {
                Ok(is_leaf) => has_only_leaves &= is_leaf,
                Err(error) => return Err(error.at(self.place(number, Some(Step::Child(index))))),
            }
        }
        if has_dictionary {
            // SAFETY: as for this node.
            match unsafe { self.add_below(node.dictionary, number, depth + 1) } {
                Ok(is_leaf) => has_only_leaves &= is_leaf,
                Err(error) => return Err(error.at(self.place(number, Some(Step::Dictionary)))),
            }
        }
        if let Some(check) = self.checks.get_mut(number as usize) {
            check.first_child = first_child as u32;
            check.has_only_leaves = has_only_leaves;
        }
        Ok(())
    }

    /// Adds a node that may be missing.
    ///
    /// # Safety
    /// `node` is null or as [`Schema::import`] says.
    #[inline(always)]
    unsafe fn add_below(
        &mut self,
        node: *const ArrowSchema,
        parent: u32,
        depth: u32,
    ) -> Result<bool> {
        // SAFETY: null or a struct, says the caller.
        let Some(node) = (unsafe { node.as_ref() }) else {
            return Err(malformed("a null pointer in place of a schema"));
        };
        if node.is_released() {
            return Err(Error::new(ErrorKind::Released, "this part of the schema is released"));
        }
        if depth as usize > MAX_DEPTH {
            return Err(too_deep());
        }
        // SAFETY: as promised by the caller.
        unsafe { self.add(node, parent, depth) }
    }

    /// Adds a node. Says whether there is nothing below it.
    ///
    /// # Safety
    /// As for [`Schema::import`]; the struct is not released.
    #[inline(always)]
    unsafe fn add(&mut self, node: &ArrowSchema, parent: u32, depth: u32) -> Result<bool> {
        if node.format.is_null() {
            return Err(malformed("the format is null"));
        }
        // SAFETY: not null, and then NUL-terminated, says the caller.
        let (leaf, can_be_leaf) = unsafe { self.kinds.of(node.format, &mut self.text) }?;
        // SAFETY: as promised by the caller.
        let name = unsafe { self.name(node) }?;
        let mut metadata = 0;
        if !node.metadata.is_null() {
            // SAFETY: as promised by the caller.
            metadata = unsafe { self.read_metadata(node) }?;
        }
        let is_leaf = can_be_leaf && node.n_children == 0 && node.dictionary.is_null();
        let check = if is_leaf {
            leaf
        } else {
            // SAFETY: as promised by the caller.
            unsafe { self.add_parent(node, leaf, depth) }?
        };
        self.checks.push(check);
        self.records.push(Record { name, flags: node.flags, metadata, parent });
        Ok(is_leaf)
    }

    /// Notes that a node waits for what is below it, which goes together with its format as far as it counts. Gives its check.
    ///
    /// # Safety
    /// The format is NUL-terminated.
    unsafe fn add_parent(&mut self, node: &ArrowSchema, leaf: Check, depth: u32) -> Result<Check> {
        let Ok(children) = usize::try_from(node.n_children) else {
            return Err(malformed(format!("the number of children is {}", node.n_children)));
        };
        if children > MAX_NODES {
            return Err(too_many(children));
        }
        if children > 0 && node.children.is_null() {
            return Err(malformed(format!("the table of {children} children is null")));
        }
        let Some(kind) = self.kinds.get(leaf.rule) else { unreachable!("a kind that was found") };
        let has_dictionary = !node.dictionary.is_null();
        let is_index = matches!(kind.role, Role::Index | Role::IndexOrRunEnds);
        let is_count = kind.children.is_none_or(|expected| expected as usize == children);
        if !is_count || has_dictionary && !is_index {
            // SAFETY: as promised by the caller.
            return Err(refused(unsafe { CStr::from_ptr(node.format) }, children, has_dictionary));
        }
        self.is_particular |= matches!(kind.role, Role::Map | Role::RunEndEncoded);
        let number = self.checks.len() as u32;
        self.waiting.push(Waiting { number, depth, source: node });
        // Where they are is known when they are read.
        Ok(Check { children: children as u32, has_dictionary, is_leaf: false, ..leaf })
    }

    /// Copies the name, with its NUL, and returns where it lies.
    ///
    /// # Safety
    /// The name is null or NUL-terminated.
    #[inline(always)]
    unsafe fn name(&mut self, node: &ArrowSchema) -> Result<TextSpan> {
        // SAFETY: not null, and then there is a byte, if only the NUL.
        if node.name.is_null() || unsafe { node.name.read() } == 0 {
            return Ok(NO_TEXT);
        }
        // SAFETY: the C data interface: `name` is a "null-terminated, UTF8-encoded string".
        let name = unsafe { CStr::from_ptr(node.name) };
        let start = self.text.len();
        self.text.extend_from_slice(name.to_bytes_with_nul());
        check_len(&self.text)?;
        Ok(TextSpan { start: start as u32, len: name.count_bytes() as u32 })
    }

    /// Copies the metadata and returns where it lies, plus one.
    ///
    /// # Safety
    /// The metadata is not null, and in the encoding of the C data interface.
    #[cold]
    unsafe fn read_metadata(&mut self, node: &ArrowSchema) -> Result<u32> {
        // SAFETY: as promised by the caller.
        let bytes = unsafe { encoded(node.metadata) }?.unwrap_or_default();
        let start = u32::try_from(self.metadata.len() + 1);
        self.metadata.extend_from_slice(bytes);
        start.map_err(|_| {
            let message = "the metadata of a schema together is 4 GiB or longer";
            Error::new(ErrorKind::LimitExceeded, message)
        })
    }

    /// Looks at what can only be seen when the children were read too.
    #[cold]
    fn check_particular(&self) -> Result<()> {
        for (number, check) in (0_u32..).zip(&self.checks) {
            let kind_of = |check: &Check| self.kinds.get(check.rule).copied();
            let below = self.checks.get(check.first_child as usize).map(|below| {
                (kind_of(below).map(|kind| kind.role), below.children, below.has_dictionary)
            });
            let format = match kind_of(check).map(|kind| kind.role) {
                Some(Role::Map) if below != Some((Some(Role::Struct), 2, false)) => c"+m",
                Some(Role::RunEndEncoded)
                    if below != Some((Some(Role::IndexOrRunEnds), 0, false)) =>
                {
                    c"+r"
                }
                _ => continue,
            };
            let error = refused(format, check.children as usize, false);
            return Err(error.at(self.place(number, None)));
        }
        Ok(())
    }

    /// The table in the least memory. An error where the text is not UTF-8.
    fn packed(&self) -> Result<Packed> {
        let text = match std::str::from_utf8(&self.text) {
            Ok(text) => text,
            Err(error) => return Err(self.not_utf8(error.valid_up_to())),
        };
        Packed::new(Parts {
            checks: &self.checks,
            rules: &self.kinds.rules,
            records: &self.records,
            kinds: &self.kinds.named,
            text,
            metadata: &self.metadata,
        })
    }

    /// The error for a name that goes wrong at this byte of the text. Each format was looked at by itself, and ends with a NUL,
    /// as each name does: no character reaches into the next one.
    #[cold]
    fn not_utf8(&self, at: usize) -> Error {
        let is_here = |record: &Record| {
            let start = record.name.start as usize;
            (start..start + record.name.len as usize).contains(&at)
        };
        let found = (0_u32..).zip(&self.records).find(|(_, record)| is_here(record));
        match found {
            Some((number, record)) => {
                not_utf8(at - record.name.start as usize).at(self.place(number, None))
            }
            None => not_utf8(at),
        }
    }

    /// The way to a node, or to one right below it.
    #[cold]
    fn place(&self, mut number: u32, below: Option<Step>) -> Place {
        let mut steps: Vec<Step> = below.into_iter().collect();
        while number > 0 {
            let parent = self.records.get(number as usize).map_or(0, |record| record.parent);
            let Some(check) = self.checks.get(parent as usize) else { break };
            let child = number.saturating_sub(check.first_child);
            let is_child = child < check.children;
            steps.push(if is_child { Step::Child(child as usize) } else { Step::Dictionary });
            number = parent;
        }
        steps.reverse();
        Place::new(steps)
    }
}

/// What is wrong with a node of this format, so many children and no other flaw: what parsing it says of children that are
/// nothing in particular.
#[cold]
fn refused(format: &CStr, children: usize, has_dictionary: bool) -> Error {
    let child = || Field::new(Text::EMPTY, DataType::Null, true);
    let below = (0..children).map(|_| child());
    let dictionary = has_dictionary.then(child);
    let timezone = &mut |zone: &str| Text::from(zone);
    match format::parse(format.to_bytes(), below, dictionary, 0, timezone) {
        Err(error) => error,
        Ok(data_type) => malformed(format!("what is below this does not make it a {data_type}")),
    }
}

#[cold]
fn malformed(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Malformed, message)
}

#[cold]
fn too_many(children: usize) -> Error {
    let message =
        format!("a schema with {children} children here has more than {MAX_NODES} fields");
    Error::new(ErrorKind::LimitExceeded, message)
}

#[cold]
fn too_deep() -> Error {
    let message = format!("a schema is nested more than {MAX_DEPTH} levels deep");
    Error::new(ErrorKind::LimitExceeded, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn release(schema: *mut ArrowSchema) {
        // SAFETY: called with a struct of these tests.
        unsafe { (*schema).release = None };
    }

    fn node(format: &CStr, name: &CStr) -> ArrowSchema {
        let (format, name) = (format.as_ptr(), name.as_ptr());
        ArrowSchema { format, name, release: Some(release), ..ArrowSchema::empty() }
    }

    /// Imports a struct with these children.
    fn imported(children: &mut [ArrowSchema]) -> Result<Schema> {
        let mut table: Vec<*mut ArrowSchema> = children.iter_mut().map(|it| &raw mut *it).collect();
        let mut root = ArrowSchema {
            n_children: table.len() as i64,
            children: table.as_mut_ptr(),
            ..node(c"+s", c"")
        };
        // SAFETY: everything in it is there until the end of this function.
        unsafe { Schema::import(&mut root) }
    }

    #[test]
    fn each_name_is_text_by_itself() {
        let with = |names: [&CStr; 3]| {
            imported(&mut names.map(|name| node(c"tsu:Europe/Paris", name))).map(|schema| {
                schema.columns().iter().map(|column| column.name().to_owned()).collect::<Vec<_>>()
            })
        };
        assert_eq!(with([c"a", c"\xc3\xa9", c""]).unwrap(), ["a", "é", ""]);
        // The second name would go on where the first one breaks off.
        for (names, place, byte) in [
            ([c"ab\xc3", c"\xa9", c"a"], 0, 2),
            ([c"a", c"b", c"cde\xff"], 2, 3),
            ([c"", c"\x80", c""], 1, 0),
        ] {
            let error = with(names).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed);
            assert_eq!(error.place(), Some(&Place::new(vec![Step::Child(place)])), "{error}");
            let message = format!("a text is not UTF-8 from byte {byte} on");
            assert_eq!(error.message(), message);
        }
    }

    #[test]
    fn what_a_reader_has_read_is_not_in_the_next_schema() {
        let first = imported(&mut [node(c"+s", c"a"), node(c"u", c"b")]).unwrap();
        assert!(imported(&mut [node(c"l", c"a"), node(c"?", c"b")]).is_err());
        let second = imported(&mut [node(c"u", c"c"), node(c"tsu:UTC", c"d")]).unwrap();
        assert_eq!(first.to_string(), "struct<a: struct<> not null, b: utf8 not null> not null");
        let expected = "struct<c: utf8 not null, d: timestamp[us, UTC] not null> not null";
        assert_eq!(second.to_string(), expected);
    }

    #[test]
    fn the_entries_of_a_map_and_run_ends_are_what_they_have_to_be() {
        let with = |format: &CStr, below: &mut [ArrowSchema]| {
            let mut table: Vec<*mut ArrowSchema> =
                below.iter_mut().map(|it| &raw mut *it).collect();
            let (n_children, children) = (table.len() as i64, table.as_mut_ptr());
            let holder = ArrowSchema { n_children, children, ..node(format, c"") };
            imported(&mut [node(c"l", c""), holder])
        };
        for wrong in [node(c"L", c""), node(c"u", c""), node(c"c", c"")] {
            let error = with(c"+r", &mut [wrong, node(c"u", c"")]).unwrap_err();
            assert_eq!(error.place(), Some(&Place::new(vec![Step::Child(1)])), "{error}");
        }
        let mut values = node(c"u", c"");
        let dictionary = ArrowSchema { dictionary: &raw mut values, ..node(c"i", c"") };
        assert!(with(c"+r", &mut [dictionary, node(c"u", c"")]).is_err());
        with(c"+r", &mut [node(c"i", c""), node(c"u", c"")]).unwrap();
        for wrong in [node(c"+s", c""), node(c"l", c"")] {
            let error = with(c"+m", &mut [wrong]).unwrap_err();
            assert_eq!(error.place(), Some(&Place::new(vec![Step::Child(1)])), "{error}");
        }
    }
}
