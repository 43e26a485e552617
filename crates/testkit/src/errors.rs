//! The error sweep: fails each call of a workload that changes the file system or reads from it, one in each
//! run, or one and all after it.
//!
//! The workload goes on after the failure. Every failure must be reported as an error about the disk, never
//! as a panic or as an error that blames the database or the data. After the disk is repaired and the
//! database reopened, everything acknowledged is there. A write that failed may be there or not: each key
//! holds its last acknowledged value or one whose write failed later. After a failed sync the sweep also cuts
//! power: then everything acknowledged as surviving that must be there.

use crate::events::{AtOpen, EventAudit};
use crate::follower::CONSUMER;
use crate::ingest::{LoadMethod, table_edits, without_merge, write_tables};
use crate::options::KEYSPACE;
use crate::oracle::{Content, brief};
use crate::runner::{DIR, PlainChange, Runner, key_bounds, plain_changes, put_into, read_all};
use crate::script::{Action, Edit, Op, Plan, WriteMethod};
use crate::{Failure, Key, Outcome, SPACES, ensure};
use esker::ingest::IngestOptions;
use esker::parts::StepBackground;
use esker::parts::env::Env;
use esker::parts::env::fault::{Crash, Fault, FaultFs, Operation, Rule, StrictFs, When};
use esker::{Database, Durability, Error, KeyspaceOptions, TransactionOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// A fault, and the calls that it is tried on.
#[derive(Clone, Copy, Debug)]
pub struct Injection {
    /// What goes wrong.
    pub fault: Fault,
    /// In which calls.
    pub operations: &'static [Operation],
    /// On which paths: those that contain this text.
    pub path: &'static str,
}

/// How often a fault happens in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// In one call.
    Once,
    /// In a call and in all after it, until the disk is repaired.
    FromNowOn,
}

/// A write succeeds within so many attempts once the disk is repaired that had failed for long.
const RETRIES: u32 = 4;

const CHANGES: &[Operation] = &[
    Operation::Create,
    Operation::CreateDir,
    Operation::Rename,
    Operation::Remove,
    Operation::SyncDir,
    Operation::SyncShared,
    Operation::Write,
    Operation::SetLen,
    Operation::Allocate,
    Operation::SyncData,
    Operation::SyncAll,
    Operation::Map,
];
const GROWTH: &[Operation] =
    &[Operation::Create, Operation::CreateDir, Operation::Write, Operation::SetLen, Operation::Allocate];
const SYNCS: &[Operation] = &[Operation::SyncShared, Operation::SyncData, Operation::SyncAll];
const READS: &[Operation] = &[Operation::Read];

/// Faults of calls that change the file system.
pub const FAULTS: [Injection; 5] = [
    Injection { fault: Fault::Io, operations: CHANGES, path: "" },
    Injection { fault: Fault::Full, operations: GROWTH, path: "" },
    Injection { fault: Fault::ShortWrite { keep_bytes: 9 }, operations: &[Operation::Write], path: "" },
    Injection { fault: Fault::ShortFull { keep_bytes: 700 }, operations: &[Operation::Write], path: "" },
    Injection { fault: Fault::LostSync, operations: SYNCS, path: "" },
];

/// Faults of reads. Wrong bytes of the log and the manifest are not among them: where a record does not
/// verify at the end of the log, it ends there.
pub const READ_FAULTS: [Injection; 4] = [
    Injection { fault: Fault::Io, operations: READS, path: "" },
    Injection { fault: Fault::FlippedBit { bit: 4_001 }, operations: READS, path: "tables/" },
    Injection { fault: Fault::ZeroedSector { sector: 3 }, operations: READS, path: "tables/" },
    Injection { fault: Fault::ShortRead { keep_bytes: 40 }, operations: READS, path: "tables/" },
];

/// The values that a key may hold: the last acknowledged one, and those of later writes that failed.
type Possible = BTreeMap<(usize, Vec<u8>), Vec<Option<Vec<u8>>>>;

/// Fails every `step`th call that an injection is for, each in a run of its own; returns the number of runs.
///
/// # Errors
/// The first run that went wrong, with the number of its call.
pub fn sweep(plan: &Plan, injection: &Injection, lasting: Lasting, step: usize) -> Outcome<u64> {
    let mut runs = 0;
    for number in (1..).step_by(step) {
        let when = match lasting {
            Lasting::Once => When::Nth(number),
            Lasting::FromNowOn => When::From(number),
        };
        let rule = Rule::new(injection.fault, when).path(injection.path);
        let rule = injection.operations.iter().fold(rule, |rule, operation| rule.on(*operation));
        let trial = Trial::new(plan, injection.fault, rule);
        let outcome = catch_unwind(AssertUnwindSafe(|| trial.run()));
        let outcome = outcome.unwrap_or_else(|panic| Err(Failure::of_panic(&*panic)));
        outcome.map_err(|failure| {
            failure.during(format_args!("{:?}, {lasting:?}, at call {number}", injection.fault))
        })?;
        if trial.faults.injected() == 0 {
            // The run has fewer calls.
            break;
        }
        runs += 1;
    }
    Ok(runs)
}

/// An open database, and the audit of its events.
struct Audited {
    db: Database,
    audit: EventAudit,
    at_open: AtOpen,
}

impl Audited {
    /// Closes the database and checks its events, whatever the outcome.
    fn close(&self) -> Outcome<esker::Result<()>> {
        let closed = self.db.close();
        self.audit.check(&self.db, &self.at_open).map_err(|failure| failure.during("the events"))?;
        Ok(closed)
    }
}

struct Trial<'a> {
    plan: &'a Plan,
    fault: Fault,
    strict: StrictFs,
    faults: FaultFs,
}

/// What the acknowledged writes of a run guarantee.
#[derive(Default)]
struct GuaranteedState {
    /// While nothing is lost.
    live: Possible,
    /// After the process dies, which takes unlogged writes.
    process: Possible,
    /// After power is lost.
    power: Possible,
}

impl GuaranteedState {
    /// The changes that edits may make: a range delete removes every key of its range that was ever written.
    fn changes(&self, edits: &[Edit]) -> Vec<PlainChange> {
        plain_changes(edits, |of, range| {
            let known = self.process.keys().filter(|(space, _)| *space == of).map(|(_, key)| key);
            known.filter(|key| range.contains(*key)).cloned().collect()
        })
    }

    fn note(&mut self, changes: &[PlainChange], acknowledged: bool) {
        self.note_written(changes, acknowledged, true);
    }

    /// Notes changes that were written, or, if not acknowledged, may have been.
    fn note_written(&mut self, changes: &[PlainChange], acknowledged: bool, is_logged: bool) {
        let replaces = [acknowledged, acknowledged && is_logged, false];
        for (space, key, value) in changes {
            for (possible, replaces) in
                [&mut self.live, &mut self.process, &mut self.power].into_iter().zip(replaces)
            {
                let values = possible.entry((*space, key.clone())).or_insert_with(|| vec![None]);
                if replaces {
                    values.clear();
                }
                values.push(value.clone());
            }
        }
    }

    /// Notes that a keyspace was dropped, or, if not acknowledged, may have been.
    fn note_drop(&mut self, space: usize, acknowledged: bool) {
        let keys: Vec<Vec<u8>> =
            self.process.keys().filter(|(of, _)| *of == space).map(|(_, key)| key.clone()).collect();
        let changes: Vec<PlainChange> = keys.into_iter().map(|key| (space, key, None)).collect();
        self.note(&changes, acknowledged);
    }

    /// Notes that a keyspace was renamed, or, if not acknowledged, may have been.
    fn note_rename(&mut self, from: usize, to: usize, acknowledged: bool) {
        for possible in [&mut self.live, &mut self.process, &mut self.power] {
            let moved: Vec<_> = possible.extract_if(.., |(space, _), _| *space == from).collect();
            for ((_, key), mut values) in moved {
                let here = possible.entry((to, key.clone())).or_insert_with(|| vec![None]);
                if acknowledged {
                    here.clear();
                } else {
                    let mut there = values.clone();
                    there.push(None);
                    possible.insert((from, key.clone()), there);
                }
                possible.entry((to, key)).or_default().append(&mut values);
            }
        }
    }

    /// Everything logged so far survives a power cut from now on.
    fn settle(&mut self) {
        self.power = self.process.clone();
    }

    /// The database was closed without success: what only memory had is gone.
    fn reopen(&mut self) {
        self.live = self.process.clone();
    }

    /// Everything acknowledged so far survives any crash from now on.
    fn settle_all(&mut self) {
        self.process = self.live.clone();
        self.settle();
    }
}

/// Accepts errors about the disk and errors that follow from them; anything else is a failure.
fn expect_sane(error: Error, fault: Fault) -> Outcome {
    let is_wrong_read =
        matches!(fault, Fault::FlippedBit { .. } | Fault::ZeroedSector { .. } | Fault::ShortRead { .. });
    match error {
        Error::Io(_) | Error::Full(_) | Error::ReadOnly { .. } | Error::WouldStall { .. } => Ok(()),
        Error::Corruption(_) if is_wrong_read => Ok(()),
        error => Err(Failure::new(format!("an error that does not blame the disk: {error}"))),
    }
}

impl<'a> Trial<'a> {
    fn new(plan: &'a Plan, fault: Fault, rule: Rule) -> Trial<'a> {
        let strict = StrictFs::new();
        let faults = FaultFs::over_strict(strict.clone());
        faults.add(rule);
        Trial { plan, fault, strict, faults }
    }

    fn env(&self) -> Env {
        Env::simulated(Arc::new(self.faults.clone()), self.plan.seed)
    }

    fn open(&self) -> esker::Result<Audited> {
        let audit = EventAudit::default();
        let db = Database::open_with(DIR, audit.watch(Runner::options(self.plan, self.env())))?;
        let at_open = EventAudit::at_open(&db)?;
        Ok(Audited { db, audit, at_open })
    }

    /// Opens the database. If one call fails in a run, the second attempt succeeds; if all fail from now on,
    /// the third does, after the disk was repaired.
    fn open_again(&self) -> Outcome<Audited> {
        for _ in 0..2 {
            match self.open() {
                Ok(open) => return Ok(open),
                Err(error) => expect_sane(error, self.fault)?,
            }
        }
        self.faults.heal();
        self.open().map_err(|error| Failure::from(error).during("an open of a repaired disk"))
    }

    fn run(&self) -> Outcome {
        let fault = self.fault;
        let mut open = self.open_again()?;
        let mut guaranteed = GuaranteedState::default();
        for op in &self.plan.script {
            if let Op::Reopen { .. } = op {
                match open.close()? {
                    Ok(()) => guaranteed.settle_all(),
                    Err(error) => {
                        guaranteed.reopen();
                        expect_sane(error, fault)?;
                    }
                }
                open = self.open_again()?;
            } else {
                let done = step(&open.db, &self.env(), op, &mut guaranteed);
                done.or_else(|error| expect_sane(error, fault))?;
            }
        }
        let happened = self.faults.injected();
        self.faults.heal();
        if happened > 0 {
            // After a lasting fault the first calls may still get the failure of background work that was not
            // tried again since.
            let attempts = if happened > 1 { RETRIES } else { 1 };
            let put = || open.db.default_keyspace().put(b"healed", b"yes");
            let healed = (1..attempts).fold(put(), |healed, _| healed.or_else(|_| put()));
            let excused = matches!(healed, Err(Error::ReadOnly { .. })) && !matches!(fault, Fault::Full);
            ensure!(healed.is_ok() || excused, "after healing, a write says {healed:?}");
            guaranteed.note(&[(0, b"healed".to_vec(), Some(b"yes".to_vec()))], healed.is_ok());
        }
        if open.close()?.is_ok() {
            guaranteed.settle_all();
        }
        drop(open);
        if fault == Fault::LostSync {
            let lost = self.strict.crash(Crash::PowerAllLost);
            let env = Env::simulated(Arc::new(lost), self.plan.seed);
            check(&Database::open_with(DIR, Runner::options(self.plan, env))?, &guaranteed.power)
                .map_err(|failure| failure.during("after a power cut"))?;
        }
        let open = self.open()?;
        check(&open.db, &guaranteed.process)?;
        ensure!(open.db.verify()?.is_clean(), "verify found damage");
        open.db.default_keyspace().put(b"more", b"1")?;
        open.close()??;
        Ok(())
    }
}

/// Reads the change stream to its end and acknowledges it if told so.
fn follow(db: &Database, acknowledge: bool) -> esker::Result<()> {
    let consumer = match db.consumer(CONSUMER) {
        Err(Error::NotFound(_)) => db.create_consumer(CONSUMER)?,
        found => found?,
    };
    let mut changes = match consumer.changes() {
        Err(Error::HistoryGone(_)) => return db.drop_consumer(CONSUMER),
        changes => changes?,
    };
    while let Some(batch) = changes.try_next()? {
        if acknowledge {
            consumer.acknowledge(batch.last_seqno())?;
        }
    }
    Ok(())
}

/// Writes edits, and notes what that guarantees.
fn write_edits(
    db: &Database,
    edits: &[Edit],
    how: WriteMethod,
    durability: Durability,
    guaranteed: &mut GuaranteedState,
) -> esker::Result<()> {
    let changes = guaranteed.changes(edits);
    let written = match how {
        WriteMethod::Transaction => transact(db, &changes, durability),
        _ => write(db, edits, durability),
    };
    let spaces: BTreeSet<usize> = changes.iter().map(|(space, ..)| *space).collect();
    // Batches over keyspaces are logged, and all while there are consumers.
    let is_logged = durability != Durability::None || spaces.len() > 1 || !db.consumers().is_empty();
    guaranteed.note_written(&changes, written.is_ok(), is_logged);
    if written.is_ok() && durability == Durability::Power && how != WriteMethod::Try {
        guaranteed.settle();
    }
    written
}

/// Carries out an operation, and notes what it guarantees.
fn step(db: &Database, env: &Env, op: &Op, guaranteed: &mut GuaranteedState) -> esker::Result<()> {
    match op {
        Op::Write { edits, how, durability } => write_edits(db, edits, *how, *durability, guaranteed),
        Op::Join { space, edits, load_method } => {
            let edits: Vec<_> = edits.iter().map(|(key, action)| (*key, without_expiry(*action))).collect();
            let changes = loaded_changes(*space, &edits, *load_method);
            let joined = join(db, env, *space, &edits, *load_method);
            guaranteed.note(&changes, joined.is_ok());
            joined.map(|()| guaranteed.settle())
        }
        Op::Flush => db.flush().map(|()| guaranteed.settle_all()),
        Op::Sync => db.sync().map(|()| guaranteed.settle_all()),
        Op::Compact { space, lower, upper } => match db.open_keyspace(SPACES[usize::from(*space)]) {
            Ok(keyspace) => keyspace.compact(key_bounds(lower, upper)),
            Err(_) => Ok(()),
        },
        Op::DropKeyspace(space) => match db.drop_keyspace(SPACES[usize::from(*space)]) {
            // The default keyspace cannot be dropped.
            Err(Error::NotFound(_) | Error::InvalidArgument(_)) => Ok(()),
            dropped => {
                guaranteed.note_drop(usize::from(*space), dropped.is_ok());
                dropped.map(|()| guaranteed.settle())
            }
        },
        // A rename to the same name changes nothing.
        Op::RenameKeyspace { from, to } if from == to => Ok(()),
        Op::RenameKeyspace { from, to } => {
            let (from, to) = (usize::from(*from), usize::from(*to));
            match db.rename_keyspace(SPACES[from], SPACES[to]) {
                // After a drop that failed the name may be taken.
                Err(Error::NotFound(_) | Error::InvalidArgument(_)) => Ok(()),
                renamed => {
                    guaranteed.note_rename(from, to, renamed.is_ok());
                    renamed.map(|()| guaranteed.settle())
                }
            }
        }
        Op::SetOptions { space, options } => match db.open_keyspace(SPACES[usize::from(*space)]) {
            Ok(keyspace) => {
                match keyspace.update_options(|_| options.apply(KEYSPACE, KeyspaceOptions::default())) {
                    // The merge operator stays what it is.
                    Err(Error::InvalidArgument(_)) => Ok(()),
                    set => set.map(|_| ()),
                }
            }
            Err(_) => Ok(()),
        },
        Op::Follow { acknowledge, .. } => follow(db, *acknowledge),
        Op::Drain => db.drain(),
        Op::Step(count) => {
            (0..*count).for_each(|_| {
                db.step_background();
            });
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The same edit without an expiry.
fn without_expiry(action: Action) -> Action {
    match without_merge(action) {
        Action::PutFor(value, _) => Action::Put(value),
        other => other,
    }
}

/// The changes of an ingest or a bulk load; of a key that comes twice the last edit counts, in both.
fn loaded_changes(space: u8, edits: &[(Key, Action)], load_method: LoadMethod) -> Vec<PlainChange> {
    let is_load = matches!(load_method, LoadMethod::BulkLoad { .. });
    let kept = edits.iter().filter(|(_, action)| !is_load || matches!(action, Action::Put(_))).copied();
    let last = table_edits(&kept.collect::<Vec<_>>());
    let value = |action| if let Action::Put(value) = action { Some(value.bytes()) } else { None };
    last.into_iter().map(|(key, action)| (usize::from(space), key, value(action))).collect()
}

fn join(
    db: &Database,
    env: &Env,
    space: u8,
    edits: &[(Key, Action)],
    load_method: LoadMethod,
) -> esker::Result<()> {
    let options = KeyspaceOptions::default().write_buffer_size(4 << 10);
    let keyspace = db.keyspace_with(SPACES[usize::from(space)], options)?;
    match load_method {
        LoadMethod::Tables { tables, mode } => {
            let edits = table_edits(edits);
            let paths = write_tables(env, Path::new(DIR), &keyspace.options(), &edits, tables, |_| 0)?;
            keyspace.ingest(paths, IngestOptions::new().mode(mode))?;
        }
        LoadMethod::BulkLoad { sort_memory } => {
            let mut loader = keyspace.bulk_load()?.sort_memory(sort_memory.into());
            for (key, action) in edits {
                if let Action::Put(value) = action {
                    loader.add(key.bytes(), value.bytes())?;
                }
            }
            loader.finish()?;
        }
    }
    Ok(())
}

fn write(db: &Database, edits: &[Edit], durability: Durability) -> esker::Result<()> {
    let mut batch = db.batch();
    for edit in edits {
        let options = KeyspaceOptions::default().write_buffer_size(4 << 10);
        let keyspace = db.keyspace_with(SPACES[usize::from(edit.space)], options)?;
        put_into(&mut batch, &keyspace, edit);
    }
    db.write_with(&batch, durability).map(drop)
}

fn transact(db: &Database, changes: &[PlainChange], durability: Durability) -> esker::Result<()> {
    db.transact_with(TransactionOptions::default().durability(durability), |tx| {
        for (space, key, value) in changes {
            let options = KeyspaceOptions::default().write_buffer_size(4 << 10);
            let keyspace = db.keyspace_with(SPACES[*space], options)?;
            tx.get(&keyspace, key)?;
            match value {
                Some(value) => tx.put(&keyspace, key, value)?,
                None => tx.delete(&keyspace, key)?,
            }
        }
        Ok(())
    })
}

/// Checks that every key holds one of its possible values.
fn check(db: &Database, possible: &Possible) -> Outcome {
    let content: Content = read_all(db, None)?;
    for ((space, key), values) in possible {
        let found = content[*space].get(key);
        let fine = values.iter().any(|value| value.as_ref() == found);
        let shown: Vec<String> = values.iter().map(|value| brief(value.as_deref())).collect();
        let found = brief(found.map(Vec::as_slice));
        ensure!(fine, "{} in {} holds {found}, not one of {shown:?}", brief(Some(key)), SPACES[*space]);
    }
    let entries =
        content.iter().enumerate().flat_map(|(space, keys)| keys.keys().map(move |key| (space, key)));
    let stray = entries.into_iter().find(|(space, key)| !possible.contains_key(&(*space, (*key).clone())));
    ensure!(stray.is_none(), "a key is there that nobody wrote: {stray:?}");
    Ok(())
}
