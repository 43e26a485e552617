//! Parts: table files, or slices of them, as the tree knows them.

use crate::range::{KeyRange, SHARE_ONE};
use esker_base::{FileNumber, PartId, SeqNo, TableUid};
use std::fmt;
use std::sync::Arc;

/// Boolean facts about a part, as persisted bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartFlags(pub u64);

impl PartFlags {
    /// One version of each key, only plain puts, no range tombstones: readers may skip visibility checks if
    /// [`PartMeta::max_seqno`] is not newer than their sequence number.
    pub const SINGLE_VERSION: PartFlags = PartFlags(1);
    /// Its entries hide older deleted data, for which there are no tombstones any more:
    /// [`PartMeta::oldest_delete_ms`] tells since when.
    pub const HIDES_DELETED: PartFlags = PartFlags(2);

    /// The union of both sets.
    #[must_use]
    pub const fn with(self, other: PartFlags) -> PartFlags {
        PartFlags(self.0 | other.0)
    }

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: PartFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What the entries of a part point to in one blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobReference {
    /// The blob file.
    pub file: FileNumber,
    /// Bytes of the records that are pointed to; estimated for a slice, never zero.
    pub bytes: u64,
    /// Pointers; estimated for a slice, never zero.
    pub count: u64,
}

/// A key range of a table file, with everything that planning and reading need to know without opening the
/// file.
///
/// Usually a part is a whole file. A compaction may consume a slice of a table; then the part is replaced by
/// parts for the rest, which share the file, and the file is deleted with its last part. Figures of such
/// parts are shares of the file's, estimated or measured when the slice was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartMeta {
    /// Identity of the part; never reused, and kept when the part moves to another level.
    pub id: PartId,
    /// The table file.
    pub file: FileNumber,
    /// Length of the whole file in bytes.
    pub file_bytes: u64,
    /// The identity that the table file states, so that a swapped file is detected.
    pub table_uid: TableUid,
    /// Whether the part is a slice: readers ignore the file's content outside of [`PartMeta::range`].
    pub sliced: bool,
    /// The keys of the part, range tombstones included. Exact for whole tables; the bounds of a slice need
    /// not be existing keys. Unbounded only if a range tombstone has no end.
    pub range: KeyRange,
    /// The sequence number of all entries of an ingested table. Such a table was written with sequence
    /// numbers of zero, before its position in the order was known. Then it is also the oldest and the newest
    /// one.
    pub global_seqno: Option<SeqNo>,
    /// The oldest sequence number in the part.
    pub min_seqno: SeqNo,
    /// The newest sequence number in the part.
    pub max_seqno: SeqNo,
    /// Bytes of the file that belong to this part; all of them for a whole table.
    pub bytes: u64,
    /// Bytes of keys and values before encoding.
    pub raw_bytes: u64,
    /// Entries of all kinds.
    pub entries: u64,
    /// Deletes and single deletes among the entries.
    pub tombstones: u64,
    /// Range tombstones: each counts once for every fragment that it covers.
    pub range_tombstones: u64,
    /// When the oldest tombstone or range tombstone was written, in milliseconds since 1970. For a part
    /// without any: when the oldest of the dropped ones was written ([`PartFlags::HIDES_DELETED`]) or, for a
    /// slice, the oldest that removed the rest of its file.
    pub oldest_delete_ms: Option<u64>,
    /// The earliest expiry time of an entry, in milliseconds since 1970.
    pub min_expiry_ms: Option<u64>,
    /// The latest expiry time; present only if every entry expires.
    pub max_expiry_ms: Option<u64>,
    /// Entries that expire.
    pub expiring: u64,
    /// The latest expiry time of an entry that has one.
    pub latest_expiry_ms: Option<u64>,
    /// When the file was written, in milliseconds since 1970; 0 if unknown.
    pub created_ms: u64,
    /// Facts for readers.
    pub flags: PartFlags,
    /// Entries could have been dropped if no snapshot had needed them: no retry is worthwhile until the
    /// oldest snapshot is newer than this.
    pub pinned_by: Option<SeqNo>,
    /// References of its entries to blob files, by ascending file number.
    pub blobs: Arc<[BlobReference]>,
}

impl PartMeta {
    /// A part for a whole table file without counts; the caller fills in the rest.
    pub fn new(
        id: PartId,
        file: FileNumber,
        file_bytes: u64,
        table_uid: TableUid,
        range: KeyRange,
    ) -> PartMeta {
        PartMeta {
            id,
            file,
            file_bytes,
            table_uid,
            sliced: false,
            range,
            global_seqno: None,
            min_seqno: SeqNo::ZERO,
            max_seqno: SeqNo::ZERO,
            bytes: file_bytes,
            raw_bytes: 0,
            entries: 0,
            tombstones: 0,
            range_tombstones: 0,
            oldest_delete_ms: None,
            min_expiry_ms: None,
            max_expiry_ms: None,
            expiring: 0,
            latest_expiry_ms: None,
            created_ms: 0,
            flags: PartFlags::default(),
            pinned_by: None,
            blobs: Arc::default(),
        }
    }

    /// The part of a table that was ingested with this sequence number.
    #[must_use]
    pub fn ingested_at(mut self, seqno: SeqNo) -> PartMeta {
        self.global_seqno = Some(seqno);
        self.min_seqno = seqno;
        self.max_seqno = seqno;
        self
    }

    /// The first key of the part.
    #[inline]
    pub fn smallest(&self) -> &[u8] {
        &self.range.start
    }

    /// The last key of the part, or its exclusive bound ([`crate::KeyEnd::Excluded`]); empty without an end.
    #[inline]
    pub fn largest(&self) -> &[u8] {
        self.range.end.key().map_or(&[], |key| key)
    }

    /// Whether the part may hold versions of `key`.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.range.contains(key)
    }

    /// Bytes that count when garbage is estimated: each tombstone also kills an average entry below it, so
    /// deletes make a tree as eager to merge as overwrites do.
    pub fn effective_bytes(&self) -> u64 {
        let average = self.bytes.checked_div(self.entries).unwrap_or(0);
        self.bytes.saturating_add(self.tombstones.saturating_mul(average))
    }

    /// Whether the part holds point or range tombstones.
    pub fn has_tombstones(&self) -> bool {
        self.tombstones > 0 || self.range_tombstones > 0
    }

    /// Whether merging the part down removes deleted data, here or below.
    pub fn stands_for_deletes(&self) -> bool {
        self.has_tombstones() || self.flags.has(PartFlags::HIDES_DELETED)
    }

    /// Estimated number of entries expired by `time_ms`, if expiry times are spread evenly from the earliest
    /// to the latest; at least one if the earliest has passed.
    pub fn expired_entries(&self, time_ms: u64) -> u64 {
        let (Some(earliest), Some(latest)) = (self.min_expiry_ms, self.latest_expiry_ms) else { return 0 };
        if time_ms < earliest {
            return 0;
        }
        if time_ms >= latest {
            return self.expiring;
        }
        let (passed, span) = (u128::from(time_ms - earliest), u128::from(latest - earliest));
        ((u128::from(self.expiring) * passed / span) as u64).max(1)
    }

    /// The slice of this part in `range`, under a new id; `None` if they share no key. Figures are divided by
    /// [`KeyRange::share_inside`]; counts that decide whether something must be read (entries, tombstones,
    /// range tombstones) never round down to zero.
    pub fn slice(&self, id: PartId, range: &KeyRange) -> Option<PartMeta> {
        let inside = self.range.intersection(range)?;
        let share = self.range.share_inside(range);
        let part_of = |figure: u64| (u128::from(figure) * u128::from(share) / u128::from(SHARE_ONE)) as u64;
        let some_of = |figure: u64| if figure == 0 { 0 } else { part_of(figure).max(1) };
        Some(PartMeta {
            id,
            sliced: self.sliced || inside != self.range,
            range: inside,
            bytes: some_of(self.bytes),
            raw_bytes: part_of(self.raw_bytes),
            entries: some_of(self.entries),
            tombstones: some_of(self.tombstones),
            range_tombstones: some_of(self.range_tombstones),
            expiring: some_of(self.expiring),
            blobs: if self.blobs.is_empty() {
                Arc::clone(&self.blobs)
            } else {
                let share = |blob: &BlobReference| BlobReference {
                    file: blob.file,
                    bytes: some_of(blob.bytes),
                    count: some_of(blob.count),
                };
                self.blobs.iter().map(share).collect()
            },
            ..self.clone()
        })
    }
}

impl fmt::Display for PartMeta {
    /// One line: `part 7 file 12 [a..m] 4096 bytes, 31 entries, seqno 5..9`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part {} file {} {} {} bytes", self.id, self.file, self.range, self.bytes)?;
        if self.sliced {
            write!(f, " (a slice of {})", self.file_bytes)?;
        }
        write!(f, ", {} entries", self.entries)?;
        if self.has_tombstones() {
            write!(f, ", {} tombstones, {} range tombstones", self.tombstones, self.range_tombstones)?;
        }
        write!(f, ", seqno {}..{}", self.min_seqno, self.max_seqno)
    }
}
