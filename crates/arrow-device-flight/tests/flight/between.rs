//! arrow-flight reads what this crate writes, and the other way around.

use arrow_device::Batch;
use arrow_device_arrow::v60::ToArrow as _;
use arrow_device_flight::v60::{FlightMessages, FlightReader, Received};
use arrow_device_ipc::ReadOptions;
use arrow_flight_60::FlightData;
use arrow_flight_60::decode::FlightRecordBatchStream;
use arrow_flight_60::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight_60::error::FlightError;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use crate::support::{all, golden_tables, numbers};

#[tokio::test]
async fn arrow_flight_reads_what_is_written_here() {
    for table in golden_tables() {
        let messages = FlightMessages::new(&table.schema, table.arrays()).unwrap();
        let batches = FlightRecordBatchStream::new_from_flight_data(messages);
        let batches: Vec<_> = match batches.try_collect().await {
            Ok(batches) => batches,
            Err(error) => panic!("{}: {error}", table.name),
        };
        assert_eq!(batches.len(), table.batches.len(), "{}", table.name);
        for (found, expected) in batches.iter().zip(&table.batches) {
            assert_eq!(found, &expected.to_arrow().unwrap(), "{}", table.name);
        }
    }
}

#[tokio::test]
async fn what_arrow_flight_writes_is_read_here() {
    for table in golden_tables() {
        let batches: Vec<_> = table.batches.iter().map(|batch| batch.to_arrow().unwrap()).collect();
        let messages = FlightDataEncoderBuilder::new()
            .with_schema(table.schema.to_arrow().unwrap())
            .with_dictionary_handling(DictionaryHandling::Resend)
            .build(stream::iter(batches.into_iter().map(Ok)));
        let messages: Vec<FlightData> = match messages.try_collect().await {
            Ok(messages) => messages,
            Err(error) => {
                println!("arrow-flight does not write {}: {error}", table.name);
                continue;
            }
        };
        let messages = || stream::iter(messages.clone().into_iter().map(Ok::<_, FlightError>));
        let mut reader = FlightReader::new(messages(), ReadOptions::new());
        reader.schema().await.unwrap_or_else(|error| panic!("{}: {error}", table.name));
        let found = all(reader.arrays()).await;
        let found = found.unwrap_or_else(|error| panic!("{}: {error}", table.name));
        // Not what was given to the encoder, which leaves batches without rows out.
        let theirs = FlightRecordBatchStream::new_from_flight_data(messages());
        let theirs: Vec<_> = theirs.try_collect().await.unwrap();
        let found: Vec<_> = found.iter().map(|batch| batch.to_arrow().unwrap()).collect();
        assert_eq!(found, theirs, "{}", table.name);
    }
}

#[tokio::test]
async fn notes_between_batches_are_given_to_those_who_ask() {
    let table = numbers(2, 3);
    let messages = FlightMessages::new(&table.schema, table.arrays()).unwrap();
    let mut messages: Vec<FlightData> = messages.try_collect().await.unwrap();
    messages[1].app_metadata = "with the first".into();
    messages.insert(2, FlightData { app_metadata: "between".into(), ..FlightData::default() });
    let messages = || stream::iter(messages.clone().into_iter().map(Ok::<_, FlightError>));
    let reader = FlightReader::new(messages(), ReadOptions::new());
    let seen: Vec<Received> = reader.try_collect().await.unwrap();
    let told: Vec<(bool, &[u8])> =
        seen.iter().map(|received| (received.batch.is_some(), &*received.app_metadata)).collect();
    assert_eq!(told, [(true, &b"with the first"[..]), (false, b"between"), (true, b"")]);
    let arrays = FlightReader::new(messages(), ReadOptions::new()).arrays();
    assert_eq!(arrays.count().await, 2);
    let found: Vec<Batch> = seen.into_iter().filter_map(|received| received.batch).collect();
    table.assert_are(&found);
}
