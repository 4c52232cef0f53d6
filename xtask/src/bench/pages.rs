//! The counts that pages tell are those of the file, but for 2 % of the instructions.
//!
//! A row of a table in a page is found by how it begins. Its last two cells are calls of the
//! allocator and instructions, with a number for each workload of the row, or with one for all.

use std::collections::HashMap;

use super::COUNTS;
use crate::shell;

/// The beginnings of rows, each with the workloads whose counts are in it.
type Rows = &'static [(&'static str, &'static [&'static str])];

const OF_THE_REFERENCE: Rows = &[
    ("export, flat array", &["export/int64/1"]),
    (
        "export, 1000 columns, one owner / built from columns",
        &["export/imported batch/1000", "export/built batch/1000"],
    ),
    ("export with schema, 1000 columns", &["export with schema/imported batch/1000"]),
    ("release, 1000 columns", &["release/imported batch/1000"]),
    ("import, flat array", &["import/int64/1"]),
    (
        "import, 1000 columns of one type / of several in turn",
        &["import/batch/1000", "import/mixed batch/1000"],
    ),
    (
        "import with schema, flat array / 1000 columns",
        &["import with schema/int64/1", "import with schema/batch/1000"],
    ),
    (
        "import of a schema, 1 / 1000 columns",
        &["import of a schema/batch/1", "import of a schema/batch/1000"],
    ),
    ("the fields of an imported schema", &["fields of an imported schema/batch/1000"]),
    ("export from an arrow-rs batch of 1000 columns", &["export from arrow-rs/batch/1000"]),
    (
        "a batch through a C stream of device arrays, 1 / 10 / 100 / 1000 columns",
        &[
            "stream/device batch/1",
            "stream/device batch/10",
            "stream/device batch/100",
            "stream/device batch/1000",
        ],
    ),
    (
        "tensor of one dimension: export / import",
        &["tensor export/one dimension/1", "tensor import/one dimension/1"],
    ),
    (
        "tensor to array / imported tensor to array",
        &["tensor to array/int64/1", "imported tensor to array/int64/1"],
    ),
    (
        "plan of a copy of 1000 columns, numbers / text",
        &["plan of a copy/int64 batch/1000", "plan of a copy/text batch/1000"],
    ),
];

const OF_THE_BOOK: Rows = &[
    ("export of a flat array", &["export/int64/1"]),
    ("export of a batch of 1,000 columns", &["export/imported batch/1000"]),
    ("release of it", &["release/imported batch/1000"]),
    ("import of a flat array, schema known", &["import/int64/1"]),
    ("import of 1,000 columns of one type, schema known", &["import/batch/1000"]),
    ("import of a schema of 1,000 columns", &["import of a schema/batch/1000"]),
    ("a batch of 10 columns through a stream of device arrays", &["stream/device batch/10"]),
];

/// The counts of the file, by workload and name.
fn kept(file: &str) -> HashMap<(&str, &str), u64> {
    let mut workload = "";
    let mut counts = HashMap::new();
    for line in file.lines() {
        let Some((name, value)) = line.trim().trim_start_matches('"').split_once("\": ") else {
            continue;
        };
        match value.trim_end_matches(',').parse() {
            Ok(count) => _ = counts.insert((workload, name), count),
            Err(_) => workload = name,
        }
    }
    counts
}

/// The numbers of a cell, such as `37,424 / 30,410`.
fn numbers(cell: &str) -> Vec<u64> {
    cell.split('/').map(|number| number.trim().replace(',', "").parse().unwrap()).collect()
}

/// What is wrong with the rows of a page.
fn differences(page: &str, rows: Rows, kept: &HashMap<(&str, &str), u64>) -> Vec<String> {
    let mut found = Vec::new();
    for (beginning, workloads) in rows {
        let row = page.lines().find(|line| line.starts_with(&format!("| {beginning}")));
        let row = row.unwrap_or_else(|| panic!("no row begins with `{beginning}`"));
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        for (cell, count, tolerance) in [(1, "allocations", 0), (2, "instructions", 2)] {
            let told = numbers(cells[cell]);
            for (index, workload) in workloads.iter().enumerate() {
                let (told, kept) = (told[index.min(told.len() - 1)], kept[&(*workload, count)]);
                if 100 * told.abs_diff(kept) > tolerance * kept {
                    found.push(format!("`{beginning}`: {workload}: {told} {count}, not {kept}"));
                }
            }
        }
    }
    found
}

#[test]
fn the_counts_in_pages_are_those_of_the_file() {
    let file = shell::read(COUNTS).unwrap();
    let kept = kept(&file);
    for (page, rows) in
        [("docs/performance.md", OF_THE_REFERENCE), ("book/src/costs.md", OF_THE_BOOK)]
    {
        let found = differences(&shell::read(page).unwrap(), rows, &kept);
        assert!(found.is_empty(), "{page}:\n{}", found.join("\n"));
    }
}
