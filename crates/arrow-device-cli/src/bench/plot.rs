//! The bandwidth of each pair of devices by size, as an SVG picture with logarithmic axes: a small
//! plot for each two devices, with a line each way.

use std::fmt::Write;

use super::measure::{Line, Point};
use crate::units;

/// Plots beside each other.
const COLUMNS: usize = 3;
const MARGIN: f64 = 20.0;
/// One plot, and what lies around its axes.
const PLOT: [f64; 2] = [230.0, 130.0];
const BEFORE: f64 = 76.0;
const ABOVE: f64 = 60.0;
const BELOW: f64 = 46.0;
const HEAD: f64 = 64.0;
const CELL: [f64; 2] = [BEFORE + PLOT[0] + MARGIN, ABOVE + PLOT[1] + BELOW];

/// A line for each direction, told apart also by most who do not see all colours, and by dashes.
const STYLES: [(&str, &str); 2] = [("#0072b2", "none"), ("#d55e00", "7 4")];

/// The picture.
pub(super) fn svg(lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let across = Axis::over(points().map(|point| point.bytes as f64), 2.0, [0.0, PLOT[0]]);
    let up = Axis::over(points().map(Point::rate), 10.0, [PLOT[1], 0.0]);
    let pairs = pairs(lines);
    let columns = pairs.len().clamp(1, COLUMNS);
    let rows = pairs.len().div_ceil(columns);
    // The title is wider than one plot.
    let width = (2.0 * MARGIN + CELL[0] * columns as f64).max(460.0);
    let height = HEAD + CELL[1] * rows as f64 + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"11\" fill=\"#222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{MARGIN}\" y=\"28\" font-size=\"17\" font-weight=\"600\">Bandwidth between devices, by size of the array</text>\n\
         <text x=\"{MARGIN}\" y=\"48\">All plots have the same axes. A call is the smallest size.</text>\n"
    );
    for (index, pair) in pairs.iter().enumerate() {
        let (row, column) = (index / columns, index % columns);
        let x = MARGIN + BEFORE + CELL[0] * column as f64;
        let y = HEAD + ABOVE + CELL[1] * row as f64;
        // Writing into a `String` does not fail.
        let _ = draw(&mut svg, [x, y], pair, &across, &up);
    }
    svg.push_str("</svg>\n");
    svg
}

/// The lines between the same two devices, in the order of the first.
fn pairs(lines: &[Line]) -> Vec<Vec<&Line>> {
    let mut pairs: Vec<Vec<&Line>> = Vec::new();
    for line in lines {
        let is_back = |other: &Line| other.from == line.to && other.to == line.from;
        let known = pairs.iter_mut().find(|pair| pair.iter().any(|other| is_back(other)));
        match known {
            Some(pair) => pair.push(line),
            None => pairs.push(vec![line]),
        }
    }
    pairs
}

/// Values from the least to the most that there is, along a line.
struct Axis {
    base: f64,
    /// The least and the most, as powers.
    powers: [f64; 2],
    ends: [f64; 2],
}

impl Axis {
    fn over(values: impl Iterator<Item = f64> + Clone, base: f64, ends: [f64; 2]) -> Self {
        let power = |value: f64| value.max(1.0).log(base);
        let least = values.clone().map(power).fold(f64::INFINITY, f64::min);
        let most = values.map(power).fold(0.0, f64::max);
        let least = if least.is_finite() { least } else { 0.0 };
        // Where all is the same, it lies on a tick.
        let is_one = most - least < 1.0;
        let powers = if is_one { [least.floor(), least.floor() + 1.0] } else { [least, most] };
        Self { base, powers, ends }
    }

    fn at(&self, value: f64) -> f64 {
        let ([first, last], [from, to]) = (self.powers, self.ends);
        let share = (value.max(1.0).log(self.base) - first) / (last - first);
        from + share * (to - from)
    }

    /// At most so many whole powers, among the values.
    fn marks(&self, most: i32) -> impl Iterator<Item = f64> {
        let [first, last] = self.powers.map(|power| (power * 1e9).round() / 1e9);
        let (first, last) = (first.ceil() as i32, last.floor() as i32);
        let step = ((last - first) / most + 1).max(1) as usize;
        let base = self.base;
        (first..=last).step_by(step).map(move |power| base.powi(power))
    }
}

/// Writes a text at a place.
fn text(svg: &mut String, [x, y]: [f64; 2], rest: &str, text: &str) -> std::fmt::Result {
    writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\"{rest}>{text}</text>")
}

fn grid(svg: &mut String, [left, top]: [f64; 2], across: &Axis, up: &Axis) -> std::fmt::Result {
    let [width, height] = PLOT;
    for value in across.marks(4) {
        let (x, y) = (left + across.at(value), top + height);
        writeln!(svg, "<path d=\"M{x:.1} {top:.1}v{height}\" stroke=\"#e4e4e4\"/>")?;
        text(svg, [x, y + 16.0], " text-anchor=\"middle\"", &units::bytes(value as u64))?;
    }
    for value in up.marks(5) {
        let y = top + up.at(value);
        let rate = units::rate(value as u64, std::time::Duration::from_secs(1));
        writeln!(svg, "<path d=\"M{left:.1} {y:.1}h{width}\" stroke=\"#e4e4e4\"/>")?;
        text(svg, [left - 6.0, y + 4.0], " text-anchor=\"end\"", &rate)?;
    }
    writeln!(
        svg,
        "<path d=\"M{left:.1} {top:.1}v{height}h{width}\" fill=\"none\" stroke=\"#888\"/>"
    )
}

fn draw(
    svg: &mut String,
    [left, top]: [f64; 2],
    pair: &[&Line],
    across: &Axis,
    up: &Axis,
) -> std::fmt::Result {
    grid(svg, [left, top], across, up)?;
    for ((index, line), (colour, dash)) in pair.iter().enumerate().zip(STYLES) {
        let place =
            |point: &Point| (left + across.at(point.bytes as f64), top + up.at(point.rate()));
        let places: Vec<(f64, f64)> = line.points.iter().map(place).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let name = format!("{} → {}", line.from, line.to);
        writeln!(svg, "<g stroke=\"{colour}\" fill=\"{colour}\"><title>{name}</title>")?;
        writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>",
            path.join(" ")
        )?;
        for (x, y) in &places {
            writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>")?;
        }
        // The label stands above the plot, in the order of the lines, with a piece of the line.
        let y = top - ABOVE + 26.0 + 16.0 * index as f64;
        writeln!(
            svg,
            "<path d=\"M{left:.1} {:.1}h22\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/></g>",
            y - 4.0
        )?;
        let label = format!("{name}, {} a call", units::time(line.call()));
        text(svg, [left + 28.0, y], " class=\"label\"", &label)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::backends::Name;

    const DEVICES: [&str; 4] = ["cpu", "ext_dev", "opencl:0", "vulkan:0"];

    /// Every device with every one, at these sizes; what takes longest is 1000 times as slow.
    fn lines(devices: &[&str], sizes: &[u64]) -> Vec<Line> {
        let name = |text: &str| Name::parse(text).unwrap();
        let mut lines = Vec::new();
        for (row, from) in devices.iter().enumerate() {
            for (column, to) in devices.iter().enumerate() {
                let slow = 1 + 300 * (row + column) as u64;
                let time = |bytes: u64| Duration::from_nanos(900 + slow * 3 + bytes / 9);
                let point = |bytes: &u64| Point { bytes: *bytes, time: time(*bytes), copies: 3 };
                let points = sizes.iter().map(point).collect();
                lines.push(Line { from: name(from), to: name(to), points });
            }
        }
        lines
    }

    /// A text with the box that it takes, of letters that are as wide as the widest usual ones.
    #[derive(Debug)]
    struct Text {
        words: String,
        is_label: bool,
        ends: [f64; 4],
    }

    fn number(tag: &str, name: &str) -> Option<f64> {
        tag.split_once(&format!(" {name}=\""))?.1.split_once('"')?.0.parse().ok()
    }

    fn texts(svg: &str) -> Vec<Text> {
        let tags = svg.split("<text").skip(1).map(|tag| tag.split_once("</text>").unwrap().0);
        let texts = tags.map(|tag| {
            let (tag, words) = tag.split_once('>').unwrap();
            let (x, y) = (number(tag, "x").unwrap(), number(tag, "y").unwrap());
            let size = number(tag, "font-size").unwrap_or(11.0);
            let width = words.chars().count() as f64 * size * 0.56;
            let before = match () {
                () if tag.contains("\"middle\"") => width / 2.0,
                () if tag.contains("\"end\"") => width,
                () => 0.0,
            };
            let ends = [x - before, y - size * 0.8, x - before + width, y + size * 0.2];
            Text { words: words.into(), is_label: tag.contains("\"label\""), ends }
        });
        texts.collect()
    }

    fn overlap([a, b, c, d]: [f64; 4], [e, f, g, h]: [f64; 4]) -> bool {
        a < g && e < c && b < h && f < d
    }

    fn assert_readable(svg: &str) {
        let (width, height) = (number(svg, "width").unwrap(), number(svg, "height").unwrap());
        let texts = texts(svg);
        for (index, text) in texts.iter().enumerate() {
            let [left, top, right, bottom] = text.ends;
            assert!(left >= 0.0 && top >= 0.0 && right <= width && bottom <= height, "{text:?}");
            assert!(!text.words.trim().is_empty(), "{text:?}");
            for other in texts.iter().skip(index + 1) {
                assert!(!overlap(text.ends, other.ends), "{text:?} over {other:?}");
            }
        }
        // No point lies on a text, and none outside.
        for circle in svg.split("<circle").skip(1) {
            let (x, y) = (number(circle, "cx").unwrap(), number(circle, "cy").unwrap());
            let ends = [x - 3.0, y - 3.0, x + 3.0, y + 3.0];
            let under = texts.iter().find(|text| overlap(text.ends, ends));
            assert!(under.is_none(), "a point at {x}, {y} lies on {under:?}");
        }
    }

    #[test]
    fn sixteen_lines_are_labelled_and_no_label_lies_on_another() {
        let svg = svg(&lines(&DEVICES, &[64, 4096, 65_536, 1 << 20, 16 << 20]));
        assert_readable(&svg);
        let labels: Vec<Text> = texts(&svg).into_iter().filter(|text| text.is_label).collect();
        assert_eq!(labels.len(), 16);
        for from in DEVICES {
            for to in DEVICES {
                let [from, to] = [from, to].map(|text| Name::parse(text).unwrap().to_string());
                let name = format!("{from} → {to}, ");
                let count = labels.iter().filter(|it| it.words.starts_with(&name)).count();
                assert_eq!(count, 1, "{name} {labels:?}");
            }
        }
        // Ten pairs: four devices with themselves, and six two of them.
        assert_eq!(svg.matches("h230\" fill=\"none\" stroke=\"#888\"").count(), 10);
    }

    #[test]
    fn two_lines_in_one_plot_have_two_styles() {
        let lines = lines(&DEVICES, &[64, 4096]);
        let pairs = pairs(&lines);
        assert_eq!(pairs.iter().map(Vec::len).filter(|lines| *lines == 2).count(), 6);
        for pair in pairs.iter().filter(|pair| pair.len() == 2) {
            assert!(pair[0].from == pair[1].to && pair[0].to == pair[1].from);
        }
        let svg = svg(&lines);
        assert_eq!(svg.matches("<polyline").count(), 16);
        assert_eq!(
            svg.matches("fill=\"none\" stroke-width=\"2\" stroke-dasharray=\"7 4\"").count(),
            6
        );
    }

    #[test]
    fn ticks_have_a_name_each_and_stand_among_the_values() {
        for sizes in [&[64_u64, 4096, 1 << 20][..], &[64], &[1 << 30, 1 << 31], &[100, 120]] {
            let lines = lines(&DEVICES[..2], sizes);
            let svg = svg(&lines);
            assert_readable(&svg);
            let points = || lines.iter().flat_map(|line| &line.points);
            for (axis, values) in [
                (
                    Axis::over(points().map(|point| point.bytes as f64), 2.0, [0.0, 1.0]),
                    points().map(|point| point.bytes as f64).collect::<Vec<_>>(),
                ),
                (
                    Axis::over(points().map(Point::rate), 10.0, [0.0, 1.0]),
                    points().map(Point::rate).collect(),
                ),
            ] {
                let marks: Vec<f64> = axis.marks(4).collect();
                assert!(!marks.is_empty() && marks.len() <= 6, "{sizes:?}: {marks:?}");
                let least = values.iter().copied().fold(f64::INFINITY, f64::min);
                let most = values.iter().copied().fold(0.0, f64::max);
                // Where all values are much the same, there is a tick on either side.
                let is_one = most.log(axis.base) - least.log(axis.base) < 1.0;
                let is_among = |mark: f64| is_one || (least * 0.999..=most * 1.001).contains(&mark);
                assert!(marks.iter().all(|mark| is_among(*mark)), "{sizes:?}: {marks:?}");
            }
        }
    }
}
