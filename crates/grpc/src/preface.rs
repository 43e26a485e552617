//! The beginning of a connection: its first bytes must arrive in time.
//!
//! A client that connects and sends nothing would hold a connection for ever: before HTTP/2 has begun there
//! are no pings that could find it gone.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Bytes with which a client of HTTP/2 begins.
const PREFACE_BYTES: usize = 24;

/// A connection of which the first bytes must arrive in time.
#[derive(Debug)]
pub(crate) struct Prefaced<S> {
    inner: S,
    /// Bytes of the beginning that have not arrived.
    missing: usize,
    timer: Pin<Box<Sleep>>,
}

impl<S> Prefaced<S> {
    /// A connection that was accepted now.
    pub(crate) fn new(inner: S, limit: Duration) -> Prefaced<S> {
        Prefaced { inner, missing: PREFACE_BYTES, timer: Box::pin(tokio::time::sleep(limit)) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefaced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        match Pin::new(&mut self.inner).poll_read(context, into) {
            Poll::Pending if self.missing > 0 => {
                ready!(self.timer.as_mut().poll(context));
                Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the client sent no beginning of HTTP/2",
                )))
            }
            read => {
                self.missing = self.missing.saturating_sub(into.filled().len() - before);
                read
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefaced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
