//! What notebooks show.

use std::fmt::Write;

use arrow_device::{Array, Batch, DeviceType, Ready};

use crate::backends;
use crate::sizes::nbytes;

/// Rows of a batch that `repr` shows.
const ROWS: usize = 10;

/// The first rows, where the host can read them without a wait.
pub(crate) fn preview(batch: &Batch) -> Option<String> {
    let array = batch.as_array();
    if array.device().device_type != DeviceType::CPU || array.ready() != Ready::Now {
        return None;
    }
    // Another party's data may be wrong; a `repr` raises nothing.
    batch.to_table(ROWS).ok().map(|table| table.trim_end().to_owned())
}

/// "1 row", "2 rows".
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The tree of columns as a table: each with its type, where it lives, how long and how large it
/// is.
pub(crate) fn tree(array: &Array) -> String {
    let mut html = String::from(
        "<table><thead><tr><th style=\"text-align:left\">column</th><th style=\"text-align:left\">type</th>\
         <th style=\"text-align:left\">device</th><th>elements</th><th>nulls</th><th>bytes</th></tr></thead><tbody>",
    );
    let name = array.field().name();
    rows(&mut html, array, if name.is_empty() { "(root)" } else { name }, 0);
    html.push_str("</tbody></table>");
    html
}

fn rows(html: &mut String, array: &Array, name: &str, depth: usize) {
    let unknown = || "?".to_owned();
    let nulls = array.null_count().map_or_else(unknown, |count| count.to_string());
    // Nothing is read for it that may be wrong: a `repr` raises nothing.
    let bytes = nbytes(array).ok().flatten().map_or_else(unknown, size);
    let cell = "<td style=\"text-align:left";
    // Writing into a `String` does not fail.
    let _ = write!(
        html,
        "<tr>{cell};padding-left:{}em\">{}</td>{cell}\">{}</td>{cell}\">{}</td><td>{}</td><td>{nulls}</td><td>{bytes}</td></tr>",
        1 + 2 * depth,
        escaped(name),
        escaped(&short(array)),
        backends::called(array.device()),
        array.len(),
    );
    for index in 0..array.child_count() {
        if let Ok(child) = array.child(index) {
            rows(html, &child, child.field().name(), depth + 1);
        }
    }
    if let Some(values) = array.dictionary() {
        rows(html, &values, "(dictionary)", depth + 1);
    }
}

/// The type without its children, which have rows of their own.
fn short(array: &Array) -> String {
    let text = array.data_type().to_string();
    if array.child_count() == 0 {
        return text;
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
        "<table><thead><tr><th>dtype</th><th>shape</th><th>device</th><th>bytes</th></tr></thead><tbody>\
         <tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr></tbody></table>",
        escaped(dtype),
        escaped(shape),
        escaped(device),
        size(bytes)
    )
}
