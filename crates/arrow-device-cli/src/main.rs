//! The command `arrow-device`.

use std::process::ExitCode;

fn main() -> ExitCode {
    arrow_device_cli::main()
}
