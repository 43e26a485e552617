//! What all threads of the server share.

use crate::access::Access;
use crate::background::Background;
use crate::checkpoints::Checkpoints;
use crate::clients::{Client, Clients, Message};
use crate::config::buffer_limits::OutputLimits;
use crate::config::{Config, start_setting};
use crate::flusher::Flusher;
use crate::key_cursors::KeyCursors;
use crate::key_uses::KeyUses;
use crate::keyspace_events::KeyspaceEvents;
use crate::log_level::LogLevel;
use crate::observed::Observed;
use crate::observed::counters::Ended;
use crate::observed::latency::LatencyEvent;
use crate::pausing::Pausing;
use crate::pubsub::PubSub;
use crate::rates::Rates;
use crate::rebinding::Rebinding;
use crate::scripts::Scripting;
use crate::statistics::{Statistics, read};
use crate::stop::Stop;
use crate::tls::ServerTls;
use crate::tracking::Tracking;
use crate::waiting::{Place, WaitEnd, Waiting};
use crate::watches::Watches;
use esker::SeqNo;
use esker::parts::env::{Clock, SystemClock};
use esker_redis_commands::Names;
use esker_redis_data::hyperloglog::SPARSE_MAX_BYTES;
use esker_redis_store::expiry_sweep::Expired;
use esker_redis_store::notifications::{Interest, Told};
use esker_redis_store::txn::resident_only;
use esker_redis_store::{EventClass, Store, Txn};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

/// The version of Redis whose behaviour the server has.
pub const REDIS_VERSION: &str = "7.0.15";

/// The shared state of a server.
#[derive(Debug)]
pub struct Server {
    /// The data.
    pub(crate) store: Store,
    /// The connected clients.
    pub(crate) clients: Clients,
    /// Users and their rights.
    pub(crate) access: Access,
    /// Subscriptions.
    pub(crate) pubsub: PubSub,
    /// Which keyspace events are published.
    pub(crate) keyspace_events: KeyspaceEvents,
    /// Keys of WATCH.
    pub(crate) watches: Watches,
    /// Clients that wait for keys.
    pub(crate) waiting: Waiting,
    /// Whether commands are held back.
    pub(crate) pausing: Pausing,
    /// Keys that clients cache.
    pub(crate) tracking: Tracking,
    /// The machine's clock, for intervals.
    pub(crate) clock: SystemClock,
    /// The thread that flushes the log.
    pub(crate) flusher: Flusher,
    /// A name of this run of the server, 40 hexadecimal digits.
    pub(crate) run_id: String,
    /// The names of commands, once they are set.
    names: OnceLock<Names>,
    /// The values of directives.
    pub(crate) config: Config,
    /// Counters.
    pub(crate) statistics: Statistics,
    /// How fast some of its counters grow.
    pub(crate) rates: Rates,
    /// SAVE and BGSAVE.
    pub(crate) checkpoints: Checkpoints,
    /// What is noted of commands.
    pub(crate) observed: Observed,
    /// Most connected clients.
    pub(crate) max_clients: AtomicU64,
    /// Bytes of an argument and of a string.
    pub(crate) max_argument_bytes: AtomicU64,
    /// Bytes from which on a HyperLogLog is dense.
    pub(crate) sparse_bytes: AtomicU64,
    /// Bytes that wait to be sent to a client.
    pub(crate) output_limits: OutputLimits,
    /// Bytes of a request.
    pub(crate) max_request_bytes: AtomicU64,
    /// When the server started, in milliseconds since 1970.
    pub(crate) started_ms: u64,
    /// The TCP port, or that of TLS if there is no other; zero until it listens.
    pub(crate) port: AtomicU64,
    /// What stops the server, once it listens.
    stop: OnceLock<Stop>,
    /// Changes of the addresses that it listens on.
    pub(crate) rebinding: Rebinding,
    /// When a write is durable, as `appendfsync` says.
    append_fsync: AtomicU8,
    /// Whether the last flush failed.
    flush_failed: AtomicBool,
    /// When HTTP was noticed last, in milliseconds since 1970.
    http_noticed_ms: AtomicU64,
    /// The thread that deletes what has expired and what is left of it.
    pub(crate) background: Background,
    /// Where scans of keys go on.
    pub(crate) key_cursors: KeyCursors,
    /// When keys were used last.
    pub(crate) key_uses: KeyUses,
    /// Scripts and functions.
    pub(crate) scripting: Scripting,
    /// Certificates of new connections.
    pub(crate) tls: ServerTls,
    /// What sets the level of the log.
    pub(crate) log_level: LogLevel,
}

/// When a write is durable: `appendfsync`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum AppendFsync {
    /// When the system likes.
    No = 0,
    /// After a second at the latest.
    #[default]
    EverySecond = 1,
    /// Before its reply is sent.
    Always = 2,
}

impl Server {
    /// A server over these data.
    pub fn new(store: Store) -> Self {
        let started_ms = now_ms(&store);
        let run_id = format!("{:016x}{:016x}{:08x}", store.random(), store.random(), std::process::id());
        let server = Self {
            store,
            run_id,
            names: OnceLock::new(),
            config: Config::default(),
            statistics: Statistics::default(),
            rates: Rates::default(),
            checkpoints: Checkpoints::new(started_ms / 1000),
            observed: Observed::default(),
            max_clients: AtomicU64::new(10_000),
            max_argument_bytes: AtomicU64::new(512 << 20),
            sparse_bytes: AtomicU64::new(SPARSE_MAX_BYTES as u64),
            output_limits: OutputLimits::default(),
            max_request_bytes: AtomicU64::new(1 << 30),
            started_ms,
            port: AtomicU64::new(0),
            stop: OnceLock::new(),
            rebinding: Rebinding::default(),
            clients: Clients::default(),
            access: Access::default(),
            pubsub: PubSub::default(),
            keyspace_events: KeyspaceEvents::default(),
            watches: Watches::default(),
            waiting: Waiting::default(),
            pausing: Pausing::default(),
            tracking: Tracking::default(),
            clock: SystemClock::new(),
            flusher: Flusher::default(),
            append_fsync: AtomicU8::new(AppendFsync::default() as u8),
            flush_failed: AtomicBool::new(false),
            http_noticed_ms: AtomicU64::new(0),
            background: Background::default(),
            key_cursors: KeyCursors::default(),
            key_uses: KeyUses::new(),
            scripting: Scripting::default(),
            tls: ServerTls::default(),
            log_level: LogLevel::default(),
        };
        server.apply_defaults();
        server
    }

    /// Sets the directory below which SAVE and BGSAVE make checkpoints. It must not be within the database's
    /// own, and links to tables need the same file system.
    pub fn set_checkpoint_directory(&self, directory: impl Into<std::path::PathBuf>) {
        self.checkpoints.set_directory(directory.into());
    }

    /// Lets the directive `loglevel` act: `set` is called with each of its values, from now on.
    pub fn on_log_level(&self, set: impl Fn(&[u8]) + Send + Sync + 'static) {
        self.log_level.tell(set);
    }

    /// The data.
    pub fn store(&self) -> &Store {
        &self.store
    }
}

impl Server {
    /// Notes that the server listens: its TCP port and that of TLS, zero for none, and what stops it. A
    /// server listens once.
    pub(crate) fn note_listening(&self, port: u16, tls_port: u16, stop: Stop) {
        self.note_port(port, tls_port);
        for (name, port) in [("port", port), ("tls-port", tls_port)] {
            if let Some(Ok(setting)) = start_setting(name.as_bytes(), port.to_string().as_bytes(), None) {
                self.config.set(&[setting]);
            }
        }
        let _already = self.stop.set(stop);
    }

    /// Notes the TCP port and that of TLS, zero for none.
    pub(crate) fn note_port(&self, port: u16, tls_port: u16) {
        self.port.store(if port == 0 { tls_port } else { port }.into(), Ordering::Relaxed);
    }

    /// The names of commands.
    pub(crate) fn names(&self) -> &Names {
        self.names.get_or_init(Names::default)
    }

    /// Sets the names of commands, before the first is executed: later calls change nothing.
    pub(crate) fn set_names(&self, names: Names) {
        let _already = self.names.set(names);
    }

    /// What stops the server; `None` if it does not listen.
    pub(crate) fn stop(&self) -> Option<&Stop> {
        self.stop.get()
    }

    /// The database of this number, if there is one.
    pub(crate) fn database(&self, number: i32) -> Option<u16> {
        u16::try_from(number).ok().filter(|db| *db < self.store.databases())
    }

    /// What the server wants to be told of changes.
    pub(crate) fn interest(&self) -> Interest {
        Interest {
            changed_keys: self.watches.is_used() || self.waiting.is_used() || self.tracking.is_used(),
            event_classes: self.keyspace_events.classes(),
        }
    }

    /// Tells watchers and clients that cache keys what the client of this number changed; zero for none. The
    /// caller holds the stripes of all of it (WK1, CT1).
    pub(crate) fn touch(&self, told: &Told, writer: u64) {
        self.watches.touch(told);
        self.tracking.tell(told, writer, &self.clients);
    }

    /// Publishes of what a command told that waits, and so changes nothing, which keys it did not find.
    pub(crate) fn publish_misses(&self, told: &Told) {
        let misses = told.events.iter().filter(|event| event.class == EventClass::MISS);
        misses.for_each(|event| self.keyspace_events.publish(&self.pubsub, event));
    }

    /// Tells subscribers and waiting clients what a batch changed. No stripe is held. Whether clients wait
    /// for some of it: then the caller serves them, or a thread of connections does so in its next tick.
    pub(crate) fn after_commit(&self, told: &Told) -> bool {
        told.events.iter().for_each(|event| self.keyspace_events.publish(&self.pubsub, event));
        let may_be_there = |(db, key): &Place| {
            let found = resident_only(|| Txn::new(&self.store, Interest::default()).entry(*db, key));
            // What is not in memory, or cannot be read, is left to the command that waits.
            found.ok().flatten().is_none_or(|entry| entry.record().is_some())
        };
        let mut is_awaited = self.waiting.note(told, &may_be_there);
        let mut more = Vec::new();
        // A watch may begin at any time, so its keys are always listed.
        let interest = Interest { changed_keys: true, ..self.interest() };
        for (db, key) in &told.expired {
            let mut observe = |expired: Expired| {
                self.touch(&expired.told, 0);
                more.push(expired.told);
            };
            // What cannot be deleted now is left to the sweep.
            let _later = self.store.expire(*db, key, interest, &mut observe);
        }
        for told in &more {
            is_awaited |= self.after_commit(told);
        }
        is_awaited
    }
}

impl Server {
    /// Sets when a write is durable.
    pub fn set_append_fsync(&self, when: AppendFsync) {
        self.append_fsync.store(when as u8, Ordering::Release);
    }

    /// Whether the log is flushed once a second.
    pub(crate) fn flushes_every_second(&self) -> bool {
        self.append_fsync.load(Ordering::Acquire) == AppendFsync::EverySecond as u8
    }

    /// What must be durable before a reply may be sent that was made just now; `None` if nothing.
    ///
    /// A reply to a read waits as well: it may tell of a write that a power cut would take back.
    pub(crate) fn needed_durable(&self) -> Option<SeqNo> {
        if self.append_fsync.load(Ordering::Acquire) != AppendFsync::Always as u8 {
            return None;
        }
        let written = self.store.written();
        (written > self.store.database().durable_seqno()).then_some(written)
    }

    /// Bytes of the longest string, and of an argument: `proto-max-bulk-len`, up to what a request can have.
    pub(crate) fn longest_string_bytes(&self) -> u64 {
        self.max_argument_bytes.load(Ordering::Relaxed).min(u64::from(u32::MAX))
    }

    /// Notes whether a flush of the log succeeded.
    pub(crate) fn note_flush(&self, succeeded: bool) {
        self.flush_failed.store(!succeeded, Ordering::Release);
    }

    /// Whether the last flush of the log failed.
    pub(crate) fn has_flush_failed(&self) -> bool {
        self.flush_failed.load(Ordering::Acquire)
    }

    /// The error of commands that would wait behind a script, once it has run for `busy-reply-threshold`
    /// milliseconds; never if that is zero.
    pub(crate) fn busy_reply(&self) -> Option<&'static str> {
        let threshold_ms = u64::try_from(self.config.number("busy-reply-threshold")).ok()?;
        let threshold_ns = threshold_ms.checked_mul(1_000_000).filter(|threshold_ns| *threshold_ns > 0)?;
        self.scripting.busy_reply(self.clock.monotonic_ns().checked_sub(threshold_ns)?)
    }

    /// The time in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        now_ms(&self.store)
    }

    /// The time of a transaction, in seconds since 1970, as [`KeyUses`] keeps times.
    pub(crate) fn use_time_s(txn: &Txn<'_>) -> u32 {
        seconds(txn.now_ms())
    }

    /// Forgets a client whose connection has ended.
    pub(crate) fn disconnected(&self, client: &Client) {
        client.note_gone();
        self.waiting.end(client.id, WaitEnd::Disconnected);
        self.pausing.remove(client.id);
        self.clients.remove(client.id);
    }

    /// Ends the connection of a client. Others do not see it from now on, whenever its thread closes the
    /// socket, and it is served no more: what it would get would be lost.
    pub(crate) fn end_client(&self, client: &Client) {
        self.disconnected(client);
        client.post(Message::Close);
    }

    /// Lets clients go on whose commands a pause held back, once it is over.
    pub(crate) fn end_pause_if_over(&self) {
        if self.pausing.count() > 0 {
            self.pausing.end_if_over(self.now_ms());
        }
    }

    /// Looks at the counters whose rates INFO tells.
    pub(crate) fn look_at_rates(&self) {
        let counted = &self.statistics;
        self.rates.look(self.clock.monotonic_ns(), || {
            [&counted.commands, &counted.received_bytes, &counted.sent_bytes].map(read)
        });
    }

    /// Deletes expired keys and notes how long that took: `expire-cycle`.
    pub(crate) fn time_sweep(&self, sweep: &dyn Fn() -> u64) -> u64 {
        let began_ns = self.clock.monotonic_ns();
        let next_ms = sweep();
        let nanos = self.clock.monotonic_ns().saturating_sub(began_ns);
        self.observed.latency.note(LatencyEvent::ExpireCycle, self.now_ms() / 1000, nanos);
        next_ms
    }

    /// Warns in the log of a client that has sent a line of HTTP, once a minute. The first words are those
    /// that programs which watch the log of Redis look for.
    pub(crate) fn warn_of_http(&self) {
        let now_ms = self.now_ms();
        if now_ms.saturating_sub(self.http_noticed_ms.load(Ordering::Relaxed)) > 60_000 {
            self.http_noticed_ms.store(now_ms, Ordering::Relaxed);
            tracing::warn!(
                "Possible SECURITY ATTACK detected. A client sent POST or Host: as a command, as a browser does \
                 when a web page makes it send HTTP to this port. Its connection is ended."
            );
        }
    }

    /// Ends the wait of a client whose time is up.
    pub(crate) fn time_is_up(&self, client: u64) {
        if let Some(command) = self.waiting.end(client, WaitEnd::TimeIsUp) {
            self.observed.commands.count_ended_wait(command, Ended::WaitedWell);
        }
    }
}

/// Milliseconds as seconds, which have 32 bits until the year 2106.
fn seconds(time_ms: u64) -> u32 {
    u32::try_from(time_ms / 1000).unwrap_or(u32::MAX)
}

fn now_ms(store: &Store) -> u64 {
    store.database().now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
