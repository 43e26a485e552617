//! TLS: calls over it, clients without it, handshakes that do not end, certificates of clients, new ones.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod common;

use common::*;
use esker::Database;
use esker_grpc::proto::key_value_client::KeyValueClient;
use esker_grpc::proto::*;
use esker_grpc::{Config, Listener, Open};
use esker_redis_testkit::certificates::{Authority, Certified};
use esker_tls::{ClientCertificates, Tls, TlsSettings};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Error, Identity};

struct ServedTls {
    served: Served,
    authority: Authority,
    tls: Arc<Tls>,
}

impl ServedTls {
    fn new(asks_clients: bool) -> ServedTls {
        let directory = Directory::new();
        let authority = Authority::new(directory.path(), "authority");
        let certified = authority.certify("server");
        let settings = TlsSettings {
            cert_file: certified.cert_file,
            key_file: certified.key_file,
            ca_cert_file: Some(authority.file()),
            client_certificates: match asks_clients {
                true => ClientCertificates::Required,
                false => ClientCertificates::NotAsked,
            },
            ..TlsSettings::default()
        };
        let tls = Arc::new(Tls::new(settings).unwrap());
        let database = Database::open(directory.path().join("db")).unwrap();
        let config = Config { address: SocketAddr::from(([127, 0, 0, 1], 0)), ..Config::default() };
        let listener = Listener::bind(config).unwrap().with_tls(Arc::clone(&tls));
        ServedTls { served: Served::by(listener, database, directory, Arc::new(Open)), authority, tls }
    }

    async fn connect(&self, authority: &Authority, own: Option<&Certified>) -> Result<Channel, Error> {
        let file = |path| std::fs::read(path).unwrap();
        let mut config = ClientTlsConfig::new()
            .domain_name("localhost")
            .ca_certificate(Certificate::from_pem(file(authority.file())));
        if let Some(own) = own {
            config =
                config.identity(Identity::from_pem(file(own.cert_file.clone()), file(own.key_file.clone())));
        }
        let uri = format!("https://{}", self.served.address);
        Channel::from_shared(uri).unwrap().tls_config(config)?.connect().await
    }

    async fn client(&self) -> KeyValueClient<Channel> {
        KeyValueClient::new(self.connect(&self.authority, None).await.unwrap())
    }
}

/// Pairs of a scan of everything.
async fn scanned(client: &mut KeyValueClient<Channel>) -> usize {
    let mut pages = client.scan(ScanRequest::default()).await.unwrap().into_inner();
    let mut count = 0;
    while let Some(page) = pages.message().await.unwrap() {
        count += page.entries.len();
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_and_streams_pass_over_tls() {
    let of = ServedTls::new(false);
    let mut client = of.client().await;
    client.put(put("k", "v")).await.unwrap();
    assert_eq!(client.get(get("k")).await.unwrap().into_inner().value, "v");
    fill(&of.served.database, 50_000, 100);
    assert_eq!(scanned(&mut client).await, 50_001);
    let stranger = Authority::new(of.served.directory.path(), "stranger");
    assert!(of.connect(&stranger, None).await.is_err(), "the client does not know this authority");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_tls_ends_and_the_others_do_not() {
    let of = ServedTls::new(false);
    let mut client = of.client().await;
    client.put(put("k", "v")).await.unwrap();
    let uri = format!("http://{}", of.served.address);
    let plain = Channel::from_shared(uri).unwrap().connect().await;
    if let Ok(channel) = plain {
        assert!(KeyValueClient::new(channel).put(put("k", "plain")).await.is_err());
    }
    for bytes in
        [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], b"GET / HTTP/1.1\r\n\r\n", b"\0", b"\x16\x03\x01\0\0"]
    {
        let mut stream = TcpStream::connect(of.served.address).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        let mut answer = Vec::new();
        // The connection may be reset.
        let _ended = stream.read_to_end(&mut answer);
        // Nothing, or an alert of TLS.
        assert!(answer.is_empty() || answer[0] == 21, "{answer:?}");
    }
    assert_eq!(client.get(get("k")).await.unwrap().into_inner().value, "v");
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_do_not_end_keep_no_client_out() {
    let mut of = ServedTls::new(false);
    let mut early = of.client().await;
    let mut silent = Vec::new();
    for number in 0..500 {
        let mut stream = TcpStream::connect(of.served.address).unwrap();
        if number % 2 == 0 {
            stream.write_all(b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03").unwrap();
        }
        silent.push(stream);
    }
    early.put(put("k", "v")).await.unwrap();
    for _ in 0..5 {
        let mut client = of.client().await;
        assert_eq!(client.get(get("k")).await.unwrap().into_inner().value, "v");
    }
    // Nor do they keep the server from its end.
    drop(early);
    of.served.finish();
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_show_certificates_where_they_are_asked_for() {
    let of = ServedTls::new(true);
    let stranger = Authority::new(of.served.directory.path(), "stranger");
    for own in [None, Some(stranger.certify("strange"))] {
        // The client may see the end of its handshake before the server has looked at its certificate.
        if let Ok(channel) = of.connect(&of.authority, own.as_ref()).await {
            assert!(KeyValueClient::new(channel).put(put("k", "v")).await.is_err());
        }
    }
    let own = of.authority.certify("client");
    let channel = of.connect(&of.authority, Some(&own)).await.unwrap();
    KeyValueClient::new(channel).put(put("k", "v")).await.unwrap();
    assert!(of.served.database.default_keyspace().get("k").unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn new_certificates_are_for_new_connections() {
    let of = ServedTls::new(false);
    let mut open = of.client().await;
    let other = Authority::new(of.served.directory.path(), "other");
    // What cannot be used changes nothing.
    std::fs::write(of.served.directory.path().join("server.key"), "no key").unwrap();
    assert!(of.tls.reload().unwrap_err().to_string().contains("server.key"));
    of.client().await.put(put("k", "v")).await.unwrap();
    other.certify("server");
    of.tls.reload().unwrap();
    assert!(of.connect(&of.authority, None).await.is_err());
    let channel = of.connect(&other, None).await.unwrap();
    assert!(KeyValueClient::new(channel).get(get("k")).await.unwrap().into_inner().found);
    assert!(open.get(get("k")).await.unwrap().into_inner().found, "open connections go on");
}
