//! Imports an `ArrowSchema`.
//!
//! The struct is read where it is, level by level, and released before anything is returned: a
//! [`Schema`] keeps no pointer into it.
//!
//! 1. Each struct is read once. Every count is compared with the remaining budget before the table
//!    behind the count is read, so a hostile schema can neither loop for ever nor take unbounded
//!    memory.
//! 2. The format of a node is compared with formats that were read before ([`Kinds`]). A new format
//!    is parsed.
//! 3. The name of the node is copied behind the names of the other nodes. Metadata is collected in
//!    a list, and copied into the schema when the tree was read.
//! 4. A node with something below it is appended to a list. The nodes of the list are visited in
//!    order, and a visit reads the nodes right below. At the end of the list the tree was read.
//! 5. Rules between a node and those below it, such as the rules of maps and run ends, are checked
//!    at the end, and only if a format asks for that.
//!
//! Why this is fast: all but the metadata is written as plain values to its place in the schema's
//! own block, which moves only if its room was guessed too small. Short names are or-ed together
//! while they are copied, so one comparison tells whether all of them are ASCII. Only a name that
//! is long or not ASCII makes the text be checked, as a whole. No field is made before somebody
//! asks for one. Lists and kinds of the last import are used again by the next one on the thread.

use crate::numbered::numbered;
use std::cell::Cell;
use std::ffi::{CStr, c_char};

use super::check::Check;
use super::kind::{NO_TEXT, NodeKind, Role, is_whole, key_of, whole};
use super::kinds::{Kinds, not_utf8};
use super::metadata::{MAX_ENCODED_BYTES, encoded};
use super::storage::{Draft, Packed, PackedRoom, Record};
use super::table::{MAX_DEPTH, MAX_NODES};
use super::text::TextSpan;
use super::{DataType, Field, Schema, Text, format};
use crate::abi::ArrowSchema;
use crate::{Error, ErrorKind, NodePath, Result, Step};

impl Schema {
    /// Takes a schema over from the producer that filled the struct.
    ///
    /// The struct is released in any case, and the result does not refer to it.
    ///
    /// # Safety
    /// `schema` is null, or points to a struct that may be read and written and that holds what the
    /// Arrow C data interface says (UNS-1): either it is released (`release` is null), or
    ///
    /// * `format`, `name` and `metadata` are null or point to what the interface describes,
    /// * `children` is null or a table of `n_children` entries, each null or such a struct;
    ///   `dictionary` is null or one; nobody changes any of it during the call (UNS-2),
    /// * `release` can be called once, on this thread (UNS-6).
    ///
    /// Negative or too large counts, missing tables, unknown formats and trees without end are
    /// errors, and the caller need not rule them out. More than 64 levels, more than 262,144
    /// fields, more than 24 MiB of names, and metadata that together with the names read before it
    /// has more than 24 MiB are errors too. A schema without end is refused before its import has
    /// taken more than 64 MiB, or 96 MiB where long metadata comes before long names.
    pub unsafe fn import(schema: *mut ArrowSchema) -> Result<Self> {
        // SAFETY: UNS-1, which the caller promises.
        let Some(source) = (unsafe { schema.as_mut() }) else {
            return Err(Error::new(ErrorKind::InvalidArgument, "no schema: a null pointer")
                .during("import"));
        };
        let foreign = ForeignSchema(source);
        if foreign.0.is_released() {
            return Err(Error::new(ErrorKind::Released, "the schema is released").during("import"));
        }
        let mut memory = Scratch::take();
        let mut reader = SchemaReader::new(foreign.0, &mut memory)?;
        // SAFETY: UNS-2, which the caller promises of the struct and of everything below it.
        unsafe { reader.read(foreign.0) }?;
        let schema = reader.finish()?;
        drop(foreign);
        memory.give_back();
        Ok(schema)
    }
}

/// A struct that was taken over. Dropping it releases the struct.
struct ForeignSchema<'source>(&'source mut ArrowSchema);

impl Drop for ForeignSchema<'_> {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: UNS-6: it is not released, and can be called once.
            unsafe { release(self.0) }
            // The callback should have set it to null.
            self.0.release = None;
        }
    }
}

/// A schema, as far as it was read. Nodes are numbered level by level.
struct SchemaReader<'memory> {
    draft: Draft,
    memory: &'memory mut Scratch,
    /// Whether any node asks for particular kinds of nodes below it.
    is_particular: bool,
    /// The first eight bytes of all names, or-ed together, and [`NOT_ASCII`] if any name is long.
    /// The bits of [`NOT_ASCII`] tell whether the text has to be checked.
    name_bytes: u64,
}

/// The highest bit of each of eight bytes. A byte of ASCII does not have this bit.
const NOT_ASCII: u64 = 0x8080_8080_8080_8080;

/// Memory that the imports of a thread use one after another.
#[derive(Default)]
struct Scratch {
    kinds: Kinds,
    metadata: Vec<u8>,
    /// Nodes with something below them, which is read when the turn of the node comes.
    waiting: Vec<Unread>,
}

/// A node below which something is still to be read.
#[derive(Clone, Copy)]
struct Unread {
    number: u32,
    depth: u32,
    source: *const ArrowSchema,
}

thread_local! {
    /// The memory of the thread's last import.
    static IDLE: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

impl Scratch {
    fn take() -> Box<Self> {
        // A thread that is being torn down has no such memory.
        IDLE.try_with(Cell::take).ok().flatten().unwrap_or_else(Self::fresh)
    }

    #[cold]
    #[inline(never)]
    fn fresh() -> Box<Self> {
        Box::default()
    }

    fn give_back(self: Box<Self>) {
        // On a thread that is being torn down, the memory is dropped.
        _ = IDLE.try_with(|idle| idle.set(Some(self)));
    }
}

/// Up to this number of columns, the block has a constant size, so that the compiler can compute
/// the layout of the block. With a size that is computed for every schema, the workload `import of
/// a schema/int64/1` takes 337 instructions in place of 289, and `import of a schema/batch/1` 726
/// in place of 677.
const FEW: i64 = 7;

impl<'memory> SchemaReader<'memory> {
    /// A reader with room for the root and its children.
    #[inline(always)]
    fn new(root: &ArrowSchema, memory: &'memory mut Scratch) -> Result<Self> {
        // Negative counts are refused when they are read.
        let draft = match root.n_children {
            ..FEW => Draft::new(PackedRoom::for_nodes(FEW as usize + 1)),
            children => {
                Draft::new(PackedRoom::for_nodes(children.min(MAX_NODES as i64) as usize + 2))
            }
        }?;
        memory.kinds.begin();
        Ok(Self { draft, memory, is_particular: false, name_bytes: 0 })
    }

    /// Reads a tree.
    ///
    /// # Safety
    /// UNS-2, of a struct that is not released.
    unsafe fn read(&mut self, root: &ArrowSchema) -> Result<()> {
        // SAFETY: UNS-2, which the caller promises.
        let is_leaf =
            unsafe { self.add(root, 0) }.map_err(|error| error.at(NodePath::new(Vec::new())))?;
        if !is_leaf {
            // SAFETY: UNS-2, which the caller promises.
            unsafe { self.read_below(root, 0, 0) }?;
            // SAFETY: UNS-2, which the caller promises.
            unsafe { self.read_waiting() }?;
        }
        Ok(())
    }

    /// Reads what is below the waiting nodes, and below nodes that begin to wait meanwhile.
    ///
    /// # Safety
    /// UNS-2, of the struct and of all below it.
    unsafe fn read_waiting(&mut self) -> Result<()> {
        let mut next = 0;
        while let Some(&Unread { number, depth, source }) = self.memory.waiting.get(next) {
            // SAFETY: the node was added, so it is a struct that keeps UNS-2.
            let node = unsafe { &*source };
            // SAFETY: UNS-2, which the caller promises.
            unsafe { self.read_below(node, number, depth) }?;
            next += 1;
        }
        if next > 0 {
            recycle(&mut self.memory.waiting);
        }
        if self.is_particular { self.check_particular() } else { Ok(()) }
    }

    /// Reads the children and the dictionary of a node.
    ///
    /// # Safety
    /// UNS-2, of the struct and of all below it.
    #[inline(never)]
    unsafe fn read_below(&mut self, node: &ArrowSchema, number: u32, depth: u32) -> Result<()> {
        // `expect_below` has checked that the number is not negative.
        let children = usize::try_from(node.n_children).unwrap_or(0);
        let has_dictionary = !node.dictionary.is_null();
        let first_child = self.draft.packed().checks.len();
        let below = children.saturating_add(usize::from(has_dictionary));
        if below > MAX_NODES.saturating_sub(first_child) {
            return Err(too_many(node.n_children).at(self.place(number, None)));
        }
        self.draft.reserve_nodes(below)?;
        let mut has_only_leaves = true;
        for index in 0..children {
            // SAFETY: the table has `n_children` entries; `expect_below` has seen that it is not
            // null.
            let child = unsafe { node.children.wrapping_add(index).read() };
            // SAFETY: UNS-2, which the caller promises of the children of this node, too.
            match unsafe { self.add_below(child, number, depth + 1) } {
                Ok(is_leaf) => has_only_leaves &= is_leaf,
                Err(error) => return Err(error.at(self.place(number, Some(Step::Child(index))))),
            }
        }
        if has_dictionary {
            // SAFETY: UNS-2, which the caller promises of the dictionary of this node, too.
            match unsafe { self.add_below(node.dictionary, number, depth + 1) } {
                Ok(is_leaf) => has_only_leaves &= is_leaf,
                Err(error) => return Err(error.at(self.place(number, Some(Step::Dictionary)))),
            }
        }
        if let Some(check) = self.draft.checks_mut().get_mut(number as usize) {
            check.first_child = first_child as u32;
            check.has_only_leaves = has_only_leaves;
        }
        Ok(())
    }

    /// Adds a node below another one. An error where the pointer is null.
    ///
    /// # Safety
    /// `node` is null, or keeps UNS-2.
    #[inline(always)]
    unsafe fn add_below(
        &mut self,
        node: *const ArrowSchema,
        parent: u32,
        depth: u32,
    ) -> Result<bool> {
        // SAFETY: UNS-2, which the caller promises: null or a struct.
        let Some(node) = (unsafe { node.as_ref() }) else {
            return Err(malformed("a null pointer in place of a schema"));
        };
        if node.is_released() {
            return Err(Error::new(ErrorKind::Released, "this part of the schema is released"));
        }
        if depth as usize > MAX_DEPTH {
            return Err(too_deep());
        }
        // SAFETY: UNS-2, which the caller promises.
        let is_leaf = unsafe { self.add(node, parent) }?;
        if !is_leaf {
            let number = self.draft.packed().checks.len() as u32 - 1;
            self.memory.waiting.push(Unread { number, depth, source: node });
        }
        Ok(is_leaf)
    }

    /// Adds a node. Returns whether nothing is below it.
    ///
    /// # Safety
    /// UNS-2, of a struct that is not released.
    #[inline(always)]
    unsafe fn add(&mut self, node: &ArrowSchema, parent: u32) -> Result<bool> {
        if node.format.is_null() {
            return Err(malformed("the format is null"));
        }
        // SAFETY: the format was seen not to be null, and is then NUL-terminated (UNS-2).
        let known = unsafe { self.memory.kinds.of(node.format, &mut self.draft) }?;
        let is_leaf = known.leaf().is_leaf && node.n_children == 0 && node.dictionary.is_null();
        self.draft.add_check(known.leaf())?;
        if !is_leaf {
            let kind = *known.kind();
            // SAFETY: UNS-2, which the caller promises.
            unsafe { self.expect_below(node, kind) }?;
        }
        // SAFETY: UNS-2, which the caller promises.
        let name = unsafe { self.name(node.name) }?;
        let mut metadata = 0;
        if !node.metadata.is_null() {
            // SAFETY: UNS-2, which the caller promises.
            metadata = unsafe { self.read_metadata(node) }?;
        }
        self.draft.add_record(Record { name, flags: node.flags, metadata, parent })?;
        Ok(is_leaf)
    }

    /// Records how many nodes are below the node that was just added, and checks that its format
    /// allows this number.
    ///
    /// # Safety
    /// The format is NUL-terminated.
    #[inline(always)]
    unsafe fn expect_below(&mut self, node: &ArrowSchema, kind: NodeKind) -> Result<()> {
        let (count, has_dictionary) = (node.n_children, !node.dictionary.is_null());
        let is_count = (0..=MAX_NODES as i64).contains(&count)
            && kind.children.is_none_or(|expected| i64::from(expected) == count)
            && (count == 0 || !node.children.is_null());
        let is_index = matches!(kind.role, Role::Index | Role::IndexOrRunEnds);
        if !is_count || has_dictionary && !is_index {
            // SAFETY: the format is NUL-terminated, as the caller promises.
            return Err(unsafe { unexpected_below(node) });
        }
        self.is_particular |= matches!(kind.role, Role::Map | Role::RunEndEncoded);
        let [.., check] = self.draft.checks_mut() else { unreachable!("the node was added") };
        // The numbers of the children are set when the children are read.
        (check.children, check.has_dictionary, check.is_leaf) =
            (count as u32, has_dictionary, false);
        Ok(())
    }

    /// Copies the name with its NUL byte, and returns its place.
    ///
    /// # Safety
    /// The name is null or NUL-terminated.
    #[inline(always)]
    unsafe fn name(&mut self, name: *const c_char) -> Result<TextSpan> {
        if name.is_null() {
            return Ok(NO_TEXT);
        }
        // SAFETY: the C data interface: `name` is a "null-terminated, UTF8-encoded string" (UNS-2).
        let key = unsafe { key_of(name) };
        if key == 0 {
            return Ok(NO_TEXT);
        }
        self.name_bytes |= key;
        if is_whole(key)
            && let Some(span) = self.draft.add_short_text(whole(key))
        {
            return Ok(span);
        }
        // The text of a long name is not looked at here. All text is checked at the end.
        self.name_bytes |= NOT_ASCII;
        // SAFETY: the C data interface: `name` is a "null-terminated, UTF8-encoded string" (UNS-2).
        self.draft.add_text(unsafe { CStr::from_ptr(name) })
    }

    /// Copies the metadata, and returns its place plus one.
    ///
    /// # Safety
    /// The metadata is not null, and in the encoding of the C data interface.
    #[cold]
    unsafe fn read_metadata(&mut self, node: &ArrowSchema) -> Result<u32> {
        // SAFETY: the metadata is not null, and in the encoding of the C data interface, as the
        // caller promises.
        let bytes = unsafe { encoded(node.metadata) }?.unwrap_or_default();
        let metadata = &mut self.memory.metadata;
        let (start, needed) = (metadata.len(), metadata.len() + bytes.len());
        if needed + self.draft.packed().text.len() > MAX_ENCODED_BYTES {
            let message = format!(
                "the names and the metadata of a schema together are longer than {} MiB",
                MAX_ENCODED_BYTES >> 20
            );
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        if needed > metadata.capacity() {
            // Doubles the room as usual, but never beyond the limit.
            let room = needed.max((2 * start).min(MAX_ENCODED_BYTES));
            metadata.reserve_exact(room - start);
        }
        metadata.extend_from_slice(bytes);
        Ok(start as u32 + 1)
    }

    /// Checks the rules between nodes and their children, after the children were read.
    #[cold]
    fn check_particular(&self) -> Result<()> {
        let packed = self.draft.packed();
        for (number, check) in (0_u32..).zip(&*packed.checks) {
            let role_of =
                |check: &Check| packed.kinds.get(check.rule as usize).map(|named| named.kind.role);
            let below = packed.checks.get(check.first_child as usize);
            let below = below.map(|below| (role_of(below), below.children, below.has_dictionary));
            let format = match role_of(check) {
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

    /// The finished schema. An error where its text is not UTF-8.
    fn finish(self) -> Result<Schema> {
        let text = &self.draft.packed().text;
        if self.name_bytes & NOT_ASCII != 0
            && let Err(error) = std::str::from_utf8(text)
        {
            return Err(self.not_utf8(error.valid_up_to()));
        }
        let Self { mut draft, memory, .. } = self;
        if !memory.metadata.is_empty() {
            draft.add_metadata(&memory.metadata)?;
            recycle(&mut memory.metadata);
        }
        Ok(Schema::from_draft(draft))
    }

    /// The error for a name that is wrong at this byte of the text. Each format was checked by
    /// itself. Each name ends with a NUL byte, so no character reaches from one name into the next.
    #[cold]
    fn not_utf8(&self, at: usize) -> Error {
        let is_here = |record: &Record| {
            let start = record.name.start as usize;
            (start..start + record.name.len as usize).contains(&at)
        };
        let found =
            (0_u32..).zip(&*self.draft.packed().records).find(|(_, record)| is_here(record));
        match found {
            Some((number, record)) => {
                not_utf8(at - record.name.start as usize).at(self.place(number, None))
            }
            None => not_utf8(at),
        }
    }

    /// The path to a node, or to a node right below it.
    #[cold]
    fn place(&self, mut number: u32, below: Option<Step>) -> NodePath {
        let mut steps: Vec<Step> = below.into_iter().collect();
        while number > 0 {
            let Packed { records, checks, .. } = self.draft.packed();
            let parent = numbered(records.get(number as usize)).parent;
            let check = numbered(checks.get(parent as usize));
            let child = number.saturating_sub(check.first_child);
            let is_child = child < check.children;
            steps.push(if is_child { Step::Child(child as usize) } else { Step::Dictionary });
            number = parent;
        }
        steps.reverse();
        NodePath::new(steps)
    }
}

/// Empties a list for the next import. A list that has become large is freed instead.
fn recycle<T>(list: &mut Vec<T>) {
    const KEPT: usize = 1 << 16;
    if list.capacity() > KEPT { *list = Vec::new() } else { list.clear() }
}

/// The error for the number of nodes below a node.
///
/// # Safety
/// The format is NUL-terminated.
#[cold]
unsafe fn unexpected_below(node: &ArrowSchema) -> Error {
    if node.n_children < 0 {
        return malformed(format!("the number of children is {}", node.n_children));
    }
    // On targets with 32-bit addresses, a number that `usize` cannot hold is more than a schema may
    // have.
    let children = match usize::try_from(node.n_children) {
        Ok(children) if children <= MAX_NODES => children,
        _ => return too_many(node.n_children),
    };
    if children > 0 && node.children.is_null() {
        return malformed(format!("the table of {children} children is null"));
    }
    // SAFETY: the format is NUL-terminated, as the caller promises.
    let format = unsafe { CStr::from_ptr(node.format) };
    refused(format, children, !node.dictionary.is_null())
}

/// The error for a node of this format with so many children. It is the error of parsing the format
/// with children of no particular type.
#[cold]
fn refused(format: &CStr, children: usize, has_dictionary: bool) -> Error {
    let child = || Field::new(Text::EMPTY, DataType::Null, true);
    let below = (0..children).map(|_| child());
    let dictionary = has_dictionary.then(child);
    let timezone = &mut |zone: &str| Text::from(zone);
    match format::parse(format.to_bytes(), below, dictionary, 0, timezone) {
        Err(error) => error,
        Ok(data_type) => malformed(format!("the fields below this do not fit a {data_type}")),
    }
}

#[cold]
fn malformed(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Malformed, message)
}

#[cold]
fn too_many(children: i64) -> Error {
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
    use std::ffi::CString;

    use super::super::Layout;
    use super::super::rules::Rule;
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
        let seven_eight_nine = [c"ABCDEFG", c"abcdef\xc3\xa9", c"123456789"];
        assert_eq!(with(seven_eight_nine).unwrap(), ["ABCDEFG", "abcdefé", "123456789"]);
        // The second name would go on where the first one breaks off.
        for (names, place, byte) in [
            ([c"ab\xc3", c"\xa9", c"a"], 0, 2),
            ([c"a", c"b", c"cde\xff"], 2, 3),
            ([c"", c"\x80", c""], 1, 0),
            ([c"abcdefg", c"abcdefg\xff", c""], 1, 7),
            ([c"", c"", c"abcdefghi\xc3"], 2, 9),
        ] {
            let error = with(names).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed);
            assert_eq!(error.place(), Some(&NodePath::new(vec![Step::Child(place)])), "{error}");
            let message = format!("a text is not UTF-8 from byte {byte} on");
            assert_eq!(error.message(), message);
        }
    }

    #[test]
    fn names_of_any_length_and_columns_of_any_number_come_through() {
        for count in [1, 6, 7, 8, 30, 300] {
            let name = |column: usize| CString::new("xyz".repeat(column * 7 % 11)).unwrap();
            let names: Vec<CString> = (0..count).map(name).collect();
            let formats = [c"l", c"u", c"tsu:UTC", c"w:3", c"w:4", c"w:5", c"w:6", c"w:7", c"w:8"];
            let format = |column: usize| formats[column % 9];
            let mut columns: Vec<ArrowSchema> =
                (0..count).map(|column| node(format(column), &names[column])).collect();
            let schema = imported(&mut columns).unwrap();
            assert_eq!(schema.columns().len(), count);
            for (column, field) in schema.columns().iter().enumerate() {
                assert_eq!(field.name(), names[column].to_str().unwrap());
                let expected = format(column).to_str().unwrap();
                assert_eq!(field.data_type().format(), expected);
                let layout = Layout::of(field.data_type());
                assert_eq!(*schema.rule(column as u32 + 1), Rule::new(field.data_type(), &layout));
            }
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
            assert_eq!(error.place(), Some(&NodePath::new(vec![Step::Child(1)])), "{error}");
        }
        let mut values = node(c"u", c"");
        let dictionary = ArrowSchema { dictionary: &raw mut values, ..node(c"i", c"") };
        assert!(with(c"+r", &mut [dictionary, node(c"u", c"")]).is_err());
        with(c"+r", &mut [node(c"i", c""), node(c"u", c"")]).unwrap();
        for wrong in [node(c"+s", c""), node(c"l", c"")] {
            let error = with(c"+m", &mut [wrong]).unwrap_err();
            assert_eq!(error.place(), Some(&NodePath::new(vec![Step::Child(1)])), "{error}");
        }
    }
}
