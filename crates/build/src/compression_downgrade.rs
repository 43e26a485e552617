//! Compression downgrade: jobs use a faster codec while writers are about to wait.
//!
//! With a strong codec compression dominates a flush or a merge: Zstandard at a middle level takes ten times
//! as long as LZ4. If writes arrive faster, they wait for it. So a keyspace has two modes, *as configured*
//! and *downgraded* (CS265 has three, driven by processor, device and memory load): downgraded jobs use the
//! fast codec of the configured family. Their output is compressed as configured when a later merge takes it
//! down. [`KeyspaceOptions::compression_under_pressure`] turns this off.
//!
//! # Pressure
//! The share of the resources that writers may use up before they wait (`make_room`), the greatest of three:
//! memory of memtables, sealed memtables of the keyspace in the flush queue, and runs in level 0. Neither the
//! processor's nor the device's load is measured: the database has no exclusive claim to either, and where
//! they are short the queues show their effect on writers; where they are busy and no queue grows, nothing
//! needs to change.
//!
//! # Invariants
//! * EC1. At [`DOWNGRADE_AT_PERMILLE`] (CS265: 0.8) the next job is downgraded, and so are later jobs until
//!   one finds less than
//!   [`RESTORE_BELOW_PERMILLE`]: with a single threshold tables would alternate.
//! * EC2. A job takes the mode when it begins and keeps it, so that a table's properties can state how it was
//!   compressed.
//! * EC3. Merges into the last level use the configured codec: nothing later would recompress their output. A
//!   flush that goes straight there is downgraded all the same, because writers wait for that flush.
//!
//! # Rejected
//! * A third mode that compresses harder than configured while idle: that is the purpose of the last level's
//!   own codec.
//! * Changing the codec within a table: the data queued at its begin is nearly all that it will contain.

use esker_codec::{AdaptiveOptions, Codec, Mode};
use esker_options::KeyspaceOptions;
use std::sync::atomic::{AtomicBool, Ordering};

/// Pressure from which on jobs are downgraded.
const DOWNGRADE_AT_PERMILLE: u64 = 800;
/// Pressure below which they are no longer downgraded: two of three sealed memtables in the queue are above
/// it, one is below.
const RESTORE_BELOW_PERMILLE: u64 = 600;

/// The mode of a keyspace. Only jobs read it; it orders nothing.
#[derive(Debug, Default)]
pub struct CompressionDowngrade {
    is_downgraded: AtomicBool,
}

impl CompressionDowngrade {
    /// Whether a job that begins now compresses lightly, by the pressure on writers.
    pub fn downgrades(&self, options: &KeyspaceOptions, pressure_permille: impl FnOnce() -> u32) -> bool {
        if !options.compression_under_pressure {
            return false;
        }
        let pressure_permille = u64::from(pressure_permille());
        let is_downgraded = self.next(pressure_permille);
        if is_downgraded {
            tracing::debug!(pressure_permille, "compression is downgraded");
        }
        is_downgraded
    }

    /// Whether a job that begins under this pressure is downgraded (EC1).
    fn next(&self, pressure_permille: u64) -> bool {
        let was_downgraded = self.is_downgraded.load(Ordering::Relaxed);
        let least = if was_downgraded { RESTORE_BELOW_PERMILLE } else { DOWNGRADE_AT_PERMILLE };
        let is_downgraded = pressure_permille >= least;
        self.is_downgraded.store(is_downgraded, Ordering::Relaxed);
        is_downgraded
    }
}

/// The fast codec of the family of `codec`: readable wherever `codec` is; integer codecs stay unchanged.
pub fn downgraded(codec: Codec) -> Codec {
    match codec {
        Codec::Lz4Hc { .. } | Codec::Zstd { .. } | Codec::ZstdDictionary { .. } | Codec::Lzma { .. } => {
            Codec::Lz4
        }
        Codec::Adaptive(options) => Codec::Adaptive(AdaptiveOptions { mode: Mode::Speed, ..options }),
        fast @ (Codec::None
        | Codec::Lz4
        | Codec::Snappy
        | Codec::BitPacking
        | Codec::Delta
        | Codec::Dictionary) => fast,
    }
}

#[cfg(test)]
mod tests;
