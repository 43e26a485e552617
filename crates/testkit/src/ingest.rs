//! Ingest and bulk load in scripts: entries that join a keyspace as a whole.

use crate::oracle::{Change, Written};
use crate::runner::{Mark, Runner, plain_change};
use crate::script::{Action, Edit};
use crate::{Key, Outcome, ensure};
use esker::ingest::{IngestMode, IngestOptions, TableWriter};
use esker::parts::env::Env;
use esker::{Error, Expiry, Keyspace, KeyspaceOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use crate::script::LoadMethod;

/// The last edit of each key, without range deletes, in key order: a table holds one version of each.
pub(crate) fn table_edits(edits: &[(Key, Action)]) -> BTreeMap<Vec<u8>, Action> {
    let action =
        |action: Action| if matches!(action, Action::DeleteUpTo(_)) { Action::Delete } else { action };
    edits.iter().map(|(key, done)| (key.bytes(), action(*done))).collect()
}

/// The edit without merges: ingested tables have no operands, so a merge becomes a put.
pub(crate) fn without_merge(action: Action) -> Action {
    match action {
        Action::Merge(value) => Action::Put(value),
        Action::MergeFor(value, ttl_ms) => Action::PutFor(value, ttl_ms),
        other => other,
    }
}

/// Writes the edits to equal tables; `expiry_ms` gives the expiry of an entry with a lifetime.
pub(crate) fn write_tables(
    env: &Env,
    dir: &Path,
    options: &KeyspaceOptions,
    edits: &BTreeMap<Vec<u8>, Action>,
    tables: u8,
    expiry_ms: impl Fn(u32) -> u64,
) -> esker::Result<Vec<PathBuf>> {
    let share = edits.len().div_ceil(usize::from(tables).max(1)).max(1);
    let all: Vec<_> = edits.iter().collect();
    let mut paths = Vec::new();
    for (number, some) in all.chunks(share).enumerate() {
        // Removes the leftover of an interrupted attempt, which the database does not know.
        let path = dir.with_extension(format!("{number}.sst"));
        if env.fs.file_len(&path)?.is_some() {
            env.fs.remove_file(&path)?;
        }
        let mut table = TableWriter::create_in(env, &path, options)?;
        for (key, action) in some {
            match action {
                Action::Put(value) | Action::Merge(value) => table.put(key, value.bytes())?,
                Action::PutFor(value, ttl_ms) | Action::MergeFor(value, ttl_ms) => {
                    table.put_until(key, value.bytes(), crate::from_unix_ms(expiry_ms(*ttl_ms)))?;
                }
                Action::Delete | Action::DeleteUpTo(_) => table.delete(key)?,
            }
        }
        paths.push(table.finish()?.path);
    }
    // Later tables first: the order in which an ingest gets its tables does not matter.
    paths.reverse();
    Ok(paths)
}

impl Runner {
    pub(crate) fn join(&mut self, space: u8, edits: &[(Key, Action)], load_method: LoadMethod) -> Outcome {
        let keyspace = self.create(space)?;
        let edits = &edits.iter().map(|(key, action)| (*key, without_merge(*action))).collect::<Vec<_>>()[..];
        let changes = match load_method {
            LoadMethod::Tables { .. } => self.table_changes(space, edits)?,
            LoadMethod::BulkLoad { .. } => self.load_changes(space, edits)?,
        };
        self.mark(Mark::Begun, self.oracle.now() + 1);
        let entries = match load_method {
            LoadMethod::Tables { tables, mode } => self.ingest(&keyspace, edits, tables, mode)?,
            LoadMethod::BulkLoad { sort_memory } => self.bulk_load(&keyspace, edits, sort_memory)?,
        };
        ensure!(entries == changes.len() as u64, "{entries} entries joined, not {}", changes.len());
        if entries > 0 {
            let commit = self.oracle.commit(&changes);
            self.mark(Mark::Acknowledged, commit);
            self.mark(Mark::Powered, commit);
        }
        Ok(())
    }

    fn ingest(
        &self,
        keyspace: &Keyspace,
        edits: &[(Key, Action)],
        tables: u8,
        mode: IngestMode,
    ) -> Outcome<u64> {
        let now_ms = self.now()?.time_ms;
        let (env, options) = (self.env(), keyspace.options());
        let expiry_ms = |ttl_ms| now_ms + self.ttl(ttl_ms).as_millis() as u64;
        let paths = write_tables(env, self.dir(), &options, &table_edits(edits), tables, expiry_ms)?;
        let report = keyspace.ingest(&paths, IngestOptions::new().mode(mode))?;
        ensure!(report.seqno.is_some() != paths.is_empty(), "an ingest without a place: {report:?}");
        for path in &paths {
            let is_there = env.fs.file_len(path)?.is_some();
            ensure!(is_there == (mode != IngestMode::Move), "{mode:?} left {}: {is_there}", path.display());
            if is_there {
                env.fs.remove_file(path)?;
            }
        }
        Ok(report.entries)
    }

    fn bulk_load(&self, keyspace: &Keyspace, edits: &[(Key, Action)], sort_memory: u32) -> Outcome<u64> {
        let mut loader = keyspace.bulk_load()?.sort_memory(sort_memory.into());
        for (key, action) in edits {
            match action {
                Action::Put(value) | Action::Merge(value) => loader.add(key.bytes(), value.bytes())?,
                Action::PutFor(value, ttl_ms) | Action::MergeFor(value, ttl_ms) => {
                    let end_ms = self.now()?.time_ms + self.ttl(*ttl_ms).as_millis() as u64;
                    let expiry = Expiry::At(crate::from_unix_ms(end_ms));
                    loader.add_with(key.bytes(), value.bytes(), expiry)?;
                }
                Action::Delete | Action::DeleteUpTo(_) => {}
            }
        }
        let added = loader.added();
        let report = match loader.finish() {
            Err(Error::InvalidArgument(text)) => return Err(crate::Failure::new(text.to_string())),
            finished => finished?,
        };
        ensure!(report.entries + report.replaced == added, "of {added} entries: {report:?}");
        Ok(report.entries)
    }

    /// The changes that the oracle sees. No default TTL applies to ingested tables.
    fn table_changes(&self, space: u8, edits: &[(Key, Action)]) -> Outcome<Vec<Change>> {
        let now_ms = self.now()?.time_ms;
        let change = |(key, action): (Vec<u8>, Action)| {
            let written = match action {
                Action::Put(value) | Action::Merge(value) => Written::Put(value.bytes()),
                Action::PutFor(value, ttl_ms) | Action::MergeFor(value, ttl_ms) => {
                    Written::Expiring(value.bytes(), now_ms + self.ttl(ttl_ms).as_millis() as u64)
                }
                Action::Delete | Action::DeleteUpTo(_) => Written::Delete,
            };
            (usize::from(space), key, written)
        };
        Ok(table_edits(edits).into_iter().map(change).collect())
    }

    fn load_changes(&self, space: u8, edits: &[(Key, Action)]) -> Outcome<Vec<Change>> {
        let mut last = BTreeMap::new();
        for (key, action) in edits {
            let edit = Edit { space, key: *key, action: *action };
            let (space, key, written) = match action {
                Action::Put(_) | Action::Merge(_) => self.written(plain_change(&edit))?,
                Action::PutFor(..) | Action::MergeFor(..) => self.change_of(&edit)?,
                Action::Delete | Action::DeleteUpTo(_) => continue,
            };
            last.insert(key, (space, written));
        }
        Ok(last.into_iter().map(|(key, (space, written))| (space, key, written)).collect())
    }
}
