//! How a job reads its inputs: what paces and cancels it, and which of the blocks it enters are resident.
//!
//! Each input reports, when it enters a block, whether that block is in the cache; the output decides by that
//! what to warm ([`crate::cache_warmer`]).

use crate::table::Table;
use esker_base::Result;
use esker_cache::Admission;
use esker_env::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Paces and cancels a job that reads or writes whole tables.
pub trait JobControl: std::fmt::Debug + Send + Sync {
    /// Called before so many bytes of the file are walked over, read or cached: at most some hundred KiB,
    /// unless a block is larger. May block to hold the job to a rate.
    ///
    /// # Errors
    /// An error ends the walk.
    fn before_read(&self, bytes: u64) -> Result<()>;

    /// Called now and then by work that reads nothing.
    ///
    /// # Errors
    /// An error ends the work.
    fn check_cancelled(&self) -> Result<()>;
}

/// Makes files for what a job does not hold in memory.
pub trait ScratchFiles: std::fmt::Debug + Send + Sync {
    /// An empty file without a name, so that its room is free when it is closed and not mapped any more.
    /// `None` where the file system cannot map it over memory.
    ///
    /// # Errors
    /// Those of creating a file.
    fn scratch_file(&self) -> Result<Option<Arc<dyn File>>>;
}

/// Of so many consecutive resident blocks of an input one is probed in the cache while that has free space. A
/// probe takes a shard's lock and three cold cache lines.
const SAMPLE_ONE_IN: u8 = 8;

/// What the inputs of a merge report to its output: bytes of entered blocks, by the kind of reader that they
/// are cached for. Inputs that share one run on one thread at a time.
#[derive(Debug, Default)]
pub struct InputResidency {
    points: AtomicU64,
    scans: AtomicU64,
    cold: AtomicU64,
    /// Bytes inserted by evicting others.
    pub(crate) displacing_bytes: AtomicU64,
    /// There are no input files: every output block is wanted as far as there is free space.
    pub(crate) is_in_memory: bool,
}

/// How a job reads an input that it replaces: what paces and cancels it, and where residency is reported.
#[derive(Clone, Debug)]
pub struct InputReading {
    /// See [`JobControl`].
    pub control: Arc<dyn JobControl>,
    /// See [`InputResidency`].
    pub residency: Arc<InputResidency>,
    /// Where large blocks wait for their turn to be written; in memory if there are none.
    pub scratch: Option<Arc<dyn ScratchFiles>>,
}

/// The cache's last answer about an input's blocks (HO11 in [`crate::cache_warmer`]).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResidencySample {
    admission: Option<Admission>,
    /// For how many more resident blocks it holds.
    holds_for: u8,
}

impl InputResidency {
    /// Of memtables that are read as well as written: all blocks of their tables are warmed while the cache
    /// has free space.
    pub fn of_memtables() -> InputResidency {
        InputResidency { is_in_memory: true, ..InputResidency::default() }
    }

    /// Bytes entered since the last call: for points, for scans, and of blocks that are not resident.
    pub(crate) fn take_entered(&self) -> [u64; 3] {
        [&self.points, &self.scans, &self.cold].map(|counter| {
            let bytes = counter.load(Ordering::Relaxed);
            if bytes > 0 {
                counter.store(0, Ordering::Relaxed);
            }
            bytes
        })
    }

    /// Records that block `number`, of `bytes` in the file, was entered. `last` belongs to the input.
    pub(crate) fn note(&self, table: &Table, number: usize, bytes: u64, last: &mut ResidencySample) {
        let entered = match table.resident_for(number, bytes, last) {
            None => &self.cold,
            Some(Admission::Point) => &self.points,
            Some(Admission::Scan) => &self.scans,
        };
        // Only one thread writes at a time.
        entered.store(entered.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }
}

impl Table {
    /// For which kind of reader block `number`, of `bytes`, is in the cache (HO11).
    fn resident_for(&self, number: usize, bytes: u64, last: &mut ResidencySample) -> Option<Admission> {
        let ask = || self.cache.admission_of(&self.cache_key(number));
        let Some(slot) = self.slots.get(number) else { return ask() };
        if slot.address() == 0 {
            return None;
        }
        // As much as the blocks that the answer covers may take; the writer checks that each fits.
        let room_bytes = (bytes as usize + self.cache.entry_overhead_bytes()) * usize::from(SAMPLE_ONE_IN);
        if last.holds_for == 0 || !self.cache.has_room_for(room_bytes) {
            let admission = ask();
            *last = ResidencySample { admission, holds_for: admission.map_or(1, |_| SAMPLE_ONE_IN) };
        }
        last.holds_for -= 1;
        last.admission
    }
}
