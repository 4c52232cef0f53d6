//! What several tests need.

use std::fs;
use std::io::Cursor;

use arrow_device::{Array, Batch, DataType, Result, Schema};
use arrow_device_ipc::{ReadOptions, StreamReader};
use arrow_device_testkit::golden;
use arrow_flight_60::{FlightDescriptor, Ticket};
use futures_util::stream::{self, Stream, StreamExt as _, TryStreamExt as _};

/// A named table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) schema: Schema,
    pub(crate) batches: Vec<Batch>,
}

impl Table {
    pub(crate) fn arrays(
        &self,
    ) -> impl Stream<Item = Result<Array>> + Unpin + Send + Sync + use<> + 'static {
        stream::iter(self.batches.clone().into_iter().map(|batch| Ok(Array::from(batch))))
    }

    #[track_caller]
    pub(crate) fn assert_are(&self, found: &[Batch]) {
        let rows = |batches: &[Batch]| batches.iter().map(Batch::row_count).sum::<usize>();
        assert_eq!(rows(found), rows(&self.batches), "{}", self.name);
        assert_eq!(found.len(), self.batches.len(), "{}", self.name);
        for (found, expected) in found.iter().zip(&self.batches) {
            assert!(found.as_array().equals(expected.as_array()).unwrap(), "{}", self.name);
        }
    }
}

/// The golden streams.
pub(crate) fn golden_tables() -> Vec<Table> {
    let read = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = Cursor::new(fs::read(path).unwrap());
        let reader = StreamReader::new(bytes, ReadOptions::new()).unwrap();
        let schema = reader.schema().clone();
        Table { name, schema, batches: reader.map(Result::unwrap).collect() }
    };
    golden::streams().iter().map(read).collect()
}

/// A table of numbers and texts.
pub(crate) fn numbers(batches: i64, rows: i64) -> Table {
    let batch = |first: i64| {
        let numbers = (first..first + rows).map(|row| (row % 7 > 0).then_some(row));
        let texts: Vec<String> = (first..first + rows).map(|row| row.to_string()).collect();
        let texts = texts.iter().map(|text| Some(text.as_str()));
        let numbers = Array::from_values(DataType::Int64, numbers).unwrap();
        let texts = Array::from_texts(DataType::Utf8, texts).unwrap();
        Batch::from_columns([("n", numbers), ("t", texts)]).unwrap()
    };
    let batches: Vec<Batch> = (0..batches).map(|number| batch(number * rows)).collect();
    let schema = batches[0].schema().unwrap();
    Table { name: "numbers".to_owned(), schema, batches }
}

pub(crate) fn ticket(name: &str) -> Ticket {
    Ticket::new(name.to_owned())
}

pub(crate) fn path(name: &str) -> FlightDescriptor {
    FlightDescriptor::new_path(vec![name.to_owned()])
}

/// All batches of a stream of arrays.
pub(crate) async fn all<S>(arrays: S) -> Result<Vec<Batch>>
where
    S: Stream<Item = Result<Array>>,
{
    arrays.map(|array| array.and_then(Batch::try_from)).try_collect().await
}
