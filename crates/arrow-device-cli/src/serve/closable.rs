//! [`Closable`]: a connection of a client, which the server can close from any thread.
//!
//! gRPC and HTTP/2 own a connection, and close it when the client does. A [`Link`] closes it
//! without them: the next read or write of it is an error, which ends all of its calls.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tonic::transport::server::Connected;

#[derive(Debug)]
pub(super) struct Closable {
    stream: TcpStream,
    link: Link,
}

/// Closes a connection. The requests that come over it have this among their extensions.
#[derive(Clone, Debug)]
pub(super) struct Link(Arc<State>);

#[derive(Debug)]
struct State {
    peer: Option<SocketAddr>,
    is_closed: AtomicBool,
    /// Who waits to read, and who waits to write.
    wakers: Mutex<[Option<Waker>; 2]>,
}

impl Closable {
    pub(super) fn new(stream: TcpStream) -> Self {
        let peer = stream.peer_addr().ok();
        let state = State { peer, is_closed: AtomicBool::new(false), wakers: Mutex::default() };
        Self { stream, link: Link(Arc::new(state)) }
    }

    /// Notes who waits. An error once the connection is closed.
    fn check(&self, side: usize, context: &Context<'_>) -> io::Result<()> {
        let State { is_closed, wakers, .. } = &*self.link.0;
        let mut wakers = wakers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = wakers.get_mut(side) {
            match waker {
                Some(waker) => waker.clone_from(context.waker()),
                None => *waker = Some(context.waker().clone()),
            }
        }
        // Whoever closes the connection after this look finds the waker.
        if is_closed.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }
}

impl Link {
    /// The address of the client.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.0.peer
    }

    /// Closes the connection, and with it all calls over it.
    pub(super) fn close(&self) {
        self.0.is_closed.store(true, Ordering::SeqCst);
        let mut wakers = self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = std::mem::take(&mut *wakers);
        drop(wakers);
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}

impl Connected for Closable {
    type ConnectInfo = Link;

    fn connect_info(&self) -> Link {
        self.link.clone()
    }
}

impl AsyncRead for Closable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(0, context)?;
        Pin::new(&mut self.stream).poll_read(context, bytes)
    }
}

impl AsyncWrite for Closable {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(1, context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(1, context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
