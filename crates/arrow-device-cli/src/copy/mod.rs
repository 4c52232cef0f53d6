//! `arrow-device copy`: a file through devices into another file.
//!
//! One thread reads and sums up, the calling one does all else: each device hands the batches on as
//! a C device stream, the sum of what comes out of the last one has to be that of what went in, and
//! then they are written. So there are never more than a few batches in memory, however large the
//! file is.

#[cfg(feature = "files")]
mod checksum;
#[cfg(feature = "files")]
mod output;
#[cfg(feature = "files")]
mod progress;
#[cfg(feature = "files")]
mod reader;
#[cfg(feature = "files")]
mod through;
#[cfg(feature = "files")]
mod work;

use std::io::Write;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  arrow-device copy in.parquet out.arrow                              another format
  arrow-device copy in.parquet out.parquet --through opencl:0         by way of a device
  arrow-device copy in.arrows out.arrows --through ext_dev,opencl:0   by way of two
  arrow-device copy in.parquet - | consumer                           as an Arrow stream into a pipe

A file is written beside its place under another name, and moved there when it is complete and every batch has
come out of the devices as it went in. An older file of that name stays until then, and the new one has its mode
and its owner; links are followed. A pipe, a device and `-` take the batches as they come.";

pub(crate) fn command() -> Command {
    let file =
        |name: &'static str| Arg::new(name).value_name(name).value_parser(value_parser!(PathBuf));
    Command::new("copy")
        .about("Copy a Parquet or Arrow file, as a device stream through the devices named")
        .after_help(EXAMPLES)
        .arg(file("INPUT").required(true).help(
                "A Parquet file, an Arrow file, or an Arrow stream; `-` is the standard input",
            ))
        .arg(
            file("OUTPUT").required(true).help(
                "Its name says the format: .parquet, .arrow or .arrows (stream); `-` is the standard output, as a stream",
            ),
        )
        .arg(
            Arg::new("through")
                .long("through")
                .value_name("DEVICE,...")
                .value_delimiter(',')
                .help("The devices, as `arrow-device devices` names them"),
        )
        .arg(
            Arg::new("no-clobber")
                .long("no-clobber")
                .action(ArgAction::SetTrue)
                .help("Replace no file that is there"),
        )
        .arg(
            Arg::new("format")
                .long("format")
                .value_name("FORMAT")
                .value_parser(["parquet", "arrow", "arrows"])
                .help("The format of the output, whatever its name"),
        )
}

#[cfg(feature = "files")]
pub(crate) fn run(matches: &ArgMatches, out: &mut dyn Write) -> Outcome {
    work::run(matches, out)
}

#[cfg(not(feature = "files"))]
pub(crate) fn run(_: &ArgMatches, _: &mut dyn Write) -> Outcome {
    Err(crate::files::left_out())
}
