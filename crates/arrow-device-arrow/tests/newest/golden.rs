//! The streams that other Arrow implementations wrote as a reference: read by arrow-rs, handed over
//! as C structs, taken back.

use std::fs::File;

use arrow_array_60::{Array as _, RecordBatch};
use arrow_data_60::ArrayData;
use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Batch, Schema};
use arrow_device_arrow::v60::{FromArrow as _, ToArrow as _};
use arrow_device_testkit::golden;
use arrow_ipc::reader::StreamReader;

/// A batch as C structs, and what a consumer makes of them.
fn hand_over(batch: &RecordBatch) -> RecordBatch {
    let ours = Batch::from_arrow(batch.clone()).unwrap();
    let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    ours.schema().unwrap().export(&mut c_schema).unwrap();
    ours.export(&mut c_array).unwrap();
    drop(ours);
    let schema = unsafe { Schema::import(&mut c_schema) }.unwrap();
    let batch = unsafe { Batch::import(&mut c_array, &schema) }.unwrap();
    batch.to_arrow().unwrap()
}

/// Where the values of a column lie. An empty buffer lies nowhere.
fn addresses(data: &ArrayData) -> Vec<usize> {
    let own = data.buffers().iter().filter(|buffer| !buffer.is_empty() && !data.is_empty());
    let own = own.map(|buffer| buffer.as_ptr().addr());
    own.chain(data.child_data().iter().flat_map(addresses)).collect()
}

#[test]
fn golden_streams_come_back_as_they_were_from_where_they_were() {
    let mut batches = 0;
    for path in golden::streams() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let reader = StreamReader::try_new_buffered(File::open(&path).unwrap(), None).unwrap();
        let schema = reader.schema();
        let converted =
            Schema::from_arrow(&*schema).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(converted.to_arrow().unwrap(), schema, "{name}");
        for batch in reader {
            let batch =
                batch.unwrap_or_else(|error| panic!("arrow-rs cannot read {name}: {error}"));
            let back = hand_over(&batch);
            assert_eq!(back, batch, "{name}");
            assert_eq!(back.schema(), schema, "{name}");
            for (column, field) in batch.columns().iter().zip(schema.fields()) {
                let index = schema.index_of(field.name()).unwrap();
                let same_name = schema.fields().iter().filter(|other| other.name() == field.name());
                if same_name.count() == 1 {
                    let (sent, received) = (column.to_data(), back.column(index).to_data());
                    assert_eq!(addresses(&received), addresses(&sent), "{name}: {field} moved");
                }
            }
            batches += 1;
        }
    }
    println!("{batches} batches");
}
