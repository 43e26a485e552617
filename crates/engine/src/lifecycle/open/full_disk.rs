//! Opening on a full disk: deletes what no state of the database needs, tries once more, and otherwise says
//! how much room the open needs.
//!
//! An open needs room before its commit point, for tables of what the log holds, a manifest and a log
//! segment, and deletes only after it (RC1, RC4). On a disk that the database itself has filled, nothing else
//! might ever free room: writes need an open database.
//!
//! **RC7.** What is deleted before the commit point is needed by no state that this open or one after a power
//! cut may find: neither by the last state of the manifest nor by the one before its last edit, which may not
//! be durable ([`esker_version::needed_files`]), nor by a record of the log. The log was read to its end and
//! judged to be whole before.
//!
//! These are tables and blob files of jobs that were interrupted, and of edits that were refused; log
//! segments that were released or prepared and wait for use, up to as many as memtables fill; and older
//! manifests. File numbers that the manifest does not count yet stay visible (RC3) by an empty file with a
//! greater one. Emptying a file instead was rejected: it may be a link to a file of the user's that was being
//! ingested.

use super::Opening;
use super::assembly::{Assembly, WritableParts};
use crate::background::quarantine::REPLACEMENT_SUFFIX;
use esker_base::{Error, FileNumber, KeyspaceId, Result};
use esker_env::OpenMode;
use esker_version::{CURRENT_NAME, LEAST_AHEAD_BYTES, NeededFiles, Recovered, Recovery, manifest_name};
use esker_view::paths;
use esker_wal::{RecordKind, RecordView, SMALL_SEGMENT_BYTES};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Room for the ends of one keyspace's tables and blob files: index, filter, properties, and whole pages.
const TABLE_ENDS_BYTES: u64 = 64 << 10;
/// Room for the names of new files and for `CURRENT`.
const NAMES_BYTES: u64 = 64 << 10;

/// What the log holds.
#[derive(Default)]
struct LogContent {
    /// Bytes of its records.
    bytes: u64,
    keyspaces: BTreeSet<KeyspaceId>,
    /// Tables that only the log names.
    ingested: BTreeSet<FileNumber>,
}

impl LogContent {
    fn add(&mut self, record: &RecordView<'_>) -> Result<()> {
        self.bytes += record.header.record_len();
        if record.header.kind == RecordKind::Ingest {
            self.ingested.extend(record.ingest()?.files.iter().map(|file| file.number));
        }
        for entry in record.entries() {
            self.keyspaces.insert(entry?.1.keyspace);
        }
        Ok(())
    }
}

impl Opening {
    /// The second attempt of an open that has found no room. `cause` is the error of the first.
    pub(super) fn recover_on_full_disk(&mut self, cause: Arc<str>) -> Result<(Assembly, WritableParts)> {
        let Recovery::Database(recovered) = esker_version::recover(&*self.env.fs, &self.dir)? else {
            return Err(Error::Full(cause));
        };
        let log = self.scan_log(&recovered)?;
        let freed_bytes = self.delete_unneeded(&recovered, &log)?;
        if freed_bytes == 0 {
            return Err(self.explain_full(&recovered, &log, &cause));
        }
        tracing::warn!(dir = %self.dir.display(), freed_bytes, %cause, "no room to open: deleted unneeded files");
        match self.recover_writable() {
            Err(Error::Full(cause)) => Err(self.explain_full(&recovered, &log, &cause)),
            recovered => recovered,
        }
    }

    /// Reads the log and judges it, without applying anything.
    fn scan_log(&self, recovered: &Recovered) -> Result<LogContent> {
        let mut content = LogContent::default();
        let dir = paths::wal(&self.dir);
        let input = self.recover_input(&dir, &recovered.state, recovered.last_edit);
        esker_wal::recover(&input, &mut |record| content.add(record))?;
        Ok(content)
    }

    /// Deletes files that are certainly not needed (RC7); returns their bytes.
    fn delete_unneeded(&self, recovered: &Recovered, log: &LogContent) -> Result<u64> {
        let Some(needed) = esker_version::needed_files(&*self.env.fs, &self.dir)? else { return Ok(0) };
        let mut freed_bytes = self.delete_unneeded_tables(recovered, &needed, log)?;
        for name in &needed.unneeded_names {
            freed_bytes += self.remove(&self.dir.join(name))?;
        }
        for path in self.unneeded_segments(recovered, &needed)? {
            freed_bytes += self.remove(&path)?;
        }
        Ok(freed_bytes)
    }

    fn delete_unneeded_tables(
        &self,
        recovered: &Recovered,
        needed: &NeededFiles,
        log: &LogContent,
    ) -> Result<u64> {
        let dir = paths::tables(&self.dir);
        let entries = self.env.fs.list(&dir)?;
        let is_needed = |number| needed.files.contains(&number) || log.ingested.contains(&number);
        let mut unneeded = Vec::new();
        let mut above = recovered.state.next_file;
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            match paths::parse_data(&entry.name) {
                Some((_, number)) if is_needed(number) => {}
                Some((_, number)) => {
                    above = above.max(number.next());
                    unneeded.push(dir.join(&entry.name));
                }
                None if entry.name.ends_with(REPLACEMENT_SUFFIX) => unneeded.push(dir.join(&entry.name)),
                None => {}
            }
        }
        if above > recovered.state.next_file {
            self.env.fs.open(&paths::table(&self.dir, above), OpenMode::CreateNew)?;
        }
        let mut freed_bytes = 0;
        for path in unneeded {
            freed_bytes += self.remove(&path)?;
        }
        Ok(freed_bytes)
    }

    /// Log segments that hold nothing; none if readers of changes may need what is in them.
    fn unneeded_segments(&self, recovered: &Recovered, needed: &NeededFiles) -> Result<Vec<PathBuf>> {
        if needed.keeps_history {
            return Ok(Vec::new());
        }
        let dir = paths::wal(&self.dir);
        esker_wal::unneeded_segments(&*self.env.fs, &dir, &recovered.state.uuid, needed.min_log_id)
    }

    fn remove(&self, path: &Path) -> Result<u64> {
        let bytes = self.env.fs.file_len(path)?.unwrap_or(0);
        self.env.fs.remove_file(path).map(|()| bytes)
    }

    /// The error of an open without room: how much it needs, what for, and what to do. If there is as much,
    /// it was short for another reason, and `cause` says which.
    fn explain_full(&self, recovered: &Recovered, log: &LogContent, cause: &Arc<str>) -> Error {
        let fs = &*self.env.fs;
        let Ok(free_bytes) = fs.free_bytes(&self.dir) else { return Error::Full(Arc::clone(cause)) };
        // The upper bound of tables: entries as the log has them, an eighth for indexes and filters.
        let tables = log.bytes + log.bytes / 8 + log.keyspaces.len() as u64 * TABLE_ENDS_BYTES;
        let manifest = self.dir.join(manifest_name(recovered.manifest));
        let manifest = fs.file_len(&manifest).ok().flatten().unwrap_or(0) + LEAST_AHEAD_BYTES;
        let others = manifest + SMALL_SEGMENT_BYTES.min(self.memory.wal_segment_bytes) + NAMES_BYTES;
        let needed = tables + others;
        if free_bytes >= needed {
            return Error::Full(Arc::clone(cause));
        }
        let dir = self.dir.display();
        let text = format!(
            "opening {dir} needs up to {needed} bytes, and {free_bytes} are free: {tables} for tables of what \
             the log holds, {others} for a new manifest ({CURRENT_NAME} names it) and a log segment ({cause}). \
             Nothing of the database can be deleted safely before that. Free {} bytes, or move {dir} to a \
             larger disk; a read-only open needs no room",
            needed - free_bytes
        );
        Error::Full(text.into())
    }
}
