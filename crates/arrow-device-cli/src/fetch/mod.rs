//! `arrow-device fetch`: what a server of Arrow Flight has, and one of its flights, onto a device
//! and into a file.

#[cfg(feature = "flight")]
mod list;
#[cfg(feature = "flight")]
mod work;

use std::io::Write;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::failure::Outcome;
use crate::{copy, flight};

const EXAMPLES: &str = "\
Examples:
  arrow-device fetch flight://127.0.0.1:8815                                   which flights the server has
  arrow-device fetch flight://127.0.0.1:8815 data.parquet                      one of them, to see what comes
  arrow-device fetch flight://127.0.0.1:8815/data.parquet -o data.arrow        into a file
  arrow-device fetch flight://127.0.0.1:8815 data.parquet --device opencl:0 -o data.arrow
  arrow-device fetch flight+tls://db.example:8815 --tls-ca ca.pem --token-file ./token

In an address, %20 is a space in the name of a flight; behind it the name is written as it is. grpc://, grpc+tcp:// and
grpc+tls:// are understood as well. The batches are copied onto the device as they come, back to the host, and compared
by a checksum; then they are written. A file is complete or not there, as with `arrow-device copy`. What comes from the
server is checked, byte for byte.";

pub(crate) fn command() -> Command {
    Command::new("fetch")
        .about("List the flights of a server of Arrow Flight, or fetch one onto a device and into a file")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("URL")
                .required(true)
                .help("The server, flight://HOST:PORT or flight+tls://HOST:PORT, and perhaps /NAME"),
        )
        .arg(Arg::new("NAME").help("The flight; without one, all are listed"))
        .arg(
            Arg::new("device")
                .long("device")
                .value_name("DEVICE")
                .help("Copy the batches onto this device, as `arrow-device devices` names it"),
        )
        .arg(
            Arg::new("output")
                .long("output")
                .short('o')
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Write them: .parquet, .arrow or .arrows (stream); `-` is the standard output, as a stream"),
        )
        .args(copy::output_arguments())
        .args(flight::client_arguments())
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print the list, or what was fetched, as JSON"),
        )
}

#[cfg(feature = "flight")]
pub(crate) fn run(matches: &ArgMatches, out: &mut dyn Write) -> Outcome {
    work::run(matches, out)
}

#[cfg(not(feature = "flight"))]
pub(crate) fn run(_: &ArgMatches, _: &mut dyn Write) -> Outcome {
    Err(flight::left_out())
}
