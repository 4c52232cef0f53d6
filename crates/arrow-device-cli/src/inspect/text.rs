//! The survey as text.

use std::io::Write;

use arrow_device::Extent;

use super::memory::{MemoryBlock, MemoryMap};
use super::survey::{Buffer, Event, Survey, SurveyedArray};
use crate::backends::label;
use crate::failure::Outcome;
use crate::units;

pub(super) fn write(
    out: &mut dyn Write,
    source: &str,
    surveys: &[Survey],
    memory: &MemoryMap,
) -> Outcome<()> {
    writeln!(out, "{source}: {}", summary(surveys, memory))?;
    for (number, survey) in surveys.iter().enumerate() {
        let root = &survey.root;
        writeln!(
            out,
            "\nbatch {number} on {}: {} rows",
            label(survey.device),
            units::count(root.rows as u64)
        )?;
        writeln!(
            out,
            "  {}\n",
            survey.event.as_ref().map_or_else(|| "ready, no event".to_owned(), event)
        )?;
        write_node(out, root, 0)?;
    }
    writeln!(out, "\nmemory")?;
    for region in &memory.regions {
        let blocks = counted(region.blocks.len(), "buffer");
        let bytes = units::bytes(region.bytes());
        if region.has_handles {
            writeln!(out, "  {}: {blocks}, {bytes}, each with a handle", label(region.device))?;
        } else {
            let (start, end) = (region.start(), region.end());
            writeln!(
                out,
                "  {}: {blocks}, {bytes}, from {start:#x} to {end:#x}",
                label(region.device)
            )?;
        }
    }
    for block in memory.shared() {
        writeln!(out, "  shared: {}", users(block, surveys.len() > 1))?;
    }
    Ok(())
}

/// In one line, without the name of the source.
pub(super) fn summary(surveys: &[Survey], memory: &MemoryMap) -> String {
    let rows: u64 = surveys.iter().map(|survey| survey.root.rows as u64).sum();
    let columns = surveys.first().map_or(0, |survey| survey.columns().len());
    format!(
        "{}, {} rows, {}, {} with {}",
        units::counted(surveys.len() as u64, "batch", "batches"),
        units::count(rows),
        counted(columns, "column"),
        counted(memory.block_count(), "buffer"),
        units::bytes(memory.bytes())
    )
}

/// What a batch waits for.
pub(super) fn event(event: &Event) -> String {
    let state = match event.has_passed {
        Some(true) => "passed",
        Some(false) => "not passed yet",
        None => "nobody here can ask whether it has passed",
    };
    format!("after the event at {:#x} ({state}): {}", event.address, event.kind)
}

/// Who uses a block, with the batch where there are several.
pub(super) fn users(block: &MemoryBlock, has_batches: bool) -> String {
    let users = block.users.iter().map(|user| {
        let batch = if has_batches { format!("batch {} ", user.batch) } else { String::new() };
        format!("{batch}{} {}", user.path, user.kind)
    });
    users.collect::<Vec<_>>().join(" = ")
}

/// How long. The C interface carries no lengths: of what came through it, only that is known which
/// the rows need.
pub(super) fn extent(extent: Extent) -> String {
    match extent {
        Extent::Exact(len) => units::bytes(len),
        Extent::AtLeast(len) => format!("≥ {}", units::bytes(len)),
        Extent::Unknown => "not known".to_owned(),
    }
}

/// How many elements are null.
pub(super) fn nulls(node: &SurveyedArray) -> String {
    node.nulls.map_or_else(|| "not counted".to_owned(), |nulls| units::count(nulls as u64))
}

fn write_node(out: &mut dyn Write, node: &SurveyedArray, depth: usize) -> Outcome<()> {
    let indent = 2 * depth + 2;
    let name = if node.path.is_empty() { "root" } else { &node.name };
    let offset = if node.offset > 0 { format!(" from {}", node.offset) } else { String::new() };
    let name: String =
        name.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    writeln!(
        out,
        "{:indent$}{name}: {}, {} rows{offset}, nulls: {}",
        "",
        node.data_type,
        units::count(node.rows as u64),
        nulls(node)
    )?;
    for buffer in &node.buffers {
        writeln!(out, "{:indent$}    {:<18}{}", "", buffer.kind, place(buffer))?;
    }
    node.below.iter().try_for_each(|below| write_node(out, below, depth + 1))
}

fn place(buffer: &Buffer) -> String {
    if buffer.address == 0 {
        return "none".to_owned();
    }
    format!("{:>12}  {:#x} on {}", extent(buffer.extent), buffer.address, label(buffer.device))
}

fn counted(count: usize, what: &str) -> String {
    units::counted(count as u64, what, &format!("{what}s"))
}
