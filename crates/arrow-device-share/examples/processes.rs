//! Two processes: the first one makes a table and serves a stream, the second one uses both where
//! they lie.
//!
//! ```text
//! cargo run --release -p arrow-device-share --example processes
//! ```

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("memory is shared between processes on Linux only");
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::args_os().nth(1) {
        None => processes::first(),
        Some(path) => processes::second(&path),
    }
}

#[cfg(target_os = "linux")]
mod processes {
    use std::error::Error;
    use std::ffi::OsStr;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::Command;
    use std::time::{Duration, Instant};

    use arrow_device::{Array, ArrayStream, Batch, DataType, Device, DeviceType, Recycler, Result};
    use arrow_device_share::{Receiver, Sender, to_shareable};

    const COLUMNS: usize = 1000;
    const ROWS: i64 = 131_072;
    const BATCHES: usize = 100_000;
    /// How often the table is sent after the first time.
    const AGAIN: usize = 101;

    /// The median of times, in microseconds.
    fn median(mut times: Vec<Duration>) -> f64 {
        times.sort_unstable();
        times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e6)
    }

    /// A table of so many columns. No two of them have the same values: what occurs more than once
    /// in an array is copied once.
    fn table(columns: usize, rows: i64) -> Result<Batch> {
        let column = |number: usize| {
            let values = (0..rows).map(|row| Some(row + number as i64));
            let column = Array::from_values(DataType::Int64, values)?;
            Ok((format!("column {number}"), column))
        };
        Batch::from_columns((0..columns).map(column).collect::<Result<Vec<_>>>()?)
    }

    /// Makes the data, and starts the second process.
    pub(super) fn first() -> std::result::Result<(), Box<dyn Error>> {
        let path = std::env::temp_dir().join(format!("arrow-device-share-{}", std::process::id()));
        let listener = UnixListener::bind(&path)?;
        let mut child = Command::new(std::env::current_exe()?).arg(&path).spawn()?;
        let (socket, _) = listener.accept()?;
        std::fs::remove_file(&path)?;
        let sender = Sender::new(socket);

        // One allocation, which the system fixes when it is sent for the first time.
        let wide = to_shareable(table(COLUMNS, ROWS)?.as_array(), &Device::host())?;
        let send = |_| {
            let began = Instant::now();
            sender.send(&wide)?;
            Ok(began.elapsed())
        };
        let first = median(vec![send(0)?]);
        let again = median((0..AGAIN).map(send).collect::<Result<_>>()?);
        println!(
            "{COLUMNS} columns of 1 MiB, sent the first time: {first:.1} µs, again: {again:.1} µs"
        );
        sender.wait_until_released(None)?;

        // A stream of small batches, in memory that is used again: the receiver trusts the sender.
        let device = Device::host().with_allocator(Recycler::new(64 << 20)).shareable()?;
        let queue = device.open_queue()?;
        let small = table(10, 100)?;
        let options = arrow_device::copy::Options::new().always(true);
        let schema = small.schema()?;
        let batches = (0..BATCHES).map(move |_| small.as_array().copy_with(&queue, &options));
        sender.serve(ArrayStream::new(schema, DeviceType::CPU, batches))?;

        let status = child.wait()?;
        if !status.success() {
            return Err(format!("the second process ended with {status}").into());
        }
        Ok(())
    }

    /// Uses what comes.
    pub(super) fn second(path: &OsStr) -> std::result::Result<(), Box<dyn Error>> {
        let receiver = Receiver::new(UnixStream::connect(path)?, [Device::host()]);
        // SAFETY: UNS-38: the first process holds what it sent, and writes nowhere, until this one
        // has released it.
        let mut receiver = unsafe { receiver.trusting() };
        let mut times = Vec::new();
        for _ in 0..=AGAIN {
            let began = Instant::now();
            let wide = receiver.receive()?.ok_or("the table did not come")?;
            times.push(began.elapsed());
            let last = wide.child(COLUMNS - 1)?.host()?;
            let value = last.values::<i64>()?.get((ROWS - 1) as usize);
            assert_eq!(value, Some(ROWS - 1 + COLUMNS as i64 - 1));
        }
        println!("opened, with the wait for it: {:.1} µs", median(times));
        let began = Instant::now();
        let mut rows = 0;
        for array in receiver.into_stream(64)? {
            rows += array?.len();
        }
        let rate = BATCHES as f64 / began.elapsed().as_secs_f64();
        println!("{BATCHES} batches of 10 columns and {rows} rows: {rate:.0} batches a second");
        Ok(())
    }
}
