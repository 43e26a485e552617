//! PEM files: certificate chains, private keys and authorities.

use crate::error::TlsError;
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::Path;

/// Bytes of a file: the authorities of a whole operating system are a quarter of a mebibyte.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The certificates of a file, in their order.
///
/// # Errors
/// If it cannot be read, is no PEM file, or has no certificate.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = certificates_of(path, &read(path)?)?;
    if found.is_empty() {
        return Err(TlsError::of_file(path, "there is no certificate in the file (BEGIN CERTIFICATE)"));
    }
    Ok(found)
}

/// The private key of a file.
///
/// # Errors
/// If it cannot be read, is no PEM file, or has no key that is readable without a passphrase.
pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(path)?;
    let has = |words: &[u8]| text.windows(words.len()).any(|window| window == words);
    if has(b"BEGIN ENCRYPTED PRIVATE KEY") || has(b"Proc-Type: 4,ENCRYPTED") {
        let file = path.display();
        return Err(TlsError::of_file(
            path,
            format!(
                "the key is encrypted, and keys with a passphrase are not supported; \
                 decrypt it (openssl pkey -in {file} -out NEW), and protect NEW by its permissions"
            ),
        ));
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            TlsError::of_file(path, "there is no private key in the file (BEGIN PRIVATE KEY)")
        }
        error => failed_section(path, &error),
    })
}

/// The authorities of a file and of the files of a directory, those that are given.
///
/// # Errors
/// A file or a directory that cannot be read, a certificate that cannot be an authority, or no authority at
/// all.
pub(crate) fn authorities(file: Option<&Path>, directory: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut authorities = Authorities { store: RootCertStore::empty(), known: BTreeSet::new() };
    if let Some(file) = file {
        authorities.add(file, certificates(file)?)?;
    }
    if let Some(directory) = directory {
        let before = authorities.store.len();
        for path in files_of(directory)? {
            // Links by hash, revocation lists and notes lie beside certificates.
            authorities.add(&path, certificates_of(&path, &read(&path)?)?)?;
        }
        if authorities.store.len() == before && file.is_none() {
            return Err(TlsError::of_file(directory, "no file of the directory has a certificate"));
        }
    }
    Ok(authorities.store)
}

/// Authorities, each once.
struct Authorities {
    store: RootCertStore,
    known: BTreeSet<Vec<u8>>,
}

impl Authorities {
    fn add(&mut self, path: &Path, certificates: Vec<CertificateDer<'static>>) -> Result<(), TlsError> {
        for (certificate, number) in certificates.into_iter().zip(1..) {
            if !self.known.insert(certificate.to_vec()) {
                continue;
            }
            let failed =
                |error| TlsError::of_file(path, format!("certificate {number} of the file: {error}"));
            self.store.add(certificate).map_err(failed)?;
        }
        Ok(())
    }
}

fn certificates_of(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let mut found = Vec::new();
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
        let (kind, content) = section.map_err(|error| failed_section(path, &error))?;
        if kind == SectionKind::Certificate {
            found.push(CertificateDer::from(content));
        }
    }
    Ok(found)
}

/// What is wrong with a section; the library shows lines as numbers.
fn failed_section(path: &Path, error: &pem::Error) -> TlsError {
    TlsError::of_file(
        path,
        match error {
            pem::Error::MissingSectionEnd { end_marker } => {
                format!("the end of the section {} is missing", end_marker.trim_ascii().escape_ascii())
            }
            pem::Error::IllegalSectionStart { line } => {
                format!("this line begins no section: {}", line.trim_ascii().escape_ascii())
            }
            error => error.to_string(),
        },
    )
}

#[expect(clippy::disallowed_methods, reason = "certificates are no part of a database")]
fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |error| TlsError::of_file(path, format!("cannot read the file: {error}"));
    let mut text = Vec::new();
    let file = fs::File::open(path).map_err(failed)?;
    // A device or a pipe may never end.
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(TlsError::of_file(path, format!("the file has more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// The files of a directory, by name. Links count as what they lead to.
#[expect(clippy::disallowed_methods, reason = "certificates are no part of a database")]
fn files_of(directory: &Path) -> Result<Vec<std::path::PathBuf>, TlsError> {
    let failed = |error| TlsError::of_file(directory, format!("cannot read the directory: {error}"));
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
