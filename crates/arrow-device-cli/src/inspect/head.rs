//! The first values of each batch, which are read: they are copied to the host, unless they are
//! there.

use std::io::Write;

use arrow_device::{Array, Batch, HostArray};

use crate::failure::Outcome;
use crate::table::{self, Side};
use crate::units;

/// No cell is wider than this.
const WIDEST: usize = 40;

pub(super) fn write(out: &mut dyn Write, arrays: &[Array], most: usize) -> Outcome<()> {
    for (number, array) in arrays.iter().enumerate() {
        let rows = array.len().min(most);
        let first = array.slice(0, rows)?.to_host()?;
        let all = units::counted(array.len() as u64, "row", "rows");
        writeln!(out, "\nbatch {number}, the first {rows} of {all}")?;
        let columns = columns(&first)?;
        let titles: Vec<(&str, Side)> =
            columns.iter().map(|(name, _)| (name.as_str(), Side::Left)).collect();
        let row = |row: usize| {
            let cell =
                |(_, column): &(String, HostArray)| Ok(cell(&column.value(row)?.to_string()));
            columns.iter().map(cell).collect::<Outcome<Vec<String>>>()
        };
        let cells = (0..rows).map(row).collect::<Outcome<Vec<_>>>()?;
        table::write(out, &titles, &cells)?;
    }
    Ok(())
}

/// The columns of a batch with their names; an array that is none is one column.
fn columns(array: &Array) -> Outcome<Vec<(String, HostArray)>> {
    let Ok(batch) = Batch::try_from(array.clone()) else {
        return Ok(vec![("value".to_owned(), array.host()?)]);
    };
    let name = |index: usize| {
        let column = batch.column(index)?;
        let name = cell(column.field().name());
        Ok((if name.is_empty() { index.to_string() } else { name }, column.host()?))
    };
    (0..array.child_count()).map(name).collect()
}

/// A value in one line that a terminal can take.
fn cell(value: &str) -> String {
    let mut letters = value.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let mut text: String = letters.by_ref().take(WIDEST).collect();
    if letters.next().is_some() {
        text.pop();
        text.push('…');
    }
    text
}
