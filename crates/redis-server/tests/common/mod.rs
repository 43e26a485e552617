//! A server within the process, over a directory of its own.

#![allow(dead_code, clippy::disallowed_methods, reason = "no test uses all of it; tests use files directly")]

pub(crate) mod sockets;
pub(crate) mod victim;

use esker_redis_server::local_client::LocalClient;
use esker_redis_server::server::Server;
use esker_redis_server::{ListenConfig, Listener};
use esker_redis_store::Store;
use std::path::PathBuf;

/// A server and its directory, which is removed at the end.
pub(crate) struct TestServer {
    directory: PathBuf,
    server: Option<Server>,
}

impl TestServer {
    /// A server over a new database; `name` must be unique among the tests.
    pub(crate) fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("esker-redis-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&directory).ok();
        Self::at(directory)
    }

    /// A server over a database that is open, such as one of a simulated machine.
    pub(crate) fn over(database: esker::Database) -> Self {
        let store = Store::open(database, 16).expect("the store opens");
        Self { directory: PathBuf::from("/nothing/to/remove"), server: Some(Server::new(store)) }
    }

    /// A server over the database of a directory, which is a new one if there is none.
    pub(crate) fn at(directory: PathBuf) -> Self {
        let database = esker::Database::open(&directory).expect("the database opens");
        let store = Store::open(database, 16).expect("the store opens");
        Self { directory, server: Some(Server::new(store)) }
    }

    /// The same data after the database was closed and opened.
    pub(crate) fn reopened(mut self) -> Self {
        self.server = None;
        let database = esker::Database::open(&self.directory).expect("the database opens again");
        let store = Store::open(database, 16).expect("the store opens again");
        self.server = Some(Server::new(store));
        self
    }

    /// The server.
    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().expect("it is there until the end")
    }

    /// A further client.
    pub(crate) fn client(&self) -> LocalClient<'_> {
        LocalClient::new(self.server())
    }

    /// The same server behind a socket; it ends with the process. Directives are set before it listens.
    pub(crate) fn listening(self, directives: &[(&str, &str)]) -> esker_redis_testkit::Server {
        let server: &'static Self = Box::leak(Box::new(self));
        for (name, value) in directives {
            server.server().set_directive(name.as_bytes(), value.as_bytes()).expect("it takes the value");
        }
        server.server().load_user_file().expect("a right file, or none");
        let config = ListenConfig {
            tcp: vec![std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()],
            ..ListenConfig::default()
        };
        let listener = Listener::bind(config).expect("a free port");
        let address = listener.addresses().expect("bound")[0];
        std::thread::spawn(|| listener.serve(server.server()));
        esker_redis_testkit::Server::at(address.to_string())
    }

    /// Keys of a database, by the store's count.
    pub(crate) fn store_keys(&self, db: u16) -> i64 {
        self.server().store().keys(db)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.server = None;
        std::fs::remove_dir_all(&self.directory).ok();
    }
}
