//! The calls of a client.
//!
//! gRPC has no way for a client to say that its own stream failed: a request ends, or its call is
//! cancelled. So where the arrays of a [`put`] or an [`exchange`] fail, their request does not end.
//! The error is left in a place that the call's other half looks at, and that half returns the
//! error and drops the call, which cancels it. The server then reads an error and not an end.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use arrow_device::{Array, Error, Result};
use arrow_device_ipc::ReadOptions;
use bytes::Bytes;
use futures_core::Stream;
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::{Body as HttpBody, StdError};
use tonic::{IntoRequest, Request, Status, Streaming};

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

/// Sends arrays to a server: the call `DoPut`. The messages need a
/// [`descriptor`](FlightMessages::descriptor).
///
/// Returns once the server begins to answer. The arrays are sent while the answers are polled.
/// Dropping the answers cancels what was not sent yet, so they are read to their end.
///
/// # Errors
/// An error of the arrays is returned here or among the answers, and the server sees a call that
/// was cancelled.
pub async fn put<T, S>(
    client: &mut FlightServiceClient<T>,
    messages: impl IntoRequest<FlightMessages<S>>,
) -> Result<Puts>
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
    S: Stream<Item = Result<Array>> + Unpin + Send + 'static,
{
    let (request, failure) = Sent::of(messages.into_request());
    let answer = unless(&failure, client.do_put(request)).await?;
    Ok(Puts { answers: Watched { answers: Some(answer.into_inner()), failure } })
}

/// Sends arrays and receives arrays: the call `DoExchange`. The messages need a
/// [`descriptor`](FlightMessages::descriptor).
///
/// The arrays are sent while what the server sends is read. Errors are as of [`put`].
pub async fn exchange<T, S>(
    client: &mut FlightServiceClient<T>,
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
    let (request, failure) = Sent::of(messages.into_request());
    let answer = unless(&failure, client.do_exchange(request)).await?;
    let answers = Watched { answers: Some(answer.into_inner()), failure };
    Ok(FlightReader::new(answers, options))
}

/// Where the sending half of a call leaves the error of its arrays.
#[derive(Debug, Default)]
struct Failure {
    error: Option<Error>,
    /// The receiving half, while it waits.
    waker: Option<Waker>,
}

type SharedFailure = Arc<Mutex<Failure>>;

/// Returns the error, or leaves the waker for it.
fn poll_failure(failure: &SharedFailure, context: &Context<'_>) -> Option<Error> {
    let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
    let error = failure.error.take();
    if error.is_none() {
        failure.waker = Some(context.waker().clone());
    }
    error
}

/// Waits for the answer of the server, or for an error of what is sent.
async fn unless<T>(
    failure: &SharedFailure,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T> {
    let mut call = pin!(call);
    poll_fn(|context| {
        if let Some(error) = poll_failure(failure, context) {
            return Poll::Ready(Err(error));
        }
        call.as_mut().poll(context).map_err(Error::from_status)
    })
    .await
}

/// The request of a call: messages, without the error that may end them.
struct Sent<S> {
    messages: FlightMessages<S>,
    failure: SharedFailure,
}

impl<S> Sent<S> {
    fn of(request: Request<FlightMessages<S>>) -> (Request<Self>, SharedFailure) {
        let failure = SharedFailure::default();
        let (metadata, extensions, messages) = request.into_parts();
        let sent = Self { messages, failure: failure.clone() };
        (Request::from_parts(metadata, extensions, sent), failure)
    }
}

impl<S: Stream<Item = Result<Array>> + Unpin> Stream for Sent<S> {
    type Item = FlightData;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<FlightData>> {
        let error = match ready!(self.messages.poll_message(context)) {
            None => return Poll::Ready(None),
            Some(Ok(message)) => return Poll::Ready(Some(message)),
            Some(Err(error)) => error,
        };
        let waker = {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.error = Some(error);
            failure.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        // Not the end, which the server would take for the end of the arrays. The other half drops
        // the call.
        Poll::Pending
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
        if let Some(error) = poll_failure(failure, context) {
            *answers = None;
            return Poll::Ready(Some(Err(error.into_flight_error())));
        }
        let next = ready!(Pin::new(open).poll_next(context));
        if !matches!(next, Some(Ok(_))) {
            *answers = None;
        }
        Poll::Ready(next.map(|answer| answer.map_err(Into::into)))
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
