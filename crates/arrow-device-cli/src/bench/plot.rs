//! The bandwidth of each pair of devices by size, as an SVG picture with logarithmic axes.

use std::fmt::Write;

use super::measure::{Line, Point};
use crate::units;

const WIDTH: f64 = 960.0;
const ROW: f64 = 20.0;
/// Where the axes are.
const LEFT: f64 = 90.0;
const RIGHT: f64 = 640.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 420.0;

/// Colours that are told apart also by most who do not see all of them.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f5539", "#595959"];
/// Where colours begin anew, lines are dashed.
const DASHES: [&str; 3] = ["none", "7 4", "2 3"];

/// The picture.
pub(super) fn svg(lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let across = Axis::over(points().map(|point| point.bytes as f64), 2.0, LEFT, RIGHT);
    let up = Axis::over(points().map(Point::rate), 10.0, BOTTOM, TOP);
    let height = (TOP + 20.0 + ROW * lines.len() as f64).max(BOTTOM + 70.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"17\" font-weight=\"600\">Bandwidth between devices, by size of the array</text>\n"
    );
    // Writing into a `String` does not fail.
    let _ = grid(&mut svg, &across, &up);
    for (index, line) in lines.iter().enumerate() {
        let _ = draw(&mut svg, index, line, &across, &up);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Values from one power of a base to another, along a line.
struct Axis {
    base: f64,
    powers: (i32, i32),
    ends: (f64, f64),
}

impl Axis {
    fn over(values: impl Iterator<Item = f64> + Clone, base: f64, from: f64, to: f64) -> Self {
        let power = |value: f64| value.max(1.0).log(base);
        let least = values.clone().map(power).fold(f64::INFINITY, f64::min);
        let most = values.map(power).fold(0.0, f64::max);
        let first = if least.is_finite() { least.floor() as i32 } else { 0 };
        let last = (most.ceil() as i32).max(first + 1);
        Self { base, powers: (first, last), ends: (from, to) }
    }

    fn at(&self, value: f64) -> f64 {
        let (first, last) = self.powers;
        let share = (value.max(1.0).log(self.base) - f64::from(first)) / f64::from(last - first);
        self.ends.0 + share * (self.ends.1 - self.ends.0)
    }

    /// Powers that have room for their names.
    fn marks(&self, most: i32) -> impl Iterator<Item = f64> {
        let (first, last) = self.powers;
        let step = ((last - first) / most).max(1) as usize;
        let base = self.base;
        (first..=last).step_by(step).map(move |power| base.powi(power))
    }
}

fn grid(svg: &mut String, across: &Axis, up: &Axis) -> std::fmt::Result {
    for value in across.marks(8) {
        let (x, text) = (across.at(value), units::bytes(value as u64));
        writeln!(svg, "<path d=\"M{x:.1} {TOP}V{BOTTOM}\" stroke=\"#e4e4e4\"/>")?;
        writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
            BOTTOM + 20.0
        )?;
    }
    for value in up.marks(8) {
        let y = up.at(value);
        let text = units::rate(value as u64, std::time::Duration::from_secs(1));
        writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#e4e4e4\"/>")?;
        writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            LEFT - 8.0,
            y + 4.0
        )?;
    }
    let middle = (LEFT + RIGHT) / 2.0;
    writeln!(
        svg,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">size of the array</text>",
        BOTTOM + 46.0
    )?;
    writeln!(svg, "<path d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\" fill=\"none\" stroke=\"#888\"/>")
}

fn draw(svg: &mut String, index: usize, line: &Line, across: &Axis, up: &Axis) -> std::fmt::Result {
    let colour = COLOURS.iter().cycle().nth(index).copied().unwrap_or_default();
    let dash = DASHES.iter().cycle().nth(index / COLOURS.len()).copied().unwrap_or_default();
    let places: Vec<(f64, f64)> = line
        .points
        .iter()
        .map(|point| (across.at(point.bytes as f64), up.at(point.rate())))
        .collect();
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
    let (x, y) = (RIGHT + 24.0, TOP + 8.0 + ROW * index as f64);
    writeln!(svg, "<path d=\"M{x} {y}h22\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/></g>")?;
    let call = units::time(line.call());
    writeln!(svg, "<text x=\"{}\" y=\"{}\">{name}, {call} a call</text>", x + 30.0, y + 4.0)
}
