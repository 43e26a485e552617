//! Loading: what files and rules make a configuration, what is refused and how, and that a change is whole.

#![allow(clippy::disallowed_methods, reason = "tests use the machine's files")]

use esker_redis_testkit::certificates::{Authority, Certified};
use esker_tls::{ClientCertificates, Tls, TlsSettings};
use rustls::{ClientConnection, ServerConfig, ServerConnection};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory that is removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("esker-tls-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&directory).ok();
        std::fs::create_dir_all(&directory).expect("a directory");
        Self(directory)
    }

    fn write(&self, name: &str, text: &[u8]) -> PathBuf {
        std::fs::write(self.0.join(name), text).expect("a file");
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn settings(certified: &Certified) -> TlsSettings {
    TlsSettings {
        cert_file: certified.cert_file.clone(),
        key_file: certified.key_file.clone(),
        client_certificates: ClientCertificates::NotAsked,
        ..TlsSettings::default()
    }
}

/// The handshake of a client of this authority in memory: the certificate that it was shown.
fn shown(
    config: Arc<ServerConfig>,
    authority: &Authority,
    own: Option<&Certified>,
) -> Result<Vec<u8>, rustls::Error> {
    let mut server = ServerConnection::new(config)?;
    let mut client = ClientConnection::new(authority.client(own), "localhost".try_into().expect("a name"))?;
    for _ in 0..4 {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).expect("memory takes all");
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            server.read_tls(&mut rest).expect("memory");
            server.process_new_packets()?;
        }
        let mut bytes = Vec::new();
        server.write_tls(&mut bytes).expect("memory takes all");
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            client.read_tls(&mut rest).expect("memory");
            client.process_new_packets()?;
        }
    }
    assert!(!server.is_handshaking() && !client.is_handshaking());
    Ok(client.peer_certificates().expect("the server's")[0].to_vec())
}

fn refusal(settings: &TlsSettings) -> String {
    settings.load().expect_err("it is refused").to_string()
}

#[test]
fn files_that_cannot_be_used_are_told_with_the_reason() {
    let directory = Directory::new("refused");
    let (first, second) = (Authority::new(&directory.0, "first"), Authority::new(&directory.0, "second"));
    let (one, other) = (first.certify("one"), second.certify("other"));
    assert!(settings(&one).load().is_ok());
    let missing = directory.0.join("missing");
    let empty = directory.write("empty", b"");
    let broken = directory.write("broken", b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n");
    let no_end = directory.write("no-end", b"-----BEGIN PRIVATE KEY-----\nAAAA\n");
    let no_der = directory.write("no-der", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let damaged =
        directory.write("damaged", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    let encrypted = directory.write("encrypted", b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END");
    let cert = |path: &Path| TlsSettings { cert_file: path.into(), ..settings(&one) };
    let key = |path: &Path| TlsSettings { key_file: path.into(), ..settings(&one) };
    let ca = |path: &Path| TlsSettings {
        ca_cert_file: Some(path.into()),
        client_certificates: ClientCertificates::Required,
        ..settings(&one)
    };
    for (settings, file, reason) in [
        (cert(&missing), &missing, "cannot read the file: No such file"),
        (cert(&directory.0), &directory.0, "cannot read the file: Is a directory"),
        (cert(Path::new("/dev/zero")), &PathBuf::from("/dev/zero"), "the file has more than 16777216 bytes"),
        (cert(&empty), &empty, "there is no certificate in the file"),
        (cert(&one.key_file), &one.key_file, "there is no certificate in the file"),
        (cert(&broken), &broken, "base64 decode error"),
        (cert(&no_der), &no_der, "the certificate cannot be used"),
        (key(&missing), &missing, "cannot read the file: No such file"),
        (key(&one.cert_file), &one.cert_file, "there is no private key in the file"),
        (key(&no_end), &no_end, "the end of the section PRIVATE KEY is missing"),
        (key(&encrypted), &encrypted, "the key is encrypted"),
        (key(&damaged), &damaged, "the key is damaged or of a kind that is not supported"),
        (key(&other.key_file), &other.key_file, "the key is not that of the certificate in "),
        (ca(&missing), &missing, "cannot read the file: No such file"),
        (ca(&no_der), &no_der, "certificate 1 of the file: "),
    ] {
        let told = refusal(&settings);
        assert!(told.starts_with(&format!("{}: {reason}", file.display())), "{told}");
    }
    let nothing = TlsSettings { client_certificates: ClientCertificates::Optional, ..settings(&one) };
    assert!(refusal(&nothing).contains("no authority is named"), "{}", refusal(&nothing));
}

#[test]
fn authorities_come_from_a_file_and_from_the_files_of_a_directory() {
    let directory = Directory::new("authorities");
    let of_clients = Directory::new("authorities-of-clients");
    let server = Authority::new(&directory.0, "server");
    let (first, second) = (Authority::new(&of_clients.0, "first"), Authority::new(&of_clients.0, "second"));
    let strangers = Authority::new(&directory.0, "strangers");
    // What OpenSSL keeps beside certificates: links by hash, and files of other kinds.
    std::os::unix::fs::symlink("first.crt", of_clients.0.join("5ad8a5d6.0")).expect("a link");
    of_clients.write("README", b"authorities of clients");
    let certified = server.certify("localhost");
    let wanted = |file: Option<&Authority>, directory: Option<&Path>| {
        let settings = TlsSettings {
            ca_cert_file: file.map(Authority::file),
            ca_cert_dir: directory.map(Path::to_owned),
            client_certificates: ClientCertificates::Required,
            ..settings(&certified)
        };
        settings.load()
    };
    let config = wanted(None, Some(&of_clients.0)).expect("two authorities");
    let accepts = |config: &Arc<ServerConfig>, authority: &Authority| {
        let own = authority.certify("client");
        let tried = shown(Arc::clone(config), &server, Some(&own));
        std::fs::remove_file(&own.cert_file)
            .and_then(|()| std::fs::remove_file(&own.key_file))
            .expect("files");
        tried.is_ok()
    };
    assert!(accepts(&config, &first) && accepts(&config, &second) && !accepts(&config, &strangers));
    let config = wanted(Some(&strangers), Some(&of_clients.0)).expect("three");
    assert!(accepts(&config, &first) && accepts(&config, &strangers));
    let config = wanted(Some(&second), None).expect("one");
    assert!(!accepts(&config, &first) && accepts(&config, &second));
    let none = Directory::new("authorities-none");
    none.write("README", b"nothing here");
    let told = wanted(None, Some(&none.0)).expect_err("none").to_string();
    assert!(told.ends_with("no file of the directory has a certificate"), "{told}");
}

#[test]
fn tl1_a_change_is_whole_or_not_at_all() {
    let directory = Directory::new("change");
    let authority = Authority::new(&directory.0, "authority");
    let first = authority.certify("server");
    let tls = Tls::new(settings(&first)).expect("right files");
    let before = shown(tls.current(), &authority, None).expect("a handshake");
    assert_eq!(shown(tls.current(), &authority, None).expect("another"), before);

    // The certificate is there already, its key is not: a reload between the two must not take half.
    let key = std::fs::read(&first.key_file).expect("a file");
    authority.certify("server");
    let new_key = std::fs::read(&first.key_file).expect("a file");
    std::fs::write(&first.key_file, &key).expect("a file");
    assert!(tls.reload().expect_err("half").to_string().contains("the key is not that of the certificate"));
    assert_eq!(shown(tls.current(), &authority, None).expect("as before"), before);
    std::fs::write(&first.key_file, &new_key).expect("a file");
    tls.reload().expect("both are there");
    let after = shown(tls.current(), &authority, None).expect("a handshake");
    assert_ne!(after, before);

    let other = authority.certify("other");
    let wrong = TlsSettings { ciphers: "RC4-SHA".to_owned(), ..settings(&other) };
    assert!(tls.change(wrong).is_err());
    tls.reload().expect("the settings are those from before");
    assert_eq!(shown(tls.current(), &authority, None).expect("as before"), after);
    tls.change(settings(&other)).expect("right files");
    assert_ne!(shown(tls.current(), &authority, None).expect("a handshake"), after);
}

#[test]
fn versions_and_suites_are_those_of_the_rules() {
    let directory = Directory::new("rules");
    let authority = Authority::new(&directory.0, "authority");
    let certified = authority.certify("localhost");
    let negotiated = |rules: TlsSettings| {
        let mut server = ServerConnection::new(rules.load().expect("right rules")).expect("a server");
        let mut client =
            ClientConnection::new(authority.client(None), "localhost".try_into().expect("a name"))
                .expect("a client");
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).expect("memory takes all");
        server.read_tls(&mut bytes.as_slice()).expect("memory");
        server.process_new_packets().expect("a right greeting");
        let suite = server.negotiated_cipher_suite().expect("chosen");
        format!("{:?} {:?}", server.protocol_version().expect("chosen"), suite.suite())
    };
    let old = TlsSettings {
        protocols: "TLSv1.2".to_owned(),
        ciphers: "ECDHE-ECDSA-CHACHA20-POLY1305".to_owned(),
        ..settings(&certified)
    };
    assert_eq!(negotiated(old), "TLSv1_2 TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256");
    let new = TlsSettings { ciphersuites: "TLS_AES_128_GCM_SHA256".to_owned(), ..settings(&certified) };
    assert_eq!(negotiated(new), "TLSv1_3 TLS13_AES_128_GCM_SHA256");
}
