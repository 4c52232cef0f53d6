//! An asynchronous stream under tokio: one task produces arrays as they are asked for, another
//! reads them, and threads of the runtime decode them.
//!
//! `cargo run --example async_stream`

use std::pin::Pin;
use std::task::{Context, Poll};

use arrow_device::abi::ArrowAsyncDeviceStreamHandler;
use arrow_device::async_stream::{AsyncProducer, AsyncStream, Ending, Outgoing, Task};
use arrow_device::{Array, DataType, DeviceType, Error, Metadata, Result, Schema};
use futures_core::Stream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

pub(crate) fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(Error::other)?;
    runtime.block_on(read())
}

/// The consumer. It knows the handler that it gave away, and nothing of who has it.
async fn read() -> Result<()> {
    // At most four arrays ahead of what is taken out.
    let (mut stream, handler) = AsyncStream::new(4);
    // SAFETY: the producer below keeps to the interface.
    let producing = unsafe { somebody_produces(handler.into_raw()) }?;

    let info = stream.opened().await?;
    println!("{} on {}, with {}", info.schema, info.device_type, info.metadata);

    // A task is moved to where its array is wanted, and decoded there. Dropping one means that it
    // is not wanted.
    let mut sums = Vec::new();
    while let Some(task) = next(&mut stream).await {
        let task = task?;
        sums.push(tokio::task::spawn_blocking(move || sum(task)));
    }
    let mut total = 0;
    for sum in sums {
        total += sum.await.map_err(Error::other)??;
    }
    println!("the sum of all is {total}");
    assert_eq!(total, (0..100).sum::<i64>());
    assert_eq!(producing.await.map_err(Error::other)??, Ending::Finished);

    // Whoever has seen enough drops the stream, and the producer is told.
    let (mut stream, handler) = AsyncStream::new(4);
    // SAFETY: the producer below keeps to the interface.
    let producing = unsafe { somebody_produces(handler.into_raw()) }?;
    let first = next(&mut stream).await.transpose()?;
    assert!(first.is_some());
    drop((first, stream));
    assert_eq!(producing.await.map_err(Error::other)??, Ending::Cancelled);
    Ok(())
}

fn sum(task: Task) -> Result<i64> {
    let host = task.extract()?.host()?;
    let numbers = host.values::<i64>()?;
    Ok(numbers.iter().flatten().sum())
}

async fn next(stream: &mut AsyncStream) -> Option<Result<Task>> {
    std::future::poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await
}

/// The producer: a hundred numbers, ten at a time, out of a channel. Any stream would do.
///
/// # Safety
/// The handler is one as the Arrow C device interface describes it.
unsafe fn somebody_produces(
    handler: *mut ArrowAsyncDeviceStreamHandler,
) -> Result<JoinHandle<Result<Ending>>> {
    let (sender, receiver) = mpsc::channel(2);
    tokio::spawn(async move {
        for first in (0..100_i64).step_by(10) {
            let numbers: Vec<Option<i64>> = (first..first + 10).map(Some).collect();
            // Made when it is extracted, on the consumer's thread.
            let work = Outgoing::later(move || Array::from_values(DataType::Int64, numbers));
            if sender.send(Ok(work)).await.is_err() {
                return;
            }
        }
    });
    let producer =
        AsyncProducer::new(Schema::new(DataType::Int64)?, DeviceType::CPU, Channel(receiver))
            .with_metadata(Metadata::from_pairs([("rows", "100")])?);
    // SAFETY: the handler is one as the Arrow C device interface describes it, as the caller
    // promises.
    let drive = unsafe { producer.drive(handler) }?;
    Ok(tokio::spawn(drive))
}

struct Channel(mpsc::Receiver<Result<Outgoing>>);

impl Stream for Channel {
    type Item = Result<Outgoing>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}
