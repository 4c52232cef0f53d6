//! The command `arrow-device`: looks at, moves, checks and measures Arrow data on devices.
//!
//! ```text
//! arrow-device devices                                what is here, and why others are not
//! arrow-device demo --device opencl:0                 a batch handed over, step by step
//! arrow-device inspect data.parquet --device opencl   where the buffers of the first batch lie
//! arrow-device copy in.parquet out.arrow --through opencl:0,cpu
//! arrow-device share data.parquet --socket ./data     for other processes, without a copy
//! arrow-device serve data.parquet                     for clients of Arrow Flight
//! arrow-device fetch flight://127.0.0.1:8815/data.parquet -o data.arrow
//! arrow-device check --producer ./libmine.so:produce  whether a library keeps to the interface
//! ```
//!
//! `inspect`, `copy` and `share` need the feature `files`; `serve`, `fetch` and flights in `copy`
//! need the feature `flight`, which has `files` in it; and `check` needs the feature `check`. None
//! of them is on by default. In a checkout of the repository, `cargo install --path
//! crates/arrow-device-cli --features check,flight` installs the command with all of them.
//!
//! # How it is built
//!
//! Each subcommand is a module with a `command`, which says what may be asked, and a `run`, which
//! does it; `COMMANDS` lists them. Where devices come from is the table in `backends`. Whatever
//! goes wrong is a `Failure`, told in one line.

mod backends;
mod bench;
mod check;
mod copy;
mod demo;
mod devices;
mod failure;
mod fetch;
mod files;
mod flight;
mod inspect;
mod json;
mod serve;
mod share;
mod shells;
#[cfg(feature = "files")]
mod signals;
mod table;
mod units;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, Command};

use failure::{Failure, Outcome};

/// A subcommand: what may be asked of it, and what does it.
type Subcommand = (fn() -> Command, fn(&ArgMatches, &mut dyn Write) -> Outcome);

/// All of them, in the order of the help.
const COMMANDS: &[Subcommand] = &[
    (demo::command, demo::run),
    (devices::command, devices::run),
    (inspect::command, inspect::run),
    (copy::command, copy::run),
    (share::command, share::run),
    (serve::command, serve::run),
    (fetch::command, fetch::run),
    (bench::command, bench::run),
    (check::command, check::run),
    (shells::completions, shells::complete),
    (shells::manual, shells::write_manual),
];

const EXAMPLES: &str = "\
Examples:
  arrow-device                                        the demonstration, on a device made of software
  arrow-device devices                                which devices there are here, and why others are not
  arrow-device demo --device opencl:0                 the demonstration on another device
  arrow-device inspect data.parquet --device opencl   where the buffers of the first batch lie, as text
  arrow-device copy in.parquet out.arrow --through opencl:0,cpu
  arrow-device share data.parquet --socket ./data     for other processes, which use it without a copy
  arrow-device serve data.parquet                     for clients of Arrow Flight
  arrow-device fetch flight://127.0.0.1:8815/data.parquet -o data.arrow
  arrow-device check --producer ./libmine.so:produce  whether a library of yours keeps to the interface

Environment:
  ARROW_DEVICE_CUDA_LIBRARY, ARROW_DEVICE_HEXAGON_LIBRARY, ARROW_DEVICE_HIP_LIBRARY, ARROW_DEVICE_METAL_LIBRARY,
  ARROW_DEVICE_ONEAPI_LIBRARY, ARROW_DEVICE_OPENCL_LIBRARY, ARROW_DEVICE_VULKAN_LIBRARY, ARROW_DEVICE_WEBGPU_LIBRARY
       the path of the driver's library, in the place of the one that the system finds
  ARROW_DEVICE_CUDA_OPTIONS, ARROW_DEVICE_HIP_OPTIONS
       how GPUs are opened, such as `pool=own keep=1048576` or `batched_copies=0`
  ARROW_DEVICE_VPI_DESIGN, ARROW_DEVICE_VPI_CONNECT, ARROW_DEVICE_VPI_MODULE, ARROW_DEVICE_VPI_SOCKET
       the Verilog sources of simulated hardware, the socket of a simulator that runs, the path of the VPI module for
       simulators, and what the module is told of where to listen
  ARROW_DEVICE_FLIGHT_TOKEN
       the token of `serve`, `fetch` and `copy`, where no file is named that has it
  Those of backends are no flags, because backends read them in every program that has them; and the token is none,
  because everybody on a machine can read the arguments of a process.

Exit codes:
  0    it is done
  1    it could not be done, and the last line says why; or `check` found that a rule is broken
  2    it was asked for in a way that makes no sense
  130  it was interrupted";

/// Has each large block of memory go back to the system when it is freed.
///
/// The C library would raise its own limit to the size of a batch, once one is freed, and keep the
/// batches of all threads apart: several times as much memory as the batches that are alive.
fn give_large_blocks_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: mallopt(3): may be called at any time, with an option and its value.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20) };
    }
}

/// The command: reads its arguments, does what they say, and complains in one line.
pub fn main() -> ExitCode {
    #[cfg(feature = "check")]
    if let Some(code) = arrow_device_check::child_if_asked() {
        return code;
    }
    give_large_blocks_back();
    let mut out = io::stdout().lock();
    let outcome = run(std::env::args_os(), &mut out).and_then(|code| {
        out.flush()?;
        Ok(code)
    });
    match outcome {
        Ok(code) => code,
        // Whoever was reading has seen enough.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            // There is nobody to tell if this fails.
            let _ = writeln!(io::stderr(), "arrow-device: {failure}");
            failure.exit_code()
        }
    }
}

fn run(arguments: impl IntoIterator<Item = OsString>, out: &mut dyn Write) -> Outcome {
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(asked)
            if matches!(asked.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) =>
        {
            write!(out, "{asked}")?;
            return Ok(ExitCode::SUCCESS);
        }
        Err(refused) => return Err(Failure::usage(&refused)),
    };
    let Some((name, of_command)) = matches.subcommand() else { return demo::run(&matches, out) };
    match COMMANDS.iter().find(|(command, _)| command().get_name() == name) {
        Some((_, run)) => run(of_command, out),
        None => Err(Failure::new(format!("`{name}` is no command"))),
    }
}

pub(crate) fn command() -> Command {
    Command::new("arrow-device")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Share Arrow data that lies on a device between any two parties, without copying it.")
        .long_about(
            "Share Arrow data that lies on a device between any two parties, without copying it.\n\nWithout a command it \
             runs the demonstration.",
        )
        .after_help(EXAMPLES)
        .args(demo::command().get_arguments().cloned())
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
        .subcommands(COMMANDS.iter().map(|(command, _)| command()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        super::command().debug_assert();
    }
}
