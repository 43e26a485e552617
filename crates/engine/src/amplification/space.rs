//! How much room a tree takes for what is alive in it.
//!
//! What is alive is not known without a full compaction, so it is estimated. Let the base be the oldest run.
//! Of its entries all are alive but tombstones. Of the `n` entries above it, `t` of which are tombstones, a
//! share `r` takes the place of older ones, as it did in the merges onto the oldest data since the database
//! was opened. So alive are `base + (n - t)(1 - r) - t` entries, at the base's bytes for each. Blob files
//! know their garbage but for values whose overwriting no compaction has met.
//!
//! Before the first such merge nobody knows `r`: between all of it being new, as while a database is filled,
//! and all of it being overwritten lie worlds. Then `r` is taken to be 1, which says what is alive at least,
//! and no ratio is told, but its bound.
//!
//! Files that are being written, or that wait for their last reader, are in neither number.

use esker_version::{PartMeta, Version};

/// What room a keyspace takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SpaceAmplification {
    /// Bytes of tables.
    pub table_bytes: u64,
    /// Bytes of blob files.
    pub blob_bytes: u64,
    /// Bytes that would be left of both after a full compaction, by estimate: the oldest run without its
    /// tombstones, and of what lies above it the share that replaces nothing. If that share is unknown, what
    /// is left at least.
    pub live_bytes: u64,
    /// The share of entries above the oldest run that is taken to replace older ones: as seen in merges onto
    /// the oldest data, the latest counting most.
    pub replaced_share: f64,
    /// Whether merges have shown [`SpaceAmplification::replaced_share`], or nothing lies above the oldest
    /// run; else it is 1, which is cautious.
    pub is_measured: bool,
}

impl SpaceAmplification {
    /// Bytes taken over bytes alive; `None` if nothing is alive, and as long as no merge has shown what is.
    pub fn ratio(&self) -> Option<f64> {
        self.at_most().filter(|_| self.is_measured)
    }

    /// Bytes taken over those that are alive for certain; `None` if there are none.
    pub fn at_most(&self) -> Option<f64> {
        (self.live_bytes > 0).then(|| (self.table_bytes + self.blob_bytes) as f64 / self.live_bytes as f64)
    }
}

/// The room that a version takes, given what share of newer entries merges saw to replace older ones.
pub(super) fn estimate(version: &Version, replaced: Option<f64>) -> SpaceAmplification {
    let table_bytes = version.parts().map(|(_, _, part)| part.bytes).sum();
    let blobs = version.blob_files();
    let share = replaced.unwrap_or(1.0).clamp(0.0, 1.0);
    let live_tables = version.runs().last().map_or(0.0, |(_, base)| {
        let of_base = Sum::of(base.parts().iter().map(|part| &**part));
        let upper = version.runs().filter(|(_, run)| run.id != base.id);
        let upper = Sum::of(upper.flat_map(|(_, run)| run.parts()).map(|part| &**part));
        let bytes_each = of_base.bytes / of_base.entries.max(1.0);
        let arriving = (upper.entries - upper.tombstones) * (1.0 - share) - upper.tombstones;
        (of_base.entries - of_base.tombstones + arriving).max(0.0) * bytes_each
    });
    SpaceAmplification {
        table_bytes,
        blob_bytes: blobs.bytes(),
        live_bytes: live_tables as u64 + blobs.bytes().saturating_sub(blobs.garbage_bytes()),
        replaced_share: share,
        is_measured: replaced.is_some() || version.runs().count() <= 1,
    }
}

/// Sums over parts.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    bytes: f64,
    entries: f64,
    tombstones: f64,
}

impl Sum {
    fn of<'a>(parts: impl Iterator<Item = &'a PartMeta>) -> Sum {
        parts.fold(Sum::default(), |sum, part| Sum {
            bytes: sum.bytes + part.bytes as f64,
            entries: sum.entries + part.entries as f64,
            tombstones: sum.tombstones + part.tombstones as f64,
        })
    }
}
