//! Arrow Flight: the addresses of servers, and what is read from one and sent to one.
//!
//! Only a build with the feature `flight` has more than the names of it.

#[cfg(feature = "flight")]
mod address;
#[cfg(feature = "flight")]
mod client;
#[cfg(feature = "flight")]
mod received;
#[cfg(feature = "flight")]
mod sending;
#[cfg(feature = "flight")]
mod token;

#[cfg(feature = "flight")]
pub(crate) use address::{Address, percent_encoded};
#[cfg(feature = "flight")]
pub(crate) use client::{Access, Connection, checked};
#[cfg(feature = "flight")]
pub(crate) use received::open;
#[cfg(feature = "flight")]
pub(crate) use sending::Sending;
#[cfg(feature = "flight")]
pub(crate) use token::token;

use std::path::PathBuf;

use clap::{Arg, value_parser};

/// The schemes of addresses, and whether each is over TLS.
#[cfg(feature = "files")]
const SCHEMES: [(&str, bool); 5] = [
    ("flight", false),
    ("flight+tls", true),
    ("grpc", false),
    ("grpc+tcp", false),
    ("grpc+tls", true),
];

/// The scheme of an address and what is behind it. `None` for everything else, such as a path.
#[cfg(feature = "files")]
pub(crate) fn split_address(text: &str) -> Option<(bool, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let found = SCHEMES.iter().find(|(known, _)| *known == scheme);
    found.map(|(_, is_secure)| (*is_secure, rest))
}

/// What to say where Flight is not spoken.
#[cfg(not(feature = "flight"))]
pub(crate) fn left_out() -> crate::failure::Failure {
    crate::failure::Failure::new(
        "this build of the command speaks no Flight: build it with `--features flight`",
    )
}

/// The option that names the file with the token.
pub(crate) fn token_file() -> Arg {
    Arg::new("token-file")
        .long("token-file")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("A file with the token that each call needs; or it is in ARROW_DEVICE_FLIGHT_TOKEN")
}

/// The option that says how large a message may be that is received.
pub(crate) fn max_message() -> Arg {
    Arg::new("max-message")
        .long("max-message")
        .value_name("MIB")
        .default_value("64")
        .value_parser(value_parser!(u32).range(1..=2047))
        .help("The most MiB of a message that comes; dictionaries have four times that")
}

/// The options of a client.
pub(crate) fn client_arguments() -> [Arg; 3] {
    let authority = Arg::new("tls-ca")
        .long("tls-ca")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("The certificate, in PEM, by which a server of flight+tls:// is known");
    [token_file(), authority, max_message()]
}
