//! The figures of the page about scale that an example computes.

use std::fs;
use std::path::Path;

#[path = "../../examples/wire_sizes.rs"]
#[allow(dead_code)]
mod wire_sizes;

#[test]
fn the_page_about_scale_has_the_tables_that_its_command_prints() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let read = |name| fs::read_to_string(docs.join(name)).unwrap();
    let page = read("scale.md");
    for table in [
        wire_sizes::bytes_on_the_wire().unwrap(),
        wire_sizes::processors(),
        wire_sizes::batches_on_their_way(),
    ] {
        let table = table.join("\n");
        assert!(
            page.contains(&format!("\n{table}\n\n")),
            "the page has another table than\n{table}"
        );
    }
    // The times were measured, and the page about performance says how.
    let measured = read("performance.md");
    for row in [
        "| 8 columns of 1,024 rows, written | 4.62 µs |",
        "| 8 columns of 1,024 rows, in memory | 18.2 µs |",
        "| 1,000 columns of 512 rows, written | 728 µs |",
        "| 1,000 columns of 512 rows, in memory | 1.20 ms |",
    ] {
        assert!(measured.contains(row), "{row}");
    }
}
