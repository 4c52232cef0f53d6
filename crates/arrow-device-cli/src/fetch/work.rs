//! One flight, by the way of a copy.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ArgMatches;

use super::list;
use crate::backends::Name;
use crate::copy::{Copied, Input, Job, Target};
use crate::failure::{Failure, Outcome};
use crate::flight::{Access, Address};
use crate::json::Json;

pub(super) fn run(matches: &ArgMatches, out: &mut dyn Write) -> Outcome {
    let text = |name| matches.get_one::<String>(name).map(String::as_str);
    let address = Address::parse(text("URL").unwrap_or_default())?;
    let address = match text("NAME") {
        Some(name) => address.with_name(name)?,
        None => address,
    };
    let access = Access::of(matches)?;
    let device = text("device").map(Name::parse).transpose()?;
    let output = matches.get_one::<PathBuf>("output");
    if address.name.is_none() {
        if device.is_some() || output.is_some() {
            return Err(Failure::misuse(format!(
                "{address}: name the flight that is fetched; without a name, all are listed"
            )));
        }
        return list::run(&address, &access, matches.get_flag("json"), out);
    }
    let target = match output {
        None => Target::Nowhere,
        Some(path) => match Target::parse(path, matches)? {
            target @ Target::File { .. } => target,
            _ => {
                return Err(Failure::misuse(
                    "-o names a file; `arrow-device copy` goes to servers",
                ));
            }
        },
    };
    let told = address.to_string();
    let input = Input::Flight(address, access);
    let job = Job { input, target, names: Vec::from_iter(device) };
    let copied = job.run()?;
    // What is printed goes beside the copy and not into it.
    let mut stderr = std::io::stderr();
    let out = if copied.is_stdout { &mut stderr } else { out };
    if matches.get_flag("json") {
        let output = output.map(|path| path.display().to_string());
        writeln!(out, "{}", to_json(&copied, told, device, output))?;
    } else {
        copied.tell(&job.names, out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn to_json(copied: &Copied, source: String, device: Option<Name>, output: Option<String>) -> Json {
    Json::Object(vec![
        ("source", source.into()),
        ("device", Json::or_null(device.map(|name| name.to_string()))),
        ("output", Json::or_null(output)),
        ("batches", copied.batches.into()),
        ("rows", copied.rows.into()),
        ("bytes", copied.bytes.into()),
        ("seconds", Json::Number(copied.time.as_secs_f64())),
        ("checksum", format!("{:016x}", copied.checksum).into()),
    ])
}
