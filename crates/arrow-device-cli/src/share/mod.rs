//! `arrow-device share`: a file on a device, for other processes, which use it without a copy.
//!
//! The batches are copied once, to memory that other processes can open. Each process that connects
//! to the socket gets all of them as a stream, and all processes use the same memory. Each
//! process is served by a thread of its own.

#[cfg(all(feature = "files", target_os = "linux"))]
mod socket;
#[cfg(all(feature = "files", target_os = "linux"))]
mod work;

use std::io::Write;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  arrow-device share data.parquet --socket /run/user/1000/data &
  arrow-device inspect --socket /run/user/1000/data --head 5
  arrow-device share data.arrow --device cpu --socket ./data --connections 1   for one process, and no more
  arrow-device share data.arrow --device vulkan:0 --socket ./data --trust      memory that others could write to

The socket is for this user alone, and goes when the command ends: after so many connections, or with Ctrl-C. At most
16 processes are served at once, and others wait. Programs connect with the crate `arrow-device-share`, with
ardev_receiver_new in C, or with arrow_device.share.Receiver in Python.";

pub(crate) fn command() -> Command {
    Command::new("share")
        .about("Share a file on a device with other processes, which use its memory without a copy")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("INPUT").required(true).value_parser(value_parser!(PathBuf)).help(
                "A Parquet file, an Arrow file, or an Arrow stream; `-` is the standard input",
            ),
        )
        .arg(
            Arg::new("socket")
                .long("socket")
                .value_name("PATH")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The socket that other processes connect to, which is made here"),
        )
        .arg(
            Arg::new("device")
                .long("device")
                .value_name("DEVICE")
                .default_value("cpu")
                .help("The device whose memory is shared, as `arrow-device devices` names it"),
        )
        .arg(
            Arg::new("connections")
                .long("connections")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..=1_000_000))
                .help("End once so many processes were served"),
        )
        .arg(Arg::new("trust").long("trust").action(ArgAction::SetTrue).help(
            "Trust whoever connects not to write to memory that others can write to (Vulkan's)",
        ))
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print what is shared as JSON"),
        )
}

#[cfg(all(feature = "files", target_os = "linux"))]
pub(crate) fn run(matches: &ArgMatches, out: &mut dyn Write) -> Outcome {
    work::run(matches, out)
}

#[cfg(all(not(feature = "files"), target_os = "linux"))]
pub(crate) fn run(_: &ArgMatches, _: &mut dyn Write) -> Outcome {
    Err(crate::files::left_out())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn run(_: &ArgMatches, _: &mut dyn Write) -> Outcome {
    Err(elsewhere())
}

/// What to say where memory is not shared with other processes.
#[cfg(not(target_os = "linux"))]
pub(crate) fn elsewhere() -> crate::failure::Failure {
    crate::failure::Failure::new("memory is shared with other processes on Linux alone")
}
