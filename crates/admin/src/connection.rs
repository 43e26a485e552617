//! One connection: HTTP/1.1 with bounds on its head, its time and its life (HA4), behind a handshake of TLS
//! where that is asked for.

use crate::response::Answer;
use crate::routes::respond;
use crate::shared::Shared;
use esker_tls::Acceptor;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Bytes of a request's head. A browser sends about two kibibytes; a proxy adds some more.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// How long the head of a request may take, and how long a connection may stay silent.
const HEAD_LIMIT: Duration = Duration::from_secs(5);

/// How long a connection lives. It ends between two requests; clients connect anew.
const LIFE: Duration = Duration::from_secs(60);

/// How long a connection may take after the end of its life, or of the server's, to get its answer.
const GRACE: Duration = Duration::from_secs(5);

/// Serves a connection behind its handshake, which ends with the server.
pub(crate) async fn serve_tls(stream: TcpStream, acceptor: Arc<Acceptor>, shared: Arc<Shared>) {
    let accepted = tokio::select! {
        accepted = acceptor.accept(stream) => accepted,
        () = shared.stop.stopped() => return,
    };
    match accepted {
        Ok(stream) => serve(stream, shared).await,
        Err(error) => tracing::debug!(%error, "a client of the admin address was not let in"),
    }
}

/// Serves a connection to its end.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(stream: S, shared: Arc<Shared>) {
    let service = service_fn(|request: Request<Incoming>| {
        let shared = Arc::clone(&shared);
        // Its body is not read (HA3).
        let (request, _body) = request.into_parts();
        async move { Ok::<Answer, Infallible>(respond(&shared, &request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        // Clients end connections in all ways, which is no failure of the server.
        _ended = connection.as_mut() => return,
        () = tokio::time::sleep(LIFE) => {}
        () = shared.stop.stopped() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ended = tokio::time::timeout(GRACE, connection).await;
}
