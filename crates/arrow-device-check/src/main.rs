//! The checker as a program of its own: what `arrow-device check` does.

use std::io::{self, Write};
use std::process::ExitCode;

use arrow_device_check::{Options, child_if_asked, run};
use clap::Parser;

/// Check whether a producer or a consumer of Arrow data on devices keeps to the interface.
#[derive(Parser)]
#[command(name = "arrow-device-check", version)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    if let Some(code) = child_if_asked() {
        return code;
    }
    let arguments = Arguments::parse();
    match run(&arguments.options, &mut io::stdout().lock()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // If writing fails, nobody can be told.
            let _ = writeln!(io::stderr(), "arrow-device-check: {error}");
            ExitCode::from(2)
        }
    }
}
