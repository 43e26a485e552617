//! Space amplification: bytes of a tree over its live bytes.
//!
//! Live bytes are not known without a full compaction, so they are estimated. Let the base be the oldest run.
//! All its entries are alive except tombstones. Of the `n` entries above it, `t` of which are tombstones, a
//! share `r` overwrites older ones, as measured in merges onto the oldest data since the open. So
//! `base + (n - t)(1 - r) - t` entries are alive, at the base's bytes for each. Blob files know their
//! garbage, except values whose overwriting entry no compaction has merged.
//!
//! Before the first such merge `r` is unknown and may be anything: 0 while a database is filled, 1 if
//! everything is overwritten. Then `r` is taken as 1, which gives a lower bound of the live bytes, and only
//! an upper bound of the ratio is reported.
//!
//! Files that are being written, or that wait for their last reader, are not included.

use esker_version::{PartMeta, Version};

/// The space of a keyspace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SpaceAmplification {
    /// Bytes of tables.
    pub table_bytes: u64,
    /// Bytes of blob files.
    pub blob_bytes: u64,
    /// The estimated bytes of both after a full compaction: the oldest run without its tombstones, and the
    /// share of the data above it that overwrites nothing. If that share is unknown, a lower bound.
    pub live_bytes: u64,
    /// The share of entries above the oldest run that overwrite older ones: as measured in merges onto the
    /// oldest data, the latest weighted most.
    pub overwritten_share: f64,
    /// Whether merges have measured [`SpaceAmplification::overwritten_share`], or nothing lies above the
    /// oldest run; otherwise it is 1, which is conservative.
    pub is_measured: bool,
}

impl SpaceAmplification {
    /// Bytes stored over live bytes; `None` if nothing is alive, and before a merge has measured it.
    pub fn ratio(&self) -> Option<f64> {
        self.at_most().filter(|_| self.is_measured)
    }

    /// Upper bound of bytes stored over live bytes; `None` if nothing is certainly alive.
    pub fn at_most(&self) -> Option<f64> {
        (self.live_bytes > 0).then(|| (self.table_bytes + self.blob_bytes) as f64 / self.live_bytes as f64)
    }
}

/// The space of a version, given the measured share of newer entries that overwrite older ones.
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
        overwritten_share: share,
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
