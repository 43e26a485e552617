//! A server over a database of its own, and a client that writes requests byte by byte.

#![allow(dead_code, reason = "no test uses all of it")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "what a test cannot set up fails the test"
)]

pub(crate) mod exposition;

use esker::Database;
use esker_admin::{Config, Listener, Refusal, Sources, Stop, Texts};
use esker_redis_server::server::Server;
use esker_redis_store::Store;
use esker_tls::Tls;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a test waits for what must happen, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(60);

/// A database with a server of the Redis protocol and one over HTTP; all end with the value.
pub(crate) struct TestServer {
    directory: PathBuf,
    pub(crate) database: Database,
    pub(crate) redis: Arc<Server>,
    pub(crate) address: SocketAddr,
    pub(crate) stop: Stop,
    serving: Option<JoinHandle<std::io::Result<()>>>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

/// Answers what it was asked; the word `wrong` is refused, and `unknown` is no text.
#[derive(Debug)]
struct Echo;

impl Texts for Echo {
    fn text(
        &self,
        database: &Database,
        words: &[&str],
        options: &[(String, Option<String>)],
    ) -> Result<String, Refusal> {
        let refusal = |exit_code| Refusal { sentence: format!("{words:?} is refused"), exit_code };
        match words {
            ["wrong"] => Err(refusal(Some(2))),
            ["unknown"] => Err(refusal(None)),
            _ => Ok(format!("{words:?} {options:?} {:?}\n", database.keyspaces().first())),
        }
    }
}

impl TestServer {
    /// `name` must be unique among the tests.
    pub(crate) fn new(name: &str) -> TestServer {
        TestServer::with(name, Config::default())
    }

    /// With TLS.
    pub(crate) fn with_tls(name: &str, tls: Arc<Tls>) -> TestServer {
        TestServer::start(name, Config::default(), |listener| listener.with_tls(tls))
    }

    /// With a configuration, but for the port.
    pub(crate) fn with(name: &str, config: Config) -> TestServer {
        TestServer::start(name, config, |listener| listener)
    }

    fn start(name: &str, config: Config, prepare: impl FnOnce(Listener) -> Listener) -> TestServer {
        let directory = std::env::temp_dir().join(format!("esker-admin-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&directory).ok();
        let options = esker::Options::default().memory_budget(32 << 20);
        let database = Database::open_with(&directory, options).unwrap();
        let redis = Arc::new(Server::new(Store::open(database.clone(), 16).unwrap()));
        let config = Config { address: SocketAddr::new(config.address.ip(), 0), ..config };
        let listener = prepare(Listener::bind(config).unwrap());
        let (address, stop) = (listener.address().unwrap(), listener.stop());
        let sources = Sources::new(database.clone(), &directory).with_redis(Arc::clone(&redis));
        let sources = sources.with_texts(Arc::new(Echo));
        let serve = move || listener.serve(sources);
        let serving = std::thread::Builder::new().name("test-admin".to_owned()).spawn(serve).unwrap();
        TestServer { directory, database, redis, address, stop, serving: Some(serving) }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address))
    }

    /// Sends these bytes, and reads until the server closes.
    pub(crate) fn ask(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        answer_of(&mut stream)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Stops the server; what it ended with.
    pub(crate) fn end(&mut self) -> std::io::Result<()> {
        self.stop.stop();
        self.serving.take().map_or(Ok(()), |serving| serving.join().unwrap())
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let ended = self.end();
        self.database.close().unwrap();
        std::fs::remove_dir_all(&self.directory).ok();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

/// Reads an answer to the end of the connection.
pub(crate) fn answer_of(stream: &mut impl Read) -> Answer {
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}
