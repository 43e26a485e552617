//! The log of slow commands: the last ones that took longer than a threshold.

use super::secrets::hide_secrets;
use esker_redis_commands::Command;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// Arguments of an entry; the last tells how many more there were.
const MAX_ARGUMENTS: usize = 32;

/// Bytes of an argument; behind them stands how many more there were.
const MAX_ARGUMENT_BYTES: usize = 128;

/// A slow command.
#[derive(Clone, Debug)]
pub struct SlowCommand {
    /// The number of the entry, never used again.
    pub id: u64,
    /// When it ended, in seconds since 1970.
    pub time_s: u64,
    /// How long it took, in microseconds.
    pub duration_us: u64,
    /// Its arguments, shortened, without secrets.
    pub arguments: Vec<Vec<u8>>,
    /// Where the client is.
    pub address: String,
    /// The client's name.
    pub client_name: Vec<u8>,
}

#[derive(Debug, Default)]
struct Entries {
    /// The newest first.
    list: VecDeque<SlowCommand>,
    next_id: u64,
}

/// The log.
#[derive(Debug)]
pub(crate) struct SlowLog {
    /// `slowlog-log-slower-than`, in microseconds; negative: nothing is logged.
    threshold_us: AtomicI64,
    /// `slowlog-max-len`.
    max_entries: AtomicUsize,
    entries: Mutex<Entries>,
}

impl Default for SlowLog {
    fn default() -> Self {
        Self {
            threshold_us: AtomicI64::new(10_000),
            max_entries: AtomicUsize::new(128),
            entries: Mutex::default(),
        }
    }
}

impl SlowLog {
    /// Sets from how many microseconds on a command is logged; negative: none is.
    pub(crate) fn set_threshold_us(&self, threshold_us: i64) {
        self.threshold_us.store(threshold_us, Ordering::Relaxed);
    }

    /// From how many nanoseconds on a command is logged.
    pub(crate) fn threshold_ns(&self) -> u64 {
        match u64::try_from(self.threshold_us.load(Ordering::Relaxed)) {
            Ok(threshold_us) => threshold_us.saturating_mul(1000),
            Err(_) => u64::MAX,
        }
    }

    /// Sets how many entries are kept.
    pub(crate) fn set_max_entries(&self, entries: usize) {
        self.max_entries.store(entries, Ordering::Relaxed);
    }

    /// Appends an entry, which gets the next number.
    pub(crate) fn push(&self, mut slow: SlowCommand) {
        let mut entries = self.entries.lock();
        slow.id = entries.next_id;
        entries.next_id += 1;
        entries.list.push_front(slow);
        let max_entries = self.max_entries.load(Ordering::Relaxed);
        entries.list.truncate(max_entries);
    }

    /// The newest entries, at most so many.
    pub(crate) fn newest(&self, count: usize) -> Vec<SlowCommand> {
        self.entries.lock().list.iter().take(count).cloned().collect()
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.lock().list.len()
    }

    /// Removes all entries.
    pub(crate) fn clear(&self) {
        self.entries.lock().list.clear();
    }
}

/// The arguments of a command as the log keeps them.
pub(crate) fn kept_arguments(command: &Command, arguments: &[&[u8]]) -> Vec<Vec<u8>> {
    let is_long = arguments.len() > MAX_ARGUMENTS;
    let whole = if is_long { MAX_ARGUMENTS - 1 } else { arguments.len() };
    let shown = hide_secrets(command, arguments);
    let mut kept: Vec<Vec<u8>> = shown.iter().take(whole).map(|argument| shortened(argument)).collect();
    if is_long {
        kept.push(format!("... ({} more arguments)", arguments.len() - whole).into_bytes());
    }
    kept
}

fn shortened(argument: &[u8]) -> Vec<u8> {
    if argument.len() <= MAX_ARGUMENT_BYTES {
        return argument.to_vec();
    }
    let more = format!("... ({} more bytes)", argument.len() - MAX_ARGUMENT_BYTES);
    [&argument[..MAX_ARGUMENT_BYTES], more.as_bytes()].concat()
}
