//! Counters of the server since its start or since CONFIG RESETSTAT.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters that all threads add to.
        #[derive(Debug, Default)]
        pub(crate) struct Statistics {
            $($(#[$doc])* pub(crate) $name: AtomicU64,)*
        }

        impl Statistics {
            /// Sets all to zero.
            pub(crate) fn reset(&self) {
                $(self.$name.store(0, Ordering::Relaxed);)*
            }
        }
    };
}

counters! {
    /// Connections that were accepted.
    connections,
    /// Connections that were refused.
    refused_connections,
    /// TLS handshakes that ended well.
    tls_handshakes,
    /// TLS handshakes that did not: what failed, took too long, or was given up by the client.
    failed_tls_handshakes,
    /// Commands that were called, each one of a script or transaction by itself.
    commands,
    /// Bytes that were received.
    received_bytes,
    /// Bytes that were sent.
    sent_bytes,
    /// Reads of sockets.
    socket_reads,
    /// Writes to sockets.
    socket_writes,
    /// Changes of keys.
    changes,
    /// Keys that commands which only read looked up and found.
    keyspace_hits,
    /// Keys that they did not find.
    keyspace_misses,
    /// Groups that the slow lane executed.
    slow_groups,
    /// How long clients were not read or served because they did not take replies or had sent too much, in
    /// nanoseconds.
    backpressure_ns,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// Reads a counter.
pub(crate) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
