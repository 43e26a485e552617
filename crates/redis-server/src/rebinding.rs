//! Changes of the addresses on which a running server listens: a command asks for one, and the thread that
//! accepts connections makes it and answers.
//!
//! Open connections are not touched. The sockets belong to the thread that accepts, so that none is closed
//! while it is being accepted from.

use crate::stop::Stop;
use parking_lot::{Condvar, Mutex};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

/// A host of `bind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// Its address, with port 0.
    pub(crate) address: SocketAddr,
    /// Whether it is left out where the machine does not have it.
    pub(crate) is_optional: bool,
}

/// The hosts that a value of `bind` names.
///
/// # Errors
/// A sentence with the one that is no address.
pub(crate) fn hosts(text: &str) -> Result<Vec<Host>, String> {
    let mut hosts = Vec::new();
    for written in text.split_ascii_whitespace() {
        let (name, is_optional) = written.strip_prefix('-').map_or((written, false), |name| (name, true));
        let ip = match name {
            "*" => Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            "::*" => Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
            _ => name.parse().ok(),
        };
        let found = match ip {
            Some(ip) => Some(SocketAddr::from((ip, 0))),
            None => (name, 0).to_socket_addrs().ok().and_then(|mut found| found.next()),
        };
        match found {
            Some(address) => hosts.push(Host { address, is_optional }),
            None if is_optional => {}
            None => return Err(format!("bind: {name} is no address and no name of a host")),
        }
    }
    Ok(hosts)
}

/// Where the server is to listen.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    pub(crate) hosts: Vec<Host>,
    /// The port of plain connections; 0 for none.
    pub(crate) port: u16,
    /// The port of connections with TLS; 0 for none.
    pub(crate) tls_port: u16,
}

/// Why nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RebindError {
    /// The server does not listen, or stops.
    NotListening,
    /// Clients beyond this machine would need no password, and `protected-mode` forbids that.
    Unprotected,
    /// An address cannot be listened on; the sentence says which.
    Failed(String),
}

#[derive(Debug, Default)]
struct Meeting {
    is_listening: bool,
    asked: Option<Addresses>,
    answer: Option<Result<(), RebindError>>,
}

/// Where a command and the thread that accepts connections meet.
#[derive(Debug, Default)]
pub(crate) struct Rebinding {
    /// Held for a whole change: one is made at a time.
    changing: Mutex<()>,
    state: Mutex<Meeting>,
    answered: Condvar,
}

impl Rebinding {
    /// Has the server listen on other addresses, and waits for the end of it. `stop` wakes the thread that
    /// accepts.
    pub(crate) fn ask(&self, addresses: Addresses, stop: &Stop) -> Result<(), RebindError> {
        let _one_change = self.changing.lock();
        let mut state = self.state.lock();
        state.asked = Some(addresses);
        state.answer = None;
        stop.wake();
        while state.is_listening && state.answer.is_none() {
            self.answered.wait(&mut state);
        }
        state.asked = None;
        state.answer.take().unwrap_or(Err(RebindError::NotListening))
    }

    /// The addresses that are asked for.
    pub(crate) fn asked(&self) -> Option<Addresses> {
        self.state.lock().asked.take()
    }

    /// Answers the command that asked.
    pub(crate) fn answer(&self, answer: Result<(), RebindError>) {
        self.state.lock().answer = Some(answer);
        self.answered.notify_all();
    }

    /// Says whether a thread accepts connections; commands wait for no other.
    pub(crate) fn set_listening(&self, is_listening: bool) {
        self.state.lock().is_listening = is_listening;
        self.answered.notify_all();
    }
}
