//! A picture with two logarithmic axes, as SVG.

use std::fmt::{self, Write};

const WIDTH: f64 = 860.0;
const ROW: f64 = 20.0;
/// Where the axes are.
const LEFT: f64 = 80.0;
const RIGHT: f64 = 560.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 390.0;

/// Colours that are told apart also by most who do not see all of them.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f5539", "#595959"];
/// Where colours begin anew, lines are dashed.
const DASHES: [&str; 3] = ["none", "7 4", "2 3"];

/// What is drawn.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    pub(super) title: String,
    /// Bytes per second against bytes, or nanoseconds against a size.
    pub(super) is_rate: bool,
    pub(super) lines: Vec<Line>,
}

/// A line with its name.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

impl Picture {
    /// The picture's file.
    pub(super) fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let across = Axis::over(points().map(|point| point.0), (LEFT, RIGHT));
        let up = Axis::over(points().map(|point| point.1), (BOTTOM, TOP));
        let height = (TOP + 20.0 + ROW * self.lines.len() as f64).max(BOTTOM + 60.0);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#222\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"26\" font-size=\"16\" font-weight=\"600\">{}</text>\n",
            self.title
        );
        // Writing into a `String` does not fail.
        let _ = self.grid(&mut svg, &across, &up);
        for (index, line) in self.lines.iter().enumerate() {
            let _ = line.draw(&mut svg, index, &across, &up);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn grid(&self, svg: &mut String, across: &Axis, up: &Axis) -> fmt::Result {
        for value in across.marks() {
            let x = across.at(value);
            let text = if self.is_rate { bytes(value) } else { amount(value) };
            let y = BOTTOM + 20.0;
            writeln!(svg, "<path d=\"M{x:.1} {TOP}V{BOTTOM}\" stroke=\"#e4e4e4\"/>")?;
            writeln!(svg, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{text}</text>")?;
        }
        for value in up.marks() {
            let y = up.at(value);
            let text = if self.is_rate { format!("{}/s", bytes(value)) } else { time(value) };
            let (x, below) = (LEFT - 8.0, y + 4.0);
            writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#e4e4e4\"/>")?;
            writeln!(svg, "<text x=\"{x}\" y=\"{below:.1}\" text-anchor=\"end\">{text}</text>")?;
        }
        let (middle, below) = ((LEFT + RIGHT) / 2.0, BOTTOM + 44.0);
        let name = if self.is_rate { "bytes" } else { "columns" };
        writeln!(svg, "<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">{name}</text>")?;
        writeln!(svg, "<path d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\" fill=\"none\" stroke=\"#888\"/>")
    }
}

impl Line {
    fn draw(&self, svg: &mut String, index: usize, across: &Axis, up: &Axis) -> fmt::Result {
        let colour = COLOURS[index % COLOURS.len()];
        let dash = DASHES[index / COLOURS.len() % DASHES.len()];
        let places: Vec<(f64, f64)> =
            self.points.iter().map(|&(x, y)| (across.at(x), up.at(y))).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let (path, name) = (path.join(" "), &self.name);
        writeln!(svg, "<g stroke=\"{colour}\" fill=\"{colour}\" stroke-dasharray=\"{dash}\">")?;
        writeln!(svg, "<polyline points=\"{path}\" fill=\"none\" stroke-width=\"2\"/>")?;
        for (x, y) in &places {
            writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" stroke=\"none\"/>")?;
        }
        let (x, y) = (RIGHT + 24.0, TOP + 8.0 + ROW * index as f64);
        writeln!(svg, "<path d=\"M{x} {y}h22\" stroke-width=\"2\"/></g>")?;
        writeln!(svg, "<text x=\"{}\" y=\"{}\">{name}</text>", x + 30.0, y + 4.0)
    }
}

/// Powers of ten along a line.
struct Axis {
    powers: (i32, i32),
    ends: (f64, f64),
}

impl Axis {
    fn over(values: impl Iterator<Item = f64> + Clone, ends: (f64, f64)) -> Self {
        let power = |value: f64| value.max(1.0).log10();
        let least = values.clone().map(power).fold(f64::INFINITY, f64::min);
        let most = values.map(power).fold(0.0, f64::max);
        let first = if least.is_finite() { least.floor() as i32 } else { 0 };
        Self { powers: (first, (most.ceil() as i32).max(first + 1)), ends }
    }

    fn at(&self, value: f64) -> f64 {
        let (first, last) = self.powers;
        let share = (value.max(1.0).log10() - f64::from(first)) / f64::from(last - first);
        self.ends.0 + share * (self.ends.1 - self.ends.0)
    }

    fn marks(&self) -> impl Iterator<Item = f64> {
        (self.powers.0..=self.powers.1).map(|power| 10f64.powi(power))
    }
}

/// 1 ns, 100 µs.
pub(super) fn time(nanoseconds: f64) -> String {
    scaled(nanoseconds, &["ns", "µs", "ms", "s"])
}

/// 1 kB, 100 MB.
pub(super) fn bytes(count: f64) -> String {
    scaled(count, &["B", "kB", "MB", "GB", "TB"])
}

fn amount(count: f64) -> String {
    scaled(count, &["", "k", "M", "G"]).trim_end().replace(" k", "k")
}

/// Three digits, and a unit that is a thousand times the one before.
fn scaled(value: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        (value, unit) = (value / 1000.0, unit + 1);
    }
    let digits = if value >= 99.5 || value.fract() == 0.0 {
        0
    } else if value >= 9.95 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!(time(8.25), "8.25 ns");
        assert_eq!(time(25.04), "25.0 ns");
        assert_eq!(time(1711.0), "1.71 µs");
        assert_eq!(time(309_526.0), "310 µs");
        assert_eq!(time(999_700.0), "1.00 ms");
        assert_eq!(bytes(4096.0), "4.10 kB");
        assert_eq!(bytes(1e9), "1 GB");
        assert_eq!(amount(10_000.0), "10k");
    }

    #[test]
    fn each_line_is_drawn_within_the_axes() {
        let line = |name: &str, scale: f64| Line {
            name: name.into(),
            points: [1.0, 10.0, 1000.0].map(|x| (x, x * scale)).to_vec(),
        };
        let lines = vec![line("one", 8.0), line("other", 300.0)];
        let svg = Picture { title: "export".into(), is_rate: false, lines }.svg();
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("<circle").count(), 6);
        for place in svg.split("cx=\"").skip(1) {
            let x: f64 = place.split('"').next().unwrap().parse().unwrap();
            assert!((LEFT..=RIGHT).contains(&x), "{x}");
        }
        for place in svg.split("cy=\"").skip(1) {
            let y: f64 = place.split('"').next().unwrap().parse().unwrap();
            assert!((TOP..=BOTTOM).contains(&y), "{y}");
        }
        assert!(svg.contains(">one</text>") && svg.ends_with("</svg>\n"));
    }
}
