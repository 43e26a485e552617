//! Figures of the server for programs that observe it: what INFO tells, as numbers.
//!
//! Reading them takes no lock that a command holds longer than some instructions, and nothing is counted for
//! them that INFO, SLOWLOG or LATENCY do not count anyway.

pub use crate::observed::histogram::LATENCY_STEPS_NS;
pub use crate::observed::slow_log::SlowCommand;
pub use crate::observed::turns::TURN_STEPS;

use crate::observed::histogram::Counts;
use crate::pubsub::Subject;
use crate::server::Server;
use crate::statistics::read;
use std::sync::atomic::Ordering;

/// What the server has counted and has open. Totals begin with its start or with CONFIG RESETSTAT.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Figures {
    /// When the server started, in milliseconds since 1970.
    pub started_ms: u64,
    /// Connected clients.
    pub clients: usize,
    /// Of these, the ones that wait for a key.
    pub blocked_clients: usize,
    /// The most clients that may be connected.
    pub max_clients: u64,
    /// Bytes of requests that were received and not executed, over all clients.
    pub query_bytes: u64,
    /// Bytes of replies that were not sent, over all clients.
    pub output_bytes: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections refused, because there were as many as may be.
    pub refused_connections: u64,
    /// Commands called, each one of a script or transaction by itself.
    pub executed: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Keys that commands which only read looked up and found.
    pub keyspace_hits: u64,
    /// Keys that they did not find.
    pub keyspace_misses: u64,
    /// TLS handshakes that ended well.
    pub tls_handshakes: u64,
    /// TLS handshakes that failed, took too long, or were given up by the client.
    pub failed_tls_handshakes: u64,
    /// How long clients were not read or served because they did not take replies or had sent too much, in
    /// nanoseconds, summed over clients.
    pub backpressure_ns: u64,
    /// How many turns of clients executed as many commands as each of [`TURN_STEPS`] at most, and how many
    /// turns there were.
    pub turns: ([u64; TURN_STEPS.len()], u64),
    /// Commands of all turns.
    pub turn_commands: u64,
    /// Groups of commands, each with one batch.
    pub groups: u64,
    /// Why groups ended before their client's requests did, and how many.
    pub group_cuts: Vec<(&'static str, u64)>,
    /// Groups of commands that had to wait for a device or for a stall.
    pub slow_groups: u64,
    /// Work of clients that waits for a thread that may wait.
    pub slow_lane_jobs: u64,
    /// Messages of channels given to subscribers, once for each of them.
    pub delivered_messages: u64,
    /// How many runs of scripts and functions took less than each of [`LATENCY_STEPS_NS`], and how many there
    /// were.
    pub scripts: ([u64; LATENCY_STEPS_NS.len()], u64),
    /// Their time in nanoseconds.
    pub script_ns: u64,
    /// Runs that were taken back and begun anew.
    pub script_reruns: u64,
    /// Channels, patterns and shard channels that have subscribers.
    pub pubsub_names: usize,
    /// Keys deleted because they had expired.
    pub expired_keys: u64,
    /// How long the first key that has expired and was not deleted has been so, in milliseconds.
    pub expiry_lag_ms: u64,
    /// Deleted collections whose elements are not deleted yet.
    pub garbage_objects: u64,
    /// Commands that were called or rejected, in the order of the command table.
    pub commands: Vec<CommandFigures>,
    /// Codes of error replies and how often each was replied.
    pub errors: Vec<(String, u64)>,
    /// Databases with keys.
    pub databases: Vec<DatabaseFigures>,
}

/// What was counted of a command.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CommandFigures {
    /// Its name, with `|` before a subcommand.
    pub name: &'static str,
    /// Executions.
    pub calls: u64,
    /// Their time in nanoseconds.
    pub nanos: u64,
    /// Calls that were not executed.
    pub rejected: u64,
    /// Executions that ended with an error.
    pub failed: u64,
    /// How many of them took less than each of [`LATENCY_STEPS_NS`], and how many there were; `None` if
    /// `latency-tracking` was off all the time.
    pub latencies: Option<([u64; LATENCY_STEPS_NS.len()], u64)>,
}

/// A database of Redis.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DatabaseFigures {
    /// Its number.
    pub number: u16,
    /// Keys, with those that have expired and were not deleted.
    pub keys: u64,
    /// Of these, the ones with an expiry.
    pub expiring_keys: u64,
}

/// The distribution of the times of all commands.
#[derive(Clone, Debug, Default)]
pub struct Latencies(Counts);

impl Latencies {
    /// The distribution of what came behind an earlier moment.
    pub fn since(&self, earlier: &Latencies) -> Latencies {
        let mut counts = self.0.clone();
        counts.subtract(&earlier.0);
        Latencies(counts)
    }

    /// How many times there are.
    pub fn count(&self) -> u64 {
        self.0.total()
    }

    /// The time in nanoseconds that this share of all does not exceed, in percent; zero if there are none.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        self.0.percentile(percent)
    }
}

/// How many times are below each of [`LATENCY_STEPS_NS`], and how many there are.
fn in_steps(counts: &Counts) -> ([u64; LATENCY_STEPS_NS.len()], u64) {
    (LATENCY_STEPS_NS.map(|step_ns| counts.below(step_ns)), counts.total())
}

impl Server {
    /// The figures of this moment.
    pub fn figures(&self) -> Figures {
        let clients = self.clients.all();
        let sum =
            |value: fn(&crate::clients::Client) -> u64| clients.iter().map(|client| value(client)).sum();
        let names = [Subject::Channel, Subject::Pattern, Subject::Shard];
        let errors = self.observed.commands.errors().into_iter();
        let turns = self.observed.commands.turns();
        Figures {
            started_ms: self.started_ms,
            clients: clients.len(),
            blocked_clients: self.waiting.count(),
            max_clients: self.max_clients.load(Ordering::Relaxed),
            query_bytes: sum(|client| client.query_bytes.load(Ordering::Relaxed)),
            output_bytes: sum(|client| client.output_bytes.load(Ordering::Relaxed)),
            connections: read(&self.statistics.connections),
            refused_connections: read(&self.statistics.refused_connections),
            executed: read(&self.statistics.commands),
            received_bytes: read(&self.statistics.received_bytes),
            sent_bytes: read(&self.statistics.sent_bytes),
            keyspace_hits: read(&self.statistics.keyspace_hits),
            keyspace_misses: read(&self.statistics.keyspace_misses),
            tls_handshakes: read(&self.statistics.tls_handshakes),
            failed_tls_handshakes: read(&self.statistics.failed_tls_handshakes),
            backpressure_ns: read(&self.statistics.backpressure_ns),
            turns: turns.turns(),
            turn_commands: turns.turn_commands,
            groups: turns.groups,
            group_cuts: turns.cuts(),
            slow_groups: read(&self.statistics.slow_groups),
            slow_lane_jobs: read(&self.observed.slow_lane_jobs),
            delivered_messages: self.pubsub.delivered(),
            scripts: in_steps(&turns.scripts),
            script_ns: turns.script_ns,
            script_reruns: turns.script_reruns,
            pubsub_names: names.into_iter().map(|subject| self.pubsub.names(subject, None).len()).sum(),
            expired_keys: self.store.expired_keys(),
            expiry_lag_ms: self.now_ms().saturating_sub(self.store.next_expiry_ms()),
            garbage_objects: self.store.garbage_objects(),
            commands: self.command_figures(),
            errors: errors
                .map(|(code, count)| (String::from_utf8_lossy(&code).into_owned(), count))
                .collect(),
            databases: self.database_figures(),
        }
    }

    /// The distribution of the times of all commands since the start, or since CONFIG RESETSTAT.
    pub fn latencies(&self) -> Latencies {
        let mut sum = Counts::default();
        for (_, total) in self.observed.commands.totals() {
            if let Some(counts) = &total.latencies {
                sum.add(counts);
            }
        }
        Latencies(sum)
    }

    /// The newest entries of SLOWLOG, at most so many.
    pub fn slow_commands(&self, count: usize) -> Vec<SlowCommand> {
        self.observed.slow_log.newest(count)
    }

    fn command_figures(&self) -> Vec<CommandFigures> {
        let totals = self.observed.commands.totals().into_iter();
        let used = totals.filter(|(_, total)| total.calls > 0 || total.rejected > 0);
        let of = used.map(|(command, total)| CommandFigures {
            name: command.name(),
            calls: total.calls,
            nanos: total.nanos,
            rejected: total.rejected,
            failed: total.failed,
            latencies: total.latencies.as_ref().map(in_steps),
        });
        of.collect()
    }

    fn database_figures(&self) -> Vec<DatabaseFigures> {
        let count = |keys: i64| u64::try_from(keys).unwrap_or_default();
        let of = |number| DatabaseFigures {
            number,
            keys: count(self.store.keys(number)),
            expiring_keys: count(self.store.expiring_keys(number)),
        };
        (0..self.store.databases()).map(of).filter(|database| database.keys > 0).collect()
    }
}
