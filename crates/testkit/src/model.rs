//! The model test: a plan is run on the database and on the oracle, and every answer is compared.

use crate::oracle::brief;
use crate::runner::{Runner, key_bounds};
use crate::script::{At, Move, Op, Plan};
use crate::{Failure, Key, Moment, Outcome, PREFIXES, SPACES, ensure};
use esker::parts::env::fault::{StrictFs, StrictOptions};
use esker::parts::env::{Env, FileSystem};
use esker::{Cursor, Durability, Error, Keys, Keyspace, Snapshot, Ttl, Value};
use std::borrow::Cow;
use std::ops::{Bound, RangeBounds};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Runs a plan in a simulated environment; returns how many operations were checked.
///
/// # Errors
/// The first wrong answer, with its operation. A panic is a failure as well.
pub fn run(plan: &Plan) -> Outcome<u64> {
    // Some environments can neither map files for writing nor preallocate them.
    let (can_map_writable, can_allocate) = (!plan.seed.is_multiple_of(5), !plan.seed.is_multiple_of(7));
    let fs = StrictFs::with_options(StrictOptions {
        can_map_writable,
        can_allocate,
        record_trace: false,
        ..StrictOptions::default()
    });
    let fs: Arc<dyn FileSystem> = Arc::new(fs);
    run_with(plan, || Runner::start(plan, fs))
}

/// Runs a plan in any environment; like [`run`] otherwise.
pub fn run_in(plan: &Plan, env: Env, dir: &Path) -> Outcome<u64> {
    run_with(plan, || Runner::start_in(plan, env, dir))
}

fn run_with(plan: &Plan, start: impl FnOnce() -> Outcome<Runner>) -> Outcome<u64> {
    let mut at = 0;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut runner = start()?;
        for (number, op) in plan.script.iter().enumerate() {
            at = number;
            runner.check(op)?;
        }
        runner.close()?;
        Ok(runner.checked)
    }));
    let outcome = outcome.unwrap_or_else(|panic| Err(Failure::of_panic(&*panic)));
    outcome.map_err(|failure| {
        let op = plan.script.get(at);
        failure.during(format_args!("seed {}, operation {at}, {op:?}", plan.seed))
    })
}

/// Reads of the present or of a snapshot, by one set of names.
#[derive(Clone, Copy)]
struct Reader<'a> {
    keyspace: &'a Keyspace,
    snapshot: Option<&'a Snapshot>,
}

impl Reader<'_> {
    fn get(&self, key: &[u8]) -> esker::Result<Option<Value>> {
        self.snapshot.map_or_else(|| self.keyspace.get(key), |snapshot| self.keyspace.at(snapshot).get(key))
    }

    fn contains(&self, key: &[u8]) -> esker::Result<bool> {
        self.snapshot
            .map_or_else(|| self.keyspace.contains(key), |snapshot| self.keyspace.at(snapshot).contains(key))
    }

    fn length(&self, key: &[u8]) -> esker::Result<Option<usize>> {
        let len = |value: Option<&[u8]>| value.map(<[u8]>::len);
        match self.snapshot {
            None => self.keyspace.get_with(key, len),
            Some(snapshot) => self.keyspace.at(snapshot).get_with(key, len),
        }
    }

    fn multi_get(&self, keys: &[Vec<u8>]) -> esker::Result<Vec<Option<Value>>> {
        match self.snapshot {
            None => self.keyspace.multi_get(keys),
            Some(snapshot) => self.keyspace.at(snapshot).multi_get(keys),
        }
    }

    fn range(&self, bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>)) -> esker::Range {
        match self.snapshot {
            None => self.keyspace.range(bounds),
            Some(snapshot) => self.keyspace.at(snapshot).range(bounds),
        }
    }

    fn prefix(&self, prefix: &[u8]) -> esker::Range {
        match self.snapshot {
            None => self.keyspace.prefix(prefix),
            Some(snapshot) => self.keyspace.at(snapshot).prefix(prefix),
        }
    }

    fn first_and_last(&self) -> esker::Result<[Option<(Value, Value)>; 2]> {
        match self.snapshot {
            None => Ok([self.keyspace.first()?, self.keyspace.last()?]),
            Some(snapshot) => Ok([self.keyspace.at(snapshot).first()?, self.keyspace.at(snapshot).last()?]),
        }
    }

    fn keys(&self, bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Keys {
        match self.snapshot {
            None => self.keyspace.keys(bounds),
            Some(snapshot) => self.keyspace.at(snapshot).keys(bounds),
        }
    }

    fn cursor(&self, bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>)) -> esker::Result<Cursor> {
        match self.snapshot {
            None => self.keyspace.cursor_in(bounds),
            Some(snapshot) => self.keyspace.at(snapshot).cursor_in(bounds),
        }
    }
}

pub(crate) fn same(what: &str, found: Option<&[u8]>, expected: Option<&[u8]>) -> Outcome {
    ensure!(found == expected, "{what}: found {}, expected {}", brief(found), brief(expected));
    Ok(())
}

pub(crate) fn same_entry(
    what: &str,
    found: Option<(&[u8], &[u8])>,
    expected: Option<(&[u8], &[u8])>,
) -> Outcome {
    same(&format!("{what}, key"), found.map(|(key, _)| key), expected.map(|(key, _)| key))?;
    same(&format!("{what}, value"), found.map(|(_, value)| value), expected.map(|(_, value)| value))
}

fn lent_entry<'e>(entry: &'e Option<(&'e [u8], Cow<'_, [u8]>)>) -> Option<(&'e [u8], &'e [u8])> {
    entry.as_ref().map(|(key, value)| (*key, &**value))
}

pub(crate) fn lent(entry: &Option<(Value, Value)>) -> Option<(&[u8], &[u8])> {
    entry.as_ref().map(|(key, value)| (&**key, &**value))
}

impl Runner {
    /// Carries out an operation and compares what can be compared.
    pub(crate) fn check(&mut self, op: &Op) -> Outcome {
        self.checked += 1;
        if self.change(op)? {
            return Ok(());
        }
        match op {
            Op::ReopenReadOnly => self.check_read_only(),
            Op::CheckAll => self.check_all(),
            Op::Ttl { space, key } => self.check_ttl(usize::from(*space), &key.bytes()),
            Op::Size { space, lower, upper, parts } => {
                self.check_size(usize::from(*space), key_bounds(lower, upper), usize::from(*parts))
            }
            Op::Get { space, at, .. }
            | Op::MultiGet { space, at, .. }
            | Op::Range { space, at, .. }
            | Op::Prefix { space, at, .. }
            | Op::Cursor { space, at, .. } => self.check_read(usize::from(*space), *at, op),
            _ => Err(Failure::new("an operation that is neither a change nor a read")),
        }
    }

    fn check_read(&self, space: usize, at: At, op: &Op) -> Outcome {
        let Some(keyspace) = &self.spaces[space] else {
            let missing = self.db()?.open_keyspace(SPACES[space]);
            ensure!(matches!(missing, Err(Error::NotFound(_))), "a keyspace that was never created is there");
            return Ok(());
        };
        let moment = at.filter(|_| !self.snapshots.is_empty());
        let moment = moment.map(|which| &self.snapshots[usize::from(which) % self.snapshots.len()]);
        let (snapshot, at) = match moment {
            Some((snapshot, at)) => (Some(snapshot), *at),
            None => (None, self.now()?),
        };
        let reader = Reader { keyspace, snapshot };
        match op {
            Op::Get { key, .. } => self.check_get(reader, space, &key.bytes(), at),
            Op::MultiGet { keys, .. } => self.check_multi_get(reader, space, keys, at),
            Op::Range { lower, upper, ends, .. } => {
                self.check_range(reader, space, key_bounds(lower, upper), *ends, at)
            }
            Op::Prefix { prefix, .. } => self.check_prefix(reader, space, PREFIXES[usize::from(*prefix)], at),
            Op::Cursor { lower, upper, moves, .. } => {
                self.check_cursor(reader, space, key_bounds(lower, upper), moves, at)
            }
            _ => Ok(()),
        }
    }

    fn check_get(&self, reader: Reader<'_>, space: usize, key: &[u8], at: Moment) -> Outcome {
        let expected = self.oracle.get(space, key, at);
        let expected = expected.as_deref();
        same("get", reader.get(key)?.as_deref(), expected)?;
        ensure!(reader.contains(key)? == expected.is_some(), "contains");
        ensure!(reader.length(key)? == expected.map(<[u8]>::len), "get_with");
        same("multi_get of one", reader.multi_get(&[key.to_vec()])?[0].as_deref(), expected)?;
        let mut cursor = reader.cursor((Bound::Unbounded, Bound::Unbounded))?;
        cursor.seek(key)?;
        let found = cursor.entry().filter(|(found, _)| *found == key).map(|(_, value)| value);
        same("seek", found, expected)
    }

    fn check_ttl(&self, space: usize, key: &[u8]) -> Outcome {
        let Some(keyspace) = &self.spaces[space] else { return Ok(()) };
        let now = self.now()?;
        let expected = self.oracle.end(space, key, now).map(|end| match end {
            None => Ttl::Forever,
            Some(at_ms) => Ttl::Expires {
                at: crate::from_unix_ms(at_ms),
                left: Duration::from_millis(at_ms - now.time_ms),
            },
        });
        let found = keyspace.ttl(key)?;
        let is_same = match (found, expected) {
            // The real clock moved between the call and the check.
            (Some(Ttl::Expires { .. }), Some(Ttl::Expires { .. })) if !self.moves_clock() => true,
            (found, expected) => found == expected,
        };
        ensure!(is_same, "ttl is {found:?}, expected {expected:?}");
        Ok(())
    }

    /// What an estimate must be, however rough: no more than of everything, and keys inside of the range.
    fn check_size(&self, space: usize, bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>), parts: usize) -> Outcome {
        let Some(keyspace) = &self.spaces[space] else { return Ok(()) };
        let (size, whole) = (keyspace.approximate_size(bounds.clone())?, keyspace.approximate_size(..)?);
        let is_part = size.entries <= whole.entries
            && size.disk_bytes <= whole.disk_bytes
            && size.memory_bytes <= whole.memory_bytes;
        // Where threads run, a compaction may have made everything smaller between the two.
        ensure!(is_part || !self.moves_clock(), "a range of {size:?} in {whole:?}");
        let points = keyspace.split_points(bounds.clone(), parts)?;
        ensure!(points.len() < parts.max(1), "{} points for {parts} parts", points.len());
        ensure!(points.is_sorted_by(|a, b| a < b), "points out of order");
        ensure!(points.iter().all(|point| RangeBounds::contains(&bounds, point)), "a point outside");
        Ok(())
    }

    fn check_multi_get(&self, reader: Reader<'_>, space: usize, keys: &[Key], at: Moment) -> Outcome {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.bytes()).collect();
        let found = reader.multi_get(&keys)?;
        ensure!(found.len() == keys.len(), "multi_get of {} keys gives {} answers", keys.len(), found.len());
        for (key, found) in keys.iter().zip(&found) {
            same("multi_get", found.as_deref(), self.oracle.get(space, key, at).as_deref())?;
        }
        Ok(())
    }

    fn check_range(
        &self,
        reader: Reader<'_>,
        space: usize,
        bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
        ends: u64,
        at: Moment,
    ) -> Outcome {
        let lent_bounds = (bounds.0.as_ref().map(Vec::as_slice), bounds.1.as_ref().map(Vec::as_slice));
        let mut expected = self.oracle.range(space, lent_bounds, at);
        let mut found = reader.range(bounds.clone());
        for turn in 0.. {
            let from_back = ends >> (turn % 64) & 1 == 1;
            let (found, expected) = match from_back {
                true => (found.next_back().transpose()?, expected.next_back()),
                false => (found.next().transpose()?, expected.next()),
            };
            let from = if from_back { "back" } else { "front" };
            same_entry(&format!("range, entry {turn} from the {from}"), lent(&found), lent_entry(&expected))?;
            if expected.is_none() {
                break;
            }
        }
        ensure!(found.next().is_none() && found.next_back().is_none(), "a range goes on after its end");
        let mut expected = self.oracle.range(space, lent_bounds, at).map(|(key, _)| key);
        let mut found = reader.keys(bounds.clone());
        for turn in 0.. {
            let (found, expected) = match ends >> (turn % 64) & 1 == 1 {
                true => (found.next_back().transpose()?, expected.next_back()),
                false => (found.next().transpose()?, expected.next()),
            };
            same(&format!("keys, entry {turn}"), found.as_deref(), expected)?;
            if expected.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn check_prefix(&self, reader: Reader<'_>, space: usize, prefix: &[u8], at: Moment) -> Outcome {
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let mut expected =
            self.oracle.range(space, everything, at).filter(|(key, _)| key.starts_with(prefix));
        for found in reader.prefix(prefix) {
            same_entry("prefix", lent(&Some(found?)), lent_entry(&expected.next()))?;
        }
        same_entry("the end of a prefix", None, lent_entry(&expected.next()))?;
        let [first, last] = reader.first_and_last()?;
        let mut all = self.oracle.range(space, everything, at);
        same_entry("first", lent(&first), lent_entry(&all.next()))?;
        let mut all = self.oracle.range(space, everything, at);
        same_entry("last", lent(&last), lent_entry(&all.next_back()))
    }

    fn check_cursor(
        &self,
        reader: Reader<'_>,
        space: usize,
        bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
        moves: &[Move],
        at: Moment,
    ) -> Outcome {
        let lent_bounds = (bounds.0.as_ref().map(Vec::as_slice), bounds.1.as_ref().map(Vec::as_slice));
        let entries: Vec<(&[u8], Cow<'_, [u8]>)> = self.oracle.range(space, lent_bounds, at).collect();
        let mut cursor = reader.cursor(bounds)?;
        let mut position: Option<usize> = None;
        for (number, step) in moves.iter().enumerate() {
            position = match step {
                Move::First => (cursor.seek_to_first()?, Some(0)).1,
                Move::Last => (cursor.seek_to_last()?, entries.len().checked_sub(1)).1,
                Move::Seek(key) => {
                    cursor.seek(key.bytes())?;
                    Some(entries.partition_point(|(found, _)| **found < *key.bytes()))
                }
                Move::SeekForPrev(key) => {
                    cursor.seek_for_prev(key.bytes())?;
                    entries.partition_point(|(found, _)| **found <= *key.bytes()).checked_sub(1)
                }
                Move::Next => (cursor.advance()?, position.map(|at| at + 1)).1,
                Move::Prev => (cursor.retreat()?, position.and_then(|at| at.checked_sub(1))).1,
            };
            position = position.filter(|&at| at < entries.len());
            let expected = position.map(|at| (entries[at].0, &*entries[at].1));
            same_entry(&format!("cursor, move {number} {step:?}"), cursor.entry(), expected)?;
        }
        Ok(())
    }

    fn check_all(&self) -> Outcome {
        self.compare(None, self.now()?)?;
        for (snapshot, at) in &self.snapshots {
            self.compare(Some(snapshot), *at)?;
        }
        let report = self.db()?.verify()?;
        ensure!(report.is_clean(), "verify found damage: {:?}", report.damage);
        Ok(())
    }

    fn check_read_only(&mut self) -> Outcome {
        self.close()?;
        self.open_read_only()?;
        self.check_all()?;
        if self.follower.is_some() {
            self.follow(true, Durability::Process, false)?;
        }
        let refused = self.db()?.default_keyspace().put(b"k", b"v");
        ensure!(matches!(refused, Err(Error::ReadOnly { .. })), "a read-only database takes writes");
        self.close()?;
        self.open(true)?;
        let edit = crate::script::Edit { space: 0, key: Key(40), action: crate::script::Action::Delete };
        self.write(&[edit], crate::script::WriteMethod::Plain, Durability::Process).map(|_| ())
    }
}
