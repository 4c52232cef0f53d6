//! Text in columns.

use std::io::{self, Write};

/// Which side of its column a cell stands on.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// A cell that is wider than this widens no other row.
const WIDEST: usize = 100;

/// Prints rows in columns that are as wide as their widest cell, below their titles. A row may end
/// early; its last cell then takes all the room it likes.
pub(crate) fn write(
    out: &mut dyn Write,
    titles: &[(&str, Side)],
    rows: &[Vec<String>],
) -> io::Result<()> {
    let mut widths: Vec<usize> = titles.iter().map(|(title, _)| width(title)).collect();
    for row in rows {
        let is_short = row.len() < titles.len();
        let measured = row.len().saturating_sub(usize::from(is_short));
        for (widest, cell) in widths.iter_mut().zip(row).take(measured) {
            *widest = (*widest).max(width(cell).min(WIDEST));
        }
    }
    let head: Vec<String> = titles.iter().map(|(title, _)| (*title).to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for ((cell, (_, side)), widest) in row.iter().zip(titles).zip(&widths) {
            let room = " ".repeat(widest.saturating_sub(width(cell)));
            let (before, behind) =
                if *side == Side::Right { (room.as_str(), "") } else { ("", room.as_str()) };
            line.push_str(&format!("{before}{cell}{behind}  "));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_short_rows_run_on() {
        let mut out = Vec::new();
        let titles = [("name", Side::Left), ("bytes", Side::Right)];
        let rows = [["é", "5"].map(String::from).to_vec(), vec!["a long explanation".to_owned()]];
        write(&mut out, &titles, &rows).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "name  bytes\né         5\na long explanation\n"
        );
    }

    #[test]
    fn a_very_long_cell_widens_no_other_row() {
        let mut out = Vec::new();
        let titles = [("name", Side::Left), ("bytes", Side::Right)];
        let long = "x".repeat(10_000);
        let rows = [[&long, "5"], ["a", "6"]].map(|row| row.map(String::from).to_vec());
        write(&mut out, &titles, &rows).unwrap();
        assert!(out.len() < 10_500, "{}", out.len());
        assert!(String::from_utf8(out).unwrap().contains(&format!("{long}      5\n")));
    }
}
