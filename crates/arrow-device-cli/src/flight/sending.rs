//! [`Sending`]: batches to a server, one after the other.
//!
//! A server may take a call that is cut off for one that is complete, so what is given up is ended
//! with an error: `put` resets the stream then, which every server reads as a failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_device::{Array, Batch, Error, ErrorKind, Result, Schema};
use arrow_device_flight::v60::{FlightMessages, put};
use arrow_flight_60::FlightDescriptor;
use tokio::sync::mpsc::{self, Sender};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;

use super::{Access, Address, Connection};
use crate::failure::{Failure, Outcome};

/// How often somebody looks whether there was an interruption, while the server takes nothing.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long a server may take to be told that there is no more.
const FAREWELL: Duration = Duration::from_secs(2);

/// A call that sends batches.
pub(crate) struct Sending {
    connection: Connection,
    /// `None` after the end.
    send: Option<Sender<Result<Array>>>,
    task: JoinHandle<Result<()>>,
    interrupted: Arc<AtomicBool>,
}

impl Sending {
    /// Begins to send batches of this schema as the flight that the address names.
    pub(crate) fn start(
        address: &Address,
        access: &Access,
        schema: &Schema,
        interrupted: Arc<AtomicBool>,
    ) -> Outcome<Self> {
        let Some(name) = &address.name else {
            let message = "name behind the host what the server is to call it";
            return Err(Failure::misuse(message));
        };
        let connection = Connection::connect(address, access)?;
        let (send, receive) = mpsc::channel(1);
        let descriptor = FlightDescriptor::new_path(vec![name.to_owned()]);
        let messages = FlightMessages::new(schema, ReceiverStream::new(receive))?;
        let request = connection.request(tonic::Request::new(messages.descriptor(descriptor)));
        let mut grpc = Grpc::new(connection.channel());
        let task = async move { put(&mut grpc, request).await?.finish().await };
        let task = connection.runtime.spawn(task);
        Ok(Self { connection, send: Some(send), task, interrupted })
    }

    /// Sends a batch once the server has taken those before.
    pub(crate) fn write(&mut self, batch: &Batch) -> Outcome<()> {
        let Some(send) = &self.send else { return Err(Failure::new("it is over")) };
        let room = loop {
            let room = async { timeout(PATIENCE, send.clone().reserve_owned()).await };
            match self.connection.runtime.block_on(room) {
                Ok(room) => break room,
                Err(_) if self.interrupted.load(Ordering::Relaxed) => {
                    return Err(Failure::interrupted("interrupted"));
                }
                Err(_) => {}
            }
        };
        match room {
            Ok(room) => {
                room.send(Ok(Array::from(batch.clone())));
                Ok(())
            }
            // The call is over before its time.
            Err(_) => match self.finished() {
                Ok(()) => Err(Failure::new("the server wanted no more than a part of it")),
                Err(failure) => Err(failure),
            },
        }
    }

    /// Sends the end, and waits until the server has everything and has said so.
    pub(crate) fn finish(mut self) -> Outcome<()> {
        self.finished()
    }

    /// Sends the end, unless the call is over, and waits until the call is over.
    fn finished(&mut self) -> Outcome<()> {
        self.send = None;
        loop {
            let done = async { timeout(PATIENCE, &mut self.task).await };
            match self.connection.runtime.block_on(done) {
                Ok(done) => return Ok(done.map_err(failed).and_then(|done| done)?),
                Err(_) if self.interrupted.load(Ordering::Relaxed) => {
                    return Err(Failure::interrupted("interrupted"));
                }
                Err(_) => {}
            }
        }
    }
}

fn failed(error: JoinError) -> Error {
    Error::other(error)
}

impl Drop for Sending {
    /// What was not finished is ended with an error, so that no part is taken for the whole.
    fn drop(&mut self) {
        let Some(send) = self.send.take() else { return };
        let task = &mut self.task;
        let farewell = async {
            let error = Error::new(ErrorKind::Cancelled, "the sender gave up");
            // The call may be over already, when nobody is left to tell.
            let _ = send.send(Err(error)).await;
            let _ = task.await;
        };
        // Where the server takes nothing more, the connection ends with the process.
        let farewell = async { timeout(FAREWELL, farewell).await };
        let _ = self.connection.runtime.block_on(farewell);
    }
}
