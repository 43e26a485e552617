//! Held bytes: bounds what messages hold that are being received, processed, or wait to be taken.
//!
//! What holds:
//! * NG1. All messages together hold at most [`Config::max_held_bytes`](crate::Config::max_held_bytes). A
//!   message that would exceed it is refused and not waited for: calls that each wait for room with half a
//!   message in their hands would wait for each other.
//! * NG2. What a message holds is given back when its call, or its place in a stream, ends, however it ends.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Sleep;
use tonic::Status;

/// The budget of all messages.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    limit: usize,
    held: AtomicUsize,
}

impl HeldBytes {
    pub(crate) fn new(limit: usize) -> Arc<HeldBytes> {
        Arc::new(HeldBytes { limit, held: AtomicUsize::new(0) })
    }

    /// Nothing yet, to which bytes are added.
    pub(crate) fn none(self: &Arc<Self>) -> Hold {
        Hold { of: Arc::clone(self), bytes: AtomicUsize::new(0) }
    }

    /// Holds so many bytes until the result is dropped.
    pub(crate) fn hold(self: &Arc<Self>, bytes: usize) -> Result<Hold, Status> {
        let hold = self.none();
        hold.add(bytes)?;
        Ok(hold)
    }

    /// Bytes that are held.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// A share of the budget. Dropped, it is given back (NG2).
#[derive(Debug)]
pub(crate) struct Hold {
    of: Arc<HeldBytes>,
    bytes: AtomicUsize,
}

impl Hold {
    /// Bytes of it.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Adds bytes, or fails and adds none (NG1).
    pub(crate) fn add(&self, bytes: usize) -> Result<(), Status> {
        let (limit, held) = (self.of.limit, &self.of.held);
        let grow = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= limit);
        match held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow) {
            Ok(_) => {
                self.bytes.fetch_add(bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(held) => Err(Status::resource_exhausted(format!(
                "no room for {bytes} bytes of a message: all messages together hold {held} bytes, the limit is {limit} bytes"
            ))),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.of.held.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

/// The body of a request, whose bytes are counted as they arrive, and which must arrive in time.
#[derive(Debug)]
pub(crate) struct CountedBody<B> {
    inner: B,
    hold: Arc<Hold>,
    limit: Option<Duration>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<B> CountedBody<B> {
    /// Counts what arrives in `hold`. With a limit, the whole body must have arrived by then.
    pub(crate) fn new(inner: B, hold: Arc<Hold>, limit: Option<Duration>) -> CountedBody<B> {
        CountedBody { inner, hold, limit, timer: None }
    }
}

impl<B: Body<Data = Bytes, Error = hyper::Error> + Unpin> Body for CountedBody<B> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let body = &mut *self;
        match Pin::new(&mut body.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                Poll::Ready(Some(body.hold.add(bytes).map(|()| frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                Poll::Ready(Some(Err(Status::cancelled(format!("the request broke off: {error}")))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let Some(limit) = body.limit else { return Poll::Pending };
                let timer = body.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
                ready!(timer.as_mut().poll(context));
                Poll::Ready(Some(Err(Status::deadline_exceeded(format!(
                    "the request did not arrive within {} ms",
                    limit.as_millis()
                )))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The body of an answer that holds bytes until it has been sent, or given up.
#[derive(Debug)]
pub(crate) struct HoldingBody {
    inner: tonic::body::Body,
    _hold: Arc<Hold>,
    _told_by_drop: oneshot::Sender<()>,
}

impl HoldingBody {
    /// The body, and what completes when it is dropped.
    pub(crate) fn new(inner: tonic::body::Body, hold: Arc<Hold>) -> (HoldingBody, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        (HoldingBody { inner, _hold: hold, _told_by_drop: sender }, receiver)
    }
}

impl Body for HoldingBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[test]
    fn what_exceeds_the_budget_is_refused_and_what_ends_is_given_back() {
        let held = HeldBytes::new(100);
        let first = held.hold(60).expect("there is room");
        let refused = held.hold(41).expect_err("there is no room");
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert!(
            refused.message().contains("41 bytes") && refused.message().contains("60 bytes"),
            "{refused}"
        );
        assert_eq!(held.bytes(), 60);
        let second = held.none();
        second.add(30).expect("there is room");
        second.add(usize::MAX).expect_err("it overflows nothing");
        second.add(10).expect("there is room");
        assert_eq!(held.bytes(), 100);
        drop((first, second));
        assert_eq!(held.bytes(), 0);
    }
}
