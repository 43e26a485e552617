//! The tree of a view: a version's runs in reading order, each part with its table file.

pub mod blob_files;
mod fences;
mod hidden_parts;
mod obsolete_files;
mod table_cache;
mod table_files;
mod table_handle;
mod unreadable;

pub use hidden_parts::{HiddenPart, clipped, hidden_by};
pub use obsolete_files::RequestCleanup;
pub use table_cache::OpenAmount;
pub use table_files::TableFiles;
pub use table_handle::{Access, Closed, FileIdentity, TableHandle};
pub use unreadable::{Barrier, UnreadableParts};

use crate::lookup_counts::LookupStats;
use crate::tree::blob_files::LargeMap;
use esker_base::{KeyspaceId, Result, SeqNo};
use esker_version::{LevelIndex, PartFlags, PartMeta, Version};
use fences::Fences;
use std::sync::{Arc, OnceLock};

/// A version together with the files of its parts, in the order in which a reader searches them.
#[derive(Debug)]
pub struct Tree {
    /// The version whose parts these are.
    pub version: Arc<Version>,
    /// Newest first: level 0's newest run to the last level's oldest.
    pub runs: Vec<Arc<TreeRun>>,
    /// No table has anything newer. Transactions read this under the commit lock, where walking the parts
    /// would take too long.
    pub max_seqno: SeqNo,
    /// Whether some part holds range tombstones or cannot be read: readers then take the way that looks at
    /// both.
    pub has_range_deletes: bool,
    /// See [`Tree::hidden`].
    hidden: OnceLock<Box<[HiddenPart]>>,
    /// The blob files that the parts point to.
    pub large: Arc<LargeMap>,
    /// The statistics of the keyspace's lookups.
    pub watch: Arc<LookupStats>,
}

/// A run: disjoint parts in key order.
#[derive(Debug)]
pub struct TreeRun {
    /// Its level.
    pub level: LevelIndex,
    /// Its parts in the order of their keys.
    pub parts: Arc<[TreePart]>,
    /// Indexes of the parts that hold range tombstones.
    pub deleting: Box<[usize]>,
    /// The parts whose file is quarantined; `None` if there are none, nearly always.
    pub unreadable: Option<Box<UnreadableParts>>,
    fences: Fences,
    facts: RunFacts,
}

/// Facts about all entries of a run, so that a reader need not check each part. Precomputed, because a reader
/// of ten entries would spend more time on checking a thousand parts.
#[derive(Clone, Copy, Debug)]
pub struct RunFacts {
    /// If every key has one version, all puts, the newest sequence number; otherwise `None`.
    pub single_version_up_to: Option<SeqNo>,
    /// No entry expires.
    pub all_stay: bool,
}

impl RunFacts {
    fn of(parts: &[TreePart]) -> RunFacts {
        let is_single = parts.iter().all(|part| part.meta.flags.has(PartFlags::SINGLE_VERSION));
        let newest = parts.iter().map(|part| part.meta.max_seqno).max().unwrap_or(SeqNo::ZERO);
        RunFacts {
            single_version_up_to: is_single.then_some(newest),
            all_stay: parts.iter().all(|part| part.meta.expiring == 0),
        }
    }
}

/// A part of a run and the file that holds it.
#[derive(Clone, Debug)]
pub struct TreePart {
    /// What the manifest says of it.
    pub meta: Arc<PartMeta>,
    /// The table it is in.
    pub file: Arc<TableHandle>,
}

impl Tree {
    /// The tree of a version, with files from `files`.
    pub fn new(keyspace: KeyspaceId, version: Arc<Version>, files: &Arc<TableFiles>) -> Tree {
        let mut runs = Vec::new();
        for (level, run) in version.runs() {
            let with_file = |meta: &Arc<PartMeta>| TreePart {
                meta: Arc::clone(meta),
                file: files.file_of(keyspace, meta),
            };
            runs.push(Arc::new(TreeRun::new(level, run.parts().iter().map(with_file).collect())));
        }
        let parts = runs.iter().flat_map(|run: &Arc<TreeRun>| run.parts.iter());
        let max_seqno = parts.map(|part| part.meta.max_seqno).max().unwrap_or(SeqNo::ZERO);
        let has_range_deletes =
            runs.iter().any(|run: &Arc<TreeRun>| run.has_range_deletes() || run.unreadable.is_some());
        let large = Arc::new(LargeMap::new(keyspace, &version, files));
        // No read statistics for an empty tree or a dropped keyspace.
        let watch = if runs.is_empty() { Arc::default() } else { files.lookup_stats_of(keyspace) };
        Tree { version, runs, max_seqno, has_range_deletes, hidden: OnceLock::new(), large, watch }
    }

    /// This tree with the current files; unchanged runs are shared.
    pub fn renewed(&self) -> Tree {
        let renewed = |run: &Arc<TreeRun>| {
            if run.parts.iter().all(|part| !part.file.is_superseded()) {
                return Arc::clone(run);
            }
            let part = |part: &TreePart| TreePart {
                meta: Arc::clone(&part.meta),
                file: if part.file.is_superseded() {
                    part.file.identity().current()
                } else {
                    Arc::clone(&part.file)
                },
            };
            let parts: Arc<[TreePart]> = run.parts.iter().map(part).collect();
            Arc::new(TreeRun {
                level: run.level,
                unreadable: UnreadableParts::of(run.level, &parts),
                parts,
                deleting: run.deleting.clone(),
                fences: run.fences.clone(),
                facts: run.facts,
            })
        };
        let runs = self.runs.iter().map(renewed).collect();
        let Tree { max_seqno, has_range_deletes, ref hidden, .. } = *self;
        let (version, large) = (Arc::clone(&self.version), Arc::clone(&self.large));
        let watch = Arc::clone(&self.watch);
        Tree { version, runs, max_seqno, has_range_deletes, hidden: hidden.clone(), large, watch }
    }

    /// The parts that range tombstones hide completely; determined at the first call.
    ///
    /// # Errors
    /// Those of opening the tables with range tombstones; the next call tries again.
    pub fn hidden(&self) -> Result<&[HiddenPart]> {
        if !self.has_range_deletes {
            return Ok(&[]);
        }
        if let Some(hidden) = self.hidden.get() {
            return Ok(hidden);
        }
        let found = hidden_parts::hidden_parts(self)?;
        Ok(self.hidden.get_or_init(|| found.into()))
    }

    /// All parts, in reading order of their runs.
    pub fn parts(&self) -> impl Iterator<Item = &TreePart> {
        self.runs.iter().flat_map(|run| run.parts.iter())
    }
}

impl TreeRun {
    /// A run of parts that do not overlap, in the order of their keys.
    pub fn new(level: LevelIndex, parts: Arc<[TreePart]>) -> TreeRun {
        let deleting = (0..parts.len()).filter(|&at| parts[at].meta.range_tombstones > 0).collect();
        let facts = RunFacts::of(&parts);
        let unreadable = UnreadableParts::of(level, &parts);
        TreeRun { level, unreadable, fences: Fences::of(&parts), parts, deleting, facts }
    }

    /// Facts about all its entries.
    #[inline]
    pub fn facts(&self) -> RunFacts {
        self.facts
    }

    /// Whether some part holds range tombstones.
    #[inline]
    pub fn has_range_deletes(&self) -> bool {
        !self.deleting.is_empty()
    }

    /// Index of the first part that does not end before `key`; the number of parts if there is none.
    #[inline]
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        self.fences.lower_bound(&self.parts, key)
    }

    /// The only part that can hold `key`. It contains the key, also if it is a slice of its table.
    #[inline(always)]
    pub fn part_for(&self, key: &[u8]) -> Option<&TreePart> {
        let part = self.fences.part_for(&self.parts, key);
        debug_assert!(
            part.is_none_or(|part| part.meta.contains(key)),
            "a part that does not contain the key"
        );
        part
    }
}
