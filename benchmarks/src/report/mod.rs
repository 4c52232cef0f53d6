//! From times to a page, pictures, and a verdict on each aim.

pub mod aims;
mod machine;
pub mod page;
mod plot;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::clock::Time;
use crate::gate::Record;
pub use machine::Machine;
use plot::{Line, Picture};

/// The name of this library among the peers.
pub const OURS: &str = "arrow-device";

/// What one peer took for one turn of a workload, whoever measured it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What was done.
    pub workload: String,
    /// To what.
    pub shape: String,
    /// How much of it.
    pub size: u64,
    /// By whom.
    pub peer: String,
    /// The bytes that were moved.
    pub bytes: u64,
    /// Nanoseconds, the median of the rounds.
    pub median: f64,
    /// The fastest round.
    pub least: f64,
}

impl Row {
    /// Reads what a program in Python measured:
    /// `{"workload": ..., "shape": ..., "size": ..., "peer": ..., "median_ns": ...}`. The workload
    /// is called Python's, because others have the same name.
    ///
    /// # Errors
    /// Where it is something else.
    pub fn parse(line: &str) -> Result<Self, String> {
        let value: Value =
            serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
        let lacks = |name: &str| format!("lacks {name}: {line}");
        let text = |name: &str| value[name].as_str().map(str::to_owned).ok_or_else(|| lacks(name));
        let median = value["median_ns"].as_f64().ok_or_else(|| lacks("median_ns"))?;
        Ok(Self {
            workload: format!("python, {}", text("workload")?),
            shape: text("shape")?,
            size: value["size"].as_u64().ok_or_else(|| lacks("size"))?,
            peer: text("peer")?,
            bytes: 0,
            median,
            least: median,
        })
    }

    fn json(&self) -> Value {
        json!({
            "workload": self.workload, "shape": self.shape, "size": self.size, "peer": self.peer,
            "bytes": self.bytes, "median": self.median, "least": self.least,
        })
    }
}

impl From<Time> for Row {
    fn from(time: Time) -> Self {
        Self {
            workload: time.workload.into(),
            shape: time.shape.into(),
            size: time.size,
            peer: time.peer.to_string(),
            bytes: time.bytes,
            median: time.median,
            least: time.least,
        }
    }
}

/// Writes the page, the pictures and the numbers into a folder, and the tables of other pages
/// between their marks.
///
/// # Errors
/// Where something cannot be written.
pub fn write(
    rows: &[Row],
    machine: &Machine,
    counts: &Record,
    folder: &Path,
    pages: &[&Path],
) -> Result<(), String> {
    let verdicts = aims::verdicts(rows, counts);
    let pictures = pictures(rows);
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(said)?;
    for old in fs::read_dir(folder).map_err(said)?.flatten().map(|file| file.path()) {
        if old.extension().is_some_and(|ending| ending == "svg") {
            fs::remove_file(old).map_err(said)?;
        }
    }
    for (file, picture) in &pictures {
        fs::write(folder.join(file), picture.svg()).map_err(said)?;
    }
    let numbers = json!({
        "machine": machine.json(),
        "aims": verdicts.iter().map(aims::Verdict::json).collect::<Vec<_>>(),
        "times": rows.iter().map(Row::json).collect::<Vec<_>>(),
    });
    fs::write(folder.join("results.json"), format!("{numbers:#}\n")).map_err(said)?;
    let page = page::page(rows, machine, &verdicts, &pictures);
    fs::write(folder.join("results.md"), page).map_err(said)?;
    for page in pages {
        let said = |error: std::io::Error| format!("{}: {error}", page.display());
        let text = fs::read_to_string(page).map_err(said)?;
        let filled = page::filled(&text, rows, machine, &verdicts)?;
        fs::write(page, filled).map_err(said)?;
    }
    Ok(())
}

/// A picture for each workload and shape that was measured at three sizes or more; rates of one
/// workload go into one.
fn pictures(rows: &[Row]) -> Vec<(String, Picture)> {
    let mut found: Vec<(String, Picture)> = Vec::new();
    let key = |row: &Row| {
        let shape = if row.bytes > 0 { String::new() } else { row.shape.clone() };
        (row.workload.clone(), shape)
    };
    let mut keys: Vec<(String, String)> = rows.iter().map(key).collect();
    keys.sort();
    keys.dedup();
    for (workload, shape) in keys {
        let of_this: Vec<&Row> =
            rows.iter().filter(|row| key(row) == (workload.clone(), shape.clone())).collect();
        let is_rate = shape.is_empty();
        let mut names: Vec<(String, String)> = Vec::new();
        for row in &of_this {
            let name = (if is_rate { row.shape.clone() } else { String::new() }, row.peer.clone());
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let lines: Vec<Line> = names
            .into_iter()
            .map(|(shape, peer)| {
                let of_line = of_this
                    .iter()
                    .filter(|row| row.peer == peer && (!is_rate || row.shape == shape));
                let point = |row: &&&Row| {
                    let rate = row.bytes as f64 / row.median * 1e9;
                    if is_rate { (row.bytes as f64, rate) } else { (row.size as f64, row.median) }
                };
                let mut points: Vec<(f64, f64)> = of_line.map(|row| point(&row)).collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                let name = if is_rate { format!("{shape}, {peer}") } else { peer };
                Line { name, points }
            })
            .filter(|line| line.points.len() >= 3)
            .collect();
        if lines.is_empty() {
            continue;
        }
        let title = if is_rate { workload.clone() } else { format!("{workload}, {shape}") };
        let file = format!("{}.svg", title.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
        found.push((file.replace("--", "-"), Picture { title, is_rate, lines }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn row(workload: &str, size: u64, peer: &str, median: f64) -> Row {
        Row {
            workload: workload.into(),
            shape: "batch".into(),
            size,
            peer: peer.into(),
            bytes: 0,
            median,
            least: median,
        }
    }

    #[test]
    fn a_line_of_python_is_a_row_of_its_own_workload() {
        let line = json!({"workload": "export", "shape": "batch", "size": 10, "peer": "pyarrow", "median_ns": 12.5});
        assert_eq!(Row::parse(&line.to_string()), Ok(row("python, export", 10, "pyarrow", 12.5)));
        assert!(Row::parse("{\"workload\": \"export\"}").is_err());
        assert!(Row::parse("words").is_err());
    }

    #[test]
    fn what_has_three_sizes_has_a_picture_with_a_line_for_each_peer() {
        let mut rows = Vec::new();
        for size in [1, 10, 100] {
            rows.extend([row("export", size, OURS, 1.0), row("export", size, "nanoarrow", 2.0)]);
        }
        rows.push(row("import", 1, OURS, 1.0));
        let pictures = pictures(&rows);
        assert_eq!(pictures.len(), 1);
        let (file, picture) = &pictures[0];
        assert_eq!((file.as_str(), picture.lines.len()), ("export-batch.svg", 2));
    }

    #[test]
    fn rates_of_all_pairs_of_devices_are_in_one_picture() {
        let mut rows = Vec::new();
        for (pair, rate) in [("host to host", 10), ("host to opencl", 5)] {
            for bytes in [1 << 10, 1 << 20, 1 << 30] {
                let median = bytes as f64 / rate as f64;
                let shape = pair.to_owned();
                rows.push(Row { bytes, shape, ..row("copy", bytes, OURS, median) });
            }
        }
        let pictures = pictures(&rows);
        assert_eq!(pictures.len(), 1);
        assert_eq!(pictures[0].1.lines.len(), 2);
        assert_eq!(pictures[0].1.lines[1].points[2], ((1u64 << 30) as f64, 5e9));
    }
}
