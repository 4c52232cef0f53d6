//! The survey as one page that needs nothing else: what waits for what, the memory as it lies, and
//! the columns.
//!
//! All text and every number are in the page as HTML. Its script only lights up what belongs
//! together.

use std::fmt::{self, Write};

use super::memory::{MemoryBlock, MemoryMap, Region};
use super::survey::{Buffer, Survey, SurveyedArray};
use super::text;
use crate::backends::label;
use crate::units;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Padding between two buffers that is not worth being drawn.
const GAP: u64 = 256;

/// The page.
pub(super) fn html(source: &str, surveys: &[Survey], memory: &MemoryMap) -> String {
    let mut page = String::new();
    // Writing into a `String` does not fail.
    let _ = write_page(&mut page, source, surveys, memory);
    page
}

fn write_page(
    page: &mut String,
    source: &str,
    surveys: &[Survey],
    memory: &MemoryMap,
) -> fmt::Result {
    let source = Escaped(source);
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{source} in memory</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{source}</h1>\n<p>{}</p>\n</header>\n",
        Escaped(&text::summary(surveys, memory))
    )?;
    write_readiness(page, surveys)?;
    write_memory(page, surveys, memory)?;
    for (number, survey) in surveys.iter().enumerate() {
        write_columns(page, number, survey)?;
    }
    write!(page, "<script>\n{SCRIPT}</script>\n</body>\n</html>\n")
}

fn write_readiness(page: &mut String, surveys: &[Survey]) -> fmt::Result {
    page.push_str("<section id=\"events\">\n<h2>What waits for what</h2>\n");
    for (number, survey) in surveys.iter().enumerate() {
        let (state, words) = match survey.event.as_ref().map(|event| event.has_passed) {
            None => ("ready", "ready, no event"),
            Some(Some(true)) => ("ready", "passed"),
            Some(Some(false)) => ("pending", "not passed yet"),
            Some(None) => ("unknown", "nobody here can ask"),
        };
        let (title, kind) = match &survey.event {
            None => (String::new(), String::new()),
            Some(event) => (format!("event {:#x} ", event.address), format!(" {}", event.kind)),
        };
        write!(
            page,
            "<div class=\"event {state}\"><p><b>{title}<span class=\"state\">{words}</span></b>{} &middot; batch {number} on {}</p>\n<p class=\"chips\">",
            Escaped(&kind),
            label(survey.device)
        )?;
        for (column, node) in survey.columns().iter().enumerate() {
            let name = if node.name.is_empty() { "values" } else { &node.name };
            write!(
                page,
                "<span class=\"chip\" style=\"{}\" data-path=\"{number}/{}\">{}</span>",
                Hue(column),
                Escaped(&node.path),
                Escaped(name)
            )?;
        }
        page.push_str("</p></div>\n");
    }
    page.push_str("</section>\n");
    Ok(())
}

fn write_memory(page: &mut String, surveys: &[Survey], memory: &MemoryMap) -> fmt::Result {
    page.push_str(
        "<section id=\"memory\">\n<h2>Where the buffers lie</h2>\n<p class=\"note\">Each box is a buffer, in the order of the \
         addresses, with the colour of its column. A larger buffer is wider, though not in proportion; the line above the boxes \
         is to scale. A box with a double frame is used more than once. &ge;: what the rows need; the C interface carries no \
         lengths.</p>\n",
    );
    for region in &memory.regions {
        write_region(page, region, surveys.len() > 1)?;
    }
    page.push_str("</section>\n");
    Ok(())
}

fn write_region(page: &mut String, region: &Region, has_batches: bool) -> fmt::Result {
    let place = if region.has_handles {
        "handles".to_owned()
    } else {
        format!("{:#x} &ndash; {:#x}", region.start(), region.end())
    };
    writeln!(
        page,
        "<div class=\"region\"><h3>{} <span>{place} &middot; {} in {} buffers</span></h3>",
        label(region.device),
        units::bytes(region.bytes()),
        region.blocks.len()
    )?;
    write_scale(page, region)?;
    page.push_str("<div class=\"strip\">\n");
    let mut end = None;
    for block in &region.blocks {
        let gap = end.and_then(|end| (block.address as u64).checked_sub(end)).unwrap_or(0);
        if gap > GAP && !region.has_handles {
            writeln!(
                page,
                "<i class=\"gap\" title=\"{} of something else\"></i>",
                units::bytes(gap)
            )?;
        }
        write_block(page, block, has_batches)?;
        end = Some(block.end());
    }
    page.push_str("</div></div>\n");
    Ok(())
}

/// The blocks to scale: where they lie, or one after the other where only handles are known.
fn write_scale(page: &mut String, region: &Region) -> fmt::Result {
    let start = region.start() as u64;
    let whole = if region.has_handles { region.bytes() } else { region.end() - start };
    let share = |bytes: u64| 100.0 * bytes as f64 / whole.max(1) as f64;
    let mut stacked = 0;
    page.push_str("<div class=\"scale\">");
    for block in &region.blocks {
        let bytes = block.extent.at_least();
        let left = if region.has_handles { stacked } else { block.address as u64 - start };
        stacked += bytes;
        let hue = Hue(block.users.first().map_or(0, |user| user.column));
        let (left, width) = (share(left), share(bytes));
        write!(page, "<i style=\"{hue};left:{left:.3}%;width:{width:.3}%\"></i>")?;
    }
    page.push_str("</div>\n");
    Ok(())
}

fn write_block(page: &mut String, block: &MemoryBlock, has_batches: bool) -> fmt::Result {
    let Some(user) = block.users.first() else { return Ok(()) };
    let bytes = block.extent.at_least();
    // Room for its name, and more for each doubling of its size.
    let width = 96.0 + 9.0 * (bytes.max(1) as f64).log2();
    let shared = if block.users.len() > 1 { " shared" } else { "" };
    let times = if block.users.len() > 1 {
        format!(" &times;{}", block.users.len())
    } else {
        String::new()
    };
    let paths: Vec<String> =
        block.users.iter().map(|user| format!("{}/{}", user.batch, user.path)).collect();
    writeln!(
        page,
        "<div class=\"block{shared}\" style=\"{};width:{width:.0}px\" data-paths=\"{}\" title=\"{}&#10;{} at {:#x}\">\
         <b>{}{times}</b><span>{}</span><em>{}</em></div>",
        Hue(user.column),
        Escaped(&paths.join("\n")),
        Escaped(&text::users(block, has_batches)),
        text::extent(block.extent),
        block.address,
        Escaped(&user.path),
        user.kind,
        text::extent(block.extent)
    )
}

fn write_columns(page: &mut String, number: usize, survey: &Survey) -> fmt::Result {
    write!(
        page,
        "<section class=\"columns\">\n<h2>Batch {number}: {} rows on {}</h2>\n<table>\n<thead><tr><th>column</th><th>type</th>\
         <th class=\"number\">rows</th><th class=\"number\">nulls</th><th>buffer</th><th class=\"number\">bytes</th>\
         <th>address</th></tr></thead>\n<tbody>\n",
        units::count(survey.root.rows as u64),
        label(survey.device)
    )?;
    for (column, top) in survey.columns().iter().enumerate() {
        write_node(page, number, column, top, 0)?;
    }
    page.push_str("</tbody>\n</table>\n</section>\n");
    Ok(())
}

fn write_node(
    page: &mut String,
    batch: usize,
    column: usize,
    node: &SurveyedArray,
    depth: usize,
) -> fmt::Result {
    let name = if node.name.is_empty() { "values" } else { &node.name };
    let rows = node.buffers.len().max(1);
    let offset = if node.offset > 0 {
        format!(" <small>from {}</small>", node.offset)
    } else {
        String::new()
    };
    for index in 0..rows {
        let top = if index == 0 && depth == 0 { " class=\"top\"" } else { "" };
        write!(page, "<tr{top} data-path=\"{batch}/{}\">", Escaped(&node.path))?;
        if index == 0 {
            write!(
                page,
                "<td rowspan=\"{rows}\" style=\"padding-left:{}px\"><span class=\"swatch\" style=\"{}\"></span>{}</td>\
                 <td rowspan=\"{rows}\" class=\"type\">{}</td><td rowspan=\"{rows}\" class=\"number\">{}{offset}</td>\
                 <td rowspan=\"{rows}\" class=\"number\">{}</td>",
                10 + 18 * depth,
                Hue(column),
                Escaped(name),
                Escaped(&node.data_type),
                units::count(node.rows as u64),
                text::nulls(node)
            )?;
        }
        write_buffer(page, node.buffers.get(index))?;
        page.push_str("</tr>\n");
    }
    node.below.iter().try_for_each(|below| write_node(page, batch, column, below, depth + 1))
}

fn write_buffer(page: &mut String, buffer: Option<&Buffer>) -> fmt::Result {
    match buffer {
        None => page.write_str("<td class=\"none\" colspan=\"3\">no buffers</td>"),
        Some(buffer) if buffer.address == 0 => {
            write!(page, "<td>{}</td><td class=\"none\" colspan=\"2\">none</td>", buffer.kind)
        }
        Some(buffer) => write!(
            page,
            "<td>{}</td><td class=\"number\">{}</td><td class=\"address\">{:#x} <small>{}</small></td>",
            buffer.kind,
            text::extent(buffer.extent),
            buffer.address,
            label(buffer.device)
        ),
    }
}

/// A column's colour: neighbours are far apart on the circle of hues.
struct Hue(usize);

impl fmt::Display for Hue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--hue:{}", (210 + self.0 * 137) % 360)
    }
}

/// Text as HTML.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\n' => f.write_str("&#10;")?,
                letter => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow_device::{Array, Batch, DataType};

    use super::*;

    #[test]
    fn names_from_a_file_are_text_and_never_markup() {
        let name = "<script>alert(\"1\")</script>";
        let column = Array::from_values(DataType::Int8, [Some(1_i8)]).unwrap();
        let batch = Batch::from_columns([(name, column)]).unwrap();
        let surveys = [Survey::of(batch.as_array()).unwrap()];
        let page = html(name, &surveys, &MemoryMap::of(&surveys));
        assert!(!page.contains("<script>alert"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;"), "{page}");
    }
}
