//! `arrow-device devices`: the conventions of the types of device.

use std::io::Write;

use crate::Outcome;
use arrow_device::convention;

/// Prints one block for each type.
pub(crate) fn list(out: &mut dyn Write) -> Outcome {
    for convention in convention::ALL {
        writeln!(out, "{:>2}  {convention}\n", convention.device_type.0)?;
    }
    writeln!(out, "{} types of device", convention::ALL.len())?;
    Ok(())
}
