//! The tables, as Markdown: a page of all of them, and parts of other pages between marks.

use std::fmt::Write;

use super::aims::{Verdict, in_words};
use super::plot::{Picture, bytes, time};
use super::{Machine, OURS, Row};

/// The page of all results.
pub(super) fn page(
    rows: &[Row],
    machine: &Machine,
    verdicts: &[Verdict],
    pictures: &[(String, Picture)],
) -> String {
    let mut page = String::from("# Results\n\n");
    page += "Written by `cargo xtask bench`. Times are medians; in brackets, how many times as long it takes as this library.\n\n";
    page += &facts(machine);
    page += "\n## What is to be reached\n\n";
    page += &aims(verdicts);
    page += "\n## Pictures\n";
    for (file, picture) in pictures {
        // Writing into a `String` does not fail, here and below.
        let _ = write!(page, "\n![{}]({file})\n", picture.title);
    }
    page += "\n## Times\n";
    let mut workloads: Vec<&str> = rows.iter().map(|row| row.workload.as_str()).collect();
    workloads.dedup();
    for workload in workloads {
        let _ = write!(page, "\n### {workload}\n\n{}", times(rows, workload));
    }
    page
}

/// A page with its marked parts written anew. A part begins with `<!-- results: NAME -->`, where
/// the name is `machine`, `aims` or `times of WORKLOAD`, and ends with `<!-- end of results -->`.
///
/// # Errors
/// Where a part has no end, or a name that does not exist.
pub(super) fn filled(
    text: &str,
    rows: &[Row],
    machine: &Machine,
    verdicts: &[Verdict],
) -> Result<String, String> {
    const BEGIN: &str = "<!-- results: ";
    const END: &str = "<!-- end of results -->";
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after.split_once(" -->\n").ok_or("a mark that does not end")?;
        let (_, after) = after.split_once(END).ok_or(format!("`{name}` has no end"))?;
        let body = match (name, name.strip_prefix("times of ")) {
            ("machine", _) => facts(machine),
            ("aims", _) => aims(verdicts),
            (_, Some(workload)) => times(rows, workload),
            _ => return Err(format!("no result is called `{name}`")),
        };
        let _ = write!(filled, "{before}{BEGIN}{name} -->\n\n{body}\n{END}");
        rest = after;
    }
    Ok(filled + rest)
}

fn facts(machine: &Machine) -> String {
    machine.facts.iter().map(|(name, value)| format!("* {name}: {value}\n")).collect()
}

fn aims(verdicts: &[Verdict]) -> String {
    let mut table =
        String::from("| workload | compared with | aim | measured | |\n|---|---|---|---|---|\n");
    for verdict in verdicts {
        let measured = verdict.measured.as_deref().unwrap_or("–");
        let Verdict { what, than, aim, .. } = verdict;
        let _ = writeln!(table, "| {what} | {than} | {aim} | {measured} | {} |", verdict.word());
    }
    table
}

/// A line for each shape and size, a column for each peer.
fn times(rows: &[Row], workload: &str) -> String {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.workload == workload).collect();
    let mut peers: Vec<&str> = Vec::new();
    for row in &rows {
        if !peers.contains(&row.peer.as_str()) {
            peers.push(&row.peer);
        }
    }
    // Ours first, others in the order they came.
    peers.sort_by_key(|peer| !peer.starts_with(OURS));
    let mut table = format!("| shape | size | {} |\n|---|---|", peers.join(" | "));
    table += &"---|".repeat(peers.len());
    table.push('\n');
    let same = |a: &&Row, b: &&Row| (&a.shape, a.size) == (&b.shape, b.size);
    for line in rows.chunk_by(same) {
        let _ = write!(table, "| {} | {} |", line[0].shape, line[0].size);
        let ours = line.iter().find(|row| row.peer == OURS).map(|row| row.median);
        for peer in &peers {
            let cell = line.iter().find(|row| row.peer == *peer).map(|row| cell(row, ours));
            let _ = write!(table, " {} |", cell.unwrap_or_default());
        }
        table.push('\n');
    }
    table
}

fn cell(row: &Row, ours: Option<f64>) -> String {
    let mut cell = time(row.median);
    if row.bytes > 0 {
        let _ = write!(cell, ", {}/s", bytes(row.bytes as f64 / row.median * 1e9));
    }
    if let Some(ours) = ours.filter(|_| row.peer != OURS) {
        let _ = write!(cell, " (×{:.2})", row.median / ours);
    }
    cell
}

/// One line for a terminal.
pub fn line(row: &Row, ours: Option<f64>) -> String {
    let Row { workload, shape, size, peer, .. } = row;
    let lead = ours.filter(|_| row.peer != OURS).map(|ours| in_words(ours / row.median));
    let lead = lead.unwrap_or_default();
    format!("{workload:<24} {shape:<16} {size:>9} {peer:<36} {:>10} {lead}", time(row.median))
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    #[test]
    fn marked_parts_are_written_anew_and_nothing_else_is() {
        let rows = [row("export", 1, OURS, 10.0), row("export", 1, "nanoarrow", 25.0)];
        let machine = Machine { facts: vec![("date", "today".into())] };
        let text = "a\n<!-- results: machine -->\nold\n<!-- end of results -->\nb\n\
                    <!-- results: times of export -->\n<!-- end of results -->\nc\n";
        let once = filled(text, &rows, &machine, &[]).unwrap();
        assert!(
            once.starts_with("a\n<!-- results: machine -->\n\n* date: today\n\n<!-- end"),
            "{once}"
        );
        assert!(once.contains("| batch | 1 | 10 ns | 25 ns (×2.50) |"), "{once}");
        assert!(once.contains("\nb\n") && once.ends_with("\nc\n"), "{once}");
        assert_eq!(filled(&once, &rows, &machine, &[]), Ok(once));
    }

    #[test]
    fn a_part_without_an_end_or_of_no_known_name_is_an_error() {
        for text in ["<!-- results: machine -->\n", "<!-- results: x -->\n<!-- end of results -->"]
        {
            assert!(filled(text, &[], &Machine::default(), &[]).is_err(), "{text}");
        }
    }
}
