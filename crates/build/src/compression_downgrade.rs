//! Compression effort: jobs use a faster codec while writers are about to wait or processors are short, and a
//! denser one while the device or memory is short.
//!
//! With a strong codec compression dominates a flush or a merge: Zstandard at a middle level takes ten times
//! as long as LZ4. If writes arrive faster, they wait for it. Where the device is what is short, or memory,
//! of which the page cache is a part, fewer bytes are worth more time. So a keyspace has CS265's three modes
//! (2.7.3): *faster*, *as configured* and *denser*. Faster jobs use the fast codec of the configured family;
//! denser ones the mode `ratio` of an adaptive codec, and every other codec as configured, because its user
//! chose a level. What was written in another mode is compressed as configured when a later merge takes it
//! down. [`KeyspaceOptions::compression_under_pressure`] turns this off.
//!
//! # Pressure
//! *Queues*: the share of the resources that writers may use up before they wait (`make_room`), the greatest
//! of three: memory of memtables, sealed memtables of the keyspace in the flush queue, and runs in level 0.
//! *The machine*: the share of time in which some task waits for a processor, a device or memory
//! ([`HostPressure`]), whatever process it belongs to: a database has no exclusive claim to either. Where the
//! system does not tell, the queues alone decide.
//!
//! # Invariants
//! * EC1. At [`ENTER_AT_PERMILLE`] (CS265: 0.8) the next job is in the other mode, and so are later jobs
//!   until one finds less than [`LEAVE_BELOW_PERMILLE`]: with a single threshold tables would alternate.
//! * EC2. A job takes the mode when it begins and keeps it, so that a table's properties can state how it was
//!   compressed.
//! * EC3. Merges into the last level are not faster than configured: nothing later would recompress their
//!   output. A flush that goes straight there is all the same, because writers wait for that flush.
//! * EC4. Faster goes before denser, and flushes are never denser: they free the memory that writers need.
//!
//! # Rejected
//! * Compressing harder than configured while idle: that is the purpose of the last level's own codec.
//! * Changing the codec within a table: the data queued at its begin is nearly all that it will contain.
//! * A denser form of LZ4 where LZ4 is configured: its encoder takes twenty times as long, and the device may
//!   be short because of merges that would then be in arrears.

use esker_codec::{AdaptiveOptions, Codec, Mode};
use esker_env::HostPressure;
use esker_options::KeyspaceOptions;
use std::sync::atomic::{AtomicBool, Ordering};

/// Pressure from which on jobs are in another mode.
const ENTER_AT_PERMILLE: u32 = 800;
/// Pressure below which they are no longer: two of three sealed memtables in the queue are above it, one is
/// below.
const LEAVE_BELOW_PERMILLE: u32 = 600;

/// How hard a job compresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// By the fast codec of the configured family.
    Faster,
    /// As configured.
    #[default]
    Configured,
    /// For ratio, where the codec is adaptive.
    Denser,
}

/// What writes tables, as far as its effort depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenBy {
    /// A flush.
    Flush,
    /// A merge into a level that is merged again.
    Merge,
    /// A merge into the last level.
    LastLevel,
}

/// The pressure on writers, in thousandths of where they wait, and on the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The fullest queue.
    pub queues_permille: u32,
    /// Of the machine.
    pub host: HostPressure,
}

/// The modes of a keyspace. Only jobs read them; they order nothing.
#[derive(Debug, Default)]
pub struct CompressionDowngrade {
    is_faster: AtomicBool,
    is_denser: AtomicBool,
}

impl CompressionDowngrade {
    /// The effort of a job that begins now.
    pub fn effort(
        &self,
        options: &KeyspaceOptions,
        output: WrittenBy,
        load: impl FnOnce() -> Load,
    ) -> Effort {
        if !options.compression_under_pressure {
            return Effort::Configured;
        }
        let load = load();
        let effort = self.next(output, load);
        if effort != Effort::Configured {
            tracing::debug!(?effort, ?load, "compression does not go by the options alone");
        }
        effort
    }

    /// The effort of a job that begins under this load (EC1, EC3, EC4).
    fn next(&self, output: WrittenBy, load: Load) -> Effort {
        let faster = load.queues_permille.max(load.host.cpu_permille);
        let denser = load.host.io_permille.max(load.host.memory_permille);
        let (is_faster, is_denser) = (step(&self.is_faster, faster), step(&self.is_denser, denser));
        match output {
            WrittenBy::Flush | WrittenBy::Merge if is_faster => Effort::Faster,
            WrittenBy::Merge | WrittenBy::LastLevel if is_denser && !is_faster => Effort::Denser,
            _ => Effort::Configured,
        }
    }
}

/// Enters or leaves a mode (EC1).
fn step(mode: &AtomicBool, pressure_permille: u32) -> bool {
    let least = if mode.load(Ordering::Relaxed) { LEAVE_BELOW_PERMILLE } else { ENTER_AT_PERMILLE };
    let is_on = pressure_permille >= least;
    mode.store(is_on, Ordering::Relaxed);
    is_on
}

impl Effort {
    /// The codec to use where `codec` is configured: readable wherever that is.
    pub fn codec(self, codec: Codec) -> Codec {
        match (self, codec) {
            (Effort::Faster, codec) => faster(codec),
            (Effort::Denser, Codec::Adaptive(options)) => in_mode(options, Mode::Ratio),
            (Effort::Configured | Effort::Denser, codec) => codec,
        }
    }
}

/// The fast codec of the family of `codec`; integer codecs stay unchanged.
fn faster(codec: Codec) -> Codec {
    match codec {
        Codec::Lz4Hc { .. } | Codec::Zstd { .. } | Codec::ZstdDictionary { .. } | Codec::Lzma { .. } => {
            Codec::Lz4
        }
        Codec::Adaptive(options) => in_mode(options, Mode::Speed),
        fast @ (Codec::None
        | Codec::Lz4
        | Codec::Snappy
        | Codec::BitPacking
        | Codec::Delta
        | Codec::Dictionary) => fast,
    }
}

fn in_mode(options: AdaptiveOptions, mode: Mode) -> Codec {
    Codec::Adaptive(AdaptiveOptions { mode, ..options })
}

#[cfg(test)]
mod tests;
