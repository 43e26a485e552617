//! Connector of clients on `tokio`: the handshake with a server whose certificate an authority has signed,
//! and why it failed as a sentence.

use crate::error::TlsError;
use crate::pem;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig, Error, RootCertStore};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Files in which operating systems keep the authorities that they trust: Debian and Alpine, Fedora,
/// openSUSE, the BSDs and macOS.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A connection behind its handshake.
pub type ClientStream = tokio_rustls::client::TlsStream<TcpStream>;

/// What a client trusts and shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientSettings {
    /// The authorities of servers, as PEM; without it those that the system trusts.
    pub ca_file: Option<PathBuf>,
    /// The client's certificate and its key, as PEM, for a server that asks for one.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// Connects to servers.
#[derive(Clone)]
pub struct Connector {
    config: Arc<ClientConfig>,
    authorities: PathBuf,
    shows_certificate: bool,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("authorities", &self.authorities).finish_non_exhaustive()
    }
}

/// Why there is no connection with TLS.
#[derive(Debug)]
pub enum ConnectError {
    /// The server answers something else than a handshake.
    NoTls,
    /// No authority of this file has signed the server's certificate.
    UnknownAuthority(PathBuf),
    /// The server's certificate is for other names; a sentence tells which.
    OtherName(String),
    /// The server's certificate is one that signs others, which no server may show.
    IsAuthority,
    /// The server's certificate cannot be trusted for another reason, which a sentence tells.
    BadCertificate(String),
    /// The server wants a certificate, and none was shown.
    WantsCertificate,
    /// The server does not accept the certificate that was shown.
    CertificateRefused,
    /// The host is no name that a certificate could have.
    NoName,
    /// The connection broke off, or something else went wrong.
    Failed(io::Error),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::NoTls => f.write_str("it does not speak TLS"),
            ConnectError::UnknownAuthority(file) => {
                write!(f, "its certificate is of no authority in {}", file.display())
            }
            ConnectError::OtherName(reason) | ConnectError::BadCertificate(reason) => {
                write!(f, "its certificate {reason}")
            }
            ConnectError::IsAuthority => {
                f.write_str("its certificate is that of an authority (basicConstraints=CA:TRUE)")
            }
            ConnectError::WantsCertificate => f.write_str("it wants a certificate of the client"),
            ConnectError::CertificateRefused => {
                f.write_str("it does not accept the certificate of the client")
            }
            ConnectError::NoName => f.write_str("the host is no name that a certificate could have"),
            ConnectError::Failed(error) => write!(f, "the handshake failed: {error}"),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConnectError::Failed(error) => Some(error),
            _ => None,
        }
    }
}

impl Connector {
    /// Reads the files.
    ///
    /// # Errors
    /// A file that cannot be read or has no certificate or key, a key that is not the certificate's, and a
    /// system whose authorities are not found.
    pub fn new(settings: &ClientSettings) -> Result<Connector, TlsError> {
        let authorities = match &settings.ca_file {
            Some(file) => file.clone(),
            None => system_authorities()?,
        };
        let roots: RootCertStore = pem::authorities(Some(&authorities), None)?;
        let failed = |error: Error| TlsError::of_rule(error.to_string());
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(failed)?;
        let builder = builder.with_root_certificates(roots);
        let config = match &settings.certificate {
            None => builder.with_no_client_auth(),
            Some((cert_file, key_file)) => {
                let (chain, key) = (pem::certificates(cert_file)?, pem::private_key(key_file)?);
                let unusable = |error| {
                    let certificate = cert_file.display();
                    let reason =
                        format!("the key cannot be used with the certificate in {certificate}: {error}");
                    TlsError::of_file(key_file, reason)
                };
                builder.with_client_auth_cert(chain, key).map_err(unusable)?
            }
        };
        let shows_certificate = settings.certificate.is_some();
        Ok(Connector { config: Arc::new(config), authorities, shows_certificate })
    }

    /// Carries out the handshake with the server of this name or address.
    ///
    /// # Errors
    /// [`ConnectError`]. With TLS 1.3 a server refuses a client's certificate behind the handshake, so the
    /// first read fails: [`Connector::reason`] tells why.
    pub async fn connect(&self, stream: TcpStream, host: &str) -> Result<ClientStream, ConnectError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| ConnectError::NoName)?;
        let connector = TlsConnector::from(Arc::clone(&self.config));
        connector
            .connect(name, stream)
            .await
            .map_err(|error| self.reason(&error).unwrap_or(ConnectError::Failed(error)))
    }

    /// Why the handshake, or the first read behind it, failed; `None` if the error is not of TLS.
    pub fn reason(&self, error: &io::Error) -> Option<ConnectError> {
        let reason = match error.get_ref()?.downcast_ref::<Error>()? {
            Error::InvalidMessage(_) => ConnectError::NoTls,
            Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
                ConnectError::UnknownAuthority(self.authorities.clone())
            }
            Error::InvalidCertificate(reason) => refused(reason),
            Error::AlertReceived(alert) if is_of_certificates(*alert) => match self.shows_certificate {
                true => ConnectError::CertificateRefused,
                false => ConnectError::WantsCertificate,
            },
            _ => return None,
        };
        Some(reason)
    }
}

/// The file of the authorities that the system trusts.
fn system_authorities() -> Result<PathBuf, TlsError> {
    let found = SYSTEM_AUTHORITIES.iter().map(Path::new).find(|path| path.is_file());
    found.map(Path::to_owned).ok_or_else(|| {
        TlsError::of_rule(format!(
            "the system's authorities are in none of {}; name a file with some",
            SYSTEM_AUTHORITIES.join(", ")
        ))
    })
}

/// What the library of certificates calls a certificate of an authority that a server shows.
const AUTHORITY_SHOWN: &str = "CaUsedAsEndEntity";

/// Why a certificate is not trusted; sentences stand behind "its certificate".
fn refused(reason: &CertificateError) -> ConnectError {
    match reason {
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names = presented.join(" and ");
            ConnectError::OtherName(format!("is for {names}, not for {}", expected.to_str()))
        }
        CertificateError::NotValidForName => ConnectError::OtherName("is for another name".to_owned()),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            ConnectError::BadCertificate("has expired".to_owned())
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            ConnectError::BadCertificate("is not valid yet".to_owned())
        }
        CertificateError::Other(other) if format!("{other:?}").contains(AUTHORITY_SHOWN) => {
            ConnectError::IsAuthority
        }
        reason => ConnectError::BadCertificate(format!("is not accepted: {reason}")),
    }
}

/// Whether a server that says this minds the client's certificate, or that there is none.
fn is_of_certificates(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::NoCertificate
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::DecryptError
    )
}
