//! `cargo xtask peers`: released Python packages, checked by `arrow-device-check`.
//!
//! The packages are installed in the versions of `testing/foreign-peers/released.txt`, into an
//! environment of their own. What is found is a table in `docs/peers.md`. The command fails where
//! something else is found, and writes the table with `ARROW_DEVICE_BLESS=1`.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use crate::{peers, setup, shell};

/// The packages.
const PACKAGES: &str = "testing/foreign-peers/released.txt";
/// The folder of the module with the functions.
const MODULE: &str = "testing/foreign-peers/released";
/// Where the table stands, and what is before and behind it.
const PAGE: &str = "docs/peers.md";
const BEGIN: &str = "| package | function | side and kind | broken rules |\n|---|---|---|---|\n";

/// The package with the jar of arrow-java, which needs a virtual machine for Java.
const JAVA: &str = "jaydebeapiarrow";
/// The package with arrow-go.
const GO: &str = "adbc-driver-flightsql";
/// What the machines of both languages keep for themselves comes from the allocator whose books are
/// looked at.
const MACHINES_KEEP: [&str; 2] = ["--allow", "ARR-10,STR-7"];

/// The package, the function, its side, and what is exchanged.
const RELEASED: &[[&str; 4]] = &[
    ["pyarrow", "pyarrow_array", "producer", "array"],
    ["pyarrow", "pyarrow_batch", "producer", "array"],
    ["pyarrow", "pyarrow_table", "producer", "stream"],
    ["pyarrow", "pyarrow_tensor", "producer", "dlpack"],
    ["pyarrow", "pyarrow_takes_array", "consumer", "array"],
    ["pyarrow", "pyarrow_takes_batch", "consumer", "array"],
    ["pyarrow", "pyarrow_takes_tensor", "consumer", "dlpack"],
    ["nanoarrow", "nanoarrow_array", "producer", "array"],
    ["nanoarrow", "nanoarrow_device_array", "producer", "array"],
    ["nanoarrow", "nanoarrow_stream", "producer", "stream"],
    ["nanoarrow", "nanoarrow_takes_array", "consumer", "array"],
    ["arro3-core", "arro3_array", "producer", "array"],
    ["arro3-core", "arro3_batch", "producer", "array"],
    ["arro3-core", "arro3_table", "producer", "stream"],
    ["arro3-core", "arro3_takes_array", "consumer", "array"],
    ["polars", "polars_series", "producer", "stream"],
    ["polars", "polars_frame", "producer", "stream"],
    ["polars", "polars_takes_array", "consumer", "array"],
    ["pandas", "pandas_frame", "producer", "stream"],
    ["duckdb", "duckdb_relation", "producer", "stream"],
    ["datafusion", "datafusion_frame", "producer", "stream"],
    ["sedonadb", "sedonadb_frame", "producer", "stream"],
    ["adbc-driver-sqlite", "adbc_sqlite_result", "producer", "stream"],
    ["pyarrow", "pyarrow_takes_stream", "consumer", "stream"],
    ["nanoarrow", "nanoarrow_takes_stream", "consumer", "stream"],
    ["arro3-core", "arro3_takes_stream", "consumer", "stream"],
    ["polars", "polars_takes_stream", "consumer", "stream"],
    ["pandas", "pandas_takes_stream", "consumer", "stream"],
    ["duckdb", "duckdb_takes_stream", "consumer", "stream"],
    ["datafusion", "datafusion_takes_stream", "consumer", "stream"],
    ["sedonadb", "sedonadb_takes_stream", "consumer", "stream"],
    ["adbc-driver-sqlite", "adbc_sqlite_takes_stream", "consumer", "stream"],
    [GO, "go_reader", "producer", "stream"],
    [GO, "go_takes_stream", "consumer", "stream"],
    [JAVA, "java_array", "producer", "array"],
    [JAVA, "java_reader", "producer", "stream"],
    [JAVA, "java_takes_array", "consumer", "array"],
    [JAVA, "java_takes_stream", "consumer", "stream"],
    ["numpy", "numpy_tensor", "producer", "dlpack"],
    ["numpy", "numpy_takes_tensor", "consumer", "dlpack"],
    ["jax", "jax_tensor", "producer", "dlpack-legacy"],
    ["jax", "jax_takes_tensor", "consumer", "dlpack-legacy"],
];

/// Installs the packages, checks those whose name has this in it, and compares the table. A report
/// of each lies in `target/released`.
pub(crate) fn check(part: &str) -> Result<(), String> {
    let folder = shell::root().join("target/released");
    let environment = folder.join("venv");
    if !peers::are_installed(&environment, PACKAGES) {
        peers::install_into(&environment, PACKAGES)?;
    }
    shell::run(&["cargo", "build", "--package=arrow-device-check"], &[])?;
    if !setup::JAVA.is_present() {
        return Err(format!("there is no {} ({})", setup::JAVA.name, setup::JAVA.advice()));
    }
    let versions = peers::pins(PACKAGES)?;
    let mut rows = Vec::new();
    for [package, function, side, kind] in RELEASED {
        if !function.contains(part) {
            continue;
        }
        let report = folder.join(format!("{function}.json"));
        let mut command = Command::new(shell::root().join("target/debug/arrow-device-check"));
        command
            .args(["--python", &format!("released_peers:{function}"), "--as", side])
            .args(["--kind", kind, "--limit", "300", "--json"])
            .arg(&report)
            .arg("--python-program")
            .arg(environment.join("bin/python"))
            .env("PYTHONPATH", shell::root().join(MODULE))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // The allocator of the C library, whose books are looked at.
            .env("ARROW_DEFAULT_MEMORY_POOL", "system");
        if [JAVA, GO].contains(package) && *side == "producer" {
            command.args(MACHINES_KEEP);
        }
        let output = command.output().map_err(|error| error.to_string())?;
        if output.status.code() == Some(2) {
            return Err(format!("{function}: {}", String::from_utf8_lossy(&output.stderr)));
        }
        let version = versions.iter().find(|(name, _)| name == package);
        let (_, version) = version.ok_or_else(|| format!("{PACKAGES} has no {package}"))?;
        let text = fs::read_to_string(&report).map_err(|error| error.to_string())?;
        let row = row(&format!("{package} {version}"), function, [side, kind], &broken(&text));
        print!("{row}");
        rows.push(row);
    }
    compare(&rows, part.is_empty())
}

/// The ids that the report calls broken.
fn broken(report: &str) -> Vec<String> {
    let lines = report.lines().filter(|line| line.contains("\", \"verdict\": \"fail\""));
    lines.filter_map(|line| line.split('"').nth(3).map(str::to_owned)).collect()
}

fn row(package: &str, function: &str, [side, kind]: [&str; 2], broken: &[String]) -> String {
    let broken = if broken.is_empty() { "none".to_owned() } else { broken.join(", ") };
    format!("| {package} | `{function}` | {side}, {kind} | {broken} |\n")
}

fn compare(rows: &[String], are_all: bool) -> Result<(), String> {
    let page = shell::read(PAGE)?;
    let parts = page.split_once(BEGIN);
    let (before, rest) = parts.ok_or_else(|| format!("{PAGE} has no table of packages"))?;
    let length = rest.lines().take_while(|line| line.starts_with('|')).map(|line| line.len() + 1);
    let (table, after) = rest.split_at(length.sum::<usize>().min(rest.len()));
    if are_all && std::env::var("ARROW_DEVICE_BLESS").is_ok_and(|bless| bless == "1") {
        let mut new = String::from(before);
        // Writing into a `String` does not fail.
        let _ = write!(new, "{BEGIN}{}{after}", rows.concat());
        return fs::write(shell::root().join(PAGE), new).map_err(|error| error.to_string());
    }
    let other = rows.iter().filter(|row| !table.contains(row.as_str()));
    let other: Vec<String> = other.map(|row| format!("not in {PAGE}: {}", row.trim())).collect();
    shell::none_of(&other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions of the module that are no peers.
    const HELPERS: &[&str] = &[
        "of_pyarrow",
        "java",
        "java_numbers",
        "struct",
        "address",
        "end",
        "capsule",
        "go_connection",
    ];

    #[test]
    fn each_function_of_the_module_is_checked_and_its_package_is_pinned() {
        let module = shell::read(format!("{MODULE}/released_peers.py")).unwrap();
        let functions = module.lines().filter_map(|line| line.strip_prefix("def "));
        let functions: Vec<&str> = functions
            .filter_map(|line| line.split('(').next())
            .filter(|it| !HELPERS.contains(it))
            .collect();
        let known = |function: &str| RELEASED.iter().any(|[_, name, ..]| *name == function);
        assert!(functions.iter().all(|function| known(function)), "{functions:?}");
        assert_eq!(functions.len(), RELEASED.len());
        let pins = peers::pins(PACKAGES).unwrap();
        assert!(RELEASED.iter().all(|[package, ..]| pins.iter().any(|(name, _)| name == package)));
    }

    #[test]
    fn the_page_has_a_row_for_each_function_in_its_version() {
        let page = shell::read(PAGE).unwrap();
        for (package, version) in peers::pins(PACKAGES).unwrap() {
            let rows = RELEASED.iter().filter(|[name, ..]| *name == package);
            for [_, function, side, kind] in rows {
                let row = row(&format!("{package} {version}"), function, [side, kind], &[]);
                let (row, _) = row.rsplit_once("none").unwrap();
                assert!(page.contains(row), "{row}");
            }
        }
    }

    #[test]
    fn rules_that_are_broken_are_those_that_fail() {
        let line = |id: &str, verdict: &str| {
            format!("{{ \"id\": \"{id}\", \"verdict\": \"{verdict}\", }}")
        };
        let report =
            [line("A-1", "pass"), line("A-2", "fail"), line("A-3", "not applicable")].join("\n");
        assert_eq!(broken(&report), ["A-2"]);
        let row = row("p 1", "f", ["consumer", "stream"], &[]);
        assert_eq!(row, "| p 1 | `f` | consumer, stream | none |\n");
    }
}
