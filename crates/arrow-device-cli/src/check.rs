//! `arrow-device check`: whether somebody's producer or consumer keeps to the interface.
//!
//! The checker is `arrow-device-check`; here are its arguments and its exit codes. It starts this
//! program again for each thing that it tries, which `main` looks for first. Only a build with the
//! feature `check` has it.

use std::io::Write;
#[cfg(feature = "check")]
use std::{io, process::ExitCode};

#[cfg(feature = "check")]
use arrow_device_check::Options;
#[cfg(not(feature = "check"))]
use clap::Arg;
use clap::{ArgMatches, Command};
#[cfg(feature = "check")]
use clap::{Args, FromArgMatches};

use crate::failure::{Failure, Outcome};

/// A line for each way, because all in one is long.
const USAGE: &str = "\
arrow-device check [OPTIONS] --producer <LIBRARY:FUNCTION>
       arrow-device check [OPTIONS] --consumer <LIBRARY:FUNCTION>
       arrow-device check [OPTIONS] --relay <LIBRARY:FUNCTION>
       arrow-device check [OPTIONS] --python <MODULE:FUNCTION>";

const EXAMPLES: &str = "\
Examples:
  arrow-device check --producer ./libmine.so:my_produce
  arrow-device check --consumer ./libmine.so:my_consume_stream --kind stream --junit report.xml
  arrow-device check --python mypackage:make_array --kind array
  arrow-device check --python mypackage:take --as consumer --json -
  arrow-device check --producer ./libmine.so:my_tensor --kind dlpack --under valgrind

The entry points in C are in include/arrow_device/check.h. A function in Python returns an object with
__arrow_c_device_array__ (or __dlpack__, and so on), takes one, or does both.

It exits with 1 if a rule is broken, and with 2 if it could not check.";

pub(crate) fn command() -> Command {
    let command = Command::new("check");
    arguments(command)
        .about("Check whether a producer or a consumer of yours keeps to the interface")
        .long_about(None)
        .override_usage(USAGE)
        .after_help(EXAMPLES)
}

#[cfg(feature = "check")]
fn arguments(command: Command) -> Command {
    Options::augment_args(command)
}

/// Any, because the checker knows which there are.
#[cfg(not(feature = "check"))]
fn arguments(command: Command) -> Command {
    let any = Arg::new("arguments").num_args(0..).allow_hyphen_values(true);
    command.arg(any.trailing_var_arg(true).hide(true))
}

#[cfg(feature = "check")]
pub(crate) fn run(matches: &ArgMatches, out: &mut dyn Write) -> Outcome {
    let options = Options::from_arg_matches(matches).map_err(|refused| Failure::usage(&refused))?;
    match arrow_device_check::run(&options, out) {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::FAILURE),
        Err(error) => Err(match error.downcast::<io::Error>() {
            Ok(error) if error.kind() == io::ErrorKind::BrokenPipe => Failure::from(*error),
            Ok(error) => Failure::misuse(error.to_string()),
            Err(error) => Failure::misuse(error.to_string()),
        }),
    }
}

#[cfg(not(feature = "check"))]
pub(crate) fn run(_: &ArgMatches, _: &mut dyn Write) -> Outcome {
    Err(Failure::new("this build of the command checks nothing: build it with `--features check`"))
}
