//! Limits: bounds of a server that may change while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bounds that may change while a server runs. All copies are one.
#[derive(Clone, Debug)]
pub struct Limits(Arc<Bounds>);

#[derive(Debug)]
struct Bounds {
    max_clients: AtomicUsize,
    unsent_bytes: AtomicUsize,
}

impl Limits {
    /// `max_clients` is the most connected clients; one more gets an error and is disconnected. Fewer are
    /// admitted where the process's limit of open files leaves fewer beside the database.
    ///
    /// `unsent_bytes` is the memory that answers which clients do not take hold together, over all clients.
    /// While it is more, the clients that have taken nothing for the longest time are disconnected. One
    /// answer always fits.
    pub fn new(max_clients: usize, unsent_bytes: usize) -> Limits {
        let bounds = Bounds {
            max_clients: AtomicUsize::new(max_clients),
            unsent_bytes: AtomicUsize::new(unsent_bytes),
        };
        Limits(Arc::new(bounds))
    }

    /// Most connected clients.
    pub fn max_clients(&self) -> usize {
        self.0.max_clients.load(Ordering::Relaxed)
    }

    /// Most memory of answers that clients do not take.
    pub fn unsent_bytes(&self) -> usize {
        self.0.unsent_bytes.load(Ordering::Relaxed)
    }

    /// Takes the bounds of others. They hold for the next client, and for the next answer that waits: those
    /// that are connected stay.
    pub fn set(&self, others: &Limits) {
        self.0.max_clients.store(others.max_clients(), Ordering::Relaxed);
        self.0.unsent_bytes.store(others.unsent_bytes(), Ordering::Relaxed);
    }
}

impl Default for Limits {
    /// 1,024 clients, and 64 MiB: a piece of an answer for each of them.
    fn default() -> Limits {
        Limits::new(1024, 64 << 20)
    }
}
