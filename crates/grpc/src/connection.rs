//! One connection: HTTP/2 with its limits, behind a handshake of TLS where that is asked for.

use crate::call::Hangup;
use crate::dispatch::Dispatch;
use crate::preface::Prefaced;
use crate::shared::Shared;
use esker_tls::Acceptor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Bytes of a call, and of all calls of a connection, that may be under way to the server.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 2 << 20;
/// Bytes of a call's answer that wait in the connection's buffers.
const SEND_BUFFER_BYTES: usize = 256 << 10;
/// Bytes of a request's headers.
const HEADER_BYTES: u32 = 16 << 10;
/// Calls that a client may open and reset before they were begun. More ends the connection.
const PENDING_RESETS: usize = 20;
/// After so long without a sign the client is asked for one, and has so long to give it.
const PING_INTERVAL: Duration = Duration::from_secs(60);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the first bytes of a connection may take.
const BEGIN_WITHIN: Duration = Duration::from_secs(10);

/// Serves one client behind its handshake, which ends with the server.
pub(crate) async fn serve_tls(
    stream: TcpStream,
    acceptor: Arc<Acceptor>,
    dispatch: Dispatch,
    shared: Arc<Shared>,
) {
    let accepted = tokio::select! {
        accepted = acceptor.accept(stream) => accepted,
        () = shared.stop.stopped() => return,
    };
    match accepted {
        Ok(stream) => serve(stream, dispatch, shared).await,
        Err(error) => tracing::debug!(%error, "a client was not let in"),
    }
}

/// Serves one client until it leaves, its connection breaks, or the server stops and its calls are done.
pub(crate) async fn serve<S>(stream: S, dispatch: Dispatch, shared: Arc<Shared>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let hangup = Hangup::default();
    let of_calls = hangup.clone();
    let service = service_fn(move |request| {
        let (dispatch, hangup) = (dispatch.clone(), of_calls.clone());
        async move { Ok::<_, Infallible>(dispatch.answer(request, hangup).await) }
    });
    let io = TokioIo::new(Prefaced::new(stream, BEGIN_WITHIN));
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(shared.config.max_calls)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_header_list_size(HEADER_BYTES)
        .max_pending_accept_reset_streams(PENDING_RESETS)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .serve_connection(io, service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = hangup.asked() => {
            tracing::warn!("a client was disconnected: it did not take its answers");
            return;
        }
        () = shared.stop.stopped() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = hangup.asked() => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}
