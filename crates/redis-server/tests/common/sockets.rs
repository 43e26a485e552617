//! A server in this process that is reached by sockets, for as long as a test runs.

#![allow(dead_code, clippy::disallowed_methods, reason = "no test uses all of it; threads serve the sockets")]

use super::TestServer;
use esker_redis_server::{ListenConfig, Listener, Stop};
use std::net::SocketAddr;

/// Stops the listener also when the test panics: the threads of its scope would wait for ever.
struct StopAtEnd(Stop);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Serves on a free port by several I/O threads while `test` runs, which gets the address.
pub(crate) fn while_served<T>(server: &TestServer, io_threads: usize, test: impl FnOnce(&str) -> T) -> T {
    let tcp = vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()];
    let listener = Listener::bind(ListenConfig { tcp, io_threads, ..ListenConfig::default() });
    let listener = listener.expect("a free port");
    let address = listener.addresses().expect("bound")[0].to_string();
    let stop = StopAtEnd(listener.stop());
    std::thread::scope(|scope| {
        scope.spawn(|| listener.serve(server.server()).expect("it serves until it is stopped"));
        let _stop = stop;
        test(&address)
    })
}
