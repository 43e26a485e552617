//! Runs the writing half of a script on a database and on the oracle.
//!
//! This file opens and closes the database and leads each operation to its kind: [`writes`], [`keyspaces`],
//! [`following`], [`copies`], [`callbacks`], [`handles`], [`neighbour`]. Operations of one key, ingests and
//! transactions are in modules beside this one.

mod callbacks;
mod content;
mod copies;
mod edits;
mod following;
mod handles;
mod keyspaces;
mod mark;
mod moves;
mod neighbour;
mod writes;

pub use content::read_all;
pub(crate) use edits::{PlainChange, effective, key_bounds, plain_change, plain_changes, put_into, range_of};
pub(crate) use following::keeps_little;
pub use mark::Mark;

use crate::events::{AtOpen, EventAudit};
use crate::follower::Follower;
use crate::open_transaction::OpenTransaction;
use crate::operators::Chain;
use crate::options::{DATABASE, KEYSPACE};
use crate::oracle::{Moment, Oracle, difference};
use crate::script::{Op, Plan};
use crate::{Failure, Outcome, SPACES, ensure};
use esker::backup::BackupId;
use esker::parts::StepBackground;
use esker::parts::env::fault::StrictFs;
use esker::parts::env::{Background, Clock, Env, FileSystem, ManualClock};
use esker::{Database, Keyspace, KeyspaceOptions, Options, Snapshot};
use keyspaces::stored;
use neighbour::Neighbour;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where the database is.
pub const DIR: &str = "/db";

/// A database under test, with what it must contain.
#[derive(Debug)]
pub struct Runner {
    plan: Plan,
    env: Env,
    dir: PathBuf,
    /// Where it was created; copies lie beside.
    home: PathBuf,
    /// Gets marks, if the trace is wanted.
    pub(crate) trace: Option<StrictFs>,
    pub(crate) db: Option<Database>,
    pub(crate) spaces: Vec<Option<Keyspace>>,
    /// The options that each keyspace was given last.
    space_options: Vec<Option<KeyspaceOptions>>,
    pub(crate) oracle: Oracle,
    pub(crate) snapshots: Vec<(Snapshot, Moment)>,
    /// Open transactions, oldest first.
    pub(crate) transactions: Vec<OpenTransaction>,
    /// What reads the change stream.
    pub(crate) follower: Option<Follower>,
    /// The wall clock, where it is one that the script may move.
    clock: Option<Arc<ManualClock>>,
    flush_on_close: bool,
    /// The events since the open, and the files of that time.
    audit: Option<(EventAudit, AtOpen)>,
    /// The backups there are, oldest first, and the last commit in each.
    backups: Vec<(BackupId, usize)>,
    neighbour: Neighbour,
    /// Operations whose answers were checked.
    pub checked: u64,
}

impl Runner {
    /// Opens a database as the plan says, in a simulated world over `fs`.
    pub fn start(plan: &Plan, fs: Arc<dyn FileSystem>) -> Outcome<Runner> {
        Runner::start_with(plan, Env::simulated(fs, plan.seed), Path::new(DIR), true)
    }

    /// Opens the plan's database anywhere. With the real clock, expiries are now or in a day.
    pub fn start_in(plan: &Plan, env: Env, dir: &Path) -> Outcome<Runner> {
        Runner::start_with(plan, env, dir, false)
    }

    fn start_with(plan: &Plan, mut env: Env, dir: &Path, moves_clock: bool) -> Outcome<Runner> {
        let clock = moves_clock.then(|| Arc::new(ManualClock::new(env.clock.wall_ms())));
        if let Some(clock) = &clock {
            env.clock = Arc::<ManualClock>::clone(clock);
        }
        let mut plan = Plan { script: Vec::new(), ..plan.clone() };
        if clock.is_none() {
            for chosen in &mut plan.spaces {
                *chosen = chosen.clone().with(KEYSPACE, "default ttl", "none");
            }
        }
        let mut runner = Runner {
            plan,
            env,
            dir: dir.to_path_buf(),
            home: dir.to_path_buf(),
            trace: None,
            db: None,
            spaces: vec![None; SPACES.len()],
            space_options: vec![None; SPACES.len()],
            oracle: Oracle::default(),
            snapshots: Vec::new(),
            transactions: Vec::new(),
            follower: None,
            clock,
            flush_on_close: true,
            audit: None,
            backups: Vec::new(),
            neighbour: Neighbour::default(),
            checked: 0,
        };
        runner.open(true)?;
        Ok(runner)
    }

    /// The options that the plan chooses.
    pub fn options(plan: &Plan, env: Env) -> Options {
        let default = plan.spaces[0].apply(KEYSPACE, KeyspaceOptions::default());
        let options = plan.database.apply(DATABASE, Options::default()).keyspace_options(default).env(env);
        options.custom_merge(Arc::new(Chain))
    }

    /// The open database.
    pub fn db(&self) -> Outcome<&Database> {
        self.db.as_ref().ok_or_else(|| Failure::new("the database is not open"))
    }

    pub(crate) fn env(&self) -> &Env {
        &self.env
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn mark(&self, mark: Mark, of: usize) {
        if let Some(fs) = &self.trace {
            fs.mark(mark.number(of));
        }
    }

    pub(crate) fn open(&mut self, flush_on_close: bool) -> Outcome {
        self.flush_on_close = flush_on_close;
        let options = Runner::options(&self.plan, self.env.clone()).flush_on_close(flush_on_close);
        // With threads files change before they can be listed.
        if !matches!(self.env.background, Background::Stepped { .. }) {
            return self.attach(Database::open_with(&self.dir, options)?);
        }
        let audit = EventAudit::default();
        let db = Database::open_with(&self.dir, audit.watch(options))?;
        let at_open = EventAudit::at_open(&db)?;
        self.audit = Some((audit, at_open));
        self.attach(db)
    }

    pub(crate) fn open_read_only(&mut self) -> Outcome {
        let db =
            Database::open_with(&self.dir, Runner::options(&self.plan, self.env.clone()).read_only(true))?;
        self.attach(db)
    }

    fn attach(&mut self, db: Database) -> Outcome {
        self.spaces = SPACES.iter().map(|name| db.open_keyspace(name).ok()).collect();
        for (name, options) in SPACES.iter().zip(&self.space_options) {
            // A filter is code: every open attaches it again.
            if let Some(options) =
                options.as_ref().filter(|options| options.compaction_filter_name().is_some())
                && db.open_keyspace(name).is_ok()
            {
                db.keyspace_with(name, options.clone())?;
            }
        }
        self.db = Some(db);
        for (space, keyspace) in self.spaces.iter().enumerate() {
            let expected = &self.space_options[space];
            let found = keyspace.as_ref().map(Keyspace::options);
            // The default keyspace comes by itself.
            ensure!(
                found.as_ref().map(stored) == expected.as_ref().map(stored)
                    || (space == 0 && expected.is_none()),
                "keyspace {} has {found:?} after opening, not {expected:?}",
                SPACES[space]
            );
        }
        Ok(())
    }

    /// Closes the database; also whether a mark may say that everything is durable.
    pub(crate) fn close(&mut self) -> Outcome {
        let now = self.oracle.now();
        self.snapshots.clear();
        self.transactions.clear();
        if let Some(follower) = &mut self.follower {
            follower.rest();
        }
        self.spaces.fill(None);
        if let Some(db) = self.db.take() {
            db.close()?;
            self.mark(Mark::Powered, now);
            self.mark(Mark::Flushed, now);
            if let Some((audit, at_open)) = self.audit.take() {
                audit.check(&db, &at_open).map_err(|failure| failure.during("the events"))?;
            }
        }
        Ok(())
    }

    /// Carries out an operation that is not a read; `Ok(false)` for reads.
    pub fn change(&mut self, op: &Op) -> Outcome<bool> {
        let now = self.oracle.now();
        match op {
            Op::Write { edits, how, durability } => {
                self.write(edits, *how, *durability)?;
            }
            Op::Put { space, key, value, lifetime, durability } => {
                self.put_one(*space, *key, *value, *lifetime, *durability)?;
            }
            Op::Merge { space, key, operand, lifetime, durability } => {
                self.merge_one(*space, *key, *operand, *lifetime, *durability)?;
            }
            Op::Update { space, key, value, lifetime } => self.update(*space, *key, *value, *lifetime)?,
            Op::Join { space, edits, load_method } => self.join(*space, edits, *load_method)?,
            Op::Snapshot => {
                let snapshot = self.db()?.snapshot();
                let moment = Moment { commit: now, time_ms: crate::unix_ms(snapshot.time()) };
                ensure!(
                    moment.time_ms == self.now()?.time_ms || self.clock.is_none(),
                    "a snapshot of another time"
                );
                self.snapshots.push((snapshot, moment));
            }
            Op::Release(which) if !self.snapshots.is_empty() => {
                self.snapshots.swap_remove(usize::from(*which) % self.snapshots.len());
            }
            Op::Release(_) => {}
            Op::Flush => {
                self.db()?.flush()?;
                self.mark(Mark::Powered, now);
                self.mark(Mark::Flushed, now);
            }
            Op::Sync => {
                self.db()?.sync()?;
                self.mark(Mark::Powered, now);
                self.mark(Mark::Flushed, now);
            }
            Op::Compact { space, lower, upper } => {
                if let Some(keyspace) = &self.spaces[usize::from(*space)] {
                    keyspace.compact(key_bounds(lower, upper))?;
                }
            }
            Op::DropKeyspace(space) => self.drop_keyspace(usize::from(*space))?,
            Op::RenameKeyspace { from, to } => self.rename_keyspace(usize::from(*from), usize::from(*to))?,
            Op::SetOptions { space, options } => self.set_options(usize::from(*space), options)?,
            Op::Touch { space, key, ttl_ms } => self.touch(usize::from(*space), *key, *ttl_ms)?,
            Op::Clock(by_ms) => self.move_clock(*by_ms)?,
            Op::Follow { anew, durability, acknowledge } => self.follow(*anew, *durability, *acknowledge)?,
            Op::Drain => self.db()?.drain()?,
            Op::Step(count) => {
                for _ in 0..*count {
                    self.db()?.step_background();
                }
            }
            Op::Reopen { flush_on_close } => {
                self.close()?;
                self.open(*flush_on_close)?;
            }
            Op::Copy(method) => self.copy(*method)?,
            Op::Panic { call, space, key } => self.panic_in(*call, usize::from(*space), &key.bytes())?,
            Op::Outlive(order) => self.outlive(*order)?,
            Op::OpenBeside => self.open_beside()?,
            Op::ChangePath(change) => self.change_path(*change)?,
            Op::Neighbour { key, value } => self.visit_neighbour(*key, *value)?,
            _ => return self.step_transaction(op),
        }
        Ok(true)
    }

    /// The present. Asking for the time fixes it: the database's time does not run back behind it.
    pub fn now(&self) -> Outcome<Moment> {
        Ok(Moment { commit: self.oracle.now(), time_ms: crate::unix_ms(self.db()?.now()) })
    }

    /// Whether time moves only when the script says so.
    pub(crate) fn moves_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// How long something lives that is to live so many milliseconds.
    pub(crate) fn ttl(&self, ms: u32) -> Duration {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        match &self.clock {
            Some(_) => Duration::from_millis(ms.into()),
            None if ms < 1000 => Duration::ZERO,
            None => DAY,
        }
    }

    fn move_clock(&mut self, by_ms: i32) -> Outcome {
        let Some(clock) = &self.clock else { return Ok(()) };
        let before = self.now()?.time_ms;
        clock.set_wall_ms(clock.wall_ms().saturating_add_signed(by_ms.into()));
        let (after, wall_ms) = (self.now()?.time_ms, clock.wall_ms());
        ensure!(
            after == before.max(wall_ms),
            "time went from {before} to {after}, the clock shows {wall_ms}"
        );
        Ok(())
    }

    /// Compares everything with the state at a moment, read through `snapshot` if given.
    pub fn compare(&self, snapshot: Option<&Snapshot>, at: Moment) -> Outcome {
        let found = read_all(self.db()?, snapshot)?;
        let expected = self.oracle.content_at(at);
        ensure!(found == expected, "at {at:?}: {}", difference(&found, &expected));
        Ok(())
    }
}
