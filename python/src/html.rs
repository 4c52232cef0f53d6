//! What notebooks show.
//!
//! No colour is named: text and lines have those of the notebook, light or dark.

use std::fmt::Write;

use arrow_device::{Array, Batch, DataType, DeviceType, HostArray, Ready};

use crate::backends;
use crate::sizes::nbytes;

/// Rows of a batch, or elements of an array, that are shown.
const ROWS: usize = 10;
/// Columns of a batch that are shown.
const COLUMNS: usize = 20;
/// Rows of the tree of columns that are shown.
const NODES: usize = 50;
/// So many characters of a value are shown.
const CHARACTERS: usize = 40;

/// Whether the host can read the data without a wait.
fn is_readable(array: &Array) -> bool {
    array.device().device_type == DeviceType::CPU && array.ready() == Ready::Now
}

/// The first rows of the first columns, where the host can read them without a wait.
pub(crate) fn preview(batch: &Batch) -> Option<String> {
    if !is_readable(batch.as_array()) || batch.column_count() == 0 {
        return None;
    }
    let (shown, hidden) = first_columns(batch)?;
    // Another party's data may be wrong; a `repr` raises nothing.
    let mut table = shown.to_table(ROWS).ok()?.trim_end().to_owned();
    if hidden > 0 {
        // Writing into a `String` does not fail.
        let _ = write!(table, "\nand {}", counted(hidden, "more column"));
    }
    Some(table)
}

/// The first columns, and how many others there are.
fn first_columns(batch: &Batch) -> Option<(Batch, usize)> {
    let hidden = batch.column_count().saturating_sub(COLUMNS);
    if hidden == 0 {
        return Some((batch.clone(), 0));
    }
    let fields = batch.fields().iter().take(COLUMNS).enumerate();
    let column = |index| batch.column(index).ok();
    let columns = fields.map(|(index, field)| Some((field.name().to_owned(), column(index)?)));
    Some((Batch::from_columns(columns.collect::<Option<Vec<_>>>()?).ok()?, hidden))
}

/// "1 row", "2 rows".
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The first values, where the host can read them, and the tree of columns as a table: each with
/// its type, where it lives, how long and how large it is.
pub(crate) fn whole(array: &Array, batch: Option<&Batch>) -> String {
    format!("<div>{}{}</div>", values(array, batch), tree(array, batch))
}

/// Cells of text. Numbers are on the right. Where the page has no style for tables, cells would
/// touch.
const LEFT: &str = "style=\"text-align:left;padding:.25em .5em\"";
const RIGHT: &str = "style=\"text-align:right;padding:.25em .5em\"";

/// The first values as a table, or why they are not shown.
fn values(array: &Array, batch: Option<&Batch>) -> String {
    if !is_readable(array) {
        let on = backends::called(array.device());
        return format!(
            "<p>The data is on {}, and is not read to be shown: <code>to_host()</code> copies it.</p>",
            escaped(&on.to_string())
        );
    }
    // Another party's data may be wrong; a `repr` raises nothing.
    table_of_values(array, batch).unwrap_or_default()
}

fn table_of_values(array: &Array, batch: Option<&Batch>) -> Option<String> {
    let (columns, hidden) = match batch {
        Some(batch) => {
            let (shown, hidden) = first_columns(batch)?;
            let names = shown.fields().iter().map(|field| field.name().to_owned());
            (names.zip(shown.columns().ok()?).collect(), hidden)
        }
        None => (vec![(array.field().name().to_owned(), array.clone())], 0),
    };
    let columns: Vec<(String, Array)> = columns;
    if columns.is_empty() {
        return None;
    }
    let shown = array.len().min(ROWS);
    let mut html = String::from("<table><thead><tr><th></th>");
    for (name, column) in &columns {
        let of = escaped(&cut(&column.data_type().to_string()));
        let (name, side) = (escaped(&cut(name)), side(column.data_type()));
        let line = if name.is_empty() { "" } else { "<br>" };
        let _ = write!(html, "<th {side}>{name}{line}<small>{of}</small></th>");
    }
    html.push_str("</tr></thead><tbody>");
    let hosts = columns.iter().map(|(_, column)| column.host().ok());
    let hosts = hosts.collect::<Option<Vec<HostArray>>>()?;
    for row in 0..shown {
        let _ = write!(html, "<tr><th {RIGHT}>{row}</th>");
        for ((_, column), host) in columns.iter().zip(&hosts) {
            // One character more than fits shows that the text does not fit.
            let text = host.preview(row, CHARACTERS + 1).ok()?.to_string();
            let side = side(column.data_type());
            let _ = write!(html, "<td {side}>{}</td>", escaped(&cut(&text)));
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table>");
    let more = [(array.len() - shown, "more row"), (hidden, "more column")];
    let more: Vec<String> = more
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| counted(count, what))
        .collect();
    if !more.is_empty() {
        let _ = write!(html, "<p>and {}</p>", more.join(", "));
    }
    Some(html)
}

/// Where the values of a type are in their cells.
fn side(data_type: &DataType) -> &'static str {
    if data_type.is_integer() || data_type.is_floating() { RIGHT } else { LEFT }
}

/// The tree of columns as a table.
fn tree(array: &Array, batch: Option<&Batch>) -> String {
    let mut html = format!(
        "<table><thead><tr><th {LEFT}>column</th><th {LEFT}>type</th><th {LEFT}>device</th>\
         <th {RIGHT}>elements</th><th {RIGHT}>nulls</th><th {RIGHT}>bytes</th></tr></thead><tbody>"
    );
    let name = array.field().name();
    let mut left = NODES;
    let mut hidden = 0;
    let root = if name.is_empty() { "(root)" } else { name };
    node(&mut html, array, batch, root, 0, &mut left, &mut hidden);
    html.push_str("</tbody></table>");
    if hidden > 0 {
        let _ = write!(html, "<p>and {} of columns</p>", counted(hidden, "more row"));
    }
    html
}

fn node(
    html: &mut String,
    array: &Array,
    batch: Option<&Batch>,
    name: &str,
    depth: usize,
    left: &mut usize,
    hidden: &mut usize,
) {
    if *left == 0 {
        // What is below is not looked at: it may be deep.
        *hidden += 1;
        return;
    }
    *left -= 1;
    let unknown = || "?".to_owned();
    let nulls = array.null_count().map_or_else(unknown, |count| count.to_string());
    // Nothing is read for it that may be wrong: a `repr` raises nothing.
    let bytes = nbytes(array).ok().flatten().map_or_else(unknown, size);
    // Writing into a `String` does not fail.
    let _ = write!(
        html,
        "<tr><td style=\"text-align:left;padding:.25em .5em .25em {:.1}em\">{}</td><td {LEFT}>{}</td><td {LEFT}>{}</td>\
         <td {RIGHT}>{}</td><td {RIGHT}>{nulls}</td><td {RIGHT}>{bytes}</td></tr>",
        0.5 + 1.5 * depth as f32,
        escaped(&cut(name)),
        escaped(&short(array)),
        backends::called(array.device()),
        array.len(),
    );
    for index in 0..array.child_count() {
        let child = match batch {
            Some(batch) => batch.column(index),
            None => array.child(index).map(|child| shown_part(array, &child).unwrap_or(child)),
        };
        if let Ok(child) = child {
            node(html, &child, None, child.field().name(), depth + 1, left, hidden);
        }
    }
    if let Some(values) = array.dictionary() {
        node(html, &values, None, "(dictionary)", depth + 1, left, hidden);
    }
}

/// The part of a child that an array shows, where that is known: a child lies there as a whole.
fn shown_part(array: &Array, child: &Array) -> Option<Array> {
    let (offset, len) = match array.data_type() {
        DataType::Struct(_) => (array.offset(), array.len()),
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).ok()?;
            (array.offset().checked_mul(size)?, array.len().checked_mul(size)?)
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::Map { .. } => {
            if !is_readable(array) || array.is_empty() {
                return child.slice(0, if array.is_empty() { 0 } else { child.len() }).ok();
            }
            let host = array.host().ok()?;
            let lists = host.lists().ok()?;
            let ranges = (0..lists.len()).filter_map(|index| lists.range(index));
            let (first, last) = ranges.fold((usize::MAX, 0), |(first, last), range| {
                (first.min(range.start), last.max(range.end))
            });
            let items = lists.items().array().offset().checked_sub(child.offset())?;
            (items + first.min(last), last.saturating_sub(first))
        }
        _ => return None,
    };
    child.slice(offset, len).ok()
}

/// Not too wide.
fn cut(text: &str) -> String {
    match text.char_indices().nth(CHARACTERS) {
        None => text.to_owned(),
        Some(_) => text.chars().take(CHARACTERS - 1).chain(['…']).collect(),
    }
}

/// The type without its children, which have rows of their own.
fn short(array: &Array) -> String {
    let text = array.data_type().to_string();
    if array.child_count() == 0 {
        return cut(&text);
    }
    text.split('<').next().unwrap_or_default().to_owned()
}

fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = units.into_iter();
    let mut name = unit.next().unwrap_or_default();
    while value >= 1024.0 {
        let Some(next) = unit.next() else { break };
        (value, name) = (value / 1024.0, next);
    }
    if name == "B" { format!("{bytes} B") } else { format!("{value:.1} {name}") }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A tensor in one row.
pub(crate) fn tensor(dtype: &str, shape: &str, device: &str, bytes: u64) -> String {
    format!(
        "<table><thead><tr><th {LEFT}>dtype</th><th {LEFT}>shape</th><th {LEFT}>device</th><th {RIGHT}>bytes</th></tr></thead>\
         <tbody><tr><td {LEFT}>{}</td><td {LEFT}>{}</td><td {LEFT}>{}</td><td {RIGHT}>{}</td></tr></tbody></table>",
        escaped(dtype),
        escaped(shape),
        escaped(device),
        size(bytes)
    )
}
