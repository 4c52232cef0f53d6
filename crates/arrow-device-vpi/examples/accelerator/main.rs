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

use arrow_device::{Array, DataType, Device, Queue, Result};

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
    let queue = device.open_queue()?;
    let simulator = arrow_device_vpi::Simulator::of(&device)?;
    let rows = (0..1000).map(|row| (row % 7 != 0).then_some(row * 1000 - 400_000));
    let all = Array::from_values(DataType::Int32, rows)?;
    let without_nulls = Array::from_values(DataType::Int32, (0..100).map(Some))?;
    for column in [all.clone(), all.slice(3, 700)?, all.slice(999, 1)?, without_nulls] {
        let began = simulator.time();
        let there = column.copy_to(&queue)?;
        let found = sum(&queue, &there)?;
        let expected = expected(&column)?;
        let took = simulator.time() - began;
        println!("{} rows: sum and count are {found:?}, after {took} units of time", column.len());
        if found != expected {
            return Err(format!("the accelerator says {found:?}, the host {expected:?}").into());
        }
    }
    match simulator.unknown_bytes() {
        0 => Ok(()),
        count => Err(format!("{count} bytes of the results are unknown").into()),
    }
}

/// Starts the simulator with the accelerator.
#[cfg(unix)]
pub(crate) fn open() -> Result<Device> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = ["design/ram_with_dma.v", "examples/accelerator/sum.v"];
    let options = arrow_device_vpi::Options::verilog(sources.map(|source| folder.join(source)));
    arrow_device_vpi::open_with(&options)
}

/// The sum of a column that is on the device, and the number of its rows that are not null.
#[cfg(unix)]
pub(crate) fn sum(queue: &Queue, column: &Array) -> Result<[i64; 2]> {
    use arrow_device_vpi::{Job, Simulator};

    let view = column.on(queue)?;
    let node = view.root();
    let address = |index| node.buffer(index).location().spot().base.bits() as u64;
    let mut result = queue.allocate(16)?;
    let job = Job::new("arrow_device_top.sum.start", "arrow_device_top.sum.done")
        .register("arrow_device_top.sum.validity", address(0))
        .register("arrow_device_top.sum.values", address(1))
        .register("arrow_device_top.sum.first", node.offset().cast_unsigned())
        .register("arrow_device_top.sum.rows", node.len().cast_unsigned())
        .register("arrow_device_top.sum.result", result.spot(queue)?.base.bits() as u64);
    // SAFETY: UNS-15 and UNS-16: the unit reads the rows of the column, whose places the view told
    // for this queue, and writes 16 bytes where the memory told.
    unsafe { Simulator::of(queue.device())?.submit(queue, job) }?;
    // SAFETY: UNS-33: the job, which was submitted to this queue, writes all 16 bytes.
    unsafe { result.assume_written(16) };
    drop(view);
    let buffers = [None, Some(result.into_buffer())];
    let numbers = Array::builder(DataType::Int64).len(2).buffers(buffers).finish_on(queue)?;
    let back = numbers.to_host()?;
    let back = back.host()?;
    let values = back.values::<i64>()?;
    let number = |index| values.get(index).unwrap_or_default();
    Ok([number(0), number(1)])
}

/// What the host says.
#[cfg(unix)]
pub(crate) fn expected(column: &Array) -> Result<[i64; 2]> {
    let host = column.host()?;
    let values = host.values::<i32>()?;
    let valid: Vec<i64> = values.iter().flatten().map(i64::from).collect();
    Ok([valid.iter().sum(), valid.len() as i64])
}
