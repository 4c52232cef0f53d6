//! All majors of arrow-flight in one program: what one writes, each reads.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use arrow_device::{Array, Batch, DataType, Result};
use arrow_device_ipc::ReadOptions;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use prost::Message as _;

fn batch() -> Batch {
    let numbers = Array::from_values(DataType::Int64, [Some(1_i64), None, Some(3)]).unwrap();
    let texts = Array::from_texts(DataType::Utf8, [Some("a"), Some("bc"), None]).unwrap();
    Batch::from_columns([("n", numbers), ("t", texts)]).unwrap()
}

macro_rules! major {
    ($name:ident, $flight:ident) => {
        mod $name {
            use super::*;
            use arrow_device_flight::$name::{ErrorExt as _, FlightMessages, FlightReader};
            use $flight::{FlightData, error::FlightError};

            /// The messages, as bytes on the wire.
            pub(crate) async fn written() -> Vec<Vec<u8>> {
                let arrays = stream::iter([Ok(Array::from(batch())), Ok(Array::from(batch()))]);
                let messages = FlightMessages::new(&batch().schema().unwrap(), arrays).unwrap();
                let bytes = messages.map(|message| Ok::<_, FlightError>(message?.encode_to_vec()));
                bytes.try_collect().await.unwrap()
            }

            pub(crate) async fn read(messages: &[Vec<u8>]) -> Vec<Batch> {
                let messages = messages.iter().map(|bytes| FlightData::decode(&**bytes));
                let messages: Vec<_> =
                    messages.map(|data| data.map_err(FlightError::from)).collect();
                let reader = FlightReader::new(stream::iter(messages), ReadOptions::new());
                let batches = reader.arrays().map(|array: Result<Array>| Batch::try_from(array?));
                batches.try_collect().await.unwrap()
            }

            #[test]
            fn an_error_goes_through_the_errors_of_flight() {
                let error = arrow_device::Error::new(arrow_device::ErrorKind::DeviceLost, "gone");
                let back = arrow_device::Error::from_flight_error(error.into_flight_error());
                assert_eq!(back.kind(), arrow_device::ErrorKind::DeviceLost);
            }
        }
    };
}

major!(v58, arrow_flight_58);
major!(v59, arrow_flight_59);
major!(v60, arrow_flight_60);

#[tokio::test]
async fn each_major_reads_what_each_writes() {
    for written in [v58::written().await, v59::written().await, v60::written().await] {
        assert_eq!(written.len(), 3);
        for read in
            [v58::read(&written).await, v59::read(&written).await, v60::read(&written).await]
        {
            assert_eq!(read.len(), 2);
            assert!(read[0].as_array().equals(batch().as_array()).unwrap());
        }
    }
}
