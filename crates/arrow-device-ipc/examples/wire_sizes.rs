//! What batches cost at some rates: three tables of `docs/scale.md`.
//!
//! `cargo run --package=arrow-device-ipc --example=wire_sizes`

use arrow_device::prelude::*;
use arrow_device::types::Int64;
use arrow_device_ipc::{Encoder, WriteOptions};

/// The most bytes of a body that `arrow-device-flight` puts into a message.
const MAX_BODY: u64 = 2 << 20;
/// Bytes of an HTTP/2 frame, which has 9 bytes before them.
const FRAME: u64 = 16 << 10;
const RATES: [u64; 3] = [10, 1_000, 100_000];

/// The processor time of a batch, in nanoseconds: to write it, and to read a schema and eight of
/// it. `docs/performance.md` has the times, in its section on Arrow IPC, and how to measure them.
const TIMES: [(&str, f64, f64); 2] =
    [("8 columns of 1,024 rows", 4_620.0, 18_200.0), ("1,000 columns of 512 rows", 728e3, 1.2e6)];

/// The sizes of one batch.
struct Sizes {
    messages: u64,
    headers: u64,
    bodies: u64,
    framing: u64,
}

fn main() -> arrow_device::Result<()> {
    let tables = [bytes_on_the_wire()?, processors(), batches_on_their_way()];
    println!("{}", tables.map(|lines| lines.join("\n")).join("\n\n"));
    Ok(())
}

/// How many bytes a batch has in messages of Flight over HTTP/2.
pub(crate) fn bytes_on_the_wire() -> arrow_device::Result<Vec<String>> {
    let mut lines = vec![
        "| batch | messages | bodies | headers | framing | 10/s | 1,000/s | 100,000/s |".to_owned(),
        "|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    for (columns, rows) in [(8, 128), (8, 1_024), (8, 8_192), (8, 131_072), (1_000, 512)] {
        let Sizes { messages, headers, bodies, framing } = sizes(columns, rows)?;
        let whole = headers + bodies + framing;
        let rates = RATES.map(|rate| bits(whole * rate));
        lines.push(format!(
            "| {columns} columns of {rows} rows | {messages} | {bodies} | {headers} | {framing} | {} |",
            rates.join(" | ")
        ));
    }
    Ok(lines)
}

/// How many processors are busy with writing and reading.
pub(crate) fn processors() -> Vec<String> {
    let mut lines = vec![
        "| batch | write | read | at 10/s | at 1,000/s | at 100,000/s |".to_owned(),
        "|---|---|---|---|---|---|".to_owned(),
    ];
    for (batch, write, read_eight) in TIMES {
        let read = read_eight / 8.0;
        let micros = [write, read].map(|nanos| match nanos / 1000.0 {
            micros if micros < 10.0 => format!("{micros:.1} µs"),
            micros => format!("{micros:.0} µs"),
        });
        let busy = RATES.map(|rate| one_digit((write + read) / 1e9 * rate as f64));
        lines.push(format!("| {batch} | {} | {} |", micros.join(" | "), busy.join(" | ")));
    }
    lines
}

/// How many batches a stream has to hold so that the next ones need not wait.
pub(crate) fn batches_on_their_way() -> Vec<String> {
    let mut lines = vec![
        "| time of a batch from the network to the device | 10/s | 1,000/s | 100,000/s |"
            .to_owned(),
        "|---|---|---|---|".to_owned(),
    ];
    for (time, micros) in [("0.1 ms", 100), ("1 ms", 1_000), ("10 ms", 10_000)] {
        // With `prefetch(n)`, `n + 1` batches are on their way.
        let ahead = RATES.map(|rate| {
            let on_their_way = (rate * micros).div_ceil(1_000_000).max(1);
            format!("`prefetch({})`", on_their_way - 1)
        });
        lines.push(format!("| {time} | {} |", ahead.join(" | ")));
    }
    lines
}

/// Makes the messages of a batch of 64-bit integers as `arrow-device-flight` does, and adds up
/// what they have.
fn sizes(columns: usize, rows: i64) -> arrow_device::Result<Sizes> {
    let column = Array::of::<Int64>((0..rows).map(Some))?;
    let named = (0..columns).map(|number| (format!("c{number}"), column.clone()));
    let batch = Batch::from_columns(named)?;
    let mut encoder = Encoder::new(&batch.schema()?, WriteOptions::new())?;
    let rows = batch.row_count();
    let whole = encoder.encode(&batch)?.iter().map(|message| message.body_len()).sum::<u64>();
    let parts = usize::try_from(whole.div_ceil(MAX_BODY)).unwrap_or(rows).max(1);
    let size = rows.div_ceil(parts).max(1);
    let mut sizes = Sizes { messages: 0, headers: 0, bodies: 0, framing: 0 };
    for start in (0..rows).step_by(size) {
        let part = batch.slice(start, size.min(rows - start))?;
        for message in encoder.encode(&part)? {
            let (header, body) = (message.header().len() as u64, message.body_len());
            // Of gRPC: 5 bytes before a message. Of its protocol buffer: the number of a field,
            // which has 1 and 2 bytes, and the length.
            let inside = 5 + 1 + varint(header) + 2 + varint(body);
            let frames = (inside + header + body).div_ceil(FRAME);
            sizes.messages += 1;
            sizes.headers += header;
            sizes.bodies += body;
            sizes.framing += inside + 9 * frames;
        }
    }
    Ok(sizes)
}

/// How many bytes a length has in a protocol buffer.
fn varint(number: u64) -> u64 {
    u64::from((number | 1).ilog2() / 7 + 1)
}

fn bits(bytes_each_second: u64) -> String {
    let bits = bytes_each_second * 8;
    match bits {
        0..1_000_000 => format!("{} kbit/s", bits / 1000),
        1_000_000..1_000_000_000 => format!("{} Mbit/s", bits / 1_000_000),
        _ => format!("{}.{} Gbit/s", bits / 1_000_000_000, bits / 100_000_000 % 10),
    }
}

/// A number with its first digit alone, rounded.
fn one_digit(number: f64) -> String {
    let power = number.log10().floor();
    let unit = 10_f64.powf(power);
    let rounded = (number / unit).round() * unit;
    let places = (-power).max(0.0) as usize;
    format!("{rounded:.places$}")
}
