//! Writing a file in one of the formats.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use super::Format;
use super::careful::carefully;
use crate::failure::{Failure, Outcome};

/// A Parquet file is held in memory up to the end of a row group, which comes at the latest after
/// so many encoded bytes.
const MOST_OF_A_GROUP: usize = 64 << 20;

/// A file that is being written.
pub(crate) enum Writer {
    Parquet(Box<ArrowWriter<BufWriter<File>>>),
    ArrowFile(FileWriter<BufWriter<File>>),
    ArrowStream(StreamWriter<BufWriter<File>>),
}

impl Writer {
    pub(crate) fn new(file: File, format: Format, schema: Arc<Schema>) -> Outcome<Self> {
        without_panic(|| Self::begin(file, format, schema))
    }

    fn begin(file: File, format: Format, schema: Arc<Schema>) -> Outcome<Self> {
        let file = BufWriter::with_capacity(1 << 20, file);
        Ok(match format {
            Format::Parquet => {
                let properties = WriterProperties::builder();
                let properties = properties.set_compression(Compression::SNAPPY).build();
                Self::Parquet(Box::new(ArrowWriter::try_new(file, schema, Some(properties))?))
            }
            Format::ArrowFile => Self::ArrowFile(FileWriter::try_new(file, &schema)?),
            Format::ArrowStream => Self::ArrowStream(StreamWriter::try_new(file, &schema)?),
        })
    }

    /// After an error nothing more is written.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Outcome<()> {
        without_panic(|| self.append(batch))
    }

    fn append(&mut self, batch: &RecordBatch) -> Outcome<()> {
        match self {
            Self::Parquet(writer) => {
                writer.write(batch)?;
                if writer.memory_size() > MOST_OF_A_GROUP {
                    writer.flush()?;
                }
            }
            Self::ArrowFile(writer) => writer.write(batch).map_err(of_dictionary)?,
            Self::ArrowStream(writer) => {
                writer.write(batch)?;
                // Whoever reads a stream gets each batch when it is there.
                writer.flush()?;
            }
        }
        Ok(())
    }

    /// Writes what is left and hands the file back.
    pub(crate) fn finish(self) -> Outcome<File> {
        without_panic(|| self.end())
    }

    fn end(self) -> Outcome<File> {
        let mut file = match self {
            Self::Parquet(writer) => writer.into_inner()?,
            Self::ArrowFile(writer) => writer.into_inner()?,
            Self::ArrowStream(writer) => writer.into_inner()?,
        };
        file.flush()?;
        Ok(file.into_inner().map_err(|error| error.into_error())?)
    }
}

/// A writer of others, which panics where it does not know a type, such as a union in Parquet.
fn without_panic<T>(write: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    carefully(write).unwrap_or_else(|why| {
        let message = format!("the writer has no place for such data; name another format ({why})");
        Err(Failure::new(message))
    })
}

fn of_dictionary(error: ArrowError) -> Failure {
    let failure = Failure::from(error);
    if failure.to_string().contains("Dictionary replacement") {
        return failure.during(
            "an Arrow file has one dictionary for each column, and here it changes; write a stream (.arrows)",
        );
    }
    failure
}
