//! TLS as the directives say: files and rules of new connections.
//!
//! Without a TLS address the directives are values that CONFIG GET tells, as in Redis, and no file is read.

use esker_resp::integer::parse_integer;
use esker_tls::{ClientCertificates, SessionLimits, Tls, TlsSettings};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Directives that new connections follow.
pub(crate) const ACTING: [&str; 12] = [
    "tls-auth-clients",
    "tls-ca-cert-dir",
    "tls-ca-cert-file",
    "tls-cert-file",
    "tls-ciphers",
    "tls-ciphersuites",
    "tls-key-file",
    "tls-prefer-server-ciphers",
    "tls-protocols",
    "tls-session-cache-size",
    "tls-session-cache-timeout",
    "tls-session-caching",
];

/// The TLS of a server.
#[derive(Debug, Default)]
pub(crate) struct ServerTls {
    /// Empty until a listener needs it.
    pub(crate) tls: OnceLock<Arc<Tls>>,
    /// Held while directives and files become another configuration, so that both are of one change.
    pub(crate) changing: Mutex<()>,
}

/// What the directives say.
///
/// # Errors
/// A directive that is missing.
pub(crate) fn tls_settings(value: &dyn Fn(&str) -> Vec<u8>) -> Result<TlsSettings, String> {
    let text = |name: &str| String::from_utf8_lossy(&value(name)).into_owned();
    let number = |name: &str| parse_integer(&value(name)).unwrap_or_default().max(0) as u64;
    // As the file of users, a relative path is one below `dir`.
    let path = |name: &str| {
        Some(text(name)).filter(|path| !path.is_empty()).map(|path| PathBuf::from(text("dir")).join(path))
    };
    let needed = |name: &str| path(name).ok_or_else(|| format!("{name} must be set for TLS"));
    let client_certificates = match value("tls-auth-clients").as_slice() {
        b"no" => ClientCertificates::NotAsked,
        b"optional" => ClientCertificates::Optional,
        _ => ClientCertificates::Required,
    };
    let (ca_cert_file, ca_cert_dir) = (path("tls-ca-cert-file"), path("tls-ca-cert-dir"));
    if client_certificates != ClientCertificates::NotAsked && ca_cert_file.is_none() && ca_cert_dir.is_none()
    {
        let auth_clients = text("tls-auth-clients");
        return Err(format!(
            "tls-ca-cert-file or tls-ca-cert-dir must be set, because tls-auth-clients is {auth_clients}; \
             say tls-auth-clients no if clients need no certificates"
        ));
    }
    Ok(TlsSettings {
        cert_file: needed("tls-cert-file")?,
        key_file: needed("tls-key-file")?,
        ca_cert_file,
        ca_cert_dir,
        client_certificates,
        protocols: text("tls-protocols"),
        ciphers: text("tls-ciphers"),
        ciphersuites: text("tls-ciphersuites"),
        prefers_server_order: value("tls-prefer-server-ciphers") == b"yes",
        sessions: (value("tls-session-caching") == b"yes").then(|| SessionLimits {
            sessions: number("tls-session-cache-size") as usize,
            lifetime_s: number("tls-session-cache-timeout"),
        }),
    })
}
