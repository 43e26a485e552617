//! Pending outputs: tables and files of a job that nothing refers to yet; unclaimed files are deleted.

use crate::table_factory::TableFactory;
use esker_base::{Error, FileNumber, KeyspaceId, Result, SeqNo, Unwinding};
use esker_env::ProcessMark;
use esker_options::JobOutput;
use esker_sst::WarmedTable;
use esker_version::{BlobFileMeta, PartMeta, Place, VersionEdit};
use std::path::PathBuf;
use std::sync::Arc;

/// Table and blob files that nothing refers to yet; deleted on drop.
pub struct UnclaimedFiles<'a> {
    factory: &'a TableFactory,
    files: Vec<PathBuf>,
    unwinding: Unwinding,
    process: ProcessMark,
}

impl<'a> UnclaimedFiles<'a> {
    /// No files yet.
    pub fn new(factory: &'a TableFactory) -> UnclaimedFiles<'a> {
        UnclaimedFiles {
            factory,
            files: Vec::new(),
            unwinding: Unwinding::watch(),
            process: ProcessMark::here(),
        }
    }

    /// Adds a file.
    pub fn add(&mut self, file: PathBuf) {
        self.files.push(file);
    }

    /// Takes over the files of another.
    pub fn append(&mut self, mut other: UnclaimedFiles<'_>) {
        self.files.append(&mut other.files);
    }

    /// Keeps the files, because something refers to them from now on, or may.
    pub fn claim(mut self) {
        self.files.clear();
    }
}

impl Drop for UnclaimedFiles<'_> {
    fn drop(&mut self) {
        if self.unwinding.began_since() || self.process.is_inherited() {
            // During a panic it is unknown how far the job came: a manifest may refer to them. In a child
            // they are the parent's.
            return;
        }
        for path in &self.files {
            // A file left behind is an orphan, removed at the next open.
            let _ = self.factory.env.fs.remove_file(path);
        }
    }
}

/// The tables of a job, and the blob files of their large values, that nothing refers to yet: whatever the
/// outcome of the job, they are deleted unless it claims them.
pub struct Outputs<'a> {
    /// The tables, in the order of their keys.
    pub parts: Vec<PartMeta>,
    /// The blob files.
    pub blobs: Vec<BlobFileMeta>,
    /// The files of both, deleted unless claimed.
    pub files: UnclaimedFiles<'a>,
    /// The blocks of tables that are in the cache already.
    pub warmed: Vec<(FileNumber, WarmedTable)>,
    /// Overwrite ratios of tables, in 1/1000, if they were sampled.
    pub overwrite_ratios: Vec<(FileNumber, u32)>,
    /// The smallest sequence number that a filter changed or removed.
    pub oldest_filtered: Option<SeqNo>,
}

/// What a job moved.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes of tables written.
    pub written_bytes: u64,
    /// Bytes of blob files written.
    pub blob_bytes: u64,
    /// How long it took.
    pub took_ns: u64,
}

impl<'a> Outputs<'a> {
    /// No tables.
    pub fn none(factory: &'a TableFactory) -> Outputs<'a> {
        let files = UnclaimedFiles::new(factory);
        Outputs {
            parts: Vec::new(),
            blobs: Vec::new(),
            files,
            warmed: Vec::new(),
            overwrite_ratios: Vec::new(),
            oldest_filtered: None,
        }
    }

    /// Tombstones of all tables.
    pub fn tombstones(&self) -> u64 {
        self.parts.iter().map(|part| part.tombstones).sum()
    }

    /// What the job has written, for the event of its end.
    pub fn job_output(&self) -> JobOutput {
        let tables = self.parts.iter().map(|part| part.file).collect();
        JobOutput::new(tables, self.bytes(), self.blob_bytes(), self.entries())
    }

    /// Bytes of all tables.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// Bytes of all blob files.
    pub fn blob_bytes(&self) -> u64 {
        self.blobs.iter().map(|blob| blob.file_bytes).sum()
    }

    /// Entries of all tables.
    pub fn entries(&self) -> u64 {
        self.parts.iter().map(|part| part.entries).sum()
    }

    /// The traffic of a job that read `read_bytes` of tables.
    pub fn moved(&self, read_bytes: u64, took_ns: u64) -> Moved {
        Moved { read_bytes, written_bytes: self.bytes(), blob_bytes: self.blob_bytes(), took_ns }
    }

    /// Takes over the outputs of the following subcompaction.
    pub fn append(&mut self, next: Outputs<'_>) {
        self.parts.extend(next.parts);
        self.blobs.extend(next.blobs);
        self.files.append(next.files);
        self.warmed.extend(next.warmed);
        self.overwrite_ratios.extend(next.overwrite_ratios);
        self.oldest_filtered = self.oldest_filtered.into_iter().chain(next.oldest_filtered).min();
    }

    /// These outputs and those of the pieces of a divided job, in order; all files are deleted if a piece has
    /// failed.
    pub fn joined(mut self, pieces: Vec<Result<Outputs<'a>>>) -> Result<Outputs<'a>> {
        let mut failure: Option<Error> = None;
        for piece in pieces {
            match piece {
                Ok(piece) => self.append(piece),
                // The original failure says more than the cancellation of the others.
                Err(error) if failure.as_ref().is_none_or(|known| matches!(known, Error::Closed)) => {
                    failure = Some(error);
                }
                Err(_) => {}
            }
        }
        failure.map_or(Ok(self), Err)
    }

    /// Takes the cached blocks of tables, with their parts.
    pub(crate) fn take_warmed(&mut self) -> Vec<(&PartMeta, WarmedTable)> {
        let warmed = std::mem::take(&mut self.warmed);
        let part_of = |number| self.parts.iter().find(|part| part.file == number);
        warmed.into_iter().filter_map(|(number, own)| Some((part_of(number)?, own))).collect()
    }

    /// Adds the tables to an edit, as parts of the run at `place`, and the blob files (BF2). The caller
    /// claims the files when something refers to them.
    pub fn add_to(self, edit: &mut VersionEdit, keyspace: KeyspaceId, place: Place) -> UnclaimedFiles<'a> {
        for blob in self.blobs {
            edit.add_blob_file(keyspace, blob);
        }
        for part in self.parts {
            edit.add_part(keyspace, place, Arc::new(part));
        }
        self.files
    }
}
