//! The files and rules that a server wants, and the configuration that follows from them.

use crate::error::TlsError;
use crate::pem;
use crate::session_cache::{SessionCache, SessionLimits};
use crate::suites;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::time_provider::DefaultTimeProvider;
use rustls::{Error, InconsistentKeys, ServerConfig};
use std::path::PathBuf;
use std::sync::Arc;

/// Whether clients show certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// A client without a certificate of the authorities is refused.
    #[default]
    Required,
    /// A client may have none; a certificate of another authority is refused.
    Optional,
    /// Clients are not asked for any.
    NotAsked,
}

/// What a server wants. Rules are written as in redis.conf; an empty one is the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// The server's certificate and those between it and its authority, as PEM.
    pub cert_file: PathBuf,
    /// The key of the certificate, as PEM, without a passphrase.
    pub key_file: PathBuf,
    /// The authorities of clients, as PEM.
    pub ca_cert_file: Option<PathBuf>,
    /// A directory with files of further authorities.
    pub ca_cert_dir: Option<PathBuf>,
    /// Whether clients show certificates.
    pub client_certificates: ClientCertificates,
    /// Versions: `TLSv1.2 TLSv1.3`.
    pub protocols: String,
    /// Suites of TLS 1.2, as OpenSSL names them: `ECDHE-RSA-AES128-GCM-SHA256:...`.
    pub ciphers: String,
    /// Suites of TLS 1.3: `TLS_AES_128_GCM_SHA256:...`.
    pub ciphersuites: String,
    /// Whether the order of the server's suites counts, and not that of the client's.
    pub prefers_server_order: bool,
    /// Sessions that clients resume; `None` for none.
    pub sessions: Option<SessionLimits>,
}

impl TlsSettings {
    /// Reads the files and makes the configuration.
    ///
    /// # Errors
    /// What is wrong, with the file or the rule.
    pub fn load(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let versions = suites::versions(&self.protocols)?;
        let provider = Arc::new(suites::provider(&self.ciphers, &self.ciphersuites)?);
        let chain = pem::certificates(&self.cert_file)?;
        let key = pem::private_key(&self.key_file)?;
        let failed = |error: Error| TlsError::of_rule(error.to_string());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_protocol_versions(&versions).map_err(failed)?;
        let builder = match self.client_certificates {
            ClientCertificates::NotAsked => builder.with_no_client_auth(),
            asked => {
                if self.ca_cert_file.is_none() && self.ca_cert_dir.is_none() {
                    return Err(TlsError::of_rule(
                        "clients are asked for certificates, and no authority is named that they could be of",
                    ));
                }
                let authorities =
                    pem::authorities(self.ca_cert_file.as_deref(), self.ca_cert_dir.as_deref())?;
                let mut verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider);
                if asked == ClientCertificates::Optional {
                    verifier = verifier.allow_unauthenticated();
                }
                let verifier = verifier.build().map_err(|error| TlsError::of_rule(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| self.key_error(&error))?;
        config.ignore_client_order = self.prefers_server_order;
        config.session_storage = match self.sessions {
            Some(limits) => Arc::new(SessionCache::new(limits, Arc::new(DefaultTimeProvider))),
            None => Arc::new(NoServerSessionStorage {}),
        };
        // A client that opens several connections at once makes a session with each, so one ticket is enough.
        config.send_tls13_tickets = usize::from(self.sessions.is_some());
        Ok(Arc::new(config))
    }

    /// Why certificate and key make no identity.
    fn key_error(&self, error: &Error) -> TlsError {
        let certificate = self.cert_file.display();
        match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => TlsError::of_file(
                &self.key_file,
                format!("the key is not that of the certificate in {certificate}"),
            ),
            Error::InvalidCertificate(reason) => {
                TlsError::of_file(&self.cert_file, format!("the certificate cannot be used: {reason:?}"))
            }
            // The library says no more of a key that it cannot read.
            Error::General(_) => TlsError::of_file(
                &self.key_file,
                "the key is damaged or of a kind that is not supported; RSA of 2,048 to 8,192 bits, ECDSA of \
                 P-256 and P-384, and Ed25519 are",
            ),
            error => TlsError::of_file(
                &self.key_file,
                format!("the key cannot be used with the certificate in {certificate}: {error}"),
            ),
        }
    }
}
