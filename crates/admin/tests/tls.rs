//! TLS: requests over it, clients without it, handshakes that do not end, and new certificates.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test")]

mod common;

use common::{Answer, TestServer, answer_of};
use esker_admin::listener::MAX_CONNECTIONS;
use esker_redis_testkit::Stream;
use esker_redis_testkit::certificates::Authority;
use esker_tls::{ClientCertificates, Tls, TlsSettings};
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

struct Served {
    server: TestServer,
    authority: Authority,
    tls: Arc<Tls>,
    certificates: PathBuf,
}

impl Drop for Served {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.certificates).ok();
    }
}

impl Served {
    fn new(name: &str) -> Served {
        let certificates =
            std::env::temp_dir().join(format!("esker-admin-{name}-tls-{}", std::process::id()));
        let authority = Authority::new(&certificates, "authority");
        let certified = authority.certify("server");
        let settings = TlsSettings {
            cert_file: certified.cert_file,
            key_file: certified.key_file,
            client_certificates: ClientCertificates::NotAsked,
            ..TlsSettings::default()
        };
        let tls = Arc::new(Tls::new(settings).unwrap());
        let server = TestServer::with_tls(name, Arc::clone(&tls));
        Served { server, authority, tls, certificates }
    }

    fn ask(&self, authority: &Authority, path: &str) -> std::io::Result<Answer> {
        let mut stream = Stream::connect_tls(&self.server.address.to_string(), &authority.client(None))?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        Ok(answer_of(&mut stream))
    }

    fn get(&self, path: &str) -> Answer {
        self.ask(&self.authority, path).unwrap()
    }
}

#[test]
fn reports_are_told_over_tls() {
    let served = Served::new("tls");
    assert_eq!(served.get("/health/live").json()["status"], "live");
    let metrics = served.get("/metrics");
    assert!(metrics.status == 200 && metrics.body.contains("esker_batches_total"));
    assert_eq!(served.get("/nothing").status, 404);
}

#[test]
fn a_client_without_tls_is_told_so() {
    let served = Served::new("tls-plain");
    let refused = served.server.get("/metrics");
    assert_eq!(refused.status, 400);
    assert!(refused.json()["error"].as_str().unwrap().contains("https://"), "{refused:?}");
    assert!(!refused.body.contains("esker_"));
    assert_eq!(served.get("/health/live").status, 200);
}

#[test]
fn handshakes_that_do_not_end_keep_no_client_out() {
    let mut served = Served::new("tls-silent");
    let silent: Vec<TcpStream> = (0..4 * MAX_CONNECTIONS)
        .map(|number| {
            let mut stream = served.server.connect();
            if number % 2 == 0 {
                stream.write_all(b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03").unwrap();
            }
            stream
        })
        .collect();
    for _ in 0..5 {
        assert_eq!(served.get("/health/live").status, 200);
    }
    served.server.end().unwrap();
    drop(silent);
}

#[test]
fn new_certificates_are_for_new_connections() {
    let served = Served::new("tls-new");
    let other = Authority::new(&served.certificates, "other");
    std::fs::write(served.certificates.join("server.key"), "no key").unwrap();
    assert!(served.tls.reload().is_err());
    assert_eq!(served.get("/health/live").status, 200);
    other.certify("server");
    served.tls.reload().unwrap();
    assert!(served.ask(&served.authority, "/health/live").is_err());
    assert_eq!(served.ask(&other, "/health/live").unwrap().status, 200);
}
