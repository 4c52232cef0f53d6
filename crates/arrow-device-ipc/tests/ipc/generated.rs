//! Arrays of all types and windows, through this crate's writer and reader, and by arrow-rs.

use arrow_device::{Batch, DataType, ErrorKind, Field, Schema};
use arrow_device_arrow::v60::ToArrow as _;
use arrow_device_ipc::{Compression, StreamWriter, WriteOptions};
use arrow_device_testkit::generate::{self, for_each};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::{Nulls, Window};
use arrow_device_testkit::{Verdict, kinds, require};

use arrow_ipc::reader::StreamReader as RsReader;
use arrow_ipc::writer::StreamWriter as RsWriter;

use crate::support::{read, read_at, read_by_arrow, written};

/// Whether a dictionary in here has values that are a dictionary, which IPC has no place for.
fn has_double_dictionary(data_type: &DataType) -> bool {
    let below = |field: &Field| has_double_dictionary(field.data_type());
    match data_type {
        DataType::Dictionary { values, .. } => {
            matches!(values.data_type(), DataType::Dictionary { .. }) || below(values)
        }
        _ => data_type.children().any(below),
    }
}

/// Whether the values of all dictionaries are as IPC has them: nullable and without a name.
fn has_plain_dictionaries(data_type: &DataType) -> bool {
    let below = |field: &Field| has_plain_dictionaries(field.data_type());
    match data_type {
        DataType::Dictionary { values, .. } => {
            values.is_nullable() && values.name().is_empty() && below(values)
        }
        _ => data_type.children().all(below),
    }
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn goes_through(generated: &generate::Generated) -> Verdict {
    let array = generate::build(&generated.plan, &Ledger::new()).map_err(said)?;
    let batch = Batch::from_columns([("a", array.clone())]).map_err(said)?;
    let schema = batch.schema().map_err(said)?;
    let double = has_double_dictionary(array.data_type());
    match StreamWriter::new(Vec::new(), &schema, WriteOptions::new()) {
        Err(error) if double => {
            return require(error.kind() == ErrorKind::Unsupported, || said(error));
        }
        // Metadata of bytes that are no text.
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(()),
        Err(error) => return Err(said(error)),
        Ok(_) => {}
    }
    let packed = WriteOptions::new().alignment(8).compression(Some(Compression::Lz4));
    let options = [WriteOptions::new(), packed.cut_views(true)];
    for options in options {
        let bytes = written(&schema, std::slice::from_ref(&batch), options);
        for read in [read(&bytes), read_at(&bytes, 5)] {
            let (_, again) = read.map_err(said)?;
            let [again] = &*again else { return Err(format!("{} batches", again.len())) };
            again.as_array().validate().map_err(said)?;
            if has_plain_dictionaries(array.data_type()) {
                require(again.as_array().equals(batch.as_array()).map_err(said)?, || {
                    format!("{:?} came back as {:?}", batch.as_array(), again.as_array())
                })?;
            }
        }
        // What arrow-rs has a type for, it reads as we do.
        if let Ok(expected) = batch.to_arrow() {
            let (_, found) = read_by_arrow(&bytes);
            require(found == [expected], || "arrow-rs reads something else".to_owned())?;
        }
    }
    Ok(())
}

#[test]
fn arrays_of_all_types_and_windows_come_back_equal() {
    for_each(if cfg!(debug_assertions) { 400 } else { 4000 }, 26, goes_through);
}

#[test]
fn types_of_all_kinds_come_back_as_they_were() {
    let mut seen = 0;
    for (number, kind) in kinds::kinds().into_iter().enumerate() {
        let plan = kinds::cases_of([kind]).next().unwrap().plan();
        let schema = generate::import_schema(&plan).unwrap();
        if has_double_dictionary(schema.data_type()) {
            continue;
        }
        let column = schema.field().clone().with_name(format!("column {number}"));
        let schema = Schema::batch([column]).unwrap();
        // Metadata of bytes that are no text.
        if StreamWriter::new(Vec::new(), &schema, WriteOptions::new()).is_err() {
            continue;
        }
        let bytes = written(&schema, &[], WriteOptions::new());
        seen += 1;
        let again = read(&bytes).unwrap().0;
        if has_plain_dictionaries(schema.data_type()) {
            assert_eq!(again, schema);
        } else {
            assert_eq!(again.data_type().to_string(), schema.data_type().to_string());
        }
    }
    assert!(seen > 30, "{seen}");
}

// Requirement: ARR-17
#[test]
fn arrays_without_elements_get_their_offsets_whoever_wrote_them() {
    let mut seen = 0;
    for kind in kinds::kinds() {
        for window in Window::ALL {
            let array = generate::build(&kind.plan(window, Nulls::None), &Ledger::new()).unwrap();
            let whole = Batch::from_columns([("a", array)]).unwrap();
            for batch in [whole.slice(0, 0).unwrap(), whole] {
                let Ok(theirs) = batch.to_arrow() else { continue };
                let Ok(mut by_arrow) = RsWriter::try_new(Vec::new(), &theirs.schema()) else {
                    continue;
                };
                if by_arrow.write(&theirs).is_err() {
                    continue;
                }
                let by_arrow = by_arrow.into_inner().unwrap();
                let ours = written(&batch.schema().unwrap(), &[batch], WriteOptions::new());
                // `read` checks the buffers.
                seen += read(&ours).unwrap().1.len();
                // arrow-rs leaves out buffers of views that it announces below run ends.
                if RsReader::try_new(&*by_arrow, None)
                    .is_ok_and(|mut read| matches!(read.next(), Some(Ok(_))))
                {
                    seen += read(&by_arrow).unwrap().1.len();
                }
            }
        }
    }
    assert!(seen > 1000, "{seen}");
}
