//! The error sweep: fails each call of a workload that changes the file system, one in each run.
//!
//! The workload goes on after the failure. Every failure must be reported as an error about the disk, never
//! as a panic or as an error that blames the database or the data. After the disk is repaired and the
//! database reopened, everything acknowledged is there. A write that failed may be there or not: each key
//! holds its last acknowledged value or one whose write failed later. After a failed sync the sweep also cuts
//! power: then everything acknowledged as surviving that must be there.

use crate::events::EventAudit;
use crate::follower::CONSUMER;
use crate::ingest::{LoadMethod, table_edits, without_merge, write_tables};
use crate::options::KEYSPACE;
use crate::oracle::{Content, brief};
use crate::runner::{DIR, PlainChange, Runner, key_bounds, plain_changes, put_into, read_all};
use crate::script::{Action, Edit, Op, Plan, WriteMethod};
use crate::{Failure, Key, Outcome, SPACES, ensure};
use esker::ingest::IngestOptions;
use esker::parts::StepBackground;
use esker::parts::base::FileNumber;
use esker::parts::env::Env;
use esker::parts::env::fault::{Crash, Fault, FaultFs, Operation, Rule, StrictFs, When};
use esker::{Database, Durability, Error, KeyspaceOptions, TransactionOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// Faults, and the calls that each is tried on.
pub const FAULTS: [(Fault, &[Operation]); 3] = [
    (
        Fault::Io,
        &[
            Operation::Create,
            Operation::CreateDir,
            Operation::Rename,
            Operation::Remove,
            Operation::SyncDir,
            Operation::Write,
            Operation::SetLen,
            Operation::Allocate,
            Operation::SyncData,
            Operation::SyncAll,
            Operation::Map,
        ],
    ),
    (
        Fault::Full,
        &[Operation::Create, Operation::CreateDir, Operation::Write, Operation::SetLen, Operation::Allocate],
    ),
    (Fault::LostSync, &[Operation::SyncData, Operation::SyncAll]),
];

/// The values that a key may hold: the last acknowledged one, and those of later writes that failed.
type Possible = BTreeMap<(usize, Vec<u8>), Vec<Option<Vec<u8>>>>;

/// Fails each call that `fault` applies to, one in each run of the plan; returns the number of runs.
///
/// # Errors
/// The first run that went wrong, with the number of its call.
pub fn sweep(plan: &Plan, fault: Fault, operations: &[Operation]) -> Outcome<u64> {
    let calls = {
        let trial = Trial::new(plan, None);
        trial.run(fault)?;
        operations.iter().map(|operation| trial.faults.calls(*operation)).sum::<u64>()
    };
    for number in 1..=calls {
        let rule = Rule::new(fault, When::Nth(number));
        let rule = operations.iter().fold(rule, |rule, operation| rule.on(*operation));
        let trial = Trial::new(plan, Some(rule));
        let outcome = catch_unwind(AssertUnwindSafe(|| trial.run(fault)));
        let outcome = outcome.unwrap_or_else(|panic| Err(Failure::of_panic(&*panic)));
        outcome.map_err(|failure| failure.during(format_args!("{fault:?} at call {number} of {calls}")))?;
    }
    Ok(calls)
}

/// An open database, and the audit of its events.
struct Audited {
    db: Database,
    audit: EventAudit,
    at_open: BTreeSet<FileNumber>,
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
    strict: StrictFs,
    faults: FaultFs,
}

/// What the acknowledged writes of a run guarantee.
#[derive(Default)]
struct GuaranteedState {
    /// After the process dies.
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
        for (space, key, value) in changes {
            let key = (*space, key.clone());
            let process = self.process.entry(key.clone()).or_insert_with(|| vec![None]);
            if acknowledged {
                process.clear();
            }
            process.push(value.clone());
            self.power.entry(key).or_insert_with(|| vec![None]).push(value.clone());
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
        for possible in [&mut self.process, &mut self.power] {
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

    /// Everything acknowledged so far survives a power cut from now on.
    fn settle(&mut self) {
        self.power = self.process.clone();
    }
}

/// Accepts errors about the disk and errors that follow from them; anything else is a failure.
fn expect_sane(error: Error) -> Outcome {
    match error {
        Error::Io(_) | Error::Full(_) | Error::ReadOnly { .. } | Error::WouldStall { .. } => Ok(()),
        error => Err(Failure::new(format!("an error that does not blame the disk: {error}"))),
    }
}

impl<'a> Trial<'a> {
    fn new(plan: &'a Plan, rule: Option<Rule>) -> Trial<'a> {
        let strict = StrictFs::new();
        let faults = FaultFs::over_strict(strict.clone());
        rule.into_iter().for_each(|rule| faults.add(rule));
        Trial { plan, strict, faults }
    }

    fn env(&self) -> Env {
        Env::simulated(Arc::new(self.faults.clone()), self.plan.seed)
    }

    fn open(&self) -> esker::Result<Audited> {
        let audit = EventAudit::default();
        let db = Database::open_with(DIR, audit.watch(Runner::options(self.plan, self.env())))?;
        let at_open = EventAudit::files(&db);
        Ok(Audited { db, audit, at_open })
    }

    /// Opens the database. One call fails in a run, so the second attempt succeeds.
    fn open_again(&self) -> Outcome<Audited> {
        match self.open() {
            Ok(open) => Ok(open),
            Err(error) => {
                expect_sane(error)?;
                self.open().map_err(|error| Failure::from(error).during("the second attempt to open"))
            }
        }
    }

    fn run(&self, fault: Fault) -> Outcome {
        let mut open = self.open_again()?;
        let mut guaranteed = GuaranteedState::default();
        for op in &self.plan.script {
            if let Op::Reopen { .. } = op {
                match open.close()? {
                    Ok(()) => guaranteed.settle(),
                    Err(error) => expect_sane(error)?,
                }
                open = self.open_again()?;
            } else {
                step(&open.db, &self.env(), op, &mut guaranteed)?;
            }
        }
        let happened = self.faults.injected() > 0;
        self.faults.heal();
        if happened {
            let healed = open.db.default_keyspace().put(b"healed", b"yes");
            let excused = matches!(healed, Err(Error::ReadOnly { .. })) && !matches!(fault, Fault::Full);
            ensure!(healed.is_ok() || excused, "after healing, a write says {healed:?}");
            guaranteed.note(&[(0, b"healed".to_vec(), Some(b"yes".to_vec()))], healed.is_ok());
        }
        let _ = open.close()?;
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

/// Carries out an operation and accepts any sane error.
fn step(db: &Database, env: &Env, op: &Op, guaranteed: &mut GuaranteedState) -> Outcome {
    let done = match op {
        Op::Write { edits, how, durability } => {
            let changes = guaranteed.changes(edits);
            let written = match how {
                WriteMethod::Transaction => transact(db, &changes, *durability),
                _ => write(db, edits, *durability),
            };
            guaranteed.note(&changes, written.is_ok());
            if written.is_ok() && *durability == Durability::Power && *how != WriteMethod::Try {
                guaranteed.settle();
            }
            written
        }
        Op::Join { space, edits, load_method } => {
            let edits: Vec<_> = edits.iter().map(|(key, action)| (*key, without_expiry(*action))).collect();
            let changes = loaded_changes(*space, &edits, *load_method);
            let joined = join(db, env, *space, &edits, *load_method);
            guaranteed.note(&changes, joined.is_ok());
            joined.map(|()| guaranteed.settle())
        }
        Op::Flush => db.flush().map(|()| guaranteed.settle()),
        Op::Sync => db.sync().map(|()| guaranteed.settle()),
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
                    set => set,
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
    };
    done.or_else(expect_sane)
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
    db.write_with(&batch, durability)
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
