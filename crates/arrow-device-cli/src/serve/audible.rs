//! The connections of a server: [`all`] of them, each [`Audible`].
//!
//! A program that connects and says nothing speaks no HTTP/2 yet, so HTTP/2 asks it nothing. The
//! server would wait for its first words for ever, also when the server is to end, and would keep a
//! descriptor for it. A client of HTTP/2 is asked by the server from time to time and answers. So
//! nobody is at the other side of a connection on which nothing comes for longer than that takes.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::server::Connected;

/// How long the server waits after an error of the system, such as that no descriptor is left,
/// before it takes the next connection. The error would come again at once.
const PAUSE: Duration = Duration::from_millis(50);

/// How late the end of a silence may be noticed. If it is later, this process stood still, as a
/// suspended one does, and has asked the other side nothing meanwhile.
const LATE: Duration = Duration::from_secs(5);

/// The connections that come in, each of which ends after so long a silence of its other side.
pub(super) fn all<C>(
    incoming: impl Stream<Item = io::Result<C>>,
    silence: Duration,
) -> impl Stream<Item = io::Result<Audible<C>>> {
    incoming.then(move |connection| async move {
        if connection.is_err() {
            sleep(PAUSE).await;
        }
        connection.map(|connection| Audible::new(connection, silence))
    })
}

/// A connection that ends when its other side says nothing for too long.
pub(super) struct Audible<C> {
    connection: C,
    silence: Duration,
    /// When the silence is too long.
    end: Pin<Box<Sleep>>,
}

impl<C> Audible<C> {
    fn new(connection: C, silence: Duration) -> Self {
        Self { connection, silence, end: Box::pin(sleep(silence)) }
    }

    /// Notes that the other side is there, where an operation is over; an error where it is not,
    /// and the silence was too long. HTTP/2 does not read while it waits to write.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        operation: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if operation.is_ready() {
            self.end.as_mut().reset(Instant::now() + self.silence);
        } else if self.end.as_mut().poll(context).is_ready() {
            if self.end.deadline().elapsed() < LATE {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.end.as_mut().reset(Instant::now() + self.silence);
            context.waker().wake_by_ref();
        }
        operation
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Audible<C> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let read = Pin::new(&mut this.connection).poll_read(context, room);
        this.judge(context, read)
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Audible<C> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.connection).poll_write(context, bytes);
        this.judge(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.connection).poll_write_vectored(context, parts);
        this.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }
}

impl<C: Connected> Connected for Audible<C> {
    type ConnectInfo = C::ConnectInfo;

    fn connect_info(&self) -> C::ConnectInfo {
        self.connection.connect_info()
    }
}

impl<C: fmt::Debug> fmt::Debug for Audible<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audible").field("connection", &self.connection).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write as _;

    use arrow_flight_60::flight_service_server::FlightServiceServer;
    use tokio::time::timeout;
    use tonic::transport::Server;
    use tonic::transport::server::TcpIncoming;

    use super::*;
    use crate::serve::service::tests::{run, service};

    const SHORT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(60);

    /// Whether a server ends that is told to while a program has sent it this and nothing more.
    fn ends_after(said: &[u8]) -> bool {
        let ended = run(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut program = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            program.write_all(said).unwrap();
            let (connected, at_first) = tokio::sync::oneshot::channel();
            let mut connected = Some(connected);
            let incoming = all(TcpIncoming::from(listener), SHORT).map(move |connection| {
                if let Some(connected) = connected.take() {
                    connected.send(()).unwrap();
                }
                connection
            });
            let server = Server::builder().add_service(FlightServiceServer::new(service(1)));
            let served = server.serve_with_incoming_shutdown(incoming, async {
                let _ = at_first.await;
            });
            let ended = timeout(LONG, served).await;
            drop(program);
            ended
        });
        ended.is_ok_and(|served| served.is_ok())
    }

    #[test]
    fn a_program_that_connects_and_says_nothing_keeps_no_server_from_ending() {
        assert!(ends_after(b""));
        assert!(ends_after(b"PRI * HTTP/2.0"));
    }

    #[test]
    fn an_error_of_the_system_is_followed_by_a_pause() {
        run(async {
            let failing = tokio_stream::iter([Err::<(), _>(io::Error::other("x"))]);
            let mut connections = std::pin::pin!(all(failing, LONG));
            let first = poll_fn(|context| Poll::Ready(connections.as_mut().poll_next(context)));
            assert!(first.await.is_pending());
            assert!(connections.next().await.is_some_and(|failed| failed.is_err()));
        });
    }
}
