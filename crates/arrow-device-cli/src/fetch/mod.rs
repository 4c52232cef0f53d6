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
  arrow-device fetch flight://127.0.0.1:8815                                   lists the flights of the server
  arrow-device fetch flight://127.0.0.1:8815 data.parquet                      fetches one, and only says what came
  arrow-device fetch flight://127.0.0.1:8815/data.parquet -o data.arrow        into a file
  arrow-device fetch flight://127.0.0.1:8815 data.parquet --device opencl:0 -o data.arrow
  arrow-device fetch flight+tls://db.example:8815 --tls-ca ca.pem --token-file ./token

The name of a flight is a part of the address, where %20 is a space, or an argument of its own, which is taken as it
is. grpc://, grpc+tcp:// and grpc+tls:// are understood as well. All that comes from the server is checked. With
--device, the batches are copied onto the device as they come, and back to the host, where a checksum has to be the
same. With -o they are written then; a file is complete or not there, as with `arrow-device copy`.";

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
