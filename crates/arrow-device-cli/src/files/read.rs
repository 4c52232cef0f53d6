//! Opening a file, whatever its format.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_device::{Batch, Error, Result, Schema};
use arrow_device_arrow::v60::FromArrow as _;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::ArrowError;

use super::Format;
use super::parquet::Groups;
use crate::failure::{Failure, Outcome};

/// A file that is being read.
pub(crate) struct Source {
    pub(crate) schema: Schema,
    pub(crate) position: Position,
    /// Its batches, one after the other.
    pub(crate) batches: Box<dyn Iterator<Item = Result<Batch>> + Send>,
}

/// How much of a file was read. Clones are about the same file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Position {
    done: Arc<AtomicU64>,
    /// 0 where it is not known.
    total: u64,
}

impl Position {
    pub(super) fn of(total: u64) -> Self {
        Self { done: Arc::default(), total }
    }

    pub(super) fn advance(&self, by: u64) {
        self.done.fetch_add(by, Ordering::Relaxed);
    }

    /// From 0 to 1, where it is known how much there is.
    pub(crate) fn share(&self) -> Option<f64> {
        let done = self.done.load(Ordering::Relaxed);
        (self.total > 0).then(|| (done as f64 / self.total as f64).min(1.0))
    }
}

/// Opens a file by what is in it. A stream may come out of a pipe.
pub(crate) fn open(path: &Path) -> Outcome<Source> {
    open_any(path).map_err(|failure| failure.during(path.display()))
}

fn open_any(path: &Path) -> Outcome<Source> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut start = Vec::new();
    file.by_ref().take(8).read_to_end(&mut start)?;
    if start.is_empty() {
        return Err(Failure::new("it is empty, and so neither Parquet nor Arrow"));
    }
    match Format::of_content(&start) {
        Format::Parquet => {
            let groups = Groups::open(File::open(path)?)?;
            source(&groups.schema(), groups.position(), groups)
        }
        Format::ArrowFile => {
            let position = Position::of(len);
            let reader = FileReader::try_new(BufReader::new(File::open(path)?), None)?;
            let count = reader.num_batches() as u64;
            let step = len / count.max(1);
            let schema = reader.schema();
            let counted = position.clone();
            source(&schema, position, reader.inspect(move |_| counted.advance(step)))
        }
        Format::ArrowStream => {
            let position = Position::of(len);
            let counted = Counted { file, position: position.clone() };
            let reader = BufReader::with_capacity(1 << 16, Cursor::new(start).chain(counted));
            let reader = StreamReader::try_new(reader, None).map_err(|error| {
                Failure::from(error).during("it is neither Parquet nor Arrow, or broken")
            })?;
            source(&reader.schema(), position, reader)
        }
    }
}

fn source(
    schema: &arrow_schema::Schema,
    position: Position,
    batches: impl Iterator<Item = std::result::Result<RecordBatch, ArrowError>> + Send + 'static,
) -> Outcome<Source> {
    let schema = Schema::from_arrow(schema)?;
    let of_batches = schema.clone();
    let batches =
        batches.map(move |batch| Batch::from_arrow((&of_batches, batch.map_err(Error::other)?)));
    Ok(Source { schema, position, batches: Box::new(batches) })
}

/// A file that counts what is read of it.
struct Counted {
    file: File,
    position: Position,
}

impl Read for Counted {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(room)?;
        self.position.advance(count as u64);
        Ok(count)
    }
}
