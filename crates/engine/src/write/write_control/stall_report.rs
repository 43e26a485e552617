//! Reports about throttled and stalled writers.

use super::blocking_work::BlockingWork;
use crate::state::keyspace::KeyspaceState;
use crate::state::store::Store;
use crate::state::write_control::{StallChange, WaitingWrites};
use crate::write::write_control;
use crate::write::write_control::blocking_work;
use esker_strategy::write_control::{Pressure, WriteState};
use std::fmt;
use std::time::Duration;

/// Why writes take longer at this moment, if they do. Printed as sentences.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stalls {
    /// Keyspaces, oldest first.
    pub keyspaces: Vec<KeyspaceStall>,
    /// Writes that wait for room now.
    pub waiting: Vec<WaitingWrites>,
    /// The longest that a write waits before it is refused.
    pub stall_limit: Duration,
}

/// The write control of one keyspace.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KeyspaceStall {
    /// Its name.
    pub name: String,
    /// Whether writes are throttled.
    pub state: WriteState,
    /// The queues before flush and compaction, the one closer to its limit first.
    pub pressures: Vec<Pressure>,
    /// The work its writes wait for; `None` while they are not throttled.
    pub blocking: Option<BlockingWork>,
    /// The sustained rate of flushes, in bytes of keys and values a second; `None` before the first.
    pub flush_bytes_per_second: Option<u64>,
    /// The sustained rate of compactions, in bytes of flushed tables a second; `None` before the first.
    pub compaction_bytes_per_second: Option<u64>,
    /// The last changes of the state, oldest first, at most 64.
    pub changes: Vec<StallChange>,
}

/// The report of the present moment.
pub fn stalls(store: &Store) -> Stalls {
    Stalls {
        keyspaces: store.all_keyspaces().iter().map(|keyspace| stall_of(store, keyspace)).collect(),
        waiting: store.counters.waiting_writes(),
        stall_limit: store.stall_limit,
    }
}

fn stall_of(store: &Store, keyspace: &KeyspaceState) -> KeyspaceStall {
    let control = keyspace.write_control.lock();
    let queues = write_control::queues(store, keyspace, &control.capacity);
    let mut pressures = vec![queues.memory, queues.level0, queues.space, queues.garbage];
    pressures.sort_by_key(|pressure| std::cmp::Reverse(pressure.permille));
    let rate = keyspace.write_control.admitted_bytes_per_second();
    let state = WriteState::of(&pressures[0], rate);
    let capacity = &control.capacity;
    let flush_bytes_per_second = capacity.flush_bytes_per_second();
    let blocking = (state != WriteState::Free).then(|| {
        let of_one_merge = capacity.merged_bytes_per_second().map(|measured| measured as u64);
        blocking_work::blocking_work(store, keyspace, &pressures[0], flush_bytes_per_second, of_one_merge)
    });
    KeyspaceStall {
        name: keyspace.name().to_string(),
        state,
        pressures,
        blocking,
        flush_bytes_per_second,
        compaction_bytes_per_second: capacity.compaction_bytes_per_second(store.compaction_threads),
        changes: control.changes.iter().copied().collect(),
    }
}

impl fmt::Display for KeyspaceStall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let worst = &self.pressures[0];
        match self.state {
            WriteState::Free => write!(f, "{}: writes are not slowed", self.name)?,
            WriteState::Slowed { bytes_per_second } => {
                let rate = bytes_per_second as f64 / 1e6;
                write!(f, "{}: writes are slowed to {rate:.1} MB/s, because {worst}", self.name)?;
            }
            _ => write!(f, "{}: writes are stopped, because {worst}", self.name)?,
        }
        match &self.blocking {
            Some(blocking) => write!(f, "; {blocking}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Stalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for keyspace in &self.keyspaces {
            writeln!(f, "{keyspace}")?;
        }
        for WaitingWrites { writes, cause } in &self.waiting {
            writeln!(f, "writes waiting now: {writes}, because {cause}")?;
        }
        Ok(())
    }
}
