//! Judges the devices of this machine: the conformance suite on each of them, and copies between
//! all of them, with a report.
//!
//! ```sh
//! cargo run --release -p arrow-device-metal --example judge
//! ```
//!
//! The program ends with the code 0 if nothing is wrong, and with 1 otherwise. What it prints is
//! worth a report to the project in both cases.

use std::process::ExitCode;

use arrow_device::{Array, DataType, Queue, Result};
use arrow_device_testkit::kinds;
use arrow_device_testkit::suite::Suite;

fn main() -> ExitCode {
    match judge(1) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Judges all devices, with every `step`-th array. Returns whether nothing is wrong.
pub(crate) fn judge(step: usize) -> Result<bool> {
    let (mut is_good, mut queues) = (true, Vec::new());
    for listed in arrow_device_metal::devices()? {
        println!("{listed:?}");
        let device = arrow_device_metal::open(listed.index)?;
        let suite = Suite::new(&device);
        let suite = if step > 1 { suite.over(kinds::cases().step_by(step)) } else { suite };
        let report = suite.run();
        println!("{report}");
        is_good &= report.failures().is_empty();
        queues.push(device.open_queue()?);
    }
    let array = Array::from_values(DataType::Int64, (0..10_000_i64).map(Some))?;
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
