//! Runs the writing half of a script on a database and on the oracle.

use crate::events::EventAudit;
use crate::follower::Follower;
use crate::open_transaction::{OpenTransaction, write_transaction};
use crate::operators::{Chain, Operator};
use crate::options::{Chosen, DATABASE, KEYSPACE};
use crate::oracle::{Change, Content, Moment, Oracle, Written, difference, over};
use crate::script::{Action, Edit, Op, Plan, WriteMethod};
use crate::{Failure, Filler, Outcome, SPACES, ensure};
use esker::parts::StepBackground;
use esker::parts::base::FileNumber;
use esker::parts::env::fault::StrictFs;
use esker::parts::env::{Background, Clock, Env, FileSystem, ManualClock};
use esker::{
    Database, Durability, Error, Expiry, Keyspace, KeyspaceOptions, Options, Snapshot, WriteBatch,
    WriteOptions,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Where the database is.
pub const DIR: &str = "/db";

/// A mark in a crash test's trace, with the number of a commit or keyspace in its low half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The commit is about to be written.
    Begun,
    /// It was acknowledged.
    Acknowledged,
    /// It, and everything before it, was promised to survive a power cut.
    Powered,
    /// The keyspace was created, or renamed to this.
    Created,
    /// A keyspace is about to be created, dropped or renamed: either state is right.
    Changing,
    /// There is no such keyspace any more.
    Gone,
    /// The follower's acknowledgement of this number was acknowledged.
    Followed,
}

impl Mark {
    const ALL: [Mark; 7] = [
        Mark::Begun,
        Mark::Acknowledged,
        Mark::Powered,
        Mark::Created,
        Mark::Changing,
        Mark::Gone,
        Mark::Followed,
    ];

    fn number(self, of: usize) -> u64 {
        (self as u64) << 32 | of as u64
    }

    /// Reads the number of a mark.
    pub fn parse(number: u64) -> (Mark, usize) {
        (Mark::ALL[(number >> 32) as usize], number as u32 as usize)
    }
}

/// A database under test, with what it must contain.
#[derive(Debug)]
pub struct Runner {
    plan: Plan,
    env: Env,
    dir: std::path::PathBuf,
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
    audit: Option<(EventAudit, BTreeSet<FileNumber>)>,
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
        self.audit = Some((audit, EventAudit::files(&db)));
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
            if let Some((audit, at_open)) = self.audit.take() {
                audit.check(&db, &at_open).map_err(|failure| failure.during("the events"))?;
            }
        }
        Ok(())
    }

    pub(crate) fn create(&mut self, space: u8) -> Outcome<Keyspace> {
        let space = usize::from(space);
        if let Some(keyspace) = &self.spaces[space] {
            return Ok(keyspace.clone());
        }
        let options = self.plan.spaces[space].apply(KEYSPACE, KeyspaceOptions::default());
        self.mark(Mark::Changing, space);
        let keyspace = self.db()?.keyspace_with(SPACES[space], options.clone())?;
        self.mark(Mark::Created, space);
        self.spaces[space] = Some(keyspace.clone());
        self.space_options[space] = Some(options);
        Ok(keyspace)
    }

    /// Drops a keyspace. What was opened before reads on, everything else is refused.
    fn drop_keyspace(&mut self, space: usize) -> Outcome {
        let Some(keyspace) = self.spaces[space].take() else {
            let missing = self.db()?.drop_keyspace(SPACES[space]);
            ensure!(matches!(missing, Err(Error::NotFound(_))), "dropping what is not there: {missing:?}");
            return Ok(());
        };
        if space == 0 {
            let refused = self.db()?.drop_keyspace(SPACES[0]);
            ensure!(matches!(refused, Err(Error::InvalidArgument(_))), "dropping the default: {refused:?}");
            self.spaces[0] = Some(keyspace);
            return Ok(());
        }
        // What they know of it goes by its name.
        self.transactions.clear();
        let before = self.oracle.content_at(self.now()?).swap_remove(space);
        let open = keyspace.iter();
        let mut batch = self.db()?.batch();
        batch.put(self.db()?.default_keyspace(), b"half of a batch", b"");
        batch.put(&keyspace, b"k", b"v");
        self.mark(Mark::Changing, space);
        self.mark(Mark::Begun, self.oracle.now() + 1);
        self.db()?.drop_keyspace(SPACES[space])?;
        let commit = self.oracle.drop_keyspace(space);
        self.space_options[space] = None;
        self.mark(Mark::Acknowledged, commit);
        self.mark(Mark::Powered, commit);
        self.mark(Mark::Gone, space);
        let after = open.map(|entry| entry.map(|(key, value)| (key.into_vec(), value.into_vec())));
        let after = after.collect::<esker::Result<BTreeMap<_, _>>>()?;
        ensure!(after == before, "an open range over a dropped keyspace shows something else");
        let answers = [
            keyspace.get(b"k").err(),
            keyspace.put(b"k", b"v").err(),
            keyspace.flush().err(),
            keyspace.update_options(|options| options).err(),
            keyspace.at(&self.db()?.snapshot()).get(b"k").err(),
            self.db()?.write(&batch).err(),
        ];
        for (call, answer) in answers.iter().enumerate() {
            let named = matches!(answer, Some(Error::NotFound(text)) if text.contains(SPACES[space]));
            ensure!(named, "call {call} on a dropped keyspace: {answer:?}");
        }
        Ok(())
    }

    fn rename_keyspace(&mut self, from: usize, to: usize) -> Outcome {
        self.transactions.clear();
        let renamed =
            |runner: &Runner| Ok::<_, Failure>(runner.db()?.rename_keyspace(SPACES[from], SPACES[to]));
        let Some(keyspace) = self.spaces[from].clone() else {
            let missing = renamed(self)?;
            ensure!(matches!(missing, Err(Error::NotFound(_))), "renaming what is not there: {missing:?}");
            return Ok(());
        };
        if from != 0 && from == to {
            return Ok(renamed(self)??);
        }
        if from == 0 || self.spaces[to].is_some() {
            let refused = renamed(self)?;
            ensure!(
                matches!(refused, Err(Error::InvalidArgument(_))),
                "renaming {from} to {to}: {refused:?}"
            );
            return Ok(());
        }
        self.mark(Mark::Changing, from);
        self.mark(Mark::Changing, to);
        self.mark(Mark::Begun, self.oracle.now() + 1);
        renamed(self)??;
        let commit = self.oracle.rename_keyspace(from, to);
        self.mark(Mark::Acknowledged, commit);
        self.mark(Mark::Powered, commit);
        self.mark(Mark::Gone, from);
        self.mark(Mark::Created, to);
        ensure!(&*keyspace.name() == SPACES[to], "a handle is called {:?} after a rename", keyspace.name());
        self.spaces.swap(from, to);
        self.space_options.swap(from, to);
        Ok(())
    }

    fn set_options(&mut self, space: usize, chosen: &Chosen) -> Outcome {
        let Some(keyspace) = &self.spaces[space] else { return Ok(()) };
        // Where time passes by itself, nothing may expire by itself.
        let chosen = match self.clock {
            Some(_) => chosen.clone(),
            None => chosen.clone().with(KEYSPACE, "default ttl", "none"),
        };
        let mut options = chosen.apply(KEYSPACE, KeyspaceOptions::default());
        // There may be operands of the operator, so it stays.
        if let Some(operator) = keyspace.options().operator().cloned() {
            if options.operator() != Some(&operator) {
                let refused = keyspace.update_options(|_| options.clone());
                let is_named =
                    matches!(&refused, Err(Error::InvalidArgument(text)) if text.contains("operands"));
                ensure!(is_named, "an operator was replaced: {refused:?}");
            }
            options = options.merge_operator(operator);
        }
        match keyspace.update_options(|_| options.clone()) {
            // What was written so far may be too much for a promise, which is told with the numbers.
            Err(Error::InvalidArgument(text)) if text.contains("cannot be kept") => {
                options = options.set("max_space_amp", "none")?;
                keyspace.update_options(|_| options.clone())?;
            }
            outcome => outcome?,
        }
        ensure!(keyspace.options() == options, "options that were set are not there");
        // Half of the changes of strategy go on; the others wait for the next change.
        let goes_on = chosen.describe(KEYSPACE).len().is_multiple_of(2);
        if goes_on {
            keyspace.resume_migration()?;
        } else {
            keyspace.pause_migration()?;
        }
        let migration = keyspace.migration();
        ensure!(migration.is_none_or(|migration| migration.is_paused != goes_on), "not told: {migration:?}");
        self.space_options[space] = Some(options);
        Ok(())
    }

    /// What edits mean to the oracle: a range delete removes every key of its range that ever was there, or
    /// that edits before it put there; that of a transaction those that have a value.
    fn changes(&self, edits: &[Edit], how: WriteMethod) -> Outcome<Vec<Change>> {
        let mut changes: Vec<Change> = Vec::new();
        for edit in edits {
            match range_of(edit) {
                None => changes.push(self.change_of(edit)?),
                Some(range) if how == WriteMethod::Transaction => {
                    let space = usize::from(edit.space);
                    let gone = self.living_in(space, &range, &changes)?;
                    changes.extend(gone.into_iter().map(|key| (space, key, Written::Delete)));
                }
                Some(range) => {
                    let space = usize::from(edit.space);
                    let bounds = (range.0.as_ref().map(Vec::as_slice), range.1.as_ref().map(Vec::as_slice));
                    let put = changes.iter().filter(|(of, key, _)| *of == space && range.contains(key));
                    let put = put.map(|(_, key, _)| key.clone());
                    let known = self.oracle.known_in(space, bounds).map(<[u8]>::to_vec);
                    let gone: BTreeSet<Vec<u8>> = put.chain(known).collect();
                    changes.extend(gone.into_iter().map(|key| (space, key, Written::Delete)));
                }
            }
        }
        Ok(changes)
    }

    /// The keys of a range that have a value now, after these changes.
    fn living_in(&self, space: usize, range: &Range, changes: &[Change]) -> Outcome<Vec<Vec<u8>>> {
        let (now, bounds) =
            (self.now()?, (range.0.as_ref().map(Vec::as_slice), range.1.as_ref().map(Vec::as_slice)));
        let stored = self.oracle.range(space, bounds, now).map(|(key, _)| key.to_vec());
        let changed = changes.iter().filter(|(of, key, _)| *of == space && range.contains(key));
        let keys: BTreeSet<Vec<u8>> = stored.chain(changed.map(|(_, key, _)| key.clone())).collect();
        let lives = |key: &Vec<u8>| {
            let own = changes.iter().filter(|(of, changed, _)| *of == space && changed == key);
            let stored = self.oracle.look_up(space, key, now);
            own.fold(stored, |below, (_, _, written)| over(below, written, now.time_ms)).is_some()
        };
        Ok(keys.into_iter().filter(lives).collect())
    }

    fn write_plain(&self, edit: &Edit, keyspace: &Keyspace, durability: Durability) -> esker::Result<()> {
        match edit.action {
            Action::Put(value) => keyspace.put_with(edit.key.bytes(), value.bytes(), durability),
            Action::Delete => keyspace.delete_with(edit.key.bytes(), durability),
            Action::DeleteUpTo(end) => {
                let range = (Bound::Included(edit.key.bytes()), end.map(crate::Key::bytes));
                keyspace.delete_range_with(range, durability)
            }
            Action::Merge(operand) => keyspace.merge_with(edit.key.bytes(), operand.bytes(), durability),
            Action::MergeFor(operand, ttl_ms) => {
                let options = WriteOptions::from(durability).ttl(self.ttl(ttl_ms));
                keyspace.merge_with(edit.key.bytes(), operand.bytes(), options)
            }
            Action::PutFor(value, ttl_ms) => {
                let options = WriteOptions::from(durability).ttl(self.ttl(ttl_ms));
                keyspace.put_with(edit.key.bytes(), value.bytes(), options)
            }
        }
    }

    /// Carries out a write; `Ok(false)` if it was refused, which a write that must not stall may be.
    pub(crate) fn write(
        &mut self,
        edits: &[Edit],
        how: WriteMethod,
        durability: Durability,
    ) -> Outcome<bool> {
        let keyspaces = edits.iter().map(|edit| self.create(edit.space)).collect::<Outcome<Vec<_>>>()?;
        let edits: Vec<Edit> =
            edits.iter().zip(&keyspaces).map(|(edit, keyspace)| effective(edit, keyspace)).collect();
        let edits = edits.as_slice();
        let changes = self.changes(edits, how)?;
        self.mark(Mark::Begun, self.oracle.now() + 1);
        let written = match (how, edits, keyspaces.as_slice()) {
            (WriteMethod::Plain, [edit], [keyspace]) => self.write_plain(edit, keyspace, durability),
            (WriteMethod::Transaction, ..) => {
                write_transaction(self.db()?, edits, &keyspaces, durability, |ms| self.ttl(ms))
            }
            _ => {
                let db = self.db()?;
                let mut batch = db.batch();
                for (edit, keyspace) in edits.iter().zip(&keyspaces) {
                    match edit.action {
                        Action::PutFor(value, ttl_ms) => {
                            batch.put_with(
                                keyspace,
                                edit.key.bytes(),
                                value.bytes(),
                                Expiry::After(self.ttl(ttl_ms)),
                            );
                        }
                        Action::Merge(operand) => batch.merge(keyspace, edit.key.bytes(), operand.bytes()),
                        Action::MergeFor(operand, ttl_ms) => {
                            let ttl = self.ttl(ttl_ms);
                            batch.merge_with(keyspace, edit.key.bytes(), operand.bytes(), Expiry::After(ttl));
                        }
                        _ => put_into(&mut batch, keyspace, edit),
                    }
                }
                let written = edits.iter().filter(|edit| !is_empty_range(edit)).count();
                ensure!(batch.len() == written, "a batch of {} says it has {}", edits.len(), batch.len());
                if how == WriteMethod::Parsed {
                    let parsed = db.batch_from_bytes(&batch.to_bytes()?)?;
                    ensure!(parsed.iter().eq(batch.iter()), "a batch changed on its way through bytes");
                    batch = parsed;
                }
                if how == WriteMethod::Try {
                    db.write_with(&batch, WriteOptions::new().no_stall())
                } else {
                    db.write_with(&batch, durability)
                }
            }
        };
        match written {
            Err(Error::WouldStall { .. }) if how == WriteMethod::Try => return Ok(false),
            written => written?,
        }
        let commit = self.oracle.commit(&changes);
        for edit in edits.iter().filter(|edit| how != WriteMethod::Transaction && !is_empty_range(edit)) {
            if let Some(range) = range_of(edit) {
                self.oracle.note_deleted(usize::from(edit.space), range);
            }
        }
        self.mark(Mark::Acknowledged, commit);
        if durability == Durability::Power && how != WriteMethod::Try {
            self.mark(Mark::Powered, commit);
        }
        Ok(true)
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
            }
            Op::Sync => {
                self.db()?.sync()?;
                self.mark(Mark::Powered, now);
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

    pub(crate) fn change_of(&self, edit: &Edit) -> Outcome<Change> {
        let space = usize::from(edit.space);
        let end_ms = |ttl_ms| Ok::<_, Failure>(self.now()?.time_ms + self.ttl(ttl_ms).as_millis() as u64);
        let merged = |operand: Filler, end_ms| {
            let options = self.spaces[space].as_ref().map(Keyspace::options);
            let operator = options.as_ref().and_then(Operator::of);
            operator.map(|operator| Written::Merge(operator, operand.bytes(), end_ms))
        };
        let written = match edit.action {
            Action::PutFor(value, ttl_ms) => Some(Written::Expiring(value.bytes(), end_ms(ttl_ms)?)),
            Action::Merge(operand) => merged(operand, self.default_end_ms(space)?),
            Action::MergeFor(operand, ttl_ms) => merged(operand, Some(end_ms(ttl_ms)?)),
            Action::Put(_) | Action::Delete | Action::DeleteUpTo(_) => None,
        };
        match written {
            Some(written) => Ok((space, edit.key.bytes(), written)),
            None => self.written(plain_change(edit)),
        }
    }

    /// What a put or a delete means to the oracle, made now.
    pub(crate) fn written(&self, (space, key, value): PlainChange) -> Outcome<Change> {
        let written = match (value, self.default_ttl(space)) {
            (None, _) => Written::Delete,
            (Some(value), None) => Written::Put(value),
            (Some(value), Some(ttl)) => {
                Written::Expiring(value, self.now()?.time_ms + ttl.as_millis() as u64)
            }
        };
        Ok((space, key, written))
    }

    /// When what is written now without a time of its own ends.
    pub(crate) fn default_end_ms(&self, space: usize) -> Outcome<Option<u64>> {
        let Some(ttl) = self.default_ttl(space) else { return Ok(None) };
        Ok(Some(self.now()?.time_ms + ttl.as_millis() as u64))
    }

    pub(crate) fn default_ttl(&self, space: usize) -> Option<Duration> {
        self.spaces[space].as_ref()?.options().ttl_by_default()
    }

    /// Lets the follower catch up, and compares it with what the database must contain.
    pub(crate) fn follow(&mut self, anew: bool, durability: Durability, acknowledge: bool) -> Outcome {
        let (now, db) = (self.now()?, self.db()?.clone());
        let mut follower = match self.follower.take() {
            Some(follower) => follower,
            None => {
                let follower = Follower::start(&db)?;
                self.mark(Mark::Followed, 0);
                follower
            }
        };
        let in_time = follower.follow(&db, anew, durability)?;
        ensure!(in_time || keeps_little(&self.plan), "history was let go of below the limit");
        if !in_time && db.metrics().read_only_cause.is_some() {
            self.follower = Some(follower);
            return Ok(());
        }
        if durability == Durability::Power && in_time {
            self.mark(Mark::Powered, now.commit);
        }
        if acknowledge {
            follower.acknowledge(&db)?;
            self.mark(Mark::Powered, now.commit);
            self.mark(Mark::Followed, follower.acknowledged.len() - 1);
        }
        let copy = follower.copy();
        let found = copy.without_blurred(&db, copy.content(&db, now.time_ms)?)?;
        let expected = copy.without_blurred(&db, self.oracle.content_at(now))?;
        ensure!(found == expected, "what follows shows at {now:?}: {}", difference(&found, &expected));
        self.follower = Some(follower);
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

/// Whether the change history may be let go of before it is read.
pub(crate) fn keeps_little(plan: &Plan) -> bool {
    !plan.database.describe(DATABASE).contains("change history 1 GiB")
}

fn stored(options: &KeyspaceOptions) -> Vec<(String, String)> {
    options.named_values().into_iter().filter(|(name, _)| name != "compaction_filter").collect()
}

/// Keyspace, key, and the value or `None` for a delete.
pub(crate) type PlainChange = (usize, Vec<u8>, Option<Vec<u8>>);

/// What an edit is in a keyspace: without a merge operator, what would be merged is put.
pub(crate) fn effective(edit: &Edit, keyspace: &Keyspace) -> Edit {
    let action = match edit.action {
        Action::Merge(value) if keyspace.options().operator().is_none() => Action::Put(value),
        Action::MergeFor(value, ttl_ms) if keyspace.options().operator().is_none() => {
            Action::PutFor(value, ttl_ms)
        }
        action => action,
    };
    Edit { action, ..*edit }
}

/// An edit as a put or delete: expiring ones count as lasting, merges as puts.
pub(crate) fn plain_change(edit: &Edit) -> PlainChange {
    let value = match edit.action {
        Action::Put(value) | Action::PutFor(value, _) | Action::Merge(value) | Action::MergeFor(value, _) => {
            Some(value.bytes())
        }
        Action::Delete | Action::DeleteUpTo(_) => None,
    };
    (usize::from(edit.space), edit.key.bytes(), value)
}

pub(crate) type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Adds an edit to a batch; what expires is taken for what stays, and what is merged for what is put.
pub(crate) fn put_into(batch: &mut WriteBatch, keyspace: &Keyspace, edit: &Edit) {
    let key = edit.key.bytes();
    match (edit.action, range_of(edit)) {
        (
            Action::Put(value) | Action::PutFor(value, _) | Action::Merge(value) | Action::MergeFor(value, _),
            _,
        ) => {
            batch.put(keyspace, key, value.bytes());
        }
        (_, Some(range)) => batch.delete_range(keyspace, range),
        _ => batch.delete(keyspace, key),
    }
}

/// [`plain_change`] of edits key by key: a range delete removes the keys that are `there` in the range, and
/// those that edits before it put there.
pub(crate) fn plain_changes(
    edits: &[Edit],
    there: impl Fn(usize, &Range) -> Vec<Vec<u8>>,
) -> Vec<PlainChange> {
    let mut changes: Vec<PlainChange> = Vec::new();
    for edit in edits {
        let space = usize::from(edit.space);
        let Some(range) = range_of(edit) else {
            changes.push(plain_change(edit));
            continue;
        };
        let put = changes.iter().filter(|(of, key, _)| *of == space && range.contains(key));
        let gone: BTreeSet<Vec<u8>> =
            put.map(|(_, key, _)| key.clone()).chain(there(space, &range)).collect();
        changes.extend(gone.into_iter().map(|key| (space, key, None)));
    }
    changes
}

/// The range that an edit deletes, if it deletes one.
pub(crate) fn range_of(edit: &Edit) -> Option<Range> {
    let Action::DeleteUpTo(end) = edit.action else { return None };
    Some((Bound::Included(edit.key.bytes()), end.map(crate::Key::bytes)))
}

/// Whether no key can lie in the range that an edit deletes: then nothing is written.
fn is_empty_range(edit: &Edit) -> bool {
    match range_of(edit) {
        Some((Bound::Included(low), Bound::Included(high))) => low > high,
        Some((Bound::Included(low), Bound::Excluded(high))) => low >= high,
        _ => false,
    }
}

pub(crate) fn key_bounds(
    lower: &Bound<crate::Key>,
    upper: &Bound<crate::Key>,
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    (lower.map(crate::Key::bytes), upper.map(crate::Key::bytes))
}

/// Everything in a database, read forwards.
pub fn read_all(db: &Database, snapshot: Option<&Snapshot>) -> Outcome<Content> {
    let mut content = vec![BTreeMap::new(); SPACES.len()];
    for name in db.keyspaces() {
        let Some(space) = SPACES.iter().position(|known| *known == name) else {
            return Err(Failure::new(format!("there is a keyspace {name:?} that nobody created")));
        };
        let keyspace = db.open_keyspace(&name)?;
        let entries = match snapshot {
            Some(snapshot) => keyspace.at(snapshot).iter(),
            None => keyspace.iter(),
        };
        let mut last: Option<Vec<u8>> = None;
        for entry in entries {
            let (key, value) = entry?;
            let key = key.into_vec();
            ensure!(last.as_ref() < Some(&key), "keys out of order in {name}");
            last = Some(key.clone());
            content[space].insert(key, value.into_vec());
        }
    }
    Ok(content)
}
