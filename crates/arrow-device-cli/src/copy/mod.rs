//! `arrow-device copy`: a file through devices into another file. Either may be a flight of a
//! server.
//!
//! One thread reads and sums up, the calling one does all else: each device hands the batches on as
//! a C device stream, the sum of what comes out of the last one has to be that of what went in, and
//! then they are written. So there are never more than a few batches in memory, however large the
//! file is.

#[cfg(feature = "files")]
mod checksum;
#[cfg(feature = "files")]
mod ends;
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

#[cfg(feature = "flight")]
pub(crate) use ends::{Input, Target};
#[cfg(feature = "flight")]
pub(crate) use output::Output;
#[cfg(feature = "flight")]
pub(crate) use work::{Copied, Job};

use std::io::Write;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::failure::Outcome;
use crate::flight;

const EXAMPLES: &str = "\
Examples:
  arrow-device copy in.parquet out.arrow                              another format
  arrow-device copy in.parquet out.parquet --through opencl:0         by way of a device
  arrow-device copy in.arrows out.arrows --through ext_dev,opencl:0   by way of two
  arrow-device copy in.parquet - | consumer                           as an Arrow stream into a pipe
  arrow-device copy flight://127.0.0.1:8815/in.parquet file:out.arrow --device opencl:0
  arrow-device copy in.parquet flight://127.0.0.1:8815/out.parquet    to a server, by DoPut

A file is written beside its place under another name, and moved there when it is complete and every batch has
come out of the devices as it went in. An older file of that name stays until then, and the new one has its mode
and its owner; links are followed. A pipe, a device and `-` take the batches as they come. A server of Flight gets
all batches or an error; `arrow-device fetch --help` says more of servers. A path may begin with file:, which is
left out; a file whose own name looks like an address is named with its folder, as in ./file:x.arrow.";

pub(crate) fn command() -> Command {
    let file =
        |name: &'static str| Arg::new(name).value_name(name).value_parser(value_parser!(PathBuf));
    Command::new("copy")
        .about("Copy a Parquet or Arrow file or a flight, as a device stream through the devices named")
        .after_help(EXAMPLES)
        .arg(file("INPUT").required(true).help(
                "A Parquet or Arrow file, or an Arrow stream; `-` is the standard input; or flight://HOST:PORT/NAME",
            ))
        .arg(
            file("OUTPUT").required(true).help(
                "A file, .parquet, .arrow or .arrows; `-`, the standard output, as a stream; or flight://HOST:PORT/NAME",
            ),
        )
        .arg(
            Arg::new("through")
                .long("through")
                .value_name("DEVICE,...")
                .value_delimiter(',')
                .visible_alias("device")
                .help("The devices, as `arrow-device devices` names them"),
        )
        .args(output_arguments())
        .args(flight::client_arguments())
}

/// How an output that is a file is written.
pub(crate) fn output_arguments() -> [Arg; 2] {
    let no_clobber = Arg::new("no-clobber")
        .long("no-clobber")
        .action(ArgAction::SetTrue)
        .help("Replace no file that is there");
    let format = Arg::new("format")
        .long("format")
        .value_name("FORMAT")
        .value_parser(["parquet", "arrow", "arrows"])
        .help("The format of the output, whatever its name");
    [no_clobber, format]
}

#[cfg(feature = "files")]
pub(crate) fn run(matches: &ArgMatches, out: &mut dyn Write) -> Outcome {
    work::run(matches, out)
}

#[cfg(not(feature = "files"))]
pub(crate) fn run(_: &ArgMatches, _: &mut dyn Write) -> Outcome {
    Err(crate::files::left_out())
}
