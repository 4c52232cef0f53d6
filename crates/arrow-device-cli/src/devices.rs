//! `arrow-device devices`: which devices are here, why others are not, and what the types of device
//! agree on.

use std::io::Write;
use std::process::ExitCode;

use arrow_device::driver::{Addressing, HostAccess, Properties, Readiness};
use arrow_device::{DeviceType, convention};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::backends::{self, Found};
use crate::failure::Outcome;
use crate::json::Json;
use crate::table::{self, Side};
use crate::units;

const EXAMPLES: &str = "\
Examples:
  arrow-device devices
  arrow-device devices --json
  arrow-device devices --conventions    what buffers, ids and events mean on each type";

pub(crate) fn command() -> Command {
    Command::new("devices")
        .about("List every type of device: which ones are here, what they can do, and why others are not here")
        .after_help(EXAMPLES)
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print it as JSON"))
        .arg(
            Arg::new("conventions")
                .long("conventions")
                .action(ArgAction::SetTrue)
                .conflicts_with("json")
                .help("Say what buffers, ids and events mean on each type instead"),
        )
}

pub(crate) fn run(matches: &ArgMatches, out: &mut dyn Write) -> Outcome {
    if matches.get_flag("conventions") {
        for convention in convention::ALL {
            writeln!(out, "{:>2}  {convention}\n", convention.device_type.0)?;
        }
        writeln!(out, "{} types of device", convention::ALL.len())?;
    } else if matches.get_flag("json") {
        writeln!(out, "{}", Json::list(convention::ALL, |of| type_to_json(of.device_type)))?;
    } else {
        write_table(out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write_table(out: &mut dyn Write) -> Outcome<()> {
    let (mut rows, mut present) = (Vec::new(), 0);
    for convention in convention::ALL {
        match backends::list(convention.device_type) {
            Ok(found) => {
                present += found.len();
                rows.extend(found.iter().map(row));
            }
            Err(why) => {
                let device_type = convention.device_type;
                let why = why_not(device_type, why.message());
                rows.push(vec![device_type.to_string(), "no".to_owned(), why]);
            }
        }
    }
    let titles = [
        ("DEVICE", Side::Left),
        ("HERE", Side::Left),
        ("NAME", Side::Left),
        ("MEMORY", Side::Right),
        ("DRIVER", Side::Left),
        ("WHAT IT CAN DO", Side::Left),
    ];
    table::write(out, &titles, &rows)?;
    writeln!(out, "\n{present} devices, {} types of device", convention::ALL.len())?;
    Ok(())
}

/// Why there is no such device, in few words: a backend's reason once, and without what it tried,
/// which `--json` tells.
fn why_not(device_type: DeviceType, message: &str) -> String {
    match backends::first_of_backend(device_type).filter(|first| *first != device_type) {
        Some(first) => format!("as {first}"),
        None => message.split_once(" (").map_or(message, |(reason, _)| reason).to_owned(),
    }
}

fn row(found: &Found) -> Vec<String> {
    let abilities = match properties_of(found) {
        Ok(properties) => abilities(&properties).join(", "),
        Err(why) => format!("it cannot be opened: {why}"),
    };
    vec![
        found.name.to_string(),
        "yes".to_owned(),
        found.title.clone(),
        found.memory.map_or_else(|| "-".to_owned(), units::bytes),
        found.driver_version.clone().unwrap_or_else(|| "-".to_owned()),
        abilities,
    ]
}

fn properties_of(found: &Found) -> Outcome<Properties> {
    let opened = backends::open(found.name)?;
    let properties = opened.device.properties().clone();
    opened.finish()?;
    Ok(properties)
}

/// In words, the same order for each device.
fn abilities(properties: &Properties) -> Vec<String> {
    let addressing = match properties.addressing {
        Addressing::Address => "addresses",
        Addressing::Handle if properties.parts => "handles, also of parts",
        Addressing::Handle => "handles",
    };
    let host_access = match properties.host_access {
        HostAccess::None => "the host copies",
        HostAccess::Mapped => "the host reads in place",
    };
    let readiness = match properties.readiness {
        Readiness::Event => "events",
        Readiness::HostWait => "no events: the host waits",
        Readiness::QueueOrder => "no events: one queue",
    };
    let alignment = format!("{} byte alignment", properties.alignment);
    let mut abilities =
        vec![addressing.to_owned(), readiness.to_owned(), host_access.to_owned(), alignment];
    if properties.copy_unit > 1 {
        abilities.push(format!("copies {} bytes at a time", properties.copy_unit));
    }
    abilities
}

fn type_to_json(device_type: DeviceType) -> Json {
    let (devices, why_not) = match backends::list(device_type) {
        Ok(found) => (found, None),
        Err(why) => (Vec::new(), Some(why.message().to_owned())),
    };
    Json::Object(vec![
        ("type", device_type.to_string().into()),
        ("value", i64::from(device_type.0).into()),
        ("present", (!devices.is_empty()).into()),
        ("why_not", Json::or_null(why_not)),
        ("devices", Json::list(&devices, device_to_json)),
    ])
}

fn device_to_json(found: &Found) -> Json {
    let mut members = vec![
        ("device", found.name.to_string().into()),
        ("name", found.title.clone().into()),
        ("memory", Json::or_null(found.memory)),
        ("driver_version", Json::or_null(found.driver_version.clone())),
    ];
    match properties_of(found) {
        Ok(properties) => {
            members.extend([
                ("addresses", (properties.addressing == Addressing::Address).into()),
                ("events", (properties.readiness == Readiness::Event).into()),
                ("host_reads_in_place", (properties.host_access == HostAccess::Mapped).into()),
                ("alignment", properties.alignment.into()),
            ]);
        }
        Err(why) => members.push(("cannot_be_opened", why.to_string().into())),
    }
    Json::Object(members)
}
