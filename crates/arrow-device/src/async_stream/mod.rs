//! Asynchronous streams: arrays that a producer pushes, as many as the consumer asked for.
//!
//! Two libraries in one process exchange arrays without either waiting for the other. The consumer
//! makes a *handler*, a C struct of callbacks, and gives it to the producer. The producer calls it
//! with the schema, then with *tasks*, one for each array, and never with more of them than were
//! asked for. A task gives its array when it is [extracted](Task::extract), on the thread that
//! extracts it.
//!
//! The module has both sides. Neither needs a particular runtime, and neither has a thread of its
//! own. (One exception: a [`Drive`] that is polled or dropped inside a call of a consumer starts a
//! short-lived thread, because it may call nobody there.) Neither side blocks, except that
//! `release` waits for a `request` or `cancel` that another thread is in the middle of.
//!
//! | to | use |
//! |---|---|
//! | read a stream that somebody else produces | [`AsyncStream`], a [`Stream`](futures_core::Stream) of [`Task`]s; [`Arrays`] of arrays |
//! | produce one from any [`Stream`](futures_core::Stream) of arrays | [`AsyncProducer`], which makes a future, [`Drive`] |
//! | make an asynchronous stream of an iterator, which runs ahead by a bounded number of items | [`feed`] |
//! | copy or change the arrays of a stream on their way | [`ArraysExt`] |
//! | read an asynchronous stream with a plain loop | [`Blocking`] |
//!
//! ```
//! use arrow_device::async_stream::{AsyncProducer, AsyncStream, Blocking, feed};
//! use arrow_device::{Array, DataType, DeviceType, Schema};
//!
//! // The consumer wants at most four arrays ahead of what it has taken.
//! let (stream, handler) = AsyncStream::new(4);
//!
//! // The producer, here in the same program: a thousand arrays that an iterator makes.
//! let numbers = (0..1000_i64).map(|number| Array::from_values(DataType::Int64, [Some(number)]));
//! let (feeder, arrays) = feed(numbers, 2);
//! let producer = AsyncProducer::new(Schema::new(DataType::Int64)?, DeviceType::CPU, arrays);
//! let drive = unsafe { producer.drive(handler.into_raw()) }?;
//!
//! // Which threads do what is the program's choice. Any executor can drive the future; here it is
//! // a loop of this crate.
//! std::thread::scope(|threads| {
//!     threads.spawn(|| feeder.run());
//!     threads.spawn(|| arrow_device::async_stream::block_on(drive));
//!     let mut sum = 0;
//!     for array in Blocking::new(stream.arrays()) {
//!         let host = array?.host()?;
//!         let numbers = host.values::<i64>()?;
//!         sum += numbers.iter().flatten().sum::<i64>();
//!     }
//!     assert_eq!(sum, 499_500);
//!     Ok::<(), arrow_device::Error>(())
//! })?;
//! # Ok::<(), arrow_device::Error>(())
//! ```

// `protocol` decides who may call what and when, and knows nothing of C. `handler`, `stream` and
// `task` are the consumer's side of the C structs, `outgoing` and `drive` the producer's. Because
// of `tickets` and `slots`, a callback that comes too late finds nothing instead of freed memory.
// `feed` and `blocking` convert from iterators and to them.

mod blocking;
mod drive;
mod failure;
mod feed;
mod foreign;
mod handler;
mod locks;
mod moves;
mod outgoing;
mod outlet;
mod protocol;
mod slots;
mod state;
mod stream;
mod task;
mod this_thread;
mod tickets;

pub use blocking::{Blocking, block_on};
pub use drive::{AsyncProducer, Drive, Ending};
pub use failure::Failure;
pub use feed::{Fed, Feeder, feed};
pub use handler::StreamHandler;
pub use moves::{ArraysExt, MappedArrays, MovingArrays};
pub use outgoing::Outgoing;
pub use state::StreamInfo;
pub use stream::{Arrays, AsyncStream, Opened};
pub use task::Task;
