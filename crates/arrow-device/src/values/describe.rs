//! Describes the structure of an array as text for people.

use std::fmt::{self, Write};

use super::show::OneLine;
use crate::array::Ready;
use crate::{Array, BufferKind, DataType};

/// How many data buffers of views are listed.
const MOST_DATA_BUFFERS: usize = 4;

/// The longest description in bytes. Without a bound, a few shared names and pairs of metadata
/// could be printed for any number of fields.
const LONGEST: usize = 16 << 20;

/// A text that ends at [`LONGEST`].
struct BoundedText(String);

impl Write for BoundedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

impl Array {
    /// Describes the tree of columns: the name, type, length, offset and null count of each, and
    /// what is known of its buffers. Reads no buffer, asks no device, and shows no address. A text
    /// of more than 16 MiB ends with `…`.
    ///
    /// ```
    /// # use arrow_device::{Array, DataType};
    /// let names = Array::from_texts(DataType::Utf8, [Some("Ada"), None])?;
    /// assert_eq!(
    ///     names.describe(),
    ///     "\
    /// on cpu, ready
    /// root: utf8, 2 elements from 0, 1 null
    ///   validity: 1 byte
    ///   offsets, 32 bits: 12 bytes
    ///   data: 3 bytes
    /// "
    /// );
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn describe(&self) -> String {
        let ready = match self.ready() {
            Ready::Now => "ready".to_owned(),
            Ready::AfterEvent => "after an event".to_owned(),
            Ready::AfterEvents(events) => format!("after {events} events"),
        };
        let mut text = BoundedText(format!("on {}, {ready}\n", self.device()));
        let name = self.field().name();
        let name = if name.is_empty() { "root" } else { name };
        let is_whole = describe(&mut text, self, name, 0).is_ok();
        let BoundedText(mut text) = text;
        if !is_whole {
            text.push('…');
        }
        text
    }
}

/// Describes a node and everything below it. A schema has at most 64 levels.
fn describe(out: &mut BoundedText, array: &Array, name: &str, depth: usize) -> fmt::Result {
    let indent = depth * 2;
    let data_type = array.data_type();
    let window = array.window();
    write!(out, "{:indent$}{}: {}", "", OneLine(name), ShortType(data_type))?;
    write!(out, ", {} from {}", counted(window.length, "element"), window.offset)?;
    match window.null_count {
        -1 => out.write_str(", nulls not counted\n")?,
        nulls => writeln!(out, ", {}", counted(nulls, "null"))?,
    }
    let metadata = array.field().metadata();
    if !metadata.is_empty() {
        writeln!(out, "{:indent$}  metadata {metadata}", "")?;
    }
    describe_buffers(out, array, indent + 2)?;
    for index in 0..array.child_count() {
        if let Ok(child) = array.node_child(index) {
            describe(out, &child, child.field().name(), depth + 1)?;
        }
    }
    match array.node_dictionary() {
        Some(values) => describe(out, &values, "dictionary", depth + 1),
        None => Ok(()),
    }
}

fn describe_buffers(out: &mut BoundedText, array: &Array, indent: usize) -> fmt::Result {
    let fixed = array.schema_node().layout.buffers();
    for (index, kind) in fixed.iter().enumerate() {
        writeln!(out, "{:indent$}{}: {}", "", kind_name(*kind), buffer_len(array, index))?;
    }
    // The other buffers are data buffers, and one buffer with their sizes.
    let count = array.buffer_count().saturating_sub(fixed.len() + 1);
    for index in 0..count.min(MOST_DATA_BUFFERS) {
        writeln!(out, "{:indent$}data {index}: {}", "", buffer_len(array, fixed.len() + index))?;
    }
    match count.checked_sub(MOST_DATA_BUFFERS) {
        None | Some(0) => Ok(()),
        Some(more) => writeln!(out, "{:indent$}and {more} more data buffers", ""),
    }
}

fn kind_name(kind: BufferKind) -> String {
    match kind {
        BufferKind::Validity => "validity".to_owned(),
        BufferKind::Bits => "bits".to_owned(),
        BufferKind::Fixed { width } => format!("values, {} each", counted(width.into(), "byte")),
        BufferKind::Offsets32 => "offsets, 32 bits".to_owned(),
        BufferKind::Offsets64 => "offsets, 64 bits".to_owned(),
        BufferKind::Starts32 => "starts, 32 bits".to_owned(),
        BufferKind::Starts64 => "starts, 64 bits".to_owned(),
        BufferKind::Sizes32 => "sizes, 32 bits".to_owned(),
        BufferKind::Sizes64 => "sizes, 64 bits".to_owned(),
        BufferKind::TypeIds => "type ids".to_owned(),
        BufferKind::UnionOffsets => "offsets into the fields".to_owned(),
        BufferKind::VariableBytes => "data".to_owned(),
        BufferKind::Views => "views".to_owned(),
    }
}

fn buffer_len(array: &Array, index: usize) -> String {
    if array.node().buffer(index).is_null() {
        return "none".to_owned();
    }
    array.extent(index).to_string()
}

fn counted(count: i64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A type, without what the lines of its children say.
struct ShortType<'a>(&'a DataType);

impl fmt::Display for ShortType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            DataType::Dictionary { index, .. } => write!(f, "dictionary with keys of {index}"),
            DataType::Union { type_ids, mode, .. } => write!(f, "{mode}_union{type_ids:?}"),
            DataType::FixedSizeList(_, size) => write!(f, "fixed_size_list[{size}]"),
            nested if nested.is_nested() => {
                let text = nested.to_string();
                f.write_str(text.split('<').next().unwrap_or_default())
            }
            leaf => write!(f, "{}", OneLine(&leaf.to_string())),
        }
    }
}
