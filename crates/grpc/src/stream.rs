//! Streams of answers: pieces that wait for the client, few at a time.
//!
//! What holds:
//! * NG3. At most [`PIECES`] pieces of a stream wait for its client, and what they hold is counted (NG1). The
//!   next one is not made before there is room, so a client that does not take them stops the work.
//! * NG4. A stream ends when its client is gone or loses its right, when its deadline passes, and when the
//!   server stops. A client that takes nothing for [`Config::client_timeout`](crate::Config::client_timeout)
//!   is disconnected. What the stream had open is closed then.

use crate::call::Call;
use crate::held_bytes::Hold;
use crate::shared::Shared;
use crate::status::{deadline_passed, stopping};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::Status;

/// Pieces that wait for a client: one that is being sent, and the next.
const PIECES: usize = 2;

/// The stream that a client gets. What its last piece holds is given back when the next one is asked for.
#[derive(Debug)]
pub(crate) struct Pieces<T> {
    receiver: mpsc::Receiver<Piece<T>>,
    held: Option<Hold>,
}

type Piece<T> = (Result<T, Status>, Option<Hold>);

impl<T> Stream for Pieces<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.receiver.poll_recv(context));
        let Some((piece, held)) = next else {
            self.held = None;
            return Poll::Ready(None);
        };
        self.held = held;
        Poll::Ready(Some(piece))
    }
}

/// Why a stream's work ends without an error for its client.
#[derive(Debug)]
pub(crate) struct Gone;

/// The end of a stream: with a status for its client, or because there is no client any more.
pub(crate) type End = Result<Status, Gone>;

/// The end of a stream with a status.
pub(crate) fn told(status: Status) -> End {
    Ok(status)
}

/// Where the pieces of a stream go.
#[derive(Debug)]
pub(crate) struct Sender<T> {
    shared: Arc<Shared>,
    sender: mpsc::Sender<Piece<T>>,
    call: Call,
}

/// The stream of a call.
pub(crate) fn open<T>(shared: &Arc<Shared>, call: Call) -> (Sender<T>, Pieces<T>) {
    let (sender, receiver) = mpsc::channel(PIECES);
    (Sender { shared: Arc::clone(shared), sender, call }, Pieces { receiver, held: None })
}

impl<T: Send> Sender<T> {
    /// Fails if the stream is to end (NG4).
    pub(crate) fn check(&self) -> Result<(), End> {
        if self.sender.is_closed() {
            return Err(Err(Gone));
        }
        if self.shared.stop.is_stopped() {
            return Err(Ok(stopping()));
        }
        if self.call.deadline.has_passed() {
            return Err(Ok(deadline_passed()));
        }
        self.call.caller.check().map_err(told)
    }

    /// Sends a piece of so many bytes, once there is room for it. A client that takes nothing is
    /// disconnected: what waits for it can be freed in no other way.
    pub(crate) async fn send(&self, piece: T, bytes: usize) -> Result<(), End> {
        self.check()?;
        let hold = self.shared.held.hold(bytes).map_err(told)?;
        let (until, is_own) = self.call.deadline.within(self.shared.config.client_timeout);
        tokio::select! {
            sent = self.sender.send((Ok(piece), Some(hold))) => sent.map_err(|_| Err(Gone)),
            () = tokio::time::sleep_until(until) => match is_own {
                true => Err(Ok(deadline_passed())),
                false => {
                    self.call.hangup.hang_up();
                    Err(Err(Gone))
                }
            },
            () = self.shared.stop.stopped() => Err(Ok(stopping())),
        }
    }

    /// Completes when the stream is to end although its work waits for nothing but a thread.
    pub(crate) async fn closed(&self) {
        self.sender.closed().await;
    }

    /// Tells the client why the stream ends, behind what waits for it already.
    pub(crate) async fn end(self, end: End) {
        let Ok(status) = end else { return };
        let sent = self.sender.send((Err(status), None));
        if tokio::time::timeout(self.shared.config.client_timeout, sent).await.is_err() {
            self.call.hangup.hang_up();
        }
    }
}
