//! The calls of a client.
//!
//! gRPC has no message by which a client says that its own stream failed: a request ends, its call
//! is cancelled, or its stream is reset with another code. tonic's servers take a cancelled request
//! for one that has ended, and would keep half of the arrays as if they were all. So where the
//! arrays of a [`put`] or an [`exchange`] fail, the encoder of the request fails, and HTTP/2 resets
//! the stream with `INTERNAL_ERROR`, which every server reads as an error. The generated client has
//! no room for an encoder of that kind, so these calls are made with tonic's `Grpc` itself.
//!
//! The error of the arrays is left in a place that the receiving half of the call looks at, because
//! what the network says about the reset is of no use to the caller.

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use arrow_device::{Array, Error, Result};
use arrow_device_ipc::ReadOptions;
use bytes::Bytes;
use futures_core::Stream;
use prost::Message;
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{Body as HttpBody, StdError};
use tonic::{IntoRequest, Request, Response, Status, Streaming};

use super::arrow::flight::flight_service_client::FlightServiceClient;
use super::arrow::flight::{FlightData, PutResult, Ticket};
use super::{ErrorExt as _, FlightMessages, FlightReader};

/// Asks a server for the arrays of a ticket: the call `DoGet`.
///
/// Headers, such as a token, belong to the request: `Request::new(ticket)`, then its
/// `metadata_mut`. A ticket of Flight SQL is asked for in this way as well, through the `inner_mut`
/// of its client and with the client's token.
pub async fn get<T>(
    client: &mut FlightServiceClient<T>,
    ticket: impl IntoRequest<Ticket>,
    options: ReadOptions,
) -> Result<FlightReader<Streaming<FlightData>>>
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
{
    let answer = client.do_get(ticket).await.map_err(Error::from_status)?;
    Ok(FlightReader::new(answer.into_inner(), options))
}

/// Sends arrays to a server: the call `DoPut`, over a channel. The messages need a
/// [`descriptor`](FlightMessages::descriptor).
///
/// Returns once the server begins to answer, and the answers are read to their end: dropping them
/// gives up what was not sent yet. Do not drop this future before it returns, as a timeout does: a
/// server made of tonic takes the cancelled call for one whose arrays have all come.
///
/// # Errors
/// An error of the arrays is returned here or among the answers, and is an error for the server.
pub async fn put<T, S>(
    client: &mut Grpc<T>,
    messages: impl IntoRequest<FlightMessages<S>>,
) -> Result<Puts>
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
    S: Stream<Item = Result<Array>> + Unpin + Send + 'static,
{
    Ok(Puts { answers: call(client, DO_PUT, messages.into_request()).await? })
}

/// Sends arrays and receives arrays: the call `DoExchange`. The messages need a
/// [`descriptor`](FlightMessages::descriptor).
///
/// The arrays are sent while what the server sends is read. The rest is as for [`put`].
pub async fn exchange<T, S>(
    client: &mut Grpc<T>,
    messages: impl IntoRequest<FlightMessages<S>>,
    options: ReadOptions,
) -> Result<FlightReader<Watched<FlightData>>>
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
    S: Stream<Item = Result<Array>> + Unpin + Send + 'static,
{
    let answers = call(client, DO_EXCHANGE, messages.into_request()).await?;
    Ok(FlightReader::new(answers, options))
}

const DO_PUT: &str = "/arrow.flight.protocol.FlightService/DoPut";
const DO_EXCHANGE: &str = "/arrow.flight.protocol.FlightService/DoExchange";

/// Makes a call that sends messages.
async fn call<T, S, A>(
    client: &mut Grpc<T>,
    path: &'static str,
    request: Request<FlightMessages<S>>,
) -> Result<Watched<A>>
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
    S: Stream<Item = Result<Array>> + Unpin + Send + 'static,
    A: Message + Default + 'static,
{
    let failure = SharedFailure::default();
    let (metadata, extensions, messages) = request.into_parts();
    let sent = Sent { messages, failure: failure.clone() };
    let request = Request::from_parts(metadata, extensions, sent);
    client.ready().await.map_err(Error::other)?;
    let path = PathAndQuery::from_static(path);
    let answer = client.streaming(request, path, Wire::<A>(PhantomData));
    let answer: Response<Streaming<A>> = unless(&failure, answer).await?;
    Ok(Watched { answers: Some(answer.into_inner()), failure })
}

/// The encoding of messages on the wire, by prost. A message that is an error is not encoded: the
/// error ends the request.
struct Wire<A>(PhantomData<fn() -> A>);

impl<A: Message + Default + 'static> Codec for Wire<A> {
    type Encode = Result<FlightData, Status>;
    type Decode = A;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self(PhantomData)
    }

    fn decoder(&mut self) -> Self {
        Self(PhantomData)
    }
}

impl<A> Encoder for Wire<A> {
    type Item = Result<FlightData, Status>;
    type Error = Status;

    fn encode(&mut self, message: Self::Item, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message?.encode(to).map_err(|error| Status::internal(error.to_string()))
    }
}

impl<A: Message + Default> Decoder for Wire<A> {
    type Item = A;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<A>, Status> {
        let message = A::decode(from);
        message.map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

/// What the two halves of a call tell each other.
#[derive(Debug, Default)]
struct Failure {
    /// The error of the arrays, for the receiving half.
    error: Option<Error>,
    /// Whether nobody wants the answers, so that the sending half gives up.
    is_left: bool,
    receiver: Option<Waker>,
    sender: Option<Waker>,
}

type SharedFailure = Arc<Mutex<Failure>>;

fn lock(failure: &SharedFailure) -> MutexGuard<'_, Failure> {
    failure.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the error, or leaves the waker for it.
fn poll_failure(failure: &SharedFailure, context: &Context<'_>) -> Option<Error> {
    // Wakers are foreign code: cloned before the lock is taken, and dropped after it.
    let waker = context.waker().clone();
    let mut failure = lock(failure);
    let error = failure.error.take();
    let last = if error.is_none() { failure.receiver.replace(waker) } else { None };
    drop(failure);
    drop(last);
    error
}

/// Waits for the answer of the server, or for an error of what is sent.
async fn unless<T>(
    failure: &SharedFailure,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T> {
    let mut call = pin!(call);
    poll_fn(|context| {
        let answer = call.as_mut().poll(context).map_err(Error::from_status);
        // Looked at last: the error of the arrays is why the call failed.
        match poll_failure(failure, context) {
            Some(error) => Poll::Ready(Err(error)),
            None => answer,
        }
    })
    .await
}

/// The request of a call.
struct Sent<S> {
    messages: FlightMessages<S>,
    failure: SharedFailure,
}

impl<S: Stream<Item = Result<Array>> + Unpin> Stream for Sent<S> {
    type Item = Result<FlightData, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.messages.poll_message(context);
        // Wakers are foreign code: cloned before the lock is taken, and dropped after it.
        let waker = context.waker().clone();
        let mut failure = lock(&self.failure);
        match next {
            Poll::Ready(None) => Poll::Ready(None),
            _ if failure.is_left => {
                Poll::Ready(Some(Err(Status::aborted("nobody waits for the answers"))))
            }
            Poll::Pending => {
                let last = failure.sender.replace(waker);
                drop(failure);
                drop(last);
                Poll::Pending
            }
            Poll::Ready(Some(Ok(message))) => Poll::Ready(Some(Ok(message))),
            Poll::Ready(Some(Err(error))) => {
                let status = Status::internal(error.to_string());
                failure.error = Some(error);
                let receiver = failure.receiver.take();
                drop(failure);
                if let Some(receiver) = receiver {
                    receiver.wake();
                }
                Poll::Ready(Some(Err(status)))
            }
        }
    }
}

/// What a server sends back, or the error of what was sent.
pub struct Watched<T> {
    /// `None` after the end and after an error: the call is over.
    answers: Option<Streaming<T>>,
    failure: SharedFailure,
}

impl<T> Stream for Watched<T> {
    type Item = Result<T, super::arrow::flight::error::FlightError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { answers, failure } = &mut *self;
        let Some(open) = answers else { return Poll::Ready(None) };
        let next = Pin::new(open).poll_next(context);
        // Looked at last: the error of the arrays is why the call failed.
        if let Some(error) = poll_failure(failure, context) {
            *answers = None;
            return Poll::Ready(Some(Err(error.into_flight_error())));
        }
        if matches!(next, Poll::Ready(None | Some(Err(_)))) {
            *answers = None;
        }
        next.map(|next| next.map(|answer| answer.map_err(Into::into)))
    }
}

impl<T> Drop for Watched<T> {
    fn drop(&mut self) {
        let sender = {
            let mut failure = lock(&self.failure);
            failure.is_left = true;
            failure.sender.take()
        };
        // Before the answers are dropped: the sending half then fails, and does not go on for
        // nobody.
        if let Some(sender) = sender {
            sender.wake();
        }
    }
}

impl<T> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("is_over", &self.answers.is_none()).finish_non_exhaustive()
    }
}

/// The answers of a server to a [`put`], each with application metadata.
#[derive(Debug)]
pub struct Puts {
    answers: Watched<PutResult>,
}

impl Puts {
    /// Waits until the server has everything and has said so, without a look at its answers.
    pub async fn finish(mut self) -> Result<()> {
        while let Some(answer) = poll_fn(|context| Pin::new(&mut self).poll_next(context)).await {
            answer?;
        }
        Ok(())
    }
}

impl Stream for Puts {
    type Item = Result<PutResult>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = Pin::new(&mut self.answers).poll_next(context);
        next.map(|next| next.map(|answer| answer.map_err(Error::from_flight_error)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    /// A waker of a program whose drop looks at the call, as that of a task that owns it does.
    struct Looking(SharedFailure, Arc<AtomicUsize>);

    impl Wake for Looking {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Looking {
        fn drop(&mut self) {
            let is_free = self.0.try_lock().is_ok();
            self.1.fetch_add(if is_free { 1 } else { 100 }, Ordering::Relaxed);
        }
    }

    #[test]
    fn no_waker_is_dropped_under_the_lock_of_the_call() {
        let (failure, drops) = (SharedFailure::default(), Arc::<AtomicUsize>::default());
        let poll = |waker: &Waker| poll_failure(&failure, &Context::from_waker(waker));
        let waker = Waker::from(Arc::new(Looking(failure.clone(), drops.clone())));
        assert!(poll(&waker).is_none());
        drop(waker);
        assert!(poll(Waker::noop()).is_none());
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        let waker = Waker::from(Arc::new(Looking(failure.clone(), drops.clone())));
        let mut sent = Sent { messages: nothing_yet(), failure: failure.clone() };
        let mut poll =
            |waker: &Waker| Pin::new(&mut sent).poll_next(&mut Context::from_waker(waker));
        assert!(matches!(poll(&waker), Poll::Ready(Some(Ok(_)))), "the schema");
        assert!(poll(&waker).is_pending());
        drop(waker);
        assert!(poll(Waker::noop()).is_pending());
        assert_eq!(drops.load(Ordering::Relaxed), 2);
    }

    fn nothing_yet() -> FlightMessages<impl Stream<Item = Result<Array>> + Unpin> {
        struct Pending;
        impl Stream for Pending {
            type Item = Result<Array>;

            fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
                Poll::Pending
            }
        }
        let schema = arrow_device::Array::from_values(arrow_device::DataType::Int8, [Some(1_i8)])
            .and_then(|array| arrow_device::Batch::from_columns([("n", array)])?.schema());
        FlightMessages::new(&schema.unwrap(), Pending).unwrap()
    }
}
