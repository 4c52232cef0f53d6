//! `arrow-device bench`: how fast arrays go from each device to each other one.
//!
//! What is measured is a whole copy of the library, as a program would make it: planned, submitted,
//! waited for, and released.

mod measure;
mod plot;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use arrow_device::DeviceType;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::backends::{self, Name, Opened};
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::json::Json;
use crate::table::{self, Side};
use crate::units;
use measure::Line;

const EXAMPLES: &str = "\
Examples:
  arrow-device bench
  arrow-device bench --devices cpu,opencl:0 --sizes 4KiB,1MiB,256MiB
  arrow-device bench --svg bandwidth.svg";

pub(crate) fn command() -> Command {
    Command::new("bench")
        .about("Measure the bandwidth and the cost of a call between all pairs of devices")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("devices").long("devices").value_name("DEVICE,...").value_delimiter(',').help(
                "The devices, as `arrow-device devices` names them; without this all but simulated hardware",
            ),
        )
        .arg(
            Arg::new("sizes")
                .long("sizes")
                .value_name("BYTES,...")
                .value_delimiter(',')
                .default_value("64,4KiB,64KiB,1MiB,16MiB")
                .help("How large the arrays are, the smallest one first"),
        )
        .arg(
            Arg::new("milliseconds")
                .long("milliseconds")
                .value_name("N")
                .value_parser(value_parser!(u64).range(0..=600_000))
                .default_value("100")
                .help("How long each size is tried between each two devices"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print it as JSON"))
        .arg(
            Arg::new("svg")
                .long("svg")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Draw it, too"),
        )
}

pub(crate) fn run(matches: &ArgMatches, out: &mut dyn Write) -> Outcome {
    if let Some(file) = matches.get_one::<PathBuf>("svg") {
        files::has_name(file)?;
    }
    let wanted = |name| matches.get_many::<String>(name).unwrap_or_default();
    let mut names =
        wanted("devices").map(|text| Name::parse(text)).collect::<Outcome<Vec<Name>>>()?;
    if names.is_empty() {
        names = backends::present().iter().map(|found| found.name).collect();
        // The time that a simulation takes says nothing of the hardware.
        names.retain(|name| name.device_type != DeviceType::VPI);
    }
    let mut sizes = wanted("sizes").map(|text| size(text)).collect::<Outcome<Vec<u64>>>()?;
    sizes.sort_unstable();
    sizes.dedup();
    let time = Duration::from_millis(*matches.get_one("milliseconds").unwrap_or(&100));

    let opened = names.into_iter().map(backends::open).collect::<Outcome<Vec<Opened>>>()?;
    let lines = measure::all(&opened, &sizes, time)?;
    arrow_device::deferred::wait_until_released(Duration::from_secs(10))?;
    opened.into_iter().try_for_each(Opened::finish)?;

    if let Some(file) = matches.get_one::<PathBuf>("svg") {
        std::fs::write(file, plot::svg(&lines))
            .map_err(|error| Failure::from(error).during(file.display()))?;
    }
    if matches.get_flag("json") {
        writeln!(out, "{}", Json::list(&lines, to_json))?;
    } else {
        write_table(&lines, &sizes, out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `64`, `4KiB`, `16MiB`, `1GiB`.
fn size(text: &str) -> Outcome<u64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit {
        "" | "B" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    let bytes =
        number.parse::<u64>().ok().zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
    bytes
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| Failure::misuse(format!("`{text}` is no size; `64`, `4KiB` and `1GiB` are")))
}

fn write_table(lines: &[Line], sizes: &[u64], out: &mut dyn Write) -> Outcome<()> {
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            let ends = [line.from.to_string(), line.to.to_string(), units::time(line.call())];
            let rates = line.points.iter().map(|point| units::rate(point.bytes, point.time));
            ends.into_iter().chain(rates).collect()
        })
        .collect();
    let sizes: Vec<String> = sizes.iter().map(|size| units::bytes(*size)).collect();
    let titles = [("FROM", Side::Left), ("TO", Side::Left), ("A CALL", Side::Right)]
        .into_iter()
        .chain(sizes.iter().map(|size| (size.as_str(), Side::Right)));
    table::write(out, &titles.collect::<Vec<_>>(), &rows)?;
    writeln!(
        out,
        "\nA call is the smallest size: planned, submitted, waited for and released. All times are medians."
    )?;
    Ok(())
}

fn to_json(line: &Line) -> Json {
    Json::Object(vec![
        ("from", line.from.to_string().into()),
        ("to", line.to.to_string().into()),
        ("call_seconds", Json::Number(line.call().as_secs_f64())),
        (
            "sizes",
            Json::list(&line.points, |point| {
                Json::Object(vec![
                    ("bytes", point.bytes.into()),
                    ("seconds", Json::Number(point.time.as_secs_f64())),
                    ("bytes_per_second", Json::Number(point.rate())),
                    ("copies", point.copies.into()),
                ])
            }),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_with_a_unit() {
        assert_eq!(["64", "4KiB", "2GiB"].map(|text| size(text).unwrap()), [64, 4096, 2 << 30]);
        for text in ["", "0", "KiB", "4kb", "-1", "99999999999GiB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
