//! Reports about targets.

use crate::Database;
use esker_engine::background::targets::DeleteShortfall;
use esker_engine::background::targets::deadline;
use esker_engine::state::keyspace::KeyspaceState;
use esker_engine::state::shape;
use esker_engine::state::space_use;
use esker_engine::state::space_use::SpaceUse;
use esker_engine::state::store::Store;
use esker_strategy::oldest_gone_ms;
use std::fmt;
use std::time::Duration;

impl Database {
    /// The targets set by `max_space_amp` and `delete_within`, and whether they are met; only of keyspaces
    /// with targets.
    #[doc(alias = "promises")]
    pub fn targets(&self) -> Vec<KeyspaceTargets> {
        targets(&self.handle().store)
    }
}

/// The targets of a keyspace, and whether they are met. Printed as sentences.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KeyspaceTargets {
    /// Name of the keyspace.
    pub name: String,
    /// The space target, if `max_space_amp` is set.
    pub space: Option<SpaceTarget>,
    /// The delete-persistence target, if `delete_within` is set.
    pub deletes: Option<DeleteTarget>,
}

/// Whether a target is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetState {
    /// It is met.
    Kept,
    /// It is met, but close to the limit.
    AtRisk,
    /// It is not met.
    Missed,
    /// More space is used than is certainly alive, but no merge onto the oldest data since the open has
    /// measured what is.
    Unknown,
}

/// The space of tables and blob files, in bytes. Live data is estimated from below: the oldest run of the
/// last level, and at least four memtables.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SpaceTarget {
    /// The target as a multiple of the live bytes.
    pub target: f64,
    /// Live bytes.
    pub live_bytes: u64,
    /// Tables of the present tree.
    pub table_bytes: u64,
    /// Blob files.
    pub blob_bytes: u64,
    /// The most that running compactions may write before their inputs are deleted.
    pub running_bytes: u64,
    /// Replaced tables that snapshots, cursors or ranges still read.
    pub held_bytes: u64,
    /// Whether the target is met.
    pub state: TargetState,
}

/// The age of the oldest deleted or expired data in tables and memtables.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeleteTarget {
    /// The target time.
    pub within: Duration,
    /// Its age; `None` if there is none.
    pub oldest: Option<Duration>,
    /// First and last key of the table that holds it; `None` if it is in a memtable.
    pub range: Option<(Vec<u8>, Vec<u8>)>,
    /// The age of the oldest snapshot, if that keeps it.
    pub held_by_snapshot: Option<Duration>,
    /// Whether the target is met.
    pub state: TargetState,
    /// Why it cannot be met for deletes in all tables; `None` if it can.
    pub shortfall: Option<DeleteShortfall>,
}

impl SpaceTarget {
    pub(crate) fn new(target_permille: u64, room: SpaceUse) -> SpaceTarget {
        let used = u128::from(room.used_bytes()) * 1000;
        let limit = u128::from(room.live_bytes) * u128::from(target_permille);
        let state = match used {
            used if used > limit && !room.is_measured => TargetState::Unknown,
            used if used > limit => TargetState::Missed,
            // The last twentieth below the target.
            used if used > limit - (limit - u128::from(room.live_bytes) * 1000) / 20 => TargetState::AtRisk,
            _ => TargetState::Kept,
        };
        SpaceTarget {
            target: target_permille as f64 / 1000.0,
            live_bytes: room.live_bytes,
            table_bytes: room.table_bytes,
            blob_bytes: room.blob_bytes,
            running_bytes: room.running_bytes,
            held_bytes: room.held_bytes,
            state,
        }
    }

    /// The present space as a multiple of the live bytes.
    pub fn taken(&self) -> f64 {
        let used = self.table_bytes + self.blob_bytes + self.running_bytes + self.held_bytes;
        used as f64 / self.live_bytes.max(1) as f64
    }
}

/// The targets of all keyspaces that have any.
pub(crate) fn targets(store: &Store) -> Vec<KeyspaceTargets> {
    let keyspaces = store.all_keyspaces();
    let of = keyspaces.iter().map(|keyspace| targets_of(store, keyspace));
    of.filter(|targets| targets.space.is_some() || targets.deletes.is_some()).collect()
}

fn targets_of(store: &Store, keyspace: &KeyspaceState) -> KeyspaceTargets {
    let target = keyspace.options().max_space_amp_permille;
    let space =
        target.and_then(|target| Some(SpaceTarget::new(target, space_use::space_use_of(store, keyspace)?)));
    KeyspaceTargets { name: keyspace.name().to_string(), space, deletes: delete_target(store, keyspace) }
}

fn delete_target(store: &Store, keyspace: &KeyspaceState) -> Option<DeleteTarget> {
    let options = keyspace.options();
    let within = options.delete_within?;
    let view = keyspace.view.load();
    let shape = shape::shape(store, &view.tree, &[]);
    let of_writes = view.memtables().filter(|memtable| memtable.ingested.is_none());
    let in_memory = of_writes.filter_map(|memtable| memtable.since_ms()).map(|ms| (ms, None));
    // Ingested tables that are not installed yet stand among the memtables.
    let waiting = view.memtables().filter_map(|memtable| memtable.ingested.as_ref());
    let waiting = waiting.flat_map(|run| run.parts.iter().map(|part| &part.meta));
    let in_tables = shape.version.parts().map(|(_, _, part)| part).chain(waiting).filter_map(|part| {
        let range = (part.smallest().to_vec(), part.largest().to_vec());
        Some((oldest_gone_ms(part, shape.now_ms)?, Some(range)))
    });
    let oldest = in_memory.chain(in_tables).min_by_key(|(ms, _)| *ms);
    let since = |ms: u64| Duration::from_millis(shape.now_ms.saturating_sub(ms));
    let due = shape::strategy_options(store, &options);
    let state = match &oldest {
        Some((ms, _)) if since(*ms) > within => TargetState::Missed,
        Some((ms, _)) if due.delete_due_ms(*ms).is_some_and(|due_ms| due_ms < shape.now_ms) => {
            TargetState::AtRisk
        }
        _ => TargetState::Kept,
    };
    let snapshot = store.snapshots.oldest();
    let held_by_snapshot =
        snapshot.filter(|_| state != TargetState::Kept).map(|moment| since(moment.read_time_ms));
    let (oldest, range) = oldest.map_or((None, None), |(ms, range)| (Some(since(ms)), range));
    let shortfall = deadline::delete_shortfall(store, keyspace, within);
    Some(DeleteTarget { within, oldest, range, held_by_snapshot, state, shortfall })
}

impl fmt::Display for TargetState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TargetState::Kept => "kept",
            TargetState::AtRisk => "at risk",
            TargetState::Missed => "missed",
            TargetState::Unknown => "unknown until a compaction has measured the live data",
        })
    }
}

impl fmt::Display for SpaceTarget {
    /// `space: 1.18 times the live data, target 1.25: kept`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (taken, target) = (self.taken(), self.target);
        write!(f, "space: {taken:.2} times the live data, target {target}: {}", self.state)?;
        if self.held_bytes > 0 {
            let mebibytes = self.held_bytes as f64 / f64::from(1 << 20);
            write!(f, "; {mebibytes:.1} MiB of replaced tables are pinned by readers")?;
        }
        Ok(())
    }
}

impl fmt::Display for DeleteTarget {
    /// `deletes: the oldest is up to 12 s old, target 60 s: kept`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let within = self.within.as_secs_f64();
        match self.oldest {
            None => {
                write!(f, "deletes: none visible, target {within} s: {}", self.state)?;
            }
            Some(age) => {
                let age = age.as_secs();
                write!(f, "deletes: the oldest is up to {age} s old, target {within} s: {}", self.state)?;
            }
        }
        if let Some(age) = self.held_by_snapshot {
            write!(f, "; a snapshot of {} s may keep it", age.as_secs())?;
        }
        if let Some(shortfall) = &self.shortfall {
            write!(f, "; cannot be met: {shortfall}")?;
        }
        Ok(())
    }
}

impl fmt::Display for KeyspaceTargets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(space) = &self.space {
            writeln!(f, "{space}")?;
        }
        if let Some(deletes) = &self.deletes {
            writeln!(f, "{deletes}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
