//! A server in this process, and clients of it.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "helpers of tests, which each test file uses in part"
)]

use bytes::Bytes;
use esker::Database;
use esker_grpc::proto::admin_client::AdminClient;
use esker_grpc::proto::key_value_client::KeyValueClient;
use esker_grpc::proto::*;
use esker_grpc::{Access, Config, Listener, Open, Stop};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tonic::transport::Channel;

/// Longest wait for what must happen soon.
pub const SOON: Duration = Duration::from_secs(60);

/// A directory that is deleted at the end.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    pub fn new() -> Directory {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("esker-grpc-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// A server of a new database, stopped at the end.
pub struct Served {
    pub database: Database,
    pub address: SocketAddr,
    pub stop: Stop,
    thread: Option<JoinHandle<()>>,
    pub directory: Directory,
}

impl Served {
    pub fn new() -> Served {
        Served::with(Config::default())
    }

    pub fn with(config: Config) -> Served {
        Served::open(Directory::new(), config, Arc::new(Open))
    }

    pub fn open(directory: Directory, config: Config, access: Arc<dyn Access>) -> Served {
        let database = Database::open(directory.path().join("db")).unwrap();
        Served::of(database, directory, config, access)
    }

    pub fn of(database: Database, directory: Directory, config: Config, access: Arc<dyn Access>) -> Served {
        let config = Config { address: SocketAddr::from(([127, 0, 0, 1], 0)), ..config };
        Served::by(Listener::bind(config).unwrap(), database, directory, access)
    }

    pub fn by(
        listener: Listener,
        database: Database,
        directory: Directory,
        access: Arc<dyn Access>,
    ) -> Served {
        let (address, stop) = (listener.address().unwrap(), listener.stop());
        let thread = std::thread::spawn({
            let database = database.clone();
            move || listener.serve(&database, access).unwrap()
        });
        Served { database, address, stop, thread: Some(thread), directory }
    }

    pub async fn channel(&self) -> Channel {
        let uri = format!("http://{}", self.address);
        Channel::from_shared(uri).unwrap().connect().await.unwrap()
    }

    pub async fn client(&self) -> KeyValueClient<Channel> {
        KeyValueClient::new(self.channel().await)
    }

    pub async fn admin(&self) -> AdminClient<Channel> {
        AdminClient::new(self.channel().await)
    }

    /// Stops the server and closes the database, whose directory stays.
    pub fn close(mut self) -> Directory {
        self.finish();
        self.database.close().unwrap();
        std::mem::replace(&mut self.directory, Directory::new())
    }

    /// Stops the server and waits for its end.
    pub fn finish(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.finish();
        }
    }
}

/// Waits until something is so.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, waited).await.unwrap_or_else(|_| panic!("not within {SOON:?}: {what}"));
}

pub fn bytes(text: impl AsRef<[u8]>) -> Bytes {
    Bytes::copy_from_slice(text.as_ref())
}

pub fn get(key: &str) -> GetRequest {
    GetRequest { key: bytes(key), ..GetRequest::default() }
}

pub fn put(key: &str, value: &str) -> PutRequest {
    PutRequest { key: bytes(key), value: bytes(value), ..PutRequest::default() }
}

pub fn absent() -> Option<Condition> {
    Some(Condition { kind: Some(condition::Kind::Absent(condition::Absent {})) })
}

pub fn present() -> Option<Condition> {
    Some(Condition { kind: Some(condition::Kind::Present(condition::Present {})) })
}

pub fn equals(value: &str) -> Option<Condition> {
    Some(Condition { kind: Some(condition::Kind::Equals(bytes(value))) })
}

pub fn range(start: &str, end: &str) -> Option<KeyRange> {
    Some(KeyRange { start: Some(bytes(start)), end: Some(bytes(end)), prefix: None })
}

pub fn prefix(prefix: &str) -> Option<KeyRange> {
    Some(KeyRange { start: None, end: None, prefix: Some(bytes(prefix)) })
}

/// Entries with keys of eight digits, from 0.
pub fn fill(database: &Database, count: usize, value_bytes: usize) {
    let (keyspace, value) = (database.default_keyspace().clone(), vec![b'v'; value_bytes]);
    for first in (0..count).step_by(1000) {
        let mut batch = database.batch();
        for number in first..(first + 1000).min(count) {
            batch.put(&keyspace, format!("{number:08}"), &value);
        }
        database.write(&batch).unwrap();
    }
}
