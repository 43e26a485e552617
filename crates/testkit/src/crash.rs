//! The crash sweep: runs a workload once on a file system that loses what was not synced, then simulates the
//! death of the process or of the machine at every moment of its trace, in several ways. The database must
//! open from every image and hold what had been acknowledged.
//!
//! **Cuts.** Every change of the file system is an event of the trace, and so is every store into the mapped
//! log: a record is one store, so there is a cut before and after each record's copy, and
//! `Crash::ProcessTorn` cuts within. Publication changes no file; the cut between the copy of a record and
//! the mark of its acknowledgement is the moment of publication. The marks are events, too, and say what had
//! been acknowledged at a cut.
//!
//! **What must hold.** The content of an opened image must be the state after some number of commits, with
//! batches whole over all keyspaces and no hole. It must include everything acknowledged when a process died,
//! and everything acknowledged with `Power` or behind a sync or a flush when power was lost. It may include
//! at most the commit that was under way. Unlogged commits behind the last flush may be missing, in each
//! keyspace a suffix of them; nothing else may.
//!
//! **Afterwards.** What an open has shown is durable: power lost right after it shows the same again. Then
//! the sweep writes to the database, closes it and opens it once more. At some cuts it also cuts the recovery
//! at every event, and the recoveries from that at some, as deep as it is told ([`Nesting`]). Or it checks a
//! given number of images, of cuts and recoveries that a seed chooses ([`Extent::Images`]).

mod recoveries;

use crate::follower::{CONSUMER, Copy};
use crate::image_choice::ImageChoice;
use crate::log_scan::greatest_seqno;
use crate::oracle::{Content, Oracle, difference};
use crate::runner::{DIR, Mark, Runner, keeps_little, read_all};
use crate::script::Plan;
use crate::{Failure, Outcome, SPACES, ensure};
use esker::parts::env::fault::{Crash, Event, StrictFs, StrictOptions};
use esker::parts::env::{Env, FileSystem};
use esker::{Database, Durability, Error, KeyspaceOptions, SeqNo};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// A workload that has run, its trace, and its history.
#[derive(Debug)]
pub struct Recording {
    plan: Plan,
    fs: StrictFs,
    oracle: Oracle,
    /// What the follower had at each of its acknowledgements.
    copies: Vec<Copy>,
}

/// Counts of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Events at which the trace was cut.
    pub cuts: u64,
    /// File systems that were opened after a crash.
    pub images: u64,
    /// Those of them that were left by a crash during recovery, by how many recoveries crashed.
    pub nested: [u64; MAX_DEPTH],
}

/// The most recoveries in a row that crash.
pub const MAX_DEPTH: usize = 3;

/// Which images a sweep checks.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// Those of every cut of the workload, and of some recoveries.
    EveryCut(Nesting),
    /// So many: half of them of cuts of the workload, half of recoveries. There are fewer only where a
    /// workload has no more.
    Images {
        /// How many.
        number: u64,
        /// Chooses the places.
        seed: u64,
    },
}

/// Which recoveries crash, too.
#[derive(Clone, Copy, Debug)]
pub struct Nesting {
    /// At every so many cuts of the workload, recovery is cut at every event.
    pub every: usize,
    /// Of every so many of these images the recovery is cut as well, and that of what it leaves, up to
    /// [`MAX_DEPTH`].
    pub deeper_every: u64,
    /// At so many events, spread over the recovery.
    pub deeper_cuts: usize,
}

/// Which crashes of the recovery from an image are simulated.
#[derive(Clone, Copy, Debug)]
enum Inner {
    None,
    Nested(Nesting),
    /// So many, of those that are deeper among them.
    Images(u64),
}

/// What had been acknowledged at a cut.
#[derive(Clone, Debug, Default)]
struct Guarantee {
    begun: usize,
    acknowledged: usize,
    powered: usize,
    /// The last commit up to which unlogged ones must be there.
    flushed: usize,
    /// Keyspaces that existed, as indexes into [`SPACES`].
    created: BTreeSet<usize>,
    /// Keyspaces that had been dropped or renamed.
    gone: BTreeSet<usize>,
    /// The last acknowledgement of the follower that was acknowledged.
    followed: Option<usize>,
}

/// The crashes that left an image, one after the other, and what had been acknowledged before the first.
#[derive(Clone, Copy)]
struct Crashed<'a> {
    guarantee: &'a Guarantee,
    crashes: &'a [Crash],
}

impl Guarantee {
    fn note(&mut self, mark: u64) {
        match Mark::parse(mark) {
            (Mark::Begun, commit) => self.begun = commit,
            (Mark::Acknowledged, commit) => self.acknowledged = commit,
            (Mark::Powered, commit) => self.powered = commit,
            (Mark::Flushed, commit) => self.flushed = commit,
            (Mark::Created, space) => {
                self.created.insert(space);
            }
            (Mark::Changing, space) => {
                self.created.remove(&space);
                self.gone.remove(&space);
            }
            (Mark::Gone, space) => {
                self.gone.insert(space);
            }
            (Mark::Followed, number) => self.followed = Some(number),
        }
    }

    /// The last commit that must have survived, as if no bytes were written back in time.
    fn survivor(&self, crashes: &[Crash]) -> usize {
        let lossy = |crash: &Crash| matches!(crash, Crash::PowerAllLost | Crash::PowerRandom { .. });
        if crashes.iter().any(lossy) { self.powered } else { self.acknowledged }
    }
}

/// Runs a plan on a strict file system and records the trace and the history.
///
/// # Errors
/// A failure of the run itself, before any crash.
pub fn record(plan: &Plan) -> Outcome<Recording> {
    let fs = StrictFs::with_options(StrictOptions::default());
    let mut runner = Runner::start(plan, Arc::new(fs.clone()))?;
    runner.trace = Some(fs.clone());
    for op in &plan.script {
        runner.check(op)?;
    }
    runner.close()?;
    let copies = runner.follower.map(|follower| follower.acknowledged).unwrap_or_default();
    Ok(Recording { plan: plan.clone(), fs, oracle: runner.oracle, copies })
}

impl Recording {
    /// Crashes at cuts of the trace and in recoveries from that, as `extent` says.
    ///
    /// # Errors
    /// The first violation, with the cut and the crash that caused it.
    pub fn sweep(&self, extent: Extent) -> Outcome<Sweep> {
        let mut sweep = Sweep::default();
        let mut replayer = self.fs.replayer();
        let mut guarantee = Guarantee::default();
        let mut choice = match extent {
            Extent::EveryCut(_) => ImageChoice::new(0, 0, 0, false),
            Extent::Images { number, seed } => ImageChoice::new(seed, number, self.count_crashes(), true),
        };
        loop {
            let cut = replayer.position();
            let before_cut = sweep.images;
            for crash in crashes(cut, replayer.last_event().and_then(Event::written_bytes)) {
                let inner = match extent {
                    Extent::EveryCut(nesting)
                        if cut.is_multiple_of(nesting.every) && !matches!(crash, Crash::PowerNoneLost) =>
                    {
                        Inner::Nested(nesting)
                    }
                    Extent::EveryCut(_) => Inner::None,
                    Extent::Images { .. } => match choice.next_share() {
                        Some(share) => Inner::Images(share - 1),
                        None => continue,
                    },
                };
                let image = replayer.image(crash);
                let last = || replayer.last_event().map_or_else(String::new, ToString::to_string);
                let before = sweep.images;
                let crashed = Crashed { guarantee: &guarantee, crashes: &[crash] };
                let outcome = self.check_image(&image, crashed, inner, &mut sweep);
                outcome.map_err(|failure| {
                    failure.during(format_args!("cut {cut} ({}), {crash:?}, promised {guarantee:?}", last()))
                })?;
                choice.spend(sweep.images - before);
            }
            sweep.cuts += u64::from(sweep.images > before_cut);
            match replayer.step() {
                Some(event) => event.mark().into_iter().for_each(|mark| guarantee.note(mark)),
                None => return Ok(sweep),
            }
        }
    }

    /// The crashes at all cuts of the workload.
    fn count_crashes(&self) -> u64 {
        let events = self.fs.events();
        let cuts = std::iter::once(None).chain(events.iter().map(Event::written_bytes));
        cuts.enumerate().map(|(cut, written_bytes)| crashes(cut, written_bytes).len() as u64).sum()
    }

    /// Opens an image and checks it; `inner` says whether to crash that recovery, too.
    fn check_image(
        &self,
        image: &StrictFs,
        crashed: Crashed<'_>,
        inner: Inner,
        sweep: &mut Sweep,
    ) -> Outcome {
        sweep.images += 1;
        let found = caught(|| self.check_open(image, crashed))?;
        self.crash_recovery(image, found.opened_at, crashed, inner, sweep)?;
        let thorough = sweep.images.is_multiple_of(4);
        caught(|| self.check_afterwards(image, found, thorough))
    }

    fn options(&self, fs: &StrictFs) -> esker::Options {
        Runner::options(&self.plan, Env::simulated(Arc::new(fs.clone()), self.plan.seed))
    }

    fn check_open(&self, image: &StrictFs, crashed: Crashed<'_>) -> Outcome<Recovered> {
        let Crashed { guarantee, crashes } = crashed;
        let given_out = greatest_seqno(image, Path::new(DIR))?;
        let db = Database::open_with(DIR, self.options(image))?;
        let opened_at = image.trace_len();
        // A reader may have seen the numbers of records that a power cut took.
        let last = db.snapshot().seqno();
        ensure!(last >= given_out, "number {given_out} was given out, and the next is above {last}");
        let content = read_all(&db, None)?;
        let names = db.keyspaces();
        let is_there = |space: &usize| names.iter().any(|name| name == SPACES[*space]);
        let missing = guarantee.created.iter().find(|space| !is_there(space));
        ensure!(missing.is_none(), "a keyspace is missing: there are {names:?}");
        let back = guarantee.gone.iter().find(|space| is_there(space));
        ensure!(back.is_none(), "a keyspace is back that was dropped or renamed: there are {names:?}");
        check_files(&db, image)?;
        let survivor = guarantee.survivor(crashes);
        let allowed = survivor..=guarantee.begun.max(survivor);
        let time_ms = crate::unix_ms(db.now());
        self.oracle.find(&content, allowed, guarantee.flushed, time_ms).map_err(Failure::new)?;
        self.check_stream(&db, &content, guarantee.followed)?;
        Ok(Recovered { db, opened_at, content })
    }

    /// A reader of the change stream that continues at the consumer's position gets exactly what the database
    /// shows: no surviving commit is missing, no lost one appears, and no acknowledgement is lost.
    fn check_stream(&self, db: &Database, content: &Content, followed: Option<usize>) -> Outcome {
        let consumer = match (db.consumer(CONSUMER), followed) {
            (Err(Error::NotFound(_)), None) => return Ok(()),
            (consumer, _) => consumer?,
        };
        let position = consumer.acknowledged()?;
        let least = followed.map_or(SeqNo::ZERO, |number| self.copies[number].seqno);
        ensure!(position >= least, "the consumer was at {least} and is at {position}");
        if keeps_little(&self.plan) && db.consumers().iter().any(|consumer| consumer.is_cut_off) {
            return Ok(());
        }
        let copy = self.copies.iter().rfind(|copy| copy.seqno <= position);
        let mut copy = copy.cloned().unwrap_or_default();
        copy.take(&mut consumer.changes()?.with_durability(Durability::Process))??;
        let found = copy.without_blurred(db, copy.content(db, crate::unix_ms(db.now()))?)?;
        let expected = copy.without_blurred(db, content.clone())?;
        ensure!(found == expected, "by the stream from {position} on: {}", difference(&found, &expected));
        Ok(())
    }

    /// Checks that what an open has shown survives a power cut, and that the database takes writes again.
    fn check_afterwards(&self, image: &StrictFs, found: Recovered, thorough: bool) -> Outcome {
        let Recovered { db, mut content, .. } = found;
        if thorough {
            let lost = image.crash(Crash::PowerAllLost);
            let again = read_all(&Database::open_with(DIR, self.options(&lost))?, None)?;
            ensure!(again == content, "lost what an open had shown: {}", difference(&again, &content));
        }
        write_more(&db, &mut content)?;
        if thorough {
            db.flush()?;
            ensure!(db.verify()?.is_clean(), "verify found damage");
        }
        db.close()?;
        drop(db);
        let db = Database::open_with(DIR, self.options(image))?;
        check_files(&db, image)?;
        let again = read_all(&db, None)?;
        ensure!(again == content, "after writing more and reopening: {}", difference(&again, &content));
        self.check_stream(&db, &content, None)?;
        Ok(())
    }
}

/// Checks that the directory has exactly the files that the database refers to.
fn check_files(db: &Database, image: &StrictFs) -> Outcome {
    let listed = image.list(&Path::new(DIR).join("tables"))?;
    let found: BTreeSet<String> = listed.into_iter().map(|entry| entry.name).collect();
    let levels = db.levels();
    let runs = levels.iter().flat_map(|keyspace| &keyspace.levels).flat_map(|level| &level.runs);
    let tables = runs.flat_map(|run| &run.tables);
    let tables = tables.map(|table| format!("{:06}.sst", table.file.get()));
    let blobs = levels.iter().flat_map(|keyspace| &keyspace.blob_files);
    let blobs = blobs.map(|blob| format!("{:06}.blob", blob.file.get()));
    let known: BTreeSet<String> = tables.chain(blobs).collect();
    ensure!(found == known, "files {found:?}, of which the database knows {known:?}");
    Ok(())
}

struct Recovered {
    db: Database,
    /// Length of the image's trace when opening ended.
    opened_at: usize,
    content: Content,
}

/// The crashes to simulate at a cut whose last event wrote `written_bytes`.
fn crashes(cut: usize, written_bytes: Option<usize>) -> Vec<Crash> {
    let seed = cut as u64;
    let mut crashes = vec![
        Crash::Process,
        Crash::PowerAllLost,
        Crash::PowerNoneLost,
        Crash::PowerRandom { seed },
        Crash::PowerRandom { seed: seed ^ 0x5eed },
    ];
    if let Some(bytes) = written_bytes {
        let places = BTreeSet::from([1, bytes / 2, bytes.saturating_sub(1)]);
        crashes.extend(places.into_iter().map(|keep_bytes| Crash::ProcessTorn { keep_bytes }));
    }
    crashes
}

/// Changes two keyspaces, in the database and in `content`.
fn write_more(db: &Database, content: &mut Content) -> Outcome {
    let one = db.keyspace_with(SPACES[1], KeyspaceOptions::default())?;
    for number in 0..3 {
        let (key, value) = (format!("more {number}").into_bytes(), vec![number; 100]);
        db.default_keyspace().put(&key, &value)?;
        content[0].insert(key, value);
    }
    let mut batch = db.batch();
    batch.put(&one, b"more", b"1");
    batch.delete(db.default_keyspace(), b"more 1");
    db.write(&batch)?;
    content[1].insert(b"more".to_vec(), b"1".to_vec());
    content[0].remove(b"more 1".as_slice());
    Ok(())
}

fn caught<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Failure::of_panic(&*panic)))
}
