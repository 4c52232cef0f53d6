//! The copy itself.

use std::cell::Cell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow_device::{ArrayStream, Batch};
use clap::ArgMatches;

use super::ends::{Complete, Input, Sink, Target};
use super::output::Started;
use super::progress::Progress;
use super::{checksum, reader, through};
use crate::backends::{self, Name, Opened};
use crate::failure::{Failure, Outcome};
use crate::signals;
use crate::units;

/// What is to be copied, and how.
pub(crate) struct Job {
    pub(crate) input: Input,
    pub(crate) target: Target,
    /// The devices on the way.
    pub(crate) names: Vec<Name>,
}

/// What was copied.
#[derive(Default)]
pub(crate) struct Copied {
    pub(crate) batches: u64,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) checksum: u64,
    pub(crate) time: Duration,
    /// Whether the copy took the place of what the command prints.
    pub(crate) is_stdout: bool,
}

pub(super) fn run(matches: &ArgMatches, out: &mut dyn Write) -> Outcome {
    let path = |name| matches.get_one::<PathBuf>(name).map_or(Path::new(""), PathBuf::as_path);
    let target = Target::parse(path("OUTPUT"), matches)?;
    let input = Input::parse(path("INPUT"), matches)?;
    #[cfg(feature = "flight")]
    let (input, target) = {
        let (mut input, mut target) = (input, target);
        super::ends::share_access(&mut input, &mut target);
        (input, target)
    };
    let names = matches.get_many::<String>("through").unwrap_or_default();
    let names = names.map(|text| Name::parse(text)).collect::<Outcome<Vec<Name>>>()?;
    let job = Job { input, target, names };
    let copied = job.run()?;
    // What is printed goes beside the copy and not into it.
    let mut stderr = std::io::stderr();
    let out = if copied.is_stdout { &mut stderr } else { out };
    copied.tell(&job.names, out)?;
    Ok(ExitCode::SUCCESS)
}

impl Job {
    /// Copies all of it. An output that is a file is complete then, or as it was.
    pub(crate) fn run(&self) -> Outcome<Copied> {
        let opened = self.names.iter().map(|name| backends::open(*name));
        let opened = opened.collect::<Outcome<Vec<Opened>>>()?;
        let start = Instant::now();
        let source = self.input.open()?;
        let found = self.target.find()?;
        let (is_stream, is_stdout) = (found.is_stream(), found.is_stdout());
        // Whoever waits for the other side of a pipe so far is ended at once.
        let interrupted = signals::watch()?;
        let started = found.begin().map_err(|failure| self.of_output(failure))?;
        let progress = Progress::new(source.position.clone());
        let (stream, sums) = reader::start(source, interrupted.clone());
        let is_at_end = Cell::new(false);
        let written = through::all(stream, &opened).map_err(|error| self.of_input(error)).and_then(
            |stream| self.write(stream, &sums, started, &interrupted, &progress, &is_at_end),
        );
        progress.clear();
        let (copied, complete) = match written {
            Err(_) if interrupted.load(Ordering::Relaxed) => {
                let left = self.target.left_behind(is_stream, is_at_end.get());
                let message = format!("interrupted; {} {left}", self.target);
                return Err(Failure::interrupted(message));
            }
            written => written?,
        };
        arrow_device::deferred::wait_until_released(Duration::from_secs(60))?;
        opened.into_iter().try_for_each(Opened::finish)?;
        complete.finish().map_err(|failure| self.of_output(failure))?;
        Ok(Copied { time: start.elapsed(), is_stdout, ..copied })
    }

    /// Takes all out of the stream, holds it against the sums, and writes it.
    fn write(
        &self,
        stream: ArrayStream,
        sums: &reader::Sums,
        started: Option<Started>,
        interrupted: &Arc<AtomicBool>,
        progress: &Progress,
        is_at_end: &Cell<bool>,
    ) -> Outcome<(Copied, Complete)> {
        let sink = Sink::new(&self.target, started, stream.schema(), interrupted);
        let mut sink = sink.map_err(|failure| self.of_output(failure))?;
        let mut copied = Copied::default();
        for batch in stream.into_batches() {
            let batch: Batch = batch.map_err(|error| self.of_input(error))?;
            let summed = checksum::of(batch.as_array());
            let (sum, bytes) = summed.map_err(|error| self.of_input(error))?;
            let expected = sums.next();
            if expected != Some(sum) {
                return Err(self.of_input(Failure::new(format!(
                    "batch {} came out of the devices with another checksum than it went in with, {sum:016x}; it was not written",
                    copied.batches
                ))));
            }
            sink.write(&batch).map_err(|failure| self.of_output(failure))?;
            copied.batches += 1;
            copied.rows += batch.row_count() as u64;
            copied.bytes += bytes;
            copied.checksum = copied.checksum.rotate_left(1) ^ sum;
            progress.show(copied.bytes);
        }
        is_at_end.set(true);
        let complete = sink.complete().map_err(|failure| self.of_output(failure))?;
        Ok((copied, complete))
    }

    fn of_input(&self, failure: impl Into<Failure>) -> Failure {
        failure.into().of_peer().during(&self.input)
    }

    fn of_output(&self, failure: impl Into<Failure>) -> Failure {
        let failure = failure.into().during(&self.target);
        if self.target.is_file() { failure } else { failure.of_peer() }
    }
}

impl Copied {
    /// Prints in one line what was copied, and through which devices.
    pub(crate) fn tell(&self, names: &[Name], out: &mut dyn Write) -> Outcome<()> {
        let names: Vec<String> = names.iter().map(Name::to_string).collect();
        let way =
            if names.is_empty() { String::new() } else { format!(" through {}", names.join(", ")) };
        writeln!(
            out,
            "{} in {}, {}{way} in {}, {}; checksum {:016x}",
            units::counted(self.rows, "row", "rows"),
            units::counted(self.batches, "batch", "batches"),
            units::bytes(self.bytes),
            units::time(self.time),
            units::rate(self.bytes, self.time),
            self.checksum
        )?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow_device::{Array, DataType, DeviceType};

    use super::*;
    use crate::files::{Format, Position};

    #[test]
    fn a_batch_that_changed_on_its_way_is_not_written() {
        let batch = |number: i32| {
            let column = Array::from_values(DataType::Int32, [Some(number)]).unwrap();
            Batch::from_columns([("number", column)]).unwrap()
        };
        let folder = std::env::temp_dir();
        let path = folder.join(format!("arrow-device-changed-{}", std::process::id()));
        let copy = |sent: &Batch, received: Batch| {
            let (sum, _) = checksum::of(sent.as_array()).unwrap();
            let schema = received.schema().unwrap();
            let stream = ArrayStream::new(schema, DeviceType::CPU, [Ok(received)]);
            let format = Format::ArrowStream;
            let target = Target::File { path: path.clone(), format, replaces: true };
            let job = Job { input: Input::File("sent".into()), target, names: Vec::new() };
            let started = job.target.find().unwrap().begin().unwrap();
            let progress = Progress::new(Position::default());
            let sums = reader::Sums::of([sum]);
            job.write(stream, &sums, started, &Arc::default(), &progress, &Cell::default())
        };
        let failure = copy(&batch(1), batch(2)).err().unwrap().to_string();
        assert!(failure.contains("another checksum"), "{failure}");
        assert_eq!(copy(&batch(1), batch(1)).unwrap().0.rows, 1);
        assert!(!path.exists());
    }
}
