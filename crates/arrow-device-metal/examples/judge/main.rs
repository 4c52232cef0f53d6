//! Judges the devices of this machine: the conformance suite on each of them, tensors, and copies
//! between all of them, with a report.
//!
//! ```sh
//! cargo run --release -p arrow-device-metal --example judge
//! ```
//!
//! The program ends with the code 0 if nothing is wrong, and with 1 otherwise. What it prints is
//! worth a report to the project in both cases.

use std::process::ExitCode;

use arrow_device::{Array, DataType, Queue, Result};
use arrow_device_testkit::suite::Suite;

fn main() -> ExitCode {
    match judge() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Judges all devices. Returns whether nothing is wrong.
pub(crate) fn judge() -> Result<bool> {
    let (mut is_good, mut queues) = (true, Vec::new());
    for listed in arrow_device_metal::devices()? {
        println!("{listed:?}");
        let device = arrow_device_metal::open(listed.index)?;
        let report = Suite::new(&device).run();
        println!("{report}");
        is_good &= report.failures().is_empty();
        queues.push(device.open_queue()?);
    }
    let array = Array::from_values(DataType::Int64, (0..10_000).map(Some))?;
    for from in &queues {
        for to in &queues {
            let arrives = goes(&array, from, to)?;
            println!("from {} to {}: {arrives}", from.device().id(), to.device().id());
            is_good &= arrives;
        }
    }
    println!("{}", if is_good { "nothing is wrong" } else { "something is wrong" });
    Ok(is_good)
}

/// Whether an array has its values after it went by two queues.
fn goes(array: &Array, from: &Queue, to: &Queue) -> Result<bool> {
    array.copy_to(from)?.copy_to(to)?.to_host()?.equals(array)
}
