//! Observed reads: where the blocks of one read come from, for a report about that read.
//!
//! The mark belongs to the thread, as that of [`esker_base::ResidentOnly`]. Places that are slow anyway look
//! at it: a block from the cache without a slot, a block from a file, a mapped block, an index page, a paged
//! filter. A block from its slot is the fast path, which does not look: an observed read takes
//! [`Table::get_observed`](crate::Table::get_observed) or a cursor of
//! [`ReadPurpose::Observed`](crate::ReadPurpose), which find the same blocks in the same order.
//!
//! * OR1. *What is observed is what the cache counts.* Within a section each data block that a read gets is
//!   noted once, in the place where the cache's counters count it; mapped blocks, which the cache does not
//!   count, are noted apart.
//! * OR2. *An observed read answers as any other.* Only the way to a block differs, never the block.

use std::cell::Cell;
use std::ops::AddAssign;

/// What was read in a section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlocksRead {
    /// Data blocks found by the slots of their table.
    pub from_slots: u64,
    /// Data blocks found in the cache.
    pub from_cache: u64,
    /// Data blocks used in place in a mapped file.
    pub mapped: u64,
    /// Data blocks read from files.
    pub from_files: u64,
    /// Their bytes in the files.
    pub file_bytes: u64,
    /// Index pages and filters found in the cache.
    pub other_from_cache: u64,
    /// Index pages and filters read from files.
    pub other_from_files: u64,
    /// Their bytes in the files.
    pub other_file_bytes: u64,
    /// Large values read from blob files.
    pub large_values: u64,
    /// Their bytes.
    pub large_bytes: u64,
    /// Versions that were visited to merge operands.
    pub versions: u64,
}

impl BlocksRead {
    /// Data blocks, wherever they came from.
    pub fn data_blocks(&self) -> u64 {
        self.from_slots + self.from_cache + self.mapped + self.from_files
    }
}

impl AddAssign for BlocksRead {
    fn add_assign(&mut self, other: BlocksRead) {
        self.from_slots += other.from_slots;
        self.from_cache += other.from_cache;
        self.mapped += other.mapped;
        self.from_files += other.from_files;
        self.file_bytes += other.file_bytes;
        self.other_from_cache += other.other_from_cache;
        self.other_from_files += other.other_from_files;
        self.other_file_bytes += other.other_file_bytes;
        self.large_values += other.large_values;
        self.large_bytes += other.large_bytes;
        self.versions += other.versions;
    }
}

/// Where something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockOrigin {
    /// A data block's slot.
    Slot,
    /// A data block, in the cache.
    Cache,
    /// A data block, in a mapped file.
    Mapped,
    /// A data block, in a file.
    File {
        /// Its bytes there.
        bytes: u64,
    },
    /// An index page or a filter, in the cache.
    OtherInCache,
    /// An index page or a filter, in a file.
    OtherInFile {
        /// Its bytes there.
        bytes: u64,
    },
}

thread_local! {
    static IS_ON: Cell<bool> = const { Cell::new(false) };
    static SEEN: Cell<BlocksRead> = Cell::new(BlocksRead::default());
}

/// A section of this thread in which reads are observed; ends when dropped.
#[derive(Debug)]
pub struct ObservedReads {
    was_on: bool,
    before: BlocksRead,
}

impl ObservedReads {
    /// Begins a section.
    pub fn enter() -> ObservedReads {
        ObservedReads { was_on: IS_ON.replace(true), before: SEEN.take() }
    }

    /// Whether this thread is in such a section.
    #[inline]
    pub fn is_on() -> bool {
        // In the destructor of another thread-local this one may be gone; then nothing is observed.
        IS_ON.try_with(Cell::get).unwrap_or(false)
    }

    /// What was read since the section began, or since the last call.
    pub fn take(&self) -> BlocksRead {
        SEEN.take()
    }

    /// Adds what an earlier call took.
    pub fn put_back(&self, read: BlocksRead) {
        update(|seen| *seen += read);
    }

    /// Notes a large value that was read from a blob file.
    #[inline]
    pub fn note_large(bytes: u64) {
        if ObservedReads::is_on() {
            update(|seen| {
                seen.large_values += 1;
                seen.large_bytes += bytes;
            });
        }
    }

    /// Notes a version that was visited to merge operands.
    #[inline]
    pub fn note_version() {
        if ObservedReads::is_on() {
            update(|seen| seen.versions += 1);
        }
    }
}

impl Drop for ObservedReads {
    fn drop(&mut self) {
        IS_ON.set(self.was_on);
        SEEN.set(self.before);
    }
}

/// Notes a block, if reads of this thread are observed.
#[inline]
pub(crate) fn note(origin: BlockOrigin) {
    if ObservedReads::is_on() {
        note_origin(origin);
    }
}

#[cold]
#[inline(never)]
fn note_origin(origin: BlockOrigin) {
    update(|seen| match origin {
        BlockOrigin::Slot => seen.from_slots += 1,
        BlockOrigin::Cache => seen.from_cache += 1,
        BlockOrigin::Mapped => seen.mapped += 1,
        BlockOrigin::File { bytes } => {
            seen.from_files += 1;
            seen.file_bytes += bytes;
        }
        BlockOrigin::OtherInCache => seen.other_from_cache += 1,
        BlockOrigin::OtherInFile { bytes } => {
            seen.other_from_files += 1;
            seen.other_file_bytes += bytes;
        }
    });
}

fn update(change: impl FnOnce(&mut BlocksRead)) {
    let mut seen = SEEN.get();
    change(&mut seen);
    SEEN.set(seen);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_nest_and_each_sees_its_own_reads() {
        note(BlockOrigin::Slot);
        let outer = ObservedReads::enter();
        assert_eq!(outer.take(), BlocksRead::default(), "nothing is noted outside of a section");
        note(BlockOrigin::Cache);
        {
            let inner = ObservedReads::enter();
            note(BlockOrigin::File { bytes: 7 });
            let seen = BlocksRead { from_files: 1, file_bytes: 7, ..BlocksRead::default() };
            assert_eq!(inner.take(), seen);
            assert_eq!(inner.take(), BlocksRead::default());
        }
        assert!(ObservedReads::is_on());
        assert_eq!(outer.take(), BlocksRead { from_cache: 1, ..BlocksRead::default() });
        drop(outer);
        assert!(!ObservedReads::is_on());
        std::thread::scope(|scope| {
            let _here = ObservedReads::enter();
            scope.spawn(|| assert!(!ObservedReads::is_on(), "it is a section of one thread"));
        });
    }
}
