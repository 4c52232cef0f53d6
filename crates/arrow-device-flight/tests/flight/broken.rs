//! Peers that are slow, that fail, that die, and that send nonsense.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow_device::{Array, Batch, DataType, Error, ErrorKind, IndexType};
use arrow_device_flight::v60::{FlightMessages, FlightReader, exchange, get, put};
use arrow_device_ipc::{ReadOptions, WriteOptions};
use arrow_device_testkit::samples::growing_dictionaries;
use arrow_flight_60::FlightData;
use arrow_flight_60::flight_service_client::FlightServiceClient;
use futures_util::FutureExt as _;
use futures_util::stream::{self, Stream, StreamExt as _, TryStreamExt as _};
use tonic::{Code, Status};

use crate::server::{Running, Tables};
use crate::support::{all, golden_tables, numbers, path, ticket};

/// Waits until something is so, for ten seconds at most.
async fn until(is_so: impl Fn() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        if Instant::now() > end {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    true
}

#[tokio::test]
async fn a_slow_reader_holds_the_server_back() {
    let tables = Tables::default();
    tables.put(numbers(1, 10_000));
    let running = Running::start(&tables).await;
    let mut client = running.client().await;
    let reader = get(&mut client, ticket("endless"), ReadOptions::new()).await.unwrap();
    let mut arrays = reader.arrays();
    arrays.next().await.unwrap().unwrap();
    // What the windows of HTTP/2 and the sockets take fills up, and then nothing more is made.
    let made = || tables.made.load(Ordering::SeqCst);
    let mut last = 0;
    while last < made() {
        last = made();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(last < 200, "{last} arrays were made for a reader that took one");
    for _ in 0..last + 50 {
        arrays.next().await.unwrap().unwrap();
    }
    assert!(made() > last);
}

#[tokio::test]
async fn a_reader_that_goes_ends_the_call() {
    let tables = Tables::default();
    tables.put(numbers(1, 10_000));
    let running = Running::start(&tables).await;
    let mut client = running.client().await;
    let reader = get(&mut client, ticket("endless"), ReadOptions::new()).await.unwrap();
    let mut arrays = reader.arrays();
    arrays.next().await.unwrap().unwrap();
    drop(arrays);
    assert!(until(|| tables.is_gone.0.load(Ordering::SeqCst) == 1).await);
}

#[tokio::test]
async fn a_server_that_fails_in_the_middle_is_an_error_with_its_words() {
    let tables = Tables::default();
    let table = numbers(2, 10);
    tables.put(table.clone());
    let running = Running::start(&tables).await;
    let mut client = running.client().await;
    let mut arrays = get(&mut client, ticket("broken"), ReadOptions::new()).await.unwrap().arrays();
    for _ in 0..2 {
        arrays.next().await.unwrap().unwrap();
    }
    let error = arrays.next().await.unwrap().unwrap_err();
    // The code of gRPC knows one kind for memory and for limits.
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(error.to_string().contains("the pool is dry"), "{error}");
    assert!(arrays.next().await.is_none());
    let missing = get(&mut client, ticket("nowhere"), ReadOptions::new()).await.unwrap_err();
    assert!(missing.to_string().contains("no table nowhere"), "{missing}");
}

#[tokio::test]
async fn an_error_with_many_words_comes_with_its_kind() {
    let tables = Tables::default();
    tables.put(numbers(1, 10));
    let running = Running::start(&tables).await;
    let mut client = running.client().await;
    let arrays = get(&mut client, ticket("verbose"), ReadOptions::new()).await.unwrap().arrays();
    let error = all(arrays).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(error.to_string().contains("öööö"), "{error}");
}

#[tokio::test]
async fn a_server_that_dies_in_the_middle_is_an_error() {
    let tables = Tables::default();
    tables.put(numbers(1, 10_000));
    // The connection of a server dies with the runtime that the server runs on.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let its_tables = tables.clone();
    let running = runtime.spawn(async move { Running::start(&its_tables).await }).await.unwrap();
    let mut client = running.client().await;
    let mut arrays =
        get(&mut client, ticket("endless"), ReadOptions::new()).await.unwrap().arrays();
    arrays.next().await.unwrap().unwrap();
    runtime.shutdown_background();
    let end = loop {
        match arrays.next().await {
            Some(Ok(_)) => {}
            other => break other,
        }
    };
    assert!(matches!(end, Some(Err(_))), "taken for the end of the stream");
}

/// Sends a table whose last array is no array, by `put` and by an exchange. The call fails with an
/// error of this kind, and the server sees no end.
async fn fails<S>(end: impl Fn() -> S, kind: ErrorKind, words: &str)
where
    S: Stream<Item = arrow_device::Result<Array>> + Send + Unpin + 'static,
{
    for with_exchange in [false, true] {
        let tables = Tables::default();
        let table = numbers(3, 10);
        let running = Running::start(&tables).await;
        let messages = FlightMessages::new(&table.schema, table.arrays().chain(end())).unwrap();
        let messages = messages.descriptor(path("half"));
        let error = if with_exchange {
            match exchange(&mut running.grpc().await, messages, ReadOptions::new()).await {
                Ok(back) => back.arrays().try_collect::<Vec<_>>().await.unwrap_err(),
                Err(error) => error,
            }
        } else {
            match put(&mut running.grpc().await, messages).await {
                Ok(answers) => answers.finish().await.unwrap_err(),
                Err(error) => error,
            }
        };
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(until(|| tables.is_gone.0.load(Ordering::SeqCst) == 1).await);
        assert_eq!(tables.ended.load(Ordering::SeqCst), 0, "the server saw an end");
    }
}

#[tokio::test]
async fn arrays_that_fail_while_they_are_sent_are_no_end_for_the_server() {
    let failing = || stream::iter([Err(Error::new(ErrorKind::DeviceLost, "unplugged"))]);
    fails(failing, ErrorKind::DeviceLost, "unplugged").await;
}

// Requirement: SAF-30
#[tokio::test]
async fn a_panic_while_arrays_are_made_is_no_end_for_the_server() {
    let panicking = || stream::poll_fn(|_| std::panic::resume_unwind(Box::new("planted")));
    fails(panicking, ErrorKind::Panicked, "planted").await;
}

/// A stream that panics when it is polled, and again when it is dropped.
struct PanicsTwice;

impl Stream for PanicsTwice {
    type Item = arrow_device::Result<Array>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        std::panic::resume_unwind(Box::new("planted"))
    }
}

impl Drop for PanicsTwice {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("planted in the drop"))
    }
}

// Requirement: SAF-30
#[tokio::test]
async fn a_stream_that_panics_again_in_its_drop_is_no_end_for_the_server() {
    fails(|| PanicsTwice, ErrorKind::Panicked, "planted").await;
}

// Requirement: SAF-30
#[tokio::test]
async fn a_panic_while_a_server_answers_is_an_error_of_the_one_call() {
    let tables = Tables::default();
    tables.put(numbers(2, 10));
    let running = Running::start(&tables).await;
    let mut client = running.client().await;
    let other = get(&mut client, ticket("endless"), ReadOptions::new()).await.unwrap();
    let mut other = other.arrays();
    other.next().await.unwrap().unwrap();
    let arrays = get(&mut client, ticket("panics"), ReadOptions::new()).await.unwrap().arrays();
    let error = all(arrays).await.unwrap_err();
    assert!(error.to_string().contains("planted"), "{error}");
    // The connection has room for a thousand arrays at most.
    for _ in 0..5000 {
        other.next().await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_message_above_the_limit_of_the_client_is_an_error() {
    let tables = Tables::default();
    tables.put(numbers(1, 10_000));
    let running = Running::start(&tables).await;
    let client: FlightServiceClient<_> = running.client().await;
    let mut client = client.max_decoding_message_size(1000);
    let reader = get(&mut client, ticket("numbers"), ReadOptions::new()).await.unwrap();
    let error = all(reader.arrays()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}

#[tokio::test]
async fn statuses_in_a_stream_keep_their_words() {
    let messages = stream::iter([Err::<FlightData, _>(Status::new(Code::Aborted, "stopped"))]);
    let error = FlightReader::new(messages, ReadOptions::new()).schema().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WorkFailed);
    assert!(error.to_string().contains("stopped"), "{error}");
}

/// What a reader makes of these messages.
async fn read(messages: Vec<FlightData>) -> Result<usize, Error> {
    let options = ReadOptions::new().max_unpacked(1 << 20).validate(true);
    let messages = stream::iter(messages.into_iter().map(Ok::<_, Status>));
    Ok(all(FlightReader::new(messages, options).arrays()).await?.len())
}

#[tokio::test]
async fn messages_lost_doubled_and_broken_are_errors_and_nothing_worse() {
    let mut refused = 0;
    for table in golden_tables() {
        let messages = FlightMessages::new(&table.schema, table.arrays()).unwrap();
        let messages: Vec<FlightData> = messages.try_collect().await.unwrap();
        for (index, message) in messages.iter().enumerate() {
            let mut lost = messages.clone();
            lost.remove(index);
            let mut doubled = messages.clone();
            doubled.insert(index, message.clone());
            let mut short = messages.clone();
            let half = short[index].data_body.len() / 2;
            short[index].data_body.truncate(half);
            let mut bent = messages.clone();
            let mut header = bent[index].data_header.to_vec();
            let place = (index * 7919) % header.len().max(1);
            if let Some(byte) = header.get_mut(place) {
                *byte ^= 0x55;
            }
            bent[index].data_header = header.into();
            for broken in [lost, doubled, short, bent] {
                refused += usize::from(read(broken).await.is_err());
            }
        }
    }
    assert!(refused > 100 || golden_tables().is_empty(), "{refused}");
}

#[tokio::test]
async fn a_flight_whose_dictionary_grows_beyond_the_bound_is_an_error_at_its_message() {
    let batches = growing_dictionaries();
    let arrays = stream::iter(batches.clone().into_iter().map(|batch| Ok(Array::from(batch))));
    let schema = batches[0].schema().unwrap();
    let messages = FlightMessages::new_with(&schema, arrays, WriteOptions::new()).unwrap();
    let messages: Vec<FlightData> = messages.try_collect().await.unwrap();
    let read = async |most| {
        let messages = stream::iter(messages.clone().into_iter().map(Ok::<_, Status>));
        let options = ReadOptions::new().max_dictionaries(most);
        all(FlightReader::new(messages, options).arrays()).await
    };
    assert_eq!(read(22 << 10).await.unwrap().len(), 20);
    let error = read(10 << 10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(error.to_string().contains("message 19: dictionary 0: "), "{error}");
}

#[tokio::test]
async fn a_stream_that_begins_with_something_else_has_no_schema() {
    let nothing = stream::iter(Vec::<Result<FlightData, Status>>::new());
    let error = FlightReader::new(nothing, ReadOptions::new()).schema().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    let note = FlightData { app_metadata: "note".into(), ..FlightData::default() };
    let note = stream::iter([Ok::<_, Status>(note)]);
    let error = FlightReader::new(note, ReadOptions::new()).schema().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
}

/// A peer that sends what is of no use alone, without end, keeps nobody from giving up.
// Requirement: SAF-26
#[tokio::test]
async fn messages_of_no_use_without_end_leave_turns_to_others() {
    let words = Array::from_texts(DataType::Utf8, [Some("a")]).unwrap();
    let keys = DataType::dictionary(IndexType::Int8, DataType::Utf8);
    let keys = Array::from_keys(keys, [Some(0)], words).unwrap();
    let batch = Batch::from_columns([("words", keys)]).unwrap();
    let arrays = stream::iter([Ok(Array::from(batch.clone()))]);
    let messages = FlightMessages::new(&batch.schema().unwrap(), arrays).unwrap();
    let messages: Vec<FlightData> = messages.try_collect().await.unwrap();
    let [schema, dictionary, last] = &*messages else { panic!("{} messages", messages.len()) };
    let note = FlightData { app_metadata: "note".into(), ..FlightData::default() };
    let reader = |begin: &[FlightData], again: &FlightData| {
        let begin = stream::iter(begin.to_vec());
        let messages = begin.chain(stream::iter(vec![again.clone(); 1000]));
        let messages = messages.chain(stream::iter([schema.clone(), last.clone()]));
        FlightReader::new(messages.map(Ok::<_, Status>).boxed(), ReadOptions::new())
    };
    let mut endless = reader(&[], &note);
    assert!(endless.schema().now_or_never().is_none());
    endless.schema().await.unwrap();
    let mut endless = reader(std::slice::from_ref(schema), dictionary);
    assert!(endless.next().now_or_never().is_none());
    assert!(endless.next().await.unwrap().is_err(), "the schema comes a second time");
    let mut endless = reader(std::slice::from_ref(schema), &note).arrays();
    assert!(endless.next().now_or_never().is_none());
    assert!(endless.next().await.unwrap().is_err(), "the schema comes a second time");
}

/// One run of a million million rows, as a peer sends it in a message of two MiB.
// Requirement: SAF-38
#[tokio::test]
async fn a_run_of_many_rows_is_sent_in_one_part() {
    let rows = 1_i64 << 40;
    let text = Array::from_texts(DataType::Utf8, ["x".repeat((2 << 20) + 100)].map(Some)).unwrap();
    let ends = Array::from_values(DataType::Int64, [Some(rows)]).unwrap();
    let runs = DataType::run_end_encoded(DataType::Int64, DataType::Utf8);
    let runs = Array::builder(runs).len(rows as usize).buffers([]).children([ends, text]);
    let batch = Batch::from_columns([("c", runs.finish_ready().unwrap())]).unwrap();
    let arrays = stream::iter([Ok(Array::from(batch.clone()))]);
    let mut messages = FlightMessages::new(&batch.schema().unwrap(), arrays).unwrap();
    messages.next().await.unwrap().unwrap();
    // One division of the batch may be tried in a poll.
    let turns = std::iter::repeat_with(|| messages.next().now_or_never());
    let message = turns.take(3).flatten().next().unwrap().unwrap().unwrap();
    assert!(message.data_body.len() > 2 << 20);
    assert!(messages.next().await.is_none());
}

/// One division after the other finds the one large row of a batch, and other tasks have their
/// turns between the divisions. All divisions together add no more than the bytes of the batch.
// Requirement: SAF-26
#[tokio::test]
async fn divisions_of_a_batch_leave_turns_to_others() {
    let rows = 1_i64 << 40;
    let texts = ["x".repeat((2 << 20) + 100), "y".repeat(1 << 20)];
    let texts = Array::from_texts(DataType::Utf8, texts.map(Some)).unwrap();
    let ends = Array::from_values(DataType::Int64, [1, rows].map(Some)).unwrap();
    let runs = DataType::run_end_encoded(DataType::Int64, DataType::Utf8);
    let runs = Array::builder(runs).len(rows as usize).buffers([]).children([ends, texts]);
    let batch = Batch::from_columns([("c", runs.finish_ready().unwrap())]).unwrap();
    let arrays = stream::iter([Ok(Array::from(batch.clone()))]);
    let mut messages = FlightMessages::new(&batch.schema().unwrap(), arrays).unwrap();
    messages.next().await.unwrap().unwrap();
    assert!(messages.next().now_or_never().is_none());
    let parts: Vec<FlightData> = messages.try_collect().await.unwrap();
    let total: usize = parts.iter().map(|part| part.data_body.len()).sum();
    assert!(total <= 7 << 20, "{total} bytes in {} parts", parts.len());
}
