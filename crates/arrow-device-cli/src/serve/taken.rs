//! [`Taken`]: a service whose clients have to take what they are sent.
//!
//! A client of HTTP/2 says how many bytes of a call it has room for, and it may say so never. Then
//! the server asks the body of the response for nothing more, so that the body cannot end the call:
//!
//! 1. Each body notes when it gave data, and when it was asked for more, which is when the client
//!    had room for nearly all before.
//! 2. A task of each call looks at the note now and then. Where nothing more was asked for in too
//!    long a time, the task closes the connection of the client, which ends all calls over it.
//!
//! What must stay true: data is given in pieces of a fixed length, so that a client that takes
//! little is not mistaken for one that takes nothing, however long a message is; and a body that
//! waits for the server's own data is not counted against the client.

use std::io::Write as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http_body::Frame;
use tokio::task::AbortHandle;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Body as HttpBody, BoxFuture, Bytes, Service, http};
use tonic::server::NamedService;

use super::closable::Link;
use crate::units;

/// How many bytes are given at once.
const PIECE: usize = 64 << 10;

#[derive(Clone, Debug)]
pub(super) struct Taken<S> {
    inner: S,
    limit: Duration,
}

impl<S> Taken<S> {
    /// The service, whose clients may take nothing for this long at most.
    pub(super) fn new(inner: S, limit: Duration) -> Self {
        Self { inner, limit }
    }
}

impl<S: NamedService> NamedService for Taken<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Taken<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (link, limit) = (request.extensions().get::<Link>().cloned(), self.limit);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            Ok(match link {
                Some(link) => answer.map(|body| Body::new(Sent::new(body, link, limit))),
                None => answer,
            })
        })
    }
}

/// Since when the client has not taken what it was given. `None` while the server has nothing to
/// give.
#[derive(Debug)]
struct Note(Mutex<Option<Instant>>);

impl Note {
    fn set(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    fn waited(&self) -> Duration {
        let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// The body of a response.
struct Sent {
    body: Body,
    /// What the body has given and this has not.
    rest: Bytes,
    note: Arc<Note>,
    watch: AbortHandle,
}

impl Sent {
    fn new(body: Body, link: Link, limit: Duration) -> Self {
        let note = Arc::new(Note(Mutex::new(Some(Instant::now()))));
        let watch = tokio::spawn(watch(note.clone(), link, limit)).abort_handle();
        Self { body, rest: Bytes::new(), note, watch }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

/// Closes the connection once its client has taken nothing for too long.
async fn watch(note: Arc<Note>, link: Link, limit: Duration) {
    let turn = (limit / 10).max(Duration::from_millis(1));
    while note.waited() < limit {
        tokio::time::sleep(turn).await;
    }
    let peer = link.peer().map_or_else(|| "a client".to_owned(), |peer| peer.to_string());
    let limit = units::counted(limit.as_secs(), "second", "seconds");
    // There is nobody to tell if this fails.
    let _ = writeln!(
        std::io::stderr(),
        "arrow-device: {peer} has taken nothing for {limit}, and its connection is closed"
    );
    link.close();
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.note.set(None);
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                end => return Poll::Ready(end),
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let len = self.rest.len().min(PIECE);
        let piece = self.rest.split_to(len);
        self.note.set(Some(Instant::now()));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use arrow_device::{Array, Batch, DataType};
    use arrow_flight_60::Ticket;
    use arrow_flight_60::flight_service_client::FlightServiceClient;
    use arrow_flight_60::flight_service_server::FlightServiceServer;
    use tokio_stream::StreamExt as _;
    use tonic::transport::server::{Connected as _, TcpIncoming};
    use tonic::transport::{Channel, Endpoint, Server};

    use super::super::closable::Closable;
    use super::super::service::tests::{LONG, SHORT, run, service_of};
    use super::*;

    /// A body whose frames are all there from the start.
    struct Frames(Vec<Frame<Bytes>>);

    impl HttpBody for Frames {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            let next = (!self.0.is_empty()).then(|| self.0.remove(0));
            Poll::Ready(next.map(Ok))
        }
    }

    #[test]
    fn a_body_gives_all_of_its_bytes_in_pieces_and_then_its_trailers() {
        run(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let stream = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await;
            let link = Closable::new(stream.unwrap()).connect_info();
            let bytes = |len: usize| Bytes::from_iter((0..len).map(|number| number as u8));
            let data = [bytes(3 * PIECE + 1), bytes(0), bytes(7)];
            let trailers = || Frame::trailers(http::HeaderMap::default());
            let frames = data.iter().cloned().map(Frame::data).chain([trailers()]);
            let mut sent = Sent::new(Body::new(Frames(frames.collect())), link, LONG);
            let (mut found, mut lengths, mut ends) = (Vec::new(), Vec::new(), 0);
            while let Some(frame) =
                std::future::poll_fn(|context| Pin::new(&mut sent).poll_frame(context)).await
            {
                match frame.unwrap().into_data() {
                    Ok(piece) => {
                        assert_eq!(ends, 0, "data behind the trailers");
                        lengths.push(piece.len());
                        found.extend_from_slice(&piece);
                    }
                    Err(_) => ends += 1,
                }
            }
            assert_eq!(ends, 1);
            assert_eq!(lengths, [PIECE, PIECE, PIECE, 1, 0, 7]);
            assert!(found == data.concat());
        });
    }

    /// A server with one place and one flight, which is larger than what HTTP/2 holds for a client.
    /// A client of it has room for little.
    async fn connected(
        limit: Duration,
    ) -> (Arc<tokio::sync::Semaphore>, FlightServiceClient<Channel>) {
        let numbers = Array::from_values(DataType::Int64, vec![Some(7_i64); 1 << 20]).unwrap();
        let batch = Batch::from_columns([("n", numbers)]).unwrap();
        let service = service_of(1, batch);
        let permits = service.permits.clone();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = listener.local_addr().unwrap();
        let service = Taken::new(FlightServiceServer::new(service), limit);
        let incoming = TcpIncoming::from(listener).map(|stream| stream.map(Closable::new));
        let server = Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(incoming));
        let endpoint = Endpoint::from_shared(format!("http://{place}")).unwrap();
        let endpoint = endpoint.initial_stream_window_size(1 << 16);
        (permits, FlightServiceClient::new(endpoint.connect().await.unwrap()))
    }

    #[test]
    fn a_client_that_takes_nothing_gives_its_place_back() {
        run(async {
            let (permits, mut client) = connected(SHORT).await;
            // Not read before the place is free.
            let answer = client.do_get(Ticket::new("f")).await;
            drop(permits.acquire().await.unwrap());
            let ended = match answer {
                Err(status) => Err(status),
                Ok(answer) => answer.into_inner().collect::<Result<Vec<_>, _>>().await,
            };
            assert!(ended.is_err(), "all of it came");
        });
    }

    #[test]
    fn a_client_that_takes_all_is_given_all() {
        run(async {
            let (permits, mut client) = connected(LONG).await;
            for _ in 0..2 {
                let answer = client.do_get(Ticket::new("f")).await.unwrap().into_inner();
                let messages = answer.collect::<Result<Vec<_>, _>>().await.unwrap();
                let bytes = messages.iter().map(|message| message.data_body.len()).sum::<usize>();
                assert_eq!(bytes, 8 << 20);
            }
            assert!(permits.acquire().await.is_ok());
        });
    }
}
