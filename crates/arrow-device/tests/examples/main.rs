//! The examples run to their ends, and what they assert holds.

#[path = "../../examples/async_stream.rs"]
mod async_stream;
#[path = "../../examples/consumer.rs"]
mod consumer;
mod lab;
#[path = "../../examples/own_device/main.rs"]
mod own_device;
#[path = "../../examples/producer.rs"]
mod producer;
#[path = "../../examples/record_batch.rs"]
mod record_batch;
#[path = "../../examples/stream.rs"]
mod stream;
#[path = "../../examples/tensor.rs"]
mod tensor;

use arrow_device::Result;
use arrow_device_testkit::process::alone;

#[test]
fn the_producer_runs() -> Result<()> {
    producer::main()
}

#[test]
fn the_consumer_runs() -> Result<()> {
    consumer::main()
}

#[test]
fn the_record_batch_runs() -> Result<()> {
    record_batch::main()
}

#[test]
fn the_asynchronous_stream_runs() -> Result<()> {
    async_stream::main()
}

#[test]
fn the_stream_runs() -> Result<()> {
    stream::main()
}

#[test]
fn the_tensor_runs() -> Result<()> {
    tensor::main()
}

/// Alone: the example counts what its device has allocated in the whole process.
#[test]
fn a_device_from_outside_the_library_runs() {
    alone(|| own_device::main().unwrap());
}
