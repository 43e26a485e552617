//! TLS for Esker's servers and their clients: certificates, keys and rules from files, which a server
//! replaces while it runs.
//!
//! A server says in [`TlsSettings`] which files and rules it wants, makes a [`Tls`] of them, and takes
//! [`Tls::current`] for each connection that it accepts. [`Tls::reload`] reads the files anew and
//! [`Tls::change`] takes other settings: connections from then on have them, those that are open keep theirs.
//!
//! A server on `tokio` makes an [`Acceptor`] of it, which carries out handshakes within bounds; other servers
//! make sessions of `rustls` themselves.
//!
//! ```no_run
//! # async fn accept(tls: std::sync::Arc<esker_tls::Tls>, stream: tokio::net::TcpStream) {
//! let acceptor = esker_tls::Acceptor::new(tls, b"h2", b"", 64);
//! let stream = acceptor.accept(stream).await;
//! # drop(stream) }
//! ```
//!
//! # Map
//! `error` what is wrong with a file or a rule; `pem` certificates and keys from files; `suites` versions and
//! cipher suites by the names that OpenSSL has for them; `session_cache` sessions that clients resume;
//! `settings` all of that as one configuration; `current` the one that new connections get; `acceptor`
//! handshakes, with `handshake_bytes` and `open_handshakes` their bounds; `connector` the other side, a
//! client.

#![forbid(unsafe_code)]

mod acceptor;
mod connector;
mod current;
mod error;
mod handshake_bytes;
mod open_handshakes;
mod pem;
mod session_cache;
mod settings;
mod suites;

pub use acceptor::{Acceptor, HANDSHAKE_LIMIT, HandshakeError, TlsStream};
pub use connector::{ClientSettings, ClientStream, ConnectError, Connector};
pub use current::Tls;
pub use error::TlsError;
pub use handshake_bytes::HandshakeBytes;
pub use session_cache::SessionLimits;
pub use settings::{ClientCertificates, TlsSettings};
