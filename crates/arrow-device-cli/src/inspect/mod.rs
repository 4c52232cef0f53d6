//! `arrow-device inspect`: what an array is made of, and where its buffers lie.
//!
//! The array is looked at as a consumer of the C interface sees it: the structs are read, and no
//! buffer is, but where values are asked for.

mod head;
mod memory;
mod page;
mod producer;
mod shared;
mod survey;
mod text;
mod to_json;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use arrow_device::copy::Options;
use arrow_device::{Array, Queue};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};

use crate::backends::{self, Name, Opened};
use crate::failure::{Failure, Outcome};
use memory::MemoryMap;
use survey::Survey;

const EXAMPLES: &str = "\
Examples:
  arrow-device inspect data.arrow --head 5
  arrow-device inspect data.parquet --device opencl:0 --html memory.html
  arrow-device inspect --producer ./libscan.so:produce --json
  arrow-device inspect --socket ./data --head 5            what `arrow-device share` shares

A producer is a function with one of these types, which returns 0 or an errno value:
  int produce(struct ArrowSchema* schema, struct ArrowDeviceArray* array);
  int produce(struct ArrowDeviceArrayStream* stream);   with --kind stream";

pub(crate) fn command() -> Command {
    Command::new("inspect")
        .about("Show which buffers a file, or what another program hands over, is made of, and where they lie")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("INPUT")
                .value_parser(value_parser!(PathBuf))
                .help("A Parquet file, an Arrow file, or an Arrow stream"),
        )
        .arg(
            Arg::new("producer")
                .long("producer")
                .value_name("LIBRARY:SYMBOL")
                .help("A function of a shared library that hands over an array"),
        )
        .arg(
            Arg::new("socket")
                .long("socket")
                .value_name("PATH")
                .value_parser(value_parser!(PathBuf))
                .help("A socket at which another process shares arrays, as `arrow-device share` does"),
        )
        .arg(
            Arg::new("trust").long("trust").requires("socket").action(ArgAction::SetTrue).help(
                "Trust the other process not to write to memory that it can write to (Vulkan's)",
            ),
        )
        .group(ArgGroup::new("source").args(["INPUT", "producer", "socket"]).required(true))
        .arg(
            Arg::new("kind")
                .long("kind")
                .value_name("KIND")
                .value_parser(["array", "stream"])
                .default_value("array")
                .requires("producer")
                .help("What the function hands over"),
        )
        .arg(
            Arg::new("device")
                .long("device")
                .value_name("DEVICE")
                .help("Copy it to this device, as `arrow-device devices` names it, and look at it there"),
        )
        .arg(
            Arg::new("batches")
                .long("batches")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..=1000))
                .default_value("1")
                .help("How many batches are looked at"),
        )
        .arg(
            Arg::new("head")
                .long("head")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..=1_000_000))
                .conflicts_with_all(["json", "html"])
                .help("Show the values of the first N rows of each batch too, which reads them"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print it as JSON"))
        .arg(
            Arg::new("html")
                .long("html")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .conflicts_with("json")
                .help("Draw it, as a page that needs nothing else"),
        )
}

pub(crate) fn run(matches: &ArgMatches, out: &mut dyn Write) -> Outcome {
    let most = matches.get_one::<u32>("batches").map_or(1, |most| *most as usize);
    if let Some(file) = matches.get_one::<PathBuf>("html") {
        crate::files::has_name(file)?;
    }
    let device = matches.get_one::<String>("device").map(|text| Name::parse(text)).transpose()?;
    let opened = device.map(backends::open).transpose()?;
    let (source, arrays) = if let Some(producer) = matches.get_one::<String>("producer") {
        let is_stream = matches.get_one::<String>("kind").is_some_and(|kind| kind == "stream");
        (producer.clone(), producer::arrays(producer, is_stream, most)?)
    } else if let Some(socket) = matches.get_one::<PathBuf>("socket") {
        let arrays = shared::arrays(socket, opened.as_ref(), most, matches.get_flag("trust"));
        (socket.display().to_string(), arrays.map_err(|why| why.during(socket.display()))?)
    } else {
        let input = matches.get_one::<PathBuf>("INPUT").cloned().unwrap_or_default();
        (input.display().to_string(), arrays_of(&input, most)?)
    };
    let arrays = match &opened {
        Some(opened) => there(arrays, opened)?,
        None => arrays,
    };
    let surveys = arrays.iter().map(Survey::of).collect::<Outcome<Vec<Survey>>>()?;
    let memory = MemoryMap::of(&surveys);

    if let Some(file) = matches.get_one::<PathBuf>("html") {
        std::fs::write(file, page::html(&source, &surveys, &memory))
            .map_err(|error| Failure::from(error).during(file.display()))?;
        writeln!(out, "{}", file.display())?;
    } else if matches.get_flag("json") {
        writeln!(out, "{}", to_json::all(&source, &surveys, &memory))?;
    } else {
        text::write(out, &source, &surveys, &memory)?;
        if let Some(most) = matches.get_one::<u32>("head") {
            head::write(out, &arrays, *most as usize)?;
        }
    }
    // A device of software works only for somebody who waits.
    if opened.is_some() {
        arrays.iter().try_for_each(Array::wait)?;
    }
    // What was surveyed goes before the device that it is on.
    drop((surveys, arrays));
    arrow_device::deferred::wait_until_released(std::time::Duration::from_secs(10))?;
    opened.map_or(Ok(()), Opened::finish)?;
    Ok(ExitCode::SUCCESS)
}

/// The arrays copied to a device, each ready after its own event. Nobody waits for it. What lies
/// there already is shared.
fn there(arrays: Vec<Array>, opened: &Opened) -> Outcome<Vec<Array>> {
    let queue: Queue = opened.device.open_queue()?;
    let options = Options::new();
    Ok(arrays.iter().map(|array| array.copy_with(&queue, &options)).collect::<Result<_, _>>()?)
}

#[cfg(feature = "files")]
fn arrays_of(input: &Path, most: usize) -> Outcome<Vec<Array>> {
    let source = crate::files::open(input)?;
    let batches = source.batches.take(most).map(|batch| batch.map(Array::from));
    batches.collect::<Result<_, _>>().map_err(|error| Failure::from(error).during(input.display()))
}

#[cfg(not(feature = "files"))]
fn arrays_of(_: &Path, _: usize) -> Outcome<Vec<Array>> {
    Err(crate::files::left_out())
}
