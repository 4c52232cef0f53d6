//! A record batch as a table of text.

use std::fmt::{Display, Write};

use super::show::OneLine;
use crate::{Array, Batch, DataType, Field, Result};

/// The largest width of a cell.
const MOST_CHARACTERS: usize = 40;

/// The most values that a table shows. A few bytes can claim any number of nulls.
const MOST_CELLS: usize = 1 << 20;

/// The largest width of a line. Columns that would make it wider come below the others.
const MOST_LINE: usize = 120;

impl Batch {
    /// The first rows as a table of text: names, types, values, and how many rows are left out.
    ///
    /// Each cell is one line, and ends in `…` where it would be too wide. Columns that do not fit
    /// beside the others come below them. A table has at most a million cells, or 1,048,576, and
    /// leaves out the rows behind them. Waits for the data, and reads it on the host, as
    /// [`Array::host`] does.
    ///
    /// ```
    /// # use arrow_device::{Array, Batch, DataType};
    /// let batch = Batch::from_columns([
    ///     ("name", Array::from_texts(DataType::Utf8, [Some("Ada"), None, Some("Grace")])?),
    ///     ("born", Array::from_values(DataType::Int16, [Some(1815_i16), Some(1906), None])?),
    /// ])?;
    /// assert_eq!(
    ///     batch.to_table(2)?,
    ///     "\
    /// name | born
    /// utf8 | int16
    /// -----+------
    /// Ada  |  1815
    /// null |  1906
    /// and 1 more row
    /// "
    /// );
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn to_table(&self, rows: usize) -> Result<String> {
        let most = MOST_CELLS / self.column_count().max(1);
        let shown = self.row_count().min(rows).min(most);
        let columns: Vec<Column> = self
            .fields()
            .iter()
            .zip(self.columns()?)
            .map(|(field, array)| Column::new(field, &array, shown))
            .collect::<Result<_>>()?;
        let mut table = String::new();
        for (number, block) in blocks(&columns).iter().enumerate() {
            if number > 0 {
                table.push('\n');
            }
            push_block(&mut table, block, shown + HEADINGS);
        }
        let more = self.row_count() - shown;
        if more > 0 {
            let plural = if more == 1 { "" } else { "s" };
            push_line(&mut table, &format!("and {more} more row{plural}"));
        }
        Ok(table)
    }
}

/// Groups of columns that fit side by side into one line.
fn blocks(columns: &[Column]) -> Vec<&[Column]> {
    let mut blocks = Vec::new();
    let mut rest = columns;
    while !rest.is_empty() {
        let mut width = 0;
        let fits = |column: &&Column| {
            width += column.width + 3;
            width <= MOST_LINE + 3
        };
        // At least one column, however wide it is.
        let count = rest.iter().take_while(fits).count().max(1);
        let (block, others) = rest.split_at(count.min(rest.len()));
        blocks.push(block);
        rest = others;
    }
    blocks
}

fn push_block(table: &mut String, columns: &[Column], lines: usize) {
    for line in 0..lines {
        let cells: Vec<String> = columns.iter().map(|column| column.cell(line)).collect();
        push_line(table, &cells.join(" | "));
        if line + 1 == HEADINGS {
            let rules: Vec<String> =
                columns.iter().map(|column| "-".repeat(column.width)).collect();
            push_line(table, &rules.join("-+-"));
        }
    }
}

fn push_line(table: &mut String, line: &str) {
    table.push_str(line.trim_end());
    table.push('\n');
}

/// The number of headings: the name and the type.
const HEADINGS: usize = 2;

struct Column {
    /// The headings, and then the values.
    cells: Vec<String>,
    width: usize,
    is_number: bool,
}

impl Column {
    fn new(field: &Field, array: &Array, rows: usize) -> Result<Self> {
        let mut cells = vec![cut(field.name()), cut(field.data_type())];
        let host = array.host()?;
        for index in 0..rows {
            // Each part takes at least a character, so further parts would not be seen.
            cells.push(cut(host.preview(index, MOST_CHARACTERS + 1)?));
        }
        let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        let data_type = field.data_type();
        let is_number = data_type.is_integer()
            || data_type.is_decimal()
            || matches!(data_type, DataType::Duration(_));
        Ok(Self { cells, width, is_number })
    }

    fn cell(&self, line: usize) -> String {
        let cell = self.cells.get(line).map_or("", String::as_str);
        let width = self.width;
        // Numbers are aligned on the right.
        if self.is_number && line >= HEADINGS {
            format!("{cell:>width$}")
        } else {
            format!("{cell:<width$}")
        }
    }
}

/// The first characters of what is printed. The rest is not made: names of fields and of time zones
/// may be long, and each row repeats them.
struct Beginning {
    text: String,
    left: usize,
}

impl Write for Beginning {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for character in text.chars() {
            self.left = self.left.checked_sub(1).ok_or(std::fmt::Error)?;
            self.text.push(character);
        }
        Ok(())
    }
}

/// What is printed, on one line, cut where it is too wide.
pub(super) fn cut(printed: impl Display) -> String {
    // One character more than fits shows that the text does not fit.
    let mut beginning = Beginning { text: String::new(), left: MOST_CHARACTERS + 1 };
    // The error says that there is room for no more.
    let _ = write!(beginning, "{printed}");
    let line = OneLine(&beginning.text).to_string();
    match line.char_indices().nth(MOST_CHARACTERS) {
        None => line,
        Some(_) => line.chars().take(MOST_CHARACTERS - 1).chain(['…']).collect(),
    }
}
