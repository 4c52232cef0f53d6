//! Files for the tests that read and write some.
#![allow(dead_code)]

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchReader, StringArray};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// A batch of two columns, numbers from `first` on and words.
pub(crate) fn batch(first: i64, rows: i64) -> RecordBatch {
    let numbers: Int64Array =
        (first..first + rows).map(|number| (number % 7 != 3).then_some(number)).collect();
    let words: StringArray =
        (first..first + rows).map(|number| Some("x".repeat(number as usize % 12))).collect();
    let columns: [(&str, ArrayRef); 2] = [("number", Arc::new(numbers)), ("word", Arc::new(words))];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .unwrap()
}

pub(crate) fn write_stream(path: &Path, batches: &[RecordBatch]) {
    let file = File::create(path).unwrap();
    let mut writer = StreamWriter::try_new(file, &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
}

pub(crate) fn write_file(path: &Path, batches: &[RecordBatch]) {
    let mut writer =
        FileWriter::try_new(File::create(path).unwrap(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
}

pub(crate) fn write_parquet(path: &Path, batches: &[RecordBatch]) {
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), None).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
}

/// What is in a file, read by arrow-rs.
pub(crate) fn read(path: &Path) -> (SchemaRef, Vec<RecordBatch>) {
    let file = File::open(path).unwrap();
    let reader: Box<dyn RecordBatchReader> = match path.extension().unwrap().to_str().unwrap() {
        "parquet" => {
            let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
            Box::new(builder.with_batch_size(1 << 20).build().unwrap())
        }
        "arrow" => Box::new(FileReader::try_new_buffered(file, None).unwrap()),
        _ => Box::new(StreamReader::try_new_buffered(file, None).unwrap()),
    };
    (reader.schema(), reader.map(Result::unwrap).collect())
}
