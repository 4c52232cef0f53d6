//! Arrow Flight, straight to and from the memory of any device.
//!
//! Flight sends batches over gRPC, each as a message of Arrow IPC: a small header, and a body with
//! the bytes of all columns. arrow-flight makes host arrays of such messages, and copies every body
//! once more because the network puts bodies at odd addresses. This crate makes arrays whose
//! buffers lie in the body as the network left it. A copy to a device then takes the live bytes of
//! all columns from the body in one plan: one allocation, one submission, and the only copy on the
//! way up. On the way down, the columns are copied from the device to the host, and once more into
//! the body.
//!
//! arrow-flight has a new major each quarter, and to the compiler the types of two majors have
//! nothing in common. So there is a module for each of the last three: `v58`, switched on by the
//! feature `flight-58`, `v59` by `flight-59`, and `v60` by `flight-60`. None is on by default. TLS,
//! tokens, compression and limits of messages are those of the application's own tonic client and
//! server, which this crate is given.
//!
//! The examples name arrow-flight as this crate does: with
//! `arrow-flight-60 = { package = "arrow-flight", version = "60" }` among the dependencies. A
//! program with one major may write `arrow_flight` instead. The example below also needs
//! `arrow-device`, `arrow-device-ipc`, `futures-core`, and `tonic` with the feature `transport`.
//!
//! | to | use |
//! |---|---|
//! | ask a server for arrays | `get`, with a ticket, also one of Flight SQL |
//! | send arrays to a server | `put` |
//! | send and receive | `exchange` |
//! | answer `do_get`, in a server | `FlightMessages::new(..).statuses()` |
//! | read what `do_put` and `do_exchange` receive, in a server | `FlightReader::new` |
//!
//! Flight SQL is Flight with tickets of its own: the result of a statement is got with `get`
//! through `FlightSqlServiceClient::inner_mut`, and a `FlightSqlService` answers
//! `do_get_statement` with `FlightMessages`. The example `flight_sql` has both, each on a device.
//!
#![cfg_attr(feature = "flight-60", doc = "```")]
#![cfg_attr(not(feature = "flight-60"), doc = "```ignore")]
//! use arrow_device::async_stream::ArraysExt as _;
//! use arrow_device::{Array, Queue, Result};
//! use arrow_device_flight::v60;
//! use arrow_device_ipc::ReadOptions;
//! use arrow_flight_60::Ticket;
//! use arrow_flight_60::flight_service_client::FlightServiceClient;
//! use futures_core::Stream;
//! use tonic::transport::Channel;
//!
//! /// The answer to a ticket, on a device. Two batches are on their way while one is used.
//! async fn on_device(
//!     client: &mut FlightServiceClient<Channel>,
//!     ticket: Ticket,
//!     queue: &Queue,
//! ) -> Result<impl Stream<Item = Result<Array>> + use<>> {
//!     let reader = v60::get(client, ticket, ReadOptions::new()).await?;
//!     Ok(reader.arrays().copy_to(queue).prefetch(2))
//! }
//! ```
//!
//! # What holds
//!
//! * **Backpressure.** Nothing is read from the network before it is asked for, and nothing is
//!   copied from a device before the network has room, but for what `prefetch` allows and what
//!   HTTP/2 buffers.
//! * **Cancelling.** A stream that is dropped cancels its call. Where a sender's own arrays fail,
//!   `put` and `exchange` cancel the call, so that the server sees an error. (arrow-flight's client
//!   ends such a call as if all had been sent.)
//! * **Errors.** A `Status` becomes an [`Error`](arrow_device::Error) of the kind that fits its
//!   code, with the server's message, and an error becomes a `Status` with the fitting code, the
//!   message, and the error as its source: see `ErrorExt`. A panic of the arrays that are sent is
//!   an error of their call, and the other calls of the connection go on.
//! * **Dictionaries** are sent before the batches that need them, and again only when they change:
//!   whole, or, with [`WriteOptions::deltas`](arrow_device_ipc::WriteOptions::deltas), only what
//!   was added. Most readers of Flight do not know deltas, so `FlightMessages` leaves them out
//!   unless it is told.
//! * **Large batches** are sent in parts, because receivers refuse messages above a limit: 4 MiB in
//!   tonic and in most others. A row is not divided, and neither are rows whose parts would have
//!   together more than one and a half times their bytes, such as the rows of one run, which share
//!   their data. Such rows above the limit are sent as they are, and the receiver may refuse them.
//!   The parts of a batch have together at most twice the bytes of the batch in one message. The
//!   body of a part is made when its message is asked for.
//! * **Hostile peers.** Headers are verified and lengths are checked against the bytes that came,
//!   as [`arrow_device_ipc`] does for all input.
//! * **No thread is blocked.** Data that is not there yet is awaited.

// What the modules of the majors share. Without such a module, nothing uses these four.
#[cfg(any(test, feature = "flight-58", feature = "flight-59", feature = "flight-60"))]
mod body;
#[cfg(any(test, feature = "flight-58", feature = "flight-59", feature = "flight-60"))]
mod cut;
#[cfg(any(test, feature = "flight-58", feature = "flight-59", feature = "flight-60"))]
mod incoming;
#[cfg(any(test, feature = "flight-58", feature = "flight-59", feature = "flight-60"))]
mod status;

#[cfg(feature = "flight-58")]
pub mod v58;
#[cfg(feature = "flight-59")]
pub mod v59;
#[cfg(feature = "flight-60")]
pub mod v60;
