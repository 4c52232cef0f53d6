//! What the command `arrow-device` does: shows how two parties in a process share Arrow data through the C device interface.
//!
//! Without arguments it runs the demonstration in `demo`, on a device made of software. It reads no file.

mod consumer;
mod demo;
mod devices;
mod mistakes;
mod producer;

use std::io::{self, Write};
use std::process::ExitCode;

/// Whatever went wrong, to be told in one line.
type Outcome = Result<(), Box<dyn std::error::Error>>;

const HELP: &str = "\
Share Arrow data that lies on a device between any two parties in a process, without copying it.

Usage: arrow-device [COMMAND]

Commands:
  demo     Hand a record batch from a producer to a consumer and back, through a device made of software
           (this is what happens without a command)
  devices  Say what buffers, ids and events mean on each type of device

Options:
  --break MISTAKE  Have the consumer of the demo make a mistake, and show what the device says of it:
                   wait, release or write
  -h, --help     Print this
  -V, --version  Print the version
";

/// The command: reads its arguments, does what they say, and complains in one line.
pub fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into()).collect();
    let mut out = io::stdout().lock();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        [] | ["demo"] => demo::run(&mut out),
        ["--break", name] | ["demo", "--break", name] => {
            match mistakes::ALL.iter().find(|(known, ..)| known == name) {
                Some(mistake) => mistakes::run(mistake, &mut out),
                None => {
                    complain(&format!(
                        "`{name}` is no mistake that can be made; `--help` lists them"
                    ));
                    return ExitCode::from(2);
                }
            }
        }
        ["devices"] => devices::list(&mut out),
        ["-h" | "--help" | "help"] => out.write_all(HELP.as_bytes()).map_err(Into::into),
        ["-V" | "--version"] => {
            writeln!(out, "arrow-device {}", env!("CARGO_PKG_VERSION")).map_err(Into::into)
        }
        other => {
            complain(&format!("`{}` is no command; `--help` lists them", other.join(" ")));
            return ExitCode::from(2);
        }
    };
    match outcome.and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever was reading has seen enough.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// On one line; there is nobody to tell if that fails.
fn complain(message: &str) {
    let message = message.replace(char::is_control, " ");
    let _ = writeln!(io::stderr(), "arrow-device: {message}");
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
