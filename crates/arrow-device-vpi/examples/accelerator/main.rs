//! A test of an accelerator in simulation: the design in `sum.v` sums a column with nulls, and the
//! host checks the sums.
//!
//! What a hardware team does for its own design stands here once:
//!
//! 1. The simulator is started with the Verilog of the design.
//! 2. Arrow data is copied to the simulated memory. A slice begins at any row, so the unit is told
//!    the first row, and a column without nulls has no bitmap.
//! 3. The unit is started on the addresses that a view tells for a queue. The job is work of the
//!    queue as copies are: it comes after the copy of the column, and before what follows.
//! 4. The result is an Arrow array that lies where the unit has written, and is compared with what
//!    the host computes.
//! 5. A result that the unit forgot to write has unknown bits, which are counted.
//!
//! `cargo run -p arrow-device-vpi --example accelerator`

#[cfg(unix)]
pub(crate) mod sums;

#[cfg(unix)]
use arrow_device::{Device, Result};

#[cfg(not(unix))]
fn main() {
    println!("skipped: simulators are reached by Unix sockets");
}

#[cfg(unix)]
pub(crate) fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    if let Err(why) = arrow_device_vpi::is_available() {
        println!("skipped: {why}");
        return Ok(());
    }
    let device = open()?;
    println!("opened {device:?}: {}", device.properties().name);
    sums::check(&device)
}

/// Starts the simulator with the accelerator.
#[cfg(unix)]
pub(crate) fn open() -> Result<Device> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = ["design/ram_with_dma.v", "examples/accelerator/sum.v"];
    let options = arrow_device_vpi::Options::verilog(sources.map(|source| folder.join(source)));
    arrow_device_vpi::open_with(&options)
}
