//! What a thread notes of the commands of a group, told when the group's batch is written (OB1).

use crate::observed::counters::{Ended, ThreadCounters, code_of};
use crate::observed::latency::LatencyEvent;
use crate::observed::monitors;
use crate::observed::slow_log::{SlowCommand, kept_arguments};
use crate::observed::turns::TurnCounters;
use crate::server::Server;
use crate::session::Session;
use crate::statistics::add;
use esker::parts::env::Clock;
use esker_redis_commands::{Command, CommandFlags};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// A command that was executed or rejected.
#[derive(Debug)]
struct Noted {
    command: u32,
    ended: Ended,
    nanos: u64,
}

/// Keys that were looked up.
#[derive(Debug, Default)]
struct Lookups {
    hits: u64,
    misses: u64,
}

/// Where a command began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    ns: u64,
    /// Errors of the group before it.
    errors: usize,
}

/// What is noted of a group.
#[derive(Debug)]
pub(crate) struct Observer<'s> {
    server: &'s Server,
    counters: Arc<ThreadCounters>,
    /// When the last command ended: the next one begins there.
    last_ns: u64,
    /// From which time on a command is more than counted.
    notable_ns: u64,
    has_monitors: bool,
    /// Whether the command waited, and was counted as a call when it began to.
    has_waited: bool,
    noted: Vec<Noted>,
    /// Keys that commands which only read looked up: those that were there, and those that were not.
    lookups: Lookups,
    /// Codes of error replies.
    errors: Vec<Vec<u8>>,
    slow: Vec<SlowCommand>,
    latencies: Vec<(LatencyEvent, u64)>,
    lines: Vec<Arc<[u8]>>,
    /// Whether what is noted is called by a script.
    pub(crate) is_in_script: bool,
}

impl<'s> Observer<'s> {
    /// For one thread.
    pub(crate) fn new(server: &'s Server) -> Self {
        Self {
            server,
            counters: server.observed.commands.for_thread(),
            last_ns: 0,
            notable_ns: u64::MAX,
            has_monitors: false,
            has_waited: false,
            noted: Vec::new(),
            lookups: Lookups::default(),
            errors: Vec::new(),
            slow: Vec::new(),
            latencies: Vec::new(),
            lines: Vec::new(),
            is_in_script: false,
        }
    }

    /// The first command of a group begins now.
    pub(crate) fn begin(&mut self) {
        self.last_ns = self.server.clock.monotonic_ns();
        self.notable_ns = self.server.observed.notable_ns();
        self.has_monitors = self.server.observed.monitors.is_used();
        self.has_waited = false;
    }

    /// The command of a waiting client is executed once more, which monitors know already, and which is
    /// counted as a call already.
    pub(crate) fn begin_again(&mut self) {
        self.begin();
        self.has_monitors = false;
        self.has_waited = true;
    }

    /// The beginning of a command that begins when the last one ended.
    pub(crate) fn beginning(&self) -> Beginning {
        Beginning { ns: self.last_ns, errors: self.errors.len() }
    }

    /// The beginning of a command that begins now.
    pub(crate) fn beginning_now(&self) -> Beginning {
        Beginning { ns: self.server.clock.monotonic_ns(), errors: self.errors.len() }
    }

    /// A command is executed. Monitors are told of scripts before what is called in them.
    pub(crate) fn executing(&mut self, session: &Session, command: &'static Command, arguments: &[&[u8]]) {
        if self.has_monitors && command.flags().contains(CommandFlags::SKIP_MONITOR) {
            self.watch(session, command, arguments);
        }
    }

    /// A command waits, and has not ended.
    pub(crate) fn waits(&mut self, session: &Session, command: &'static Command, arguments: &[&[u8]]) {
        if self.has_monitors {
            self.watch(session, command, arguments);
        }
        self.noted.push(Noted { command: command.index() as u32, ended: Ended::Waits, nanos: 0 });
    }

    #[cold]
    fn watch(&mut self, session: &Session, command: &Command, arguments: &[&[u8]]) {
        // What administers the server is not shown.
        if command.flags().contains(CommandFlags::ADMIN) {
            return;
        }
        let from = match self.is_in_script {
            true => "lua".to_owned(),
            false => self.server.clients.shown_address(session.id),
        };
        let now = self.server.store.database().now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.lines.push(monitors::line(now.as_micros() as u64, session.db, &from, command, arguments));
    }

    /// A command has ended.
    pub(crate) fn ended(
        &mut self,
        beginning: Beginning,
        session: &Session,
        command: &'static Command,
        arguments: &[&[u8]],
        error: Option<&[u8]>,
    ) {
        if self.has_monitors && !command.flags().contains(CommandFlags::SKIP_MONITOR) {
            self.watch(session, command, arguments);
        }
        self.last_ns = self.server.clock.monotonic_ns();
        let nanos = self.last_ns.saturating_sub(beginning.ns);
        let ended = match (self.has_waited, error.is_some()) {
            (false, false) => Ended::Well,
            (false, true) => Ended::Failed,
            (true, false) => Ended::WaitedWell,
            (true, true) => Ended::WaitedFailed,
        };
        self.noted.push(Noted { command: command.index() as u32, ended, nanos });
        // The error of a script is that of a command within it, which is counted already.
        if let Some(error) = error
            && self.errors.len() == beginning.errors
        {
            self.errors.push(code_of(error).to_vec());
        }
        if command.flags().contains(CommandFlags::ADMIN) {
            // CONFIG SET may have changed it, and is noted itself by the new value.
            self.notable_ns = self.server.observed.notable_ns();
        }
        if nanos >= self.notable_ns {
            self.note_slow(session, command, arguments, nanos);
        }
    }

    #[cold]
    fn note_slow(&mut self, session: &Session, command: &Command, arguments: &[&[u8]], nanos: u64) {
        let flags = command.flags();
        let is_fast = flags.contains(CommandFlags::FAST);
        self.latencies.push((if is_fast { LatencyEvent::FastCommand } else { LatencyEvent::Command }, nanos));
        if flags.contains(CommandFlags::SKIP_SLOWLOG) || nanos < self.server.observed.slow_log.threshold_ns()
        {
            return;
        }
        let (address, client_name) = match self.is_in_script {
            true => ("?:0".to_owned(), Vec::new()),
            false => (self.server.clients.shown_address(session.id), session.name.clone()),
        };
        self.slow.push(SlowCommand {
            id: 0,
            time_s: self.server.now_ms() / 1000,
            duration_us: nanos / 1000,
            arguments: kept_arguments(command, arguments),
            address,
            client_name,
        });
    }

    /// The counters of groups, turns and scripts.
    pub(crate) fn turns(&self) -> &TurnCounters {
        &self.counters.turns
    }

    /// A command that only reads looked up a key.
    pub(crate) fn looked_up(&mut self, is_there: bool) {
        self.lookups.hits += u64::from(is_there);
        self.lookups.misses += u64::from(!is_there);
    }

    /// A request was not executed.
    pub(crate) fn rejected(&mut self, arguments: &[&[u8]], error: &[u8]) {
        if let Some(command) = self.server.names().resolve(arguments) {
            self.noted.push(Noted { command: command.index() as u32, ended: Ended::Rejected, nanos: 0 });
        }
        self.errors.push(code_of(error).to_vec());
    }

    /// Whether it matters how long writing the batch takes.
    pub(crate) fn times_batches(&self) -> bool {
        self.server.observed.latency.threshold_ms() > 0
    }

    /// The group's batch is written, which began when the last command ended.
    pub(crate) fn wrote_batch(&mut self) {
        let now_ns = self.server.clock.monotonic_ns();
        self.latencies.push((LatencyEvent::BatchWrite, now_ns.saturating_sub(self.last_ns)));
    }

    /// Tells what was noted: the group's batch is written.
    pub(crate) fn tell(&mut self) {
        let with_latencies = self.server.observed.commands.tracks_latencies();
        // Each command of a script or transaction by itself.
        let mut calls = 0;
        for noted in self.noted.drain(..) {
            calls += u64::from(noted.ended.is_call());
            self.counters.count(noted.command as usize, noted.nanos, noted.ended, with_latencies);
        }
        let lookups = std::mem::take(&mut self.lookups);
        for (total, count) in [
            (&self.server.statistics.commands, calls),
            (&self.server.statistics.keyspace_hits, lookups.hits),
            (&self.server.statistics.keyspace_misses, lookups.misses),
        ] {
            if count > 0 {
                add(total, count);
            }
        }
        let observed = &self.server.observed;
        self.errors.drain(..).for_each(|code| observed.commands.count_error(&code));
        self.slow.drain(..).for_each(|slow| observed.slow_log.push(slow));
        self.lines.drain(..).for_each(|line| observed.monitors.tell(&line));
        if !self.latencies.is_empty() {
            let time_s = self.server.now_ms() / 1000;
            self.latencies.drain(..).for_each(|(event, nanos)| observed.latency.note(event, time_s, nanos));
        }
    }

    /// Forgets what was noted: the group is executed once more.
    pub(crate) fn forget(&mut self) {
        self.noted.clear();
        self.lookups = Lookups::default();
        self.errors.clear();
        self.slow.clear();
        self.latencies.clear();
        self.lines.clear();
    }
}
