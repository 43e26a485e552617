//! Lighter compression while writers are about to wait.
//!
//! A strong codec costs a flush or a merge most of its time: Zstandard at a middle level ten times what LZ4
//! takes. Where writes come faster than that, they end up waiting for it. So a keyspace has two modes, *as
//! chosen* and *eased* (CS265 has three that processor, device and memory move): eased, jobs use the fast
//! codec of the family that was asked for. What they write is compressed as chosen when a merge takes it
//! down, after the rush. [`KeyspaceOptions::ease_compression`] turns it off.
//!
//! # What pressure is
//! The share of what writers may use up before they wait ([`crate::room`]), the greatest of three: memory of
//! memtables, sealed memtables of the keyspace in the queue of the flush lane, and runs in level 0 in that of
//! the compaction lane. Neither the processor's nor the device's load is measured: a database has no claim to
//! either, and where they are short the queues are what it does to writers; where they are busy and no queue
//! grows there is no need for anything.
//!
//! # What holds
//! * EC1. At [`EASES_AT_PERMILLE`] (CS265: 0.8) the next job is eased, and jobs go on being so until one
//!   finds less than
//!   [`RELIEVED_BELOW_PERMILLE`]: around one threshold alone tables would come in turns.
//! * EC2. A job takes the mode when it begins and keeps to it, so that it can be said of a table how it was
//!   compressed; its properties do.
//! * EC3. The last level is merged as chosen: nothing comes after that would make up for it. A flush that
//!   goes straight there is eased all the same, because writers wait for just that flush.
//!
//! # Rejected
//! * A third mode that compresses harder than asked while nothing is to be done: that is what the last
//!   level's own codec is for.
//! * Changing the codec within a table: what was queued when it began is nearly all that it will write.

use crate::keyspace::KeyspaceState;
use crate::options::KeyspaceOptions;
use crate::store::Store;
use esker_codec::{AdaptiveOptions, Codec, Mode};
use std::sync::atomic::{AtomicBool, Ordering};

/// Pressure from which on jobs are eased.
const EASES_AT_PERMILLE: u64 = 800;
/// Pressure below which they are no more: two of three sealed memtables in the queue are above it, one is
/// below.
const RELIEVED_BELOW_PERMILLE: u64 = 600;

/// The mode of a keyspace. Only jobs look at it; it orders nothing.
#[derive(Debug, Default)]
pub(crate) struct Easing {
    is_eased: AtomicBool,
}

impl Easing {
    /// Whether a job that begins under this pressure is eased (EC1).
    fn next(&self, pressure_permille: u64) -> bool {
        let was_eased = self.is_eased.load(Ordering::Relaxed);
        let least = if was_eased { RELIEVED_BELOW_PERMILLE } else { EASES_AT_PERMILLE };
        let is_eased = pressure_permille >= least;
        self.is_eased.store(is_eased, Ordering::Relaxed);
        is_eased
    }
}

impl Store {
    /// Whether a job of this keyspace that begins now compresses lightly.
    pub(crate) fn eases_compression(&self, keyspace: &KeyspaceState, options: &KeyspaceOptions) -> bool {
        if !options.ease_compression {
            return false;
        }
        let pressure_permille = u64::from(self.fullest_queue_permille(keyspace));
        let is_eased = keyspace.easing.next(pressure_permille);
        if is_eased {
            tracing::debug!(keyspace = %keyspace.name(), pressure_permille, "compression is eased");
        }
        is_eased
    }
}

/// The fast codec of the family of `codec`: what reads the one reads the other, and what is for integers
/// stays so.
pub(crate) fn eased(codec: Codec) -> Codec {
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
