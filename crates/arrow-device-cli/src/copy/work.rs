//! The copy itself.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow_device::{ArrayStream, Batch};
use arrow_device_arrow::v60::ToArrow as _;
use clap::ArgMatches;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::output::Output;
use super::progress::Progress;
use super::{checksum, reader, through};
use crate::backends::{self, Name, Opened};
use crate::failure::{Failure, Outcome};
use crate::files::{self, Format, Writer};
use crate::units;

/// What was copied.
#[derive(Default)]
struct Copied {
    batches: u64,
    rows: u64,
    bytes: u64,
    checksum: u64,
}

pub(super) fn run(matches: &ArgMatches, out: &mut dyn Write) -> Outcome {
    let path = |name| matches.get_one::<PathBuf>(name).cloned().unwrap_or_default();
    let (input, output) = (path("INPUT"), path("OUTPUT"));
    let named = matches.get_one::<String>("format");
    let format = Format::NAMES.iter().find(|(name, _)| named.is_some_and(|named| named == name));
    let format = match format {
        Some((_, format)) => *format,
        None if files::is_terminals_side(&output) => Format::ArrowStream,
        None => Format::of_name(&output)?,
    };
    let names = matches.get_many::<String>("through").unwrap_or_default();
    let names = names.map(|text| Name::parse(text)).collect::<Outcome<Vec<Name>>>()?;

    let opened =
        names.iter().map(|name| backends::open(*name)).collect::<Outcome<Vec<Opened>>>()?;
    let start = Instant::now();
    let source = files::open(&input)?;
    let found = Output::find(&output, !matches.get_flag("no-clobber"))?;
    let (is_stream, is_stdout) = (found.is_stream(), found.is_stdout());
    // Whoever waits for the other side of a pipe so far is ended at once.
    let interrupted = watch_signals()?;
    let ends = Ends { input: &input, output: &output };
    let started = found.begin().map_err(|failure| ends.of_output(failure))?;
    let progress = Progress::new(source.position.clone());
    let (stream, sums) = reader::start(source, interrupted.clone());
    let written = through::all(stream, &opened)
        .map_err(|error| ends.of_input(error))
        .and_then(|stream| write(stream, &sums, started.file()?, format, ends, &progress));
    progress.clear();
    let (copied, file) = match written {
        Err(_) if interrupted.load(Ordering::Relaxed) => {
            let left = if is_stream { "has a part of it" } else { "is as it was" };
            let message = format!("interrupted; {} {left}", output.display());
            return Err(Failure::interrupted(message));
        }
        written => written?,
    };
    arrow_device::deferred::wait_until_released(Duration::from_secs(60))?;
    opened.into_iter().try_for_each(Opened::finish)?;
    started.finish(file).map_err(|failure| ends.of_output(failure))?;

    let names: Vec<String> = names.iter().map(Name::to_string).collect();
    let way =
        if names.is_empty() { String::new() } else { format!(" through {}", names.join(", ")) };
    let time = start.elapsed();
    // What is printed goes beside the copy and not into it.
    let mut stderr = std::io::stderr();
    let out = if is_stdout { &mut stderr } else { out };
    writeln!(
        out,
        "{} in {}, {}{way} in {}, {}; checksum {:016x}",
        units::counted(copied.rows, "row", "rows"),
        units::counted(copied.batches, "batch", "batches"),
        units::bytes(copied.bytes),
        units::time(time),
        units::rate(copied.bytes, time),
        copied.checksum
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Set by the first Ctrl-C or request to end; a second one ends the process at once.
fn watch_signals() -> Outcome<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 130, interrupted.clone())?;
        flag::register(signal, interrupted.clone())?;
    }
    Ok(interrupted)
}

/// The names of both ends, one of which a failure is told of.
#[derive(Clone, Copy)]
struct Ends<'a> {
    input: &'a Path,
    output: &'a Path,
}

impl Ends<'_> {
    fn of_input(self, failure: impl Into<Failure>) -> Failure {
        failure.into().during(self.input.display())
    }

    fn of_output(self, failure: impl Into<Failure>) -> Failure {
        failure.into().during(self.output.display())
    }
}

/// Takes all out of the stream, holds it against the sums, and writes it. Gives the file back when
/// it is complete.
fn write(
    stream: ArrayStream,
    sums: &reader::Sums,
    file: File,
    format: Format,
    ends: Ends<'_>,
    progress: &Progress,
) -> Outcome<(Copied, File)> {
    let schema = stream.schema().to_arrow().map_err(|error| ends.of_input(error))?;
    let writer = Writer::new(file, format, schema);
    let mut writer = writer.map_err(|failure| ends.of_output(failure))?;
    let mut copied = Copied::default();
    for batch in stream.into_batches() {
        let batch: Batch = batch.map_err(|error| ends.of_input(error))?;
        let summed = checksum::of(batch.as_array());
        let (sum, bytes) = summed.map_err(|error| ends.of_input(error))?;
        let expected = sums.next();
        if expected != Some(sum) {
            return Err(ends.of_input(Failure::new(format!(
                "batch {} came out of the devices with another checksum than it went in with, {sum:016x}; it was not written",
                copied.batches
            ))));
        }
        let batch_to_write = batch.to_arrow().map_err(|error| ends.of_input(error))?;
        writer.write(&batch_to_write).map_err(|failure| ends.of_output(failure))?;
        copied.batches += 1;
        copied.rows += batch.row_count() as u64;
        copied.bytes += bytes;
        copied.checksum = copied.checksum.rotate_left(1) ^ sum;
        progress.show(copied.bytes);
    }
    let file = writer.finish().map_err(|failure| ends.of_output(failure))?;
    Ok((copied, file))
}

#[cfg(test)]
mod tests {
    use arrow_device::{Array, DataType, DeviceType};

    use super::*;
    use crate::files::Position;

    #[test]
    fn a_batch_that_changed_on_its_way_is_not_written() {
        let batch = |number: i32| {
            let column = Array::from_values(DataType::Int32, [Some(number)]).unwrap();
            Batch::from_columns([("number", column)]).unwrap()
        };
        let folder = std::env::temp_dir();
        let target = folder.join(format!("arrow-device-changed-{}", std::process::id()));
        let copy = |sent: &Batch, received: Batch| {
            let (sum, _) = checksum::of(sent.as_array()).unwrap();
            let schema = received.schema().unwrap();
            let stream = ArrayStream::new(schema, DeviceType::CPU, [Ok(received)]);
            let started = Output::find(&target, true).and_then(Output::begin).unwrap();
            let (file, progress) = (started.file().unwrap(), Progress::new(Position::default()));
            let ends = Ends { input: Path::new("sent"), output: &target };
            write(stream, &reader::Sums::of([sum]), file, Format::ArrowStream, ends, &progress)
        };
        let failure = copy(&batch(1), batch(2)).err().unwrap().to_string();
        assert!(failure.contains("another checksum"), "{failure}");
        assert_eq!(copy(&batch(1), batch(1)).unwrap().0.rows, 1);
        assert!(!target.exists());
    }
}
