//! A byte limit on a handshake: a stream of which so much may be read until the limit is lifted.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of a handshake. A greeting takes two KiB and a certificate with those between it and its authority
/// five; with long names and post-quantum signatures 30.
pub(crate) const HANDSHAKE_BYTES_MAX: usize = 64 << 10;

/// A stream with a limit on what is read from it.
#[derive(Debug)]
pub struct HandshakeBytes<S> {
    inner: S,
    /// Bytes that may still be read; `None` behind the handshake.
    left: Option<usize>,
}

impl<S> HandshakeBytes<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self { inner, left: Some(HANDSHAKE_BYTES_MAX) }
    }

    /// From now on all may be read.
    pub(crate) fn lift(&mut self) {
        self.left = None;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HandshakeBytes<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(left) = self.left else { return Pin::new(&mut self.inner).poll_read(context, into) };
        if left == 0 {
            let reason = format!("the handshake has more than {HANDSHAKE_BYTES_MAX} bytes");
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, reason)));
        }
        let mut piece = ReadBuf::new(into.initialize_unfilled_to(left.min(into.remaining())));
        let read = Pin::new(&mut self.inner).poll_read(context, &mut piece);
        let count = piece.filled().len();
        into.advance(count);
        self.left = Some(left - count);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HandshakeBytes<S> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn the_limit_holds_until_it_is_lifted() {
        let (mut client, server) = tokio::io::duplex(3 * HANDSHAKE_BYTES_MAX);
        client.write_all(&vec![7; 2 * HANDSHAKE_BYTES_MAX]).await.expect("room");
        let mut limited = HandshakeBytes::new(server);
        let mut bytes = vec![0; HANDSHAKE_BYTES_MAX];
        limited.read_exact(&mut bytes).await.expect("within the limit");
        assert!(bytes.iter().all(|byte| *byte == 7));
        let error = limited.read(&mut bytes).await.expect_err("one more");
        assert_eq!(error.to_string(), "the handshake has more than 65536 bytes");
        limited.lift();
        limited.read_exact(&mut bytes).await.expect("all may be read");
        limited.write_all(b"answer").await.expect("room");
        let mut answer = [0; 6];
        client.read_exact(&mut answer).await.expect("written");
        assert_eq!(&answer, b"answer");
    }
}
