//! Opening a file, whatever its format.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek as _};
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_device::{Batch, Error, ErrorKind, Result, Schema};
use arrow_device_arrow::v60::FromArrow as _;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::ArrowError;

use super::Format;
use super::careful::{carefully, not_whole};
use super::parquet::Groups;
use super::position::Position;
use crate::failure::{Failure, Outcome};

/// A file that was opened to be read.
pub(crate) struct OpenedFile {
    pub(crate) schema: Schema,
    pub(crate) position: Position,
    /// Its batches, one after the other.
    pub(crate) batches: Box<dyn Iterator<Item = Result<Batch>> + Send>,
}

/// Opens a file by what is in it; `-` is the standard input. A stream may come out of a pipe.
pub(crate) fn open(path: &Path) -> Outcome<OpenedFile> {
    let file = if super::is_terminals_side(path) { super::stdin() } else { File::open(path) };
    let opened = carefully(|| open_any(file.map_err(unreadable)?));
    let opened = opened.unwrap_or_else(|why| Err(not_whole("it", Failure::new(why))));
    opened.map_err(|failure| failure.during(path.display()))
}

fn open_any(mut file: File) -> Outcome<OpenedFile> {
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(Failure::misuse("it is a folder; name a file in it"));
    }
    let len = metadata.len();
    let mut start = Vec::new();
    file.by_ref().take(8).read_to_end(&mut start).map_err(unreadable)?;
    if start.is_empty() {
        return Err(Failure::new("it is empty, and so neither Parquet nor Arrow"));
    }
    let format = Format::of_content(&start);
    if format != Format::ArrowStream && !metadata.is_file() {
        // Both are read from their end.
        return Err(Failure::new(
            "it is no file but a pipe or a device, out of which only an Arrow stream can be read; write it to a file first",
        ));
    }
    if format != Format::ArrowStream {
        file.rewind()?;
    }
    match format {
        Format::Parquet => {
            let groups = Groups::open(file)?;
            source(&groups.schema(), groups.position(), groups)
        }
        Format::ArrowFile => {
            let position = Position::of(len);
            let reader = FileReader::try_new(BufReader::new(file), None)
                .map_err(|error| not_whole("it begins as an Arrow file and", error))?;
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
                Failure::new(format!(
                    "it is neither Parquet nor Arrow, or not whole; name another file or fetch it again ({})",
                    Failure::from(error)
                ))
            })?;
            source(&reader.schema(), position, reader)
        }
    }
}

fn source(
    schema: &arrow_schema::Schema,
    position: Position,
    mut batches: impl Iterator<Item = std::result::Result<RecordBatch, ArrowError>> + Send + 'static,
) -> Outcome<OpenedFile> {
    let schema = Schema::from_arrow(schema)?;
    let of_batches = schema.clone();
    let mut number = 0_u64;
    let mut next = move || -> Outcome<Option<RecordBatch>> {
        let next = carefully(|| batches.next()).map_err(Failure::new);
        let next = next.and_then(|next| Ok(next.transpose()?));
        let next = next.map_err(|failure| not_whole(&format!("batch {number}"), failure))?;
        number += 1;
        Ok(next)
    };
    // What failed once is not asked again.
    let mut has_failed = false;
    let batches = std::iter::from_fn(move || {
        let next = if has_failed { None } else { next().transpose() };
        has_failed |= matches!(next, Some(Err(_)));
        next
    });
    let batches = batches.map(move |batch| {
        let batch =
            batch.map_err(|failure| Error::new(ErrorKind::InvalidData, failure.to_string()))?;
        Batch::from_arrow((&of_batches, batch))
    });
    Ok(OpenedFile { schema, position, batches: Box::new(batches) })
}

/// What the system says of a file that it does not show, and what to do.
fn unreadable(error: io::Error) -> Failure {
    let what_to_do = match error.kind() {
        io::ErrorKind::NotFound => "there is no such file; name one that is there",
        io::ErrorKind::PermissionDenied => {
            "it may not be read; ask for the permission, or name a copy of your own"
        }
        _ => "it cannot be read; name another file, or a copy of it",
    };
    Failure::new(format!("{what_to_do} ({error})"))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Root may read everything, so no file shows it to everybody who runs the tests.
    #[test]
    fn a_file_that_may_not_be_read_is_told_with_what_to_do() {
        let told = unreadable(io::ErrorKind::PermissionDenied.into()).to_string();
        assert!(told.starts_with("it may not be read; ask for the permission"), "{told}");
        assert!(told.ends_with("(permission denied)"), "{told}");
    }
}
