//! TLS for Esker's servers: certificates, keys and rules from files, replaced while a server runs.
//!
//! A server says in [`TlsSettings`] which files and rules it wants, makes a [`Tls`] of them, and takes
//! [`Tls::current`] for each connection that it accepts. [`Tls::reload`] reads the files anew and
//! [`Tls::change`] takes other settings: connections from then on have them, those that are open keep theirs.
//!
//! A protocol that is chosen during the handshake, as gRPC is, clones the configuration and sets
//! `alpn_protocols`; all else is shared:
//!
//! ```no_run
//! # fn accept(tls: &esker_tls::Tls) -> std::sync::Arc<rustls::ServerConfig> {
//! let mut config = rustls::ServerConfig::clone(&tls.current());
//! config.alpn_protocols = vec![b"h2".to_vec()];
//! # std::sync::Arc::new(config) }
//! ```
//!
//! # Map
//! `error` what is wrong with a file or a rule; `pem` certificates and keys from files; `suites` versions and
//! cipher suites by the names that OpenSSL has for them; `session_cache` sessions that clients resume;
//! `settings` all of that as one configuration; `current` the one that new connections get.

#![forbid(unsafe_code)]

mod current;
mod error;
mod pem;
mod session_cache;
mod settings;
mod suites;

pub use current::Tls;
pub use error::TlsError;
pub use session_cache::SessionLimits;
pub use settings::{ClientCertificates, TlsSettings};
