//! What happens when a party gets it wrong: the mistakes that a GPU shows by chance, and the
//! software device every time.
//!
//! The library leaves no way to make them. They are made here on the raw structs, as a program
//! would that was written without it.

use std::io::Write;
use std::process::ExitCode;
use std::ptr::NonNull;
use std::time::Duration;

use super::producer::Producer;
use crate::failure::{Failure, Outcome};
use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};
use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device::{Queue, Result};
use arrow_device_sim::Sim;

/// A mistake: its name, and what is done.
pub(crate) type Mistake = (&'static str, &'static str, fn(&Queue, &mut Handed<'_>) -> Result<()>);

/// All that can be made.
pub(crate) const ALL: &[Mistake] = &[
    ("wait", "The consumer reads without waiting for the event.", no_wait),
    (
        "release",
        "The consumer waits, submits its work, and releases before the work has run.",
        early_release,
    ),
    ("write", "The consumer waits, and then writes into what it was handed.", write),
];

/// What the producer exported.
pub(crate) struct Handed<'a> {
    schema: ArrowSchema,
    array: ArrowDeviceArray,
    producers_queue: Queue,
    landing: &'a mut [u8],
}

/// Makes a mistake and shows what the software device says of it.
pub(crate) fn run(mistake: &Mistake, out: &mut dyn Write) -> Outcome {
    let (name, what, make) = mistake;
    writeln!(out, "--break {name}: {what}\n")?;
    // Outlives the device, whose last work writes to it.
    let mut landing = vec![0; BYTES];
    let sim = Sim::builder().build();
    let made = exchange(&sim, &mut landing, *make);
    let reports = sim.finish();
    for report in &reports {
        writeln!(out, "{report}\n")?;
    }
    made?;
    match reports.len() {
        0 => Err(Failure::new("the software device did not notice")),
        count => {
            writeln!(out, "{count} found. Without `--break {name}` there is nothing to find.")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn exchange(
    sim: &Sim,
    landing: &mut [u8],
    make: fn(&Queue, &mut Handed<'_>) -> Result<()>,
) -> Result<()> {
    let producers_queue = sim.device().open_queue()?;
    let mut handed = Handed {
        schema: ArrowSchema::empty(),
        array: ArrowDeviceArray::empty(),
        producers_queue: producers_queue.clone(),
        landing,
    };
    Producer::default().hand_over(&producers_queue, &mut handed.schema, &mut handed.array)?;
    let queue = sim.device().open_queue()?;
    make(&queue, &mut handed)?;
    queue.synchronize()?;
    handed.release();
    // Nobody waits for the producer's work any more, and this device works only for somebody who
    // waits.
    sim.run_until_idle();
    arrow_device::deferred::wait_until_released(Duration::from_secs(10))
}

/// Column `id`: five 64-bit integers.
const BYTES: usize = 40;

fn no_wait(queue: &Queue, handed: &mut Handed<'_>) -> Result<()> {
    handed.read(queue)
}

fn early_release(queue: &Queue, handed: &mut Handed<'_>) -> Result<()> {
    handed.wait(queue)?;
    handed.read(queue)?;
    handed.release();
    // The producer has long finished its own work, so it frees what was released to it.
    handed.producers_queue.synchronize()?;
    arrow_device::deferred::release_finished();
    Ok(())
}

fn write(queue: &Queue, handed: &mut Handed<'_>) -> Result<()> {
    handed.wait(queue)?;
    let region = Region { from: handed.landing(), to: handed.ids(), len: BYTES as u64 };
    // SAFETY: both sides hold that many bytes and outlive the queue's work. That nobody may write
    // there is the point.
    unsafe { queue.copy(Route::FromHost, &[region]) }
}

impl Handed<'_> {
    /// Makes the queue wait for the event, as the specification asks.
    fn wait(&self, queue: &Queue) -> Result<()> {
        let Some(sync_event) = NonNull::new(self.array.sync_event) else { return Ok(()) };
        let driver = queue.device().driver();
        // SAFETY: the event of an array on this device that is not released.
        let event = unsafe { driver.read_sync_event(sync_event) }?;
        // SAFETY: UNS-22: the event is that of an array on this device that is not released, and
        // the queue is open.
        unsafe { driver.wait(queue.raw(), event) }.map(|_| ())
    }

    /// Submits a copy of column `id` to the host.
    fn read(&mut self, queue: &Queue) -> Result<()> {
        let region = Region { from: self.ids(), to: self.landing(), len: BYTES as u64 };
        // SAFETY: both sides hold that many bytes; the landing outlives the queue's work. Whether
        // the source does is the point.
        unsafe { queue.copy(Route::ToHost, &[region]) }
    }

    fn landing(&mut self) -> Spot {
        Spot { base: Raw::from_ptr(self.landing.as_mut_ptr().cast()), offset: 0 }
    }

    /// Where the values of column `id` are.
    fn ids(&self) -> Spot {
        // SAFETY: the producer exported a struct array of several columns, the first of which is
        // `id`.
        let column: *mut ArrowArray = unsafe { self.array.array.children.read() };
        // SAFETY: the producer exported a struct array of several columns, each of which is a
        // struct that stays until the release (UNS-3).
        let buffers = unsafe { (*column).buffers };
        // SAFETY: the first column is `id`, a type with two buffers, of which the second holds the
        // values (UNS-3).
        let values = unsafe { buffers.wrapping_add(1).read() };
        Spot { base: Raw::from_ptr(values.cast_mut()), offset: 0 }
    }

    fn release(&mut self) {
        if let Some(release) = self.array.array.release {
            // SAFETY: exported to this struct and not released yet.
            unsafe { release(&raw mut self.array.array) }
        }
        if let Some(release) = self.schema.release {
            // SAFETY: the schema was exported to this struct and is not released yet (UNS-14).
            unsafe { release(&raw mut self.schema) }
        }
    }
}
