//! Accepting: protocols, clients without TLS, and bounds of handshakes in number, bytes and time.

#![allow(clippy::disallowed_methods, reason = "tests use the machine's files")]

use esker_redis_testkit::certificates::Authority;
use esker_tls::{Acceptor, ClientCertificates, HandshakeError, Tls, TlsSettings, TlsStream};
use rustls::ClientConfig;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;

type Accepted = Result<TlsStream, HandshakeError>;

/// Longest wait for what must happen soon.
const SOON: Duration = Duration::from_secs(60);

/// A port whose connections are accepted, each in a task of its own.
struct Port {
    address: std::net::SocketAddr,
    authority: Authority,
    acceptor: Arc<Acceptor>,
    accepted: mpsc::UnboundedReceiver<Accepted>,
    directory: PathBuf,
}

impl Drop for Port {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.directory).ok();
    }
}

impl Port {
    async fn open(name: &str, handshakes: usize) -> Port {
        let directory = std::env::temp_dir().join(format!("esker-tls-{name}-{}", std::process::id()));
        let authority = Authority::new(&directory, "authority");
        let certified = authority.certify("server");
        let settings = TlsSettings {
            cert_file: certified.cert_file,
            key_file: certified.key_file,
            client_certificates: ClientCertificates::NotAsked,
            ..TlsSettings::default()
        };
        let tls = Arc::new(Tls::new(settings).expect("right files"));
        let acceptor = Arc::new(Acceptor::new(tls, b"h2", b"TLS only\n", handshakes));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let (sender, accepted) = mpsc::unbounded_channel();
        let of_task = Arc::clone(&acceptor);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, sender) = (Arc::clone(&of_task), sender.clone());
                tokio::spawn(async move { sender.send(acceptor.accept(stream).await) });
            }
        });
        Port { address, authority, acceptor, accepted, directory }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("it listens")
    }

    /// A handshake that offers these protocols.
    async fn shake_hands(
        &self,
        protocols: &[&[u8]],
    ) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let mut config = ClientConfig::clone(&self.authority.client(None));
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let name = "localhost".try_into().expect("a name");
        TlsConnector::from(Arc::new(config)).connect(name, self.connect().await).await
    }

    /// What became of the next connection whose handshake ended.
    async fn next(&mut self) -> Accepted {
        let next = tokio::time::timeout(SOON, self.accepted.recv());
        next.await.expect("soon").expect("connections are accepted")
    }
}

#[tokio::test]
async fn a_protocol_is_agreed_on_or_the_client_refused() {
    let mut port = Port::open("protocols", 8).await;
    for offered in [&[&b"h2"[..]][..], &[b"http/1.1", b"h2"], &[]] {
        let mut client = port.shake_hands(offered).await.expect("accepted");
        let mut server = port.next().await.expect("accepted");
        assert_eq!(client.get_ref().1.alpn_protocol().is_some(), !offered.is_empty());
        client.write_all(b"ping").await.expect("open");
        let mut bytes = [0; 4];
        server.read_exact(&mut bytes).await.expect("sent");
        assert_eq!(&bytes, b"ping");
        // More than a handshake may have comes behind it.
        let long = vec![7; 1 << 20];
        let sent = tokio::spawn(async move {
            server.write_all(&long).await.expect("taken");
            server.shutdown().await.expect("told");
        });
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.expect("sent and ended");
        assert_eq!(received.len(), 1 << 20);
        sent.await.expect("sent");
    }
    assert!(port.shake_hands(&[b"http/1.1"]).await.is_err());
    assert!(matches!(port.next().await, Err(HandshakeError::Failed(_))));
}

#[tokio::test]
async fn a_long_conversation_passes_in_both_directions() {
    let mut port = Port::open("long", 8).await;
    let mut client = port.shake_hands(&[b"h2"]).await.expect("accepted");
    let mut server = port.next().await.expect("accepted");
    let sent = tokio::spawn(async move {
        client.write_all(&vec![1; 1 << 20]).await.expect("taken");
        client.shutdown().await.expect("told");
    });
    let mut received = Vec::new();
    server.read_to_end(&mut received).await.expect("sent and ended");
    assert_eq!(received.len(), 1 << 20, "the limit of a handshake ends with it");
    sent.await.expect("sent");
}

#[tokio::test]
async fn a_client_without_tls_is_told_so() {
    let mut port = Port::open("plain", 8).await;
    let mut client = port.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("taken");
    let mut told = String::new();
    client.read_to_string(&mut told).await.expect("an answer");
    assert_eq!(told, "TLS only\n");
    assert!(matches!(port.next().await, Err(HandshakeError::NoHandshake)));
    drop(port.connect().await);
    assert!(matches!(port.next().await, Err(HandshakeError::Failed(_))), "a client that leaves");
    port.shake_hands(&[]).await.expect("the others are let in");
}

#[tokio::test]
async fn silent_handshakes_end_for_those_that_come_later() {
    let mut port = Port::open("silent", 4).await;
    let mut silent = Vec::new();
    for number in 0..50 {
        let mut stream = port.connect().await;
        // Half of them begin one.
        if number % 2 == 0 {
            stream.write_all(b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03").await.expect("taken");
        }
        silent.push(stream);
        assert!(port.acceptor.open_handshakes() <= 4);
    }
    for _ in 0..46 {
        assert!(matches!(port.next().await, Err(HandshakeError::Displaced)));
    }
    for _ in 0..10 {
        port.shake_hands(&[b"h2"]).await.expect("let in");
    }
    let mut ended = 0;
    for stream in &mut silent {
        // A connection that was ended is at its end, or was reset because of what it had sent.
        let read = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut [0; 1])).await;
        ended += usize::from(read.is_ok());
    }
    assert!(ended >= 46, "{ended}");
}

#[tokio::test]
async fn a_handshake_that_is_too_long_ends() {
    let mut port = Port::open("endless", 4).await;
    let mut client = port.connect().await;
    // A greeting of 65,535 bytes in pieces of one byte takes six times as much.
    let mut bytes = b"\x16\x03\x01\x00\x04\x01\x00\xff\xff".to_vec();
    for _ in 0..40_000 {
        bytes.extend(b"\x16\x03\x01\x00\x01\x00");
    }
    // The server may end before all of it was sent.
    let _sent = client.write_all(&bytes).await;
    let error = port.next().await.expect_err("too long");
    assert!(matches!(error, HandshakeError::Failed(_)), "{error}");
    assert_eq!(port.acceptor.open_handshakes(), 0);
    port.shake_hands(&[]).await.expect("the others are let in");
}

#[tokio::test]
async fn a_handshake_has_its_time() {
    let mut port = Port::open("late", 4).await;
    let _silent = port.connect().await;
    let ended = port.next().await.expect_err("it took too long");
    assert!(matches!(ended, HandshakeError::TooLong), "{ended}");
}
