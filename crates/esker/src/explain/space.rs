//! Explanation of the space on disk: every file of the directory by purpose, and what is alive in tables.

use super::directory::{Directory, FilePurpose, FileSum, log_readers};
use super::text::{bytes, counted};
use super::{Explanation, Figure, Step};
use crate::{Database, Result};
use esker_engine::amplification::{self, Amplification};
use esker_engine::state::keyspace::KeyspaceState;
use esker_engine::state::store::Store;
use esker_version::Version;

/// From this share of live data on nothing but deleting frees much.
const MOSTLY_ALIVE: f64 = 0.8;

impl Database {
    /// Where the bytes of the database's directory are: tables of each keyspace, alive, overwritten and
    /// deleted; blob files; files that open readers hold; the log; the manifest. The parts add up to all
    /// files of the directory, as `du` counts them: what is allocated ahead included.
    ///
    /// How much of the tables is alive is an estimate ([`SpaceAmplification`](crate::metrics)); all other
    /// figures are exact. O(files).
    ///
    /// # Errors
    /// Those of listing the directory; `Closed`.
    pub fn explain_space(&self) -> Result<Explanation> {
        let store = &self.handle().store;
        store.check_open()?;
        explain(store)
    }
}

/// A part of the space that something else could be done about.
struct Surplus {
    bytes: u64,
    advice: String,
}

fn explain(store: &Store) -> Result<Explanation> {
    let directory = Directory::of(store)?;
    let (mut surplus, mut alive_bytes) = (Vec::new(), 0);
    let mut root = step_of("database", &directory.total());
    for keyspace in store.all_keyspaces().iter() {
        let (step, alive) = keyspace_step(store, keyspace, &directory, &mut surplus);
        alive_bytes += alive;
        root.steps.extend(step);
    }
    for (at, reader) in directory.readers.iter().enumerate() {
        let held = directory.sum(&FilePurpose::HeldBy(at));
        if held.files > 0 {
            root.steps.push(step_of(format!("replaced files that {reader}, holds"), &held));
            let advice = format!("Dropping {reader}, frees {}.", bytes(held.disk_bytes));
            surplus.push(Surplus { bytes: held.disk_bytes, advice });
        }
    }
    root.steps.extend(log_step(store, &directory, &mut surplus));
    for (purpose, name) in [
        (FilePurpose::InTransit, "files being written, or about to be deleted"),
        (FilePurpose::Manifest, "manifest"),
        (FilePurpose::Other, "other files"),
        (FilePurpose::Directory, "directories"),
    ] {
        let sum = directory.sum(&purpose);
        if sum.files > 0 {
            root.steps.push(step_of(name, &sum));
        }
    }
    let spilled = store.pinned_memtables.bytes().spilled_bytes;
    if spilled > 0 {
        root.outcome = format!(
            "beside it {} in files without names, for flushed memtables that readers hold",
            bytes(spilled)
        );
    }
    let conclusion = conclusion(&directory.total(), alive_bytes, surplus);
    Ok(Explanation { root, conclusion })
}

fn step_of(what: impl Into<String>, sum: &FileSum) -> Step {
    Step::new(what, "").with(Figure::DiskBytes, sum.disk_bytes).with(Figure::Files, sum.files)
}

/// The files of a keyspace, and the bytes that are alive; `None` without files.
fn keyspace_step(
    store: &Store,
    keyspace: &KeyspaceState,
    directory: &Directory,
    surplus: &mut Vec<Surplus>,
) -> (Option<Step>, u64) {
    let view = keyspace.view.load();
    let version = &view.tree.version;
    let sums = [FilePurpose::Table, FilePurpose::Blob, FilePurpose::Ingested]
        .map(|purpose| directory.sum(&purpose(keyspace.id)));
    let [tables, blobs, ingested] = sums;
    let files: u64 = sums.iter().map(|sum| sum.files).sum();
    if files == 0 {
        return (None, 0);
    }
    let name = keyspace.name().escape_debug().to_string();
    let told = amplification::amplification(store, keyspace, &view, 0);
    let mut step = Step::new(format!("keyspace {name}"), "");
    step.add(Figure::DiskBytes, sums.iter().map(|sum| sum.disk_bytes).sum());
    if let Some(ratio) = told.space.ratio() {
        let expected = super::model::costs_of(store, keyspace, version).map(|costs| costs.space);
        step.add_beside(Figure::SpaceAmplification, ratio, expected);
    }
    let mut alive = ingested.disk_bytes;
    if tables.files > 0 {
        let (tables, of_tables, rest) = table_step(version, &told, &tables);
        alive += of_tables;
        let advice = format!(
            "A compaction of keyspace {name} frees up to {} of overwritten and deleted entries, as far as no reader needs them.",
            bytes(rest)
        );
        surplus.push(Surplus { bytes: rest, advice });
        step.steps.push(tables);
    }
    if blobs.files > 0 {
        let (blobs, of_blobs, garbage) = blob_step(version, &blobs);
        alive += of_blobs;
        let advice = format!(
            "{} of blob files of keyspace {name} are garbage, which merges collect above the option blob_space_amp.",
            bytes(garbage)
        );
        surplus.push(Surplus { bytes: garbage, advice });
        step.steps.push(blobs);
    }
    if ingested.files > 0 {
        step.steps.push(step_of("ingested tables that are not in the tree yet", &ingested));
    }
    (Some(step), alive)
}

/// Tables by what is alive in them: the step, the live bytes and the others.
fn table_step(version: &Version, told: &Amplification, sum: &FileSum) -> (Step, u64, u64) {
    let in_parts = version.bytes();
    let blobs = version.blob_files();
    let live = told.space.live_bytes.saturating_sub(blobs.bytes().saturating_sub(blobs.garbage_bytes()));
    let live = live.min(in_parts);
    let (entries, tombstones) = version
        .parts()
        .fold((0, 0), |(entries, dead), (_, _, part)| (entries + part.entries, dead + part.tombstones));
    // A tombstone and the version that it deletes.
    let dead_bytes = 2.0 * tombstones as f64 * in_parts as f64 / (entries as f64).max(1.0);
    let deleted = (dead_bytes as u64).min(in_parts - live);
    let overwritten = in_parts - live - deleted;
    // Slices leave the rest of their files unused.
    let cut_off = sum.bytes.saturating_sub(in_parts);
    let shares = Shares { whole: sum.disk_bytes, of: (live + deleted + overwritten + cut_off).max(1) };
    let [deleted, overwritten, cut_off] = [deleted, overwritten, cut_off].map(|part| shares.of(part));
    let alive = sum.disk_bytes.saturating_sub(deleted + overwritten + cut_off);
    let (at_least, at_most) = match told.space.is_measured {
        true => ("", ""),
        false => (", at least: no merge has measured it", ", at most"),
    };
    let mut step = step_of("tables", sum);
    step.steps.push(part(&format!("alive{at_least}"), alive));
    for (name, bytes) in [
        (format!("overwritten{at_most}"), overwritten),
        ("deleted, with the tombstones".to_owned(), deleted),
        ("outside of the slices in use".to_owned(), cut_off),
    ] {
        if bytes > 0 {
            step.steps.push(part(&name, bytes));
        }
    }
    (step, alive, overwritten + deleted + cut_off)
}

/// Blob files: the step, the live bytes and the garbage.
fn blob_step(version: &Version, sum: &FileSum) -> (Step, u64, u64) {
    let blobs = version.blob_files();
    let shares = Shares { whole: sum.disk_bytes, of: blobs.bytes().max(1) };
    let garbage = shares.of(blobs.garbage_bytes()).min(sum.disk_bytes);
    let alive = sum.disk_bytes - garbage;
    let mut step = step_of("blob files", sum);
    step.steps.push(part("alive, or overwritten by entries that no merge has met", alive));
    step.steps.push(part("garbage", garbage));
    (step, alive, garbage)
}

fn part(name: &str, bytes: u64) -> Step {
    Step::new(name, "").with(Figure::DiskBytes, bytes)
}

/// Shares of a whole on the disk, by lengths.
struct Shares {
    whole: u64,
    of: u64,
}

impl Shares {
    fn of(&self, part: u64) -> u64 {
        (u128::from(self.whole) * u128::from(part) / u128::from(self.of)) as u64
    }
}

/// The segments of the log, by need.
fn log_step(store: &Store, directory: &Directory, surplus: &mut Vec<Surplus>) -> Option<Step> {
    let sum = directory.sum(&FilePurpose::Log);
    if sum.files == 0 {
        return None;
    }
    let mut step = step_of("log", &sum);
    let Some(log) = store.writing.as_ref().map(|writing| &writing.log) else {
        step.outcome = "opened for reading only: what recovery and readers of changes need".to_owned();
        return Some(step);
    };
    let live = log.live_bytes().min(sum.disk_bytes);
    let history = log.history_bytes().min(sum.disk_bytes - live);
    let spare = sum.disk_bytes - live - history;
    step.steps.push(part("segments that recovery needs, allocated ahead", live));
    if history > 0 {
        let readers = log_readers(store);
        let whose = if readers.is_empty() { String::new() } else { format!(": {}", readers.join(", ")) };
        step.steps.push(part(&format!("kept for readers of changes{whose}"), history));
        let advice = format!(
            "{} of log are kept for readers of changes: acknowledging, or a smaller history limit, frees them.",
            bytes(history)
        );
        surplus.push(Surplus { bytes: history, advice });
    }
    step.steps.push(part("segments kept for reuse", spare));
    let advice = format!(
        "The log is {}: a flush lets it reuse its segments, and a smaller memory_budget makes them smaller.",
        bytes(live + spare)
    );
    surplus.push(Surplus { bytes: live + spare, advice });
    Some(step)
}

fn conclusion(total: &FileSum, alive_bytes: u64, surplus: Vec<Surplus>) -> String {
    let share = alive_bytes as f64 / (total.disk_bytes as f64).max(1.0);
    let alive = format!("Of {} {:.0} % are alive.", bytes(total.disk_bytes), 100.0 * share);
    if share >= MOSTLY_ALIVE {
        return format!("{alive} Only deleting data would free much.");
    }
    match surplus.into_iter().max_by_key(|surplus| surplus.bytes) {
        Some(most) if most.bytes > 0 => format!("{alive} {}", most.advice),
        _ => format!("{alive} The database has {}.", counted(total.files, "file")),
    }
}
