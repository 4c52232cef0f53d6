//! `arrow-device demo`: a producer hands a record batch on a device to a consumer, which hands a
//! part of one column back.
//!
//! The two know nothing of each other. All that passes between them is the C structs declared here,
//! as it would between two libraries in different languages. Without a choice the device is made of
//! software, so the demonstration runs everywhere; it watches what both do, and complains of
//! whatever a real device would punish by chance.

mod consumer;
mod mistakes;
mod producer;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use arrow_device::Queue;
use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use clap::{Arg, ArgMatches, Command};

use crate::backends::{self, Name, Opened};
use crate::failure::{Failure, Outcome};
use consumer::Consumer;
use producer::Producer;

const EXAMPLES: &str = "\
Examples:
  arrow-device demo
  arrow-device demo --device opencl:0
  arrow-device demo --break wait        what a missing wait looks like
  arrow-device demo --break release     what memory that is freed too early looks like
  arrow-device demo --break write       what a write to shared memory looks like";

pub(crate) fn command() -> Command {
    Command::new("demo")
        .about("Hand a record batch from a producer to a consumer and back, through a device")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("device")
                .long("device")
                .value_name("DEVICE")
                .default_value("ext_dev")
                .help("As `arrow-device devices` names it; ext_dev is made of software"),
        )
        .arg(
            Arg::new("break")
                .long("break")
                .value_name("MISTAKE")
                .value_parser(clap::builder::PossibleValuesParser::new(
                    mistakes::ALL.iter().map(|(name, ..)| *name),
                ))
                .conflicts_with("device")
                .help("Make a mistake, and show what is said of it"),
        )
}

/// Runs it, telling each step.
pub(crate) fn run(matches: &ArgMatches, out: &mut dyn Write) -> Outcome {
    let wanted = matches.get_one::<String>("break");
    if let Some(mistake) =
        mistakes::ALL.iter().find(|(name, ..)| Some(*name) == wanted.map(String::as_str))
    {
        return mistakes::run(mistake, out);
    }
    let device = matches.get_one::<String>("device").map_or("ext_dev", String::as_str);
    let opened = backends::open(Name::parse(device)?)?;
    exchange(&opened, out)?;
    arrow_device::deferred::wait_until_released(Duration::from_secs(10))?;
    let is_watched = opened.sim.is_some();
    opened.finish()?;
    if is_watched {
        writeln!(out, "   The software device watched all of it and has nothing to report.")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn exchange(opened: &Opened, out: &mut dyn Write) -> Outcome<()> {
    let device = &opened.device;
    let held_before = device.held().allocated;
    let producer = Producer::default();
    let producers_queue = device.open_queue()?;
    let (mut schema, mut array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    producer.hand_over(&producers_queue, &mut schema, &mut array)?;
    let name = if opened.sim.is_some() {
        "the software device".to_owned()
    } else {
        opened.name.to_string()
    };
    let state = if array.sync_event.is_null() {
        "The copy is complete: no event goes along."
    } else {
        "An event goes along, behind the copy, for which nobody has waited."
    };
    writeln!(
        out,
        "1. The producer built a record batch of {} rows in {} buffers on the host, and told a queue of {name} to\n   \
         copy it there. It exported it as one ArrowSchema and one ArrowDeviceArray of device type {}.\n   {state}",
        array.array.length,
        producer.buffers_made(),
        array.device_type,
    )?;

    // SAFETY: the producer filled both structs as the interface asks.
    let consumer = unsafe { Consumer::take(&mut schema, &mut array) }?;
    writeln!(
        out,
        "2. The consumer imported both: nothing copied, nothing read, nothing waited for.\n   \
         The structs it took them from are released: {}. The data is ready: {}.",
        schema.is_released() && array.is_released(),
        consumer.batch().as_array().is_ready()?
    )?;
    let fetched = consumer.fetch()?;
    writeln!(
        out,
        "3. Its own queue waited for the event and copied the batch from {} to {}.",
        consumer.batch().device(),
        fetched.device()
    )?;
    let values = consumer::validate(&fetched)?;
    writeln!(
        out,
        "4. It validated the structure of {} columns and the data of all {values} values.",
        fetched.column_count()
    )?;

    writeln!(out, "\n5. This is what it got:\n\n{}", consumer.batch().as_array().describe())?;
    writeln!(out, "6. And this is what it says:\n\n{}", fetched.to_table(10)?)?;

    hand_back(&producer, &producers_queue, consumer, out)?;
    drop(fetched);
    drop(producers_queue);
    arrow_device::deferred::wait_until_released(Duration::from_secs(10))?;
    let on_device = device.held().allocated.saturating_sub(held_before);
    match producer.buffers_alive() as u64
        + on_device
        + arrow_device::deferred::held_back().abandoned as u64
    {
        0 => Ok(writeln!(
            out,
            "9. Everything was released once, on the host and on the device: nothing is left alive."
        )?),
        _ => Err(Failure::new("something is still alive that nobody uses")),
    }
}

fn hand_back(
    producer: &Producer,
    queue: &Queue,
    consumer: Consumer,
    out: &mut dyn Write,
) -> Outcome<()> {
    let (mut schema, mut part) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    let (column, rows) = (producer::RETURNED_COLUMN, producer::RETURNED_ROWS);
    consumer.hand_back(column, rows.clone(), &mut schema, &mut part)?;
    drop(consumer);
    writeln!(
        out,
        "7. The consumer exported rows {} to {} of column `{column}`, where they are on the device, and forgot all else.",
        rows.start,
        rows.end - 1
    )?;
    // SAFETY: the consumer filled both structs as the interface asks.
    unsafe { producer.take_back(queue, &mut schema, &mut part) }?;
    writeln!(out, "8. The producer imported them, found its own values, and released them.")?;
    Ok(())
}
