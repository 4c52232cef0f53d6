//! How many bytes a batch has on the wire, in messages of Flight over HTTP/2, and what that makes
//! for some rates: the table of `docs/scale.md`.
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

/// The sizes of one batch.
struct Sizes {
    messages: u64,
    headers: u64,
    bodies: u64,
    framing: u64,
}

fn main() -> arrow_device::Result<()> {
    println!("| batch | messages | bodies | headers | framing | 10/s | 1,000/s | 100,000/s |");
    println!("|---|---|---|---|---|---|---|---|");
    for (columns, rows) in [(8, 128), (8, 1_024), (8, 8_192), (8, 131_072), (1_000, 512)] {
        let Sizes { messages, headers, bodies, framing } = sizes(columns, rows)?;
        let whole = headers + bodies + framing;
        let rates = RATES.map(|rate| bits(whole * rate));
        println!(
            "| {columns} columns of {rows} rows | {messages} | {bodies} | {headers} | {framing} | {} |",
            rates.join(" | ")
        );
    }
    Ok(())
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
