//! The columns whose sums the accelerator and the host compare.

use arrow_device::{Array, DataType, Device, Queue, Result};
use arrow_device_vpi::{Job, Simulator};

/// Has the accelerator of a device sum some columns, and compares the sums with the host's.
pub(crate) fn check(device: &Device) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let queue = device.open_queue()?;
    let simulator = Simulator::of(device)?;
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

/// The sum of a column that is on the device, and the number of its rows that are not null.
pub(crate) fn sum(queue: &Queue, column: &Array) -> Result<[i64; 2]> {
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
pub(crate) fn expected(column: &Array) -> Result<[i64; 2]> {
    let host = column.host()?;
    let values = host.values::<i32>()?;
    let valid: Vec<i64> = values.iter().flatten().map(i64::from).collect();
    Ok([valid.iter().sum(), valid.len() as i64])
}
