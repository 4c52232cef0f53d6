//! The calls of a client, on the host and on the software device.

use std::sync::atomic::Ordering;

use arrow_device::async_stream::ArraysExt as _;
use arrow_device::{Array, Batch, ErrorKind, Queue};
use arrow_device_flight::v60::{FlightMessages, exchange, get, put};
use arrow_device_ipc::{Compression, ReadOptions, WriteOptions};
use arrow_device_sim::{Kind, Sim};
use arrow_device_testkit::tally::watch;
use futures_util::stream::StreamExt as _;
use tonic::Request;

use crate::server::{Running, Tables};
use crate::support::{all, golden_tables, numbers, path, ticket};

#[tokio::test]
async fn golden_streams_are_got_put_and_exchanged_as_they_were() {
    let tables = Tables::default();
    let running = Running::start(&tables).await;
    let mut client = running.client().await;
    for table in golden_tables() {
        let messages = FlightMessages::new(&table.schema, table.arrays()).unwrap();
        let sent =
            put(&mut running.grpc().await, messages.descriptor(path(&table.name))).await.unwrap();
        sent.finish().await.unwrap();
        table.assert_are(&tables.tables.lock().unwrap()[&table.name].batches);

        let mut reader = get(&mut client, ticket(&table.name), ReadOptions::new()).await.unwrap();
        assert_eq!(reader.schema().await.unwrap(), table.schema, "{}", table.name);
        table.assert_are(&all(reader.arrays()).await.unwrap());

        let messages = FlightMessages::new(&table.schema, table.arrays()).unwrap();
        let messages = messages.descriptor(path("echo"));
        let mut back =
            exchange(&mut running.grpc().await, messages, ReadOptions::new()).await.unwrap();
        assert_eq!(back.schema().await.unwrap(), table.schema, "{}", table.name);
        table.assert_are(&all(back.arrays()).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn golden_streams_go_from_a_device_to_a_device() {
    for kind in [Kind::Discrete, Kind::Handles] {
        let sims = [Sim::builder().kind(kind).build(), Sim::builder().kind(kind).build()];
        let queues = [&sims[0], &sims[1]].map(|sim| sim.device().open_queue().unwrap());
        let tables = Tables { queue: Some(queues[0].clone()), ..Tables::default() };
        let running = Running::start(&tables).await;
        let mut client = running.client().await;
        for table in golden_tables() {
            let there = table.arrays().copy_to(&queues[1]);
            let messages = FlightMessages::new(&table.schema, there).unwrap().prefetch(1);
            let sent = put(&mut running.grpc().await, messages.descriptor(path(&table.name)))
                .await
                .unwrap();
            sent.finish().await.unwrap();
            let kept = tables.tables.lock().unwrap()[&table.name].batches.clone();
            assert!(kept.iter().all(|batch| batch.device() == sims[0].device().id()));

            let reader = get(&mut client, ticket(&table.name), ReadOptions::new()).await.unwrap();
            let arrays = all(reader.arrays().copy_to(&queues[1]).prefetch(2)).await.unwrap();
            assert!(arrays.iter().all(|batch| batch.device() == sims[1].device().id()));
            let back: Vec<Batch> = arrays.iter().map(|batch| batch.to_host().unwrap()).collect();
            table.assert_are(&back);
        }
        drop((running, client, queues));
        tables.until_alone().await;
        for sim in sims {
            let mistakes = sim.reports();
            assert!(mistakes.is_empty(), "{mistakes:?}");
        }
    }
}

#[tokio::test]
async fn a_batch_goes_up_in_one_copy_of_its_bytes_and_comes_down_in_one() {
    let table = numbers(3, 5000);
    let tables = Tables::default();
    tables.put(table.clone());
    let running = Running::start(&tables).await;
    let mut client = running.client().await;
    let sim = Sim::builder().build();
    let (device, tally) = watch(&sim.device());
    let queue = device.open_queue().unwrap();
    let counts = || {
        let counts = [&tally.copies, &tally.allocations, &tally.moved];
        let found = counts.map(|count| count.load(Ordering::Relaxed));
        tally.clear();
        found
    };

    let reader = get(&mut client, ticket("numbers"), ReadOptions::new()).await.unwrap();
    let mut arrays = reader.arrays().copy_to(&queue);
    let mut there = Vec::new();
    while let Some(array) = arrays.next().await {
        // Numbers, offsets, texts and a bitmap, each padded.
        let [copies, allocations, moved] = counts();
        assert_eq!((copies, allocations), (1, 1));
        assert!(moved < 5000 * (8 + 4 + 5) + 5000 / 8 + 4 * 64, "{moved}");
        there.push(array);
    }
    let there = futures_util::stream::iter(there);
    let mut messages = FlightMessages::new(&table.schema, there).unwrap();
    messages.next().await.unwrap().unwrap();
    counts();
    while let Some(message) = messages.next().await {
        let len = message.unwrap().data_body.len() as u64;
        let [copies, allocations, moved] = counts();
        // The ends of the texts are read first.
        assert!(copies <= 2 && allocations == 0, "{copies} copies, {allocations} allocations");
        assert!(moved <= len + 16, "{moved} for a body of {len}");
    }
}

#[tokio::test]
async fn a_large_batch_comes_in_parts() {
    let table = numbers(1, 50_000);
    let mut messages = FlightMessages::new(&table.schema, table.arrays()).unwrap().max_body(65_536);
    let mut count = 0;
    while let Some(message) = messages.next().await {
        assert!(message.unwrap().data_body.len() <= 65_536);
        count += 1;
    }
    assert!(count > 10, "{count}");

    let messages = FlightMessages::new(&table.schema, table.arrays()).unwrap().max_body(65_536);
    let tables = Tables::default();
    let running = Running::start(&tables).await;
    put(&mut running.grpc().await, messages.descriptor(path("parts")))
        .await
        .unwrap()
        .finish()
        .await
        .unwrap();
    let parts = tables.tables.lock().unwrap()["parts"].batches.clone();
    let mut row = 0;
    for part in &parts {
        let expected = table.batches[0].slice(row, part.row_count()).unwrap();
        assert!(part.as_array().equals(expected.as_array()).unwrap());
        row += part.row_count();
    }
    assert_eq!(row, 50_000);
}

#[tokio::test]
async fn compressed_bodies_and_growing_dictionaries_arrive() {
    let tables = Tables::default();
    let running = Running::start(&tables).await;
    for compression in [None, Some(Compression::Lz4), Some(Compression::Zstd { level: 1 })] {
        for deltas in [false, true] {
            for table in golden_tables().into_iter().filter(|table| table.name.contains("dict")) {
                let options = WriteOptions::new().compression(compression).deltas(deltas);
                let messages = FlightMessages::new_with(&table.schema, table.arrays(), options);
                let messages = messages.unwrap().descriptor(path("echo"));
                let back = exchange(&mut running.grpc().await, messages, ReadOptions::new())
                    .await
                    .unwrap();
                table.assert_are(&all(back.arrays()).await.unwrap());
            }
        }
    }
}

#[tokio::test]
async fn metadata_of_the_application_and_headers_of_requests_arrive() {
    let table = numbers(1, 10);
    let tables = Tables::default();
    tables.put(table.clone());
    let running = Running::start(&tables).await;
    let mut client = running.client().await;
    let messages = FlightMessages::new(&table.schema, table.arrays()).unwrap();
    let messages = messages.descriptor(path("noted")).app_metadata("by hand");
    let mut answers = put(&mut running.grpc().await, messages).await.unwrap();
    assert_eq!(&*answers.next().await.unwrap().unwrap().app_metadata, b"by hand");
    assert!(answers.next().await.is_none());

    let messages = FlightMessages::new(&table.schema, table.arrays()).unwrap();
    let messages = messages.descriptor(path("echo")).app_metadata("both ways");
    let mut back = exchange(&mut running.grpc().await, messages, ReadOptions::new()).await.unwrap();
    back.schema().await.unwrap();
    assert_eq!(&**back.app_metadata(), b"both ways");

    let refused = get(&mut client, ticket("secret"), ReadOptions::new()).await.unwrap_err();
    assert!(refused.to_string().contains("no token"), "{refused}");
    let mut request = Request::new(ticket("secret"));
    request.metadata_mut().insert("authorization", "Bearer token".parse().unwrap());
    let reader = get(&mut client, request, ReadOptions::new()).await.unwrap();
    table.assert_are(&all(reader.arrays()).await.unwrap());
}

#[tokio::test]
async fn columns_that_are_not_asked_for_are_not_moved() {
    let table = numbers(2, 1000);
    let tables = Tables::default();
    tables.put(table.clone());
    let running = Running::start(&tables).await;
    let mut client = running.client().await;
    let options = ReadOptions::new().columns([0]);
    let sim = Sim::builder().build();
    let (device, tally) = watch(&sim.device());
    let queue = device.open_queue().unwrap();
    let reader = get(&mut client, ticket("numbers"), options).await.unwrap();
    let found = all(reader.arrays().copy_to(&queue)).await.unwrap();
    // Eight bytes a row, and the bitmap.
    let moved = tally.moved.load(Ordering::Relaxed);
    assert!(moved <= 2 * (8 * 1000 + 192), "{moved}");
    for (found, whole) in found.iter().zip(&table.batches) {
        let column = found.to_host().unwrap().column(0).unwrap();
        assert!(column.equals(&whole.column(0).unwrap()).unwrap());
    }
}

#[tokio::test]
async fn a_stream_without_batches_has_its_schema() {
    let table = crate::support::Table { batches: Vec::new(), ..numbers(1, 1) };
    let tables = Tables::default();
    let running = Running::start(&tables).await;
    let mut client = running.client().await;
    let messages = FlightMessages::new(&table.schema, table.arrays()).unwrap();
    put(&mut running.grpc().await, messages.descriptor(path("none")))
        .await
        .unwrap()
        .finish()
        .await
        .unwrap();
    let mut reader = get(&mut client, ticket("none"), ReadOptions::new()).await.unwrap();
    assert_eq!(reader.schema().await.unwrap(), table.schema);
    assert!(all(reader.arrays()).await.unwrap().is_empty());
}

#[tokio::test]
async fn arrays_of_another_schema_are_refused() {
    let table = numbers(1, 10);
    let other = Array::from(table.batches[0].clone());
    let schema = Batch::from_columns([("n", other.child(0).unwrap())]).unwrap().schema().unwrap();
    let mut messages = FlightMessages::new(&schema, table.arrays()).unwrap();
    messages.next().await.unwrap().unwrap();
    let error = messages.next().await.unwrap().unwrap_err();
    let error =
        <arrow_device::Error as arrow_device_flight::v60::ErrorExt>::from_flight_error(error);
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    assert!(messages.next().await.is_none());
    let _ = Queue::host();
}
