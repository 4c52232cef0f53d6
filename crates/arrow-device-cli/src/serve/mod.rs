//! `arrow-device serve`: files as flights, for clients of Arrow Flight on this machine or others.
//!
//! A flight has the name of its file and nothing else, so that no ticket reaches another file.
//! Without a device each call reads the file again, and holds a few batches of it; with a device
//! the batches lie there, and are copied from there for each call.

#[cfg(feature = "flight")]
mod audible;
#[cfg(feature = "flight")]
mod closable;
#[cfg(feature = "flight")]
mod flights;
#[cfg(feature = "flight")]
mod inbox;
#[cfg(feature = "flight")]
mod service;
#[cfg(feature = "flight")]
mod taken;
#[cfg(feature = "flight")]
mod work;

use std::io::Write;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::failure::Outcome;
use crate::flight;

const EXAMPLES: &str = "\
Examples:
  arrow-device serve data.parquet more.arrow                          at flight://127.0.0.1:8815
  arrow-device serve data.parquet --device vulkan:0                   out of the memory of a device
  arrow-device serve *.arrow --listen 127.0.0.1:0 --put-to ./inbox    at a free port; takes flights, too
  arrow-device serve data.arrow --listen 0.0.0.0:8815 --token-file ./token --tls-cert cert.pem --tls-key key.pem

Each file is a flight with the name of the file, for ListFlights, GetFlightInfo, GetSchema and DoGet; nothing else of
the machine can be asked for. At most 64 calls move data at once, and others wait; --idle-timeout ends the call of a
client that stands still. Ctrl-C ends the server once the calls that have begun are done; a second one ends it at
once. Other machines reach it only with --listen, and whoever
reaches it reads all of it unless there is a token. Clients: `arrow-device fetch`, pyarrow.flight, and any other of
Arrow Flight.";

pub(crate) fn command() -> Command {
    let file = |name: &'static str, long: &'static str| {
        Arg::new(name).long(long).value_name("FILE").value_parser(value_parser!(PathBuf))
    };
    Command::new("serve")
        .about("Serve Parquet and Arrow files as flights, for clients of Arrow Flight")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("FILE")
                .required(true)
                .num_args(1..)
                .value_parser(value_parser!(PathBuf))
                .help("Parquet files, Arrow files, and Arrow streams"),
        )
        .arg(
            Arg::new("listen")
                .long("listen")
                .value_name("ADDRESS:PORT")
                .default_value("127.0.0.1:8815")
                .help("Where clients connect; port 0 is any free one"),
        )
        .arg(Arg::new("device").long("device").value_name("DEVICE").help(
            "Keep the files in the memory of this device, as `arrow-device devices` names it",
        ))
        .arg(
            Arg::new("put-to")
                .long("put-to")
                .value_name("FOLDER")
                .value_parser(value_parser!(PathBuf))
                .help(
                    "Take flights, too, and write them into this folder; no file there is replaced",
                ),
        )
        .arg(flight::token_file())
        .arg(
            file("tls-cert", "tls-cert")
                .requires("tls-key")
                .help("The certificate of the server, in PEM"),
        )
        .arg(
            file("tls-key", "tls-key")
                .requires("tls-cert")
                .help("The key of the certificate, in PEM"),
        )
        .arg(flight::max_message())
        .arg(
            Arg::new("idle-timeout")
                .long("idle-timeout")
                .value_name("SECONDS")
                .default_value("300")
                .value_parser(value_parser!(u32).range(1..))
                .help("End a call whose client takes nothing, or puts nothing, for so long"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print what is served as JSON"),
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
