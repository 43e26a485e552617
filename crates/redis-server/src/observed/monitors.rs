//! Monitors: clients that are sent a line for every command that any client executes.

use super::secrets::hide_secrets;
use crate::clients::{Client, Message};
use esker_redis_commands::Command;
use esker_resp::quoting::quote;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The clients of MONITOR.
///
/// A monitor that does not read is disconnected as soon as its unsent lines pass the bound for messages, as
/// any client that gets messages.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    clients: Mutex<Vec<Arc<Client>>>,
    count: AtomicUsize,
}

impl Monitors {
    /// Whether there are any.
    pub(crate) fn is_used(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Adds a client.
    pub(crate) fn add(&self, client: Arc<Client>) {
        let mut clients = self.clients.lock();
        clients.push(client);
        self.count.store(clients.len(), Ordering::Relaxed);
    }

    /// Removes a client.
    pub(crate) fn remove(&self, client: u64) {
        let mut clients = self.clients.lock();
        clients.retain(|monitor| monitor.id != client);
        self.count.store(clients.len(), Ordering::Relaxed);
    }

    /// Sends a line to all.
    pub(crate) fn tell(&self, line: &Arc<[u8]>) {
        for client in self.clients.lock().iter() {
            client.post(Message::Push(Arc::clone(line)));
        }
    }
}

/// The line of a command: time, database, where it comes from, and its arguments in quotes.
pub(crate) fn line(now_us: u64, db: u16, from: &str, command: &Command, arguments: &[&[u8]]) -> Arc<[u8]> {
    let mut line = format!("+{}.{:06} [{db} {from}]", now_us / 1_000_000, now_us % 1_000_000).into_bytes();
    for argument in hide_secrets(command, arguments) {
        line.push(b' ');
        quote(argument, &mut line);
    }
    line.extend_from_slice(b"\r\n");
    line.into()
}
