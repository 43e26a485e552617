//! Certificates for tests: an authority with its files in a directory, and what clients trust.

#![expect(clippy::disallowed_methods, reason = "files of tests")]

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name that certificates of servers have.
pub const SERVER_NAME: &str = "localhost";

/// An authority.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: PathBuf,
    name: String,
}

/// A certificate of an authority and its key, as files.
#[derive(Clone, Debug)]
pub struct Certified {
    /// The certificate.
    pub cert_file: PathBuf,
    /// Its key.
    pub key_file: PathBuf,
}

impl Authority {
    /// Makes an authority; its certificate is the file NAME.crt of the directory.
    pub fn new(directory: &Path, name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let authority = Self { issuer, directory: directory.to_owned(), name: name.to_owned() };
        std::fs::create_dir_all(directory).expect("a directory");
        std::fs::write(authority.file(), authority.issuer.pem()).expect("a file");
        authority
    }

    /// The file of its certificate.
    pub fn file(&self) -> PathBuf {
        self.directory.join(format!("{}.crt", self.name))
    }

    /// Its own certificate and key, in the files NAME.crt and NAME.key, as a server must not show them.
    pub fn itself(&self) -> Certified {
        let key_file = self.directory.join(format!("{}.key", self.name));
        std::fs::write(&key_file, self.issuer.key().serialize_pem()).expect("a file");
        Certified { cert_file: self.file(), key_file }
    }

    /// Makes a certificate for `localhost` and a key, in the files NAME.crt and NAME.key. Files of that name
    /// are replaced.
    pub fn certify(&self, name: &str) -> Certified {
        let mut params = CertificateParams::new(vec![SERVER_NAME.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let file = |ending| self.directory.join(format!("{name}.{ending}"));
        let certified = Certified { cert_file: file("crt"), key_file: file("key") };
        std::fs::write(&certified.cert_file, certificate.pem()).expect("a file");
        std::fs::write(&certified.key_file, key.serialize_pem()).expect("a file");
        certified
    }

    /// What a client wants that trusts this authority, and shows a certificate if it has one.
    pub fn client(&self, shown: Option<&Certified>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().expect("versions");
        let builder = builder.with_root_certificates(roots);
        Arc::new(match shown {
            None => builder.with_no_client_auth(),
            Some(certified) => {
                let chain = CertificateDer::from_pem_file(&certified.cert_file).expect("a certificate");
                let key = PrivateKeyDer::from_pem_file(&certified.key_file).expect("a key");
                builder.with_client_auth_cert(vec![chain], key).expect("they belong together")
            }
        })
    }
}
