//! Arenas: the memory of memtables, and the pool that recycles them.
//!
//! An arena is one contiguous address range. Entries are allocated upwards from its low end and nodes
//! downwards from its high end, so that each kind stays dense, and neither can starve while the other has
//! room. Both are addressed by 32-bit references in units of 8 bytes; one bit tells entries from nodes, which
//! leaves 16 GiB.
//!
//! # Reuse (MT6)
//! A memtable owns its arena and returns it in `Drop`. The inserter, every cursor and every reader hold the
//! memtable's `Arc` or borrow from one, so the arena returns to the pool only when no thread can reach it any
//! more, and the reference count orders all their accesses before the next use. The pool does not zero it:
//! the first touch of fresh memory is several times slower than that of recycled memory, which is what
//! pooling saves. Hence no field may be read before it is written; debug builds fill recycled memory with
//! 0xDE to make violations visible.
//!
//! # Many memtables, most of them almost empty
//! An empty memtable before its first write is a *stub*, a few hundred bytes of ordinary memory without room
//! for any entry: a thousand idle keyspaces reserve and hold nothing. The first write replaces it. A memtable
//! that replaces a stub may stay almost empty for long, so it does not get all the recycled memory there is:
//! what such memtables hold of it together is bounded by the pool's limit, beyond that they get fresh memory,
//! of which only touched pages count.

use crate::memory::Memory;
use esker_base::{Error, Result};
use esker_env::{Random, SystemRandom};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Allocation unit and alignment of entries and nodes.
pub(crate) const UNIT_BYTES: usize = 8;

/// References have 31 bits for the unit.
const MAX_ARENA_BYTES: u64 = (UNIT_BYTES as u64) << 31;

/// The first bytes of an arena stay unused, so that no reference is zero.
const FIRST_BYTE: usize = 64;
pub(crate) const FIRST_UNIT: u32 = (FIRST_BYTE / UNIT_BYTES) as u32;

/// Size of a stub: the fixed part of an empty memtable, and no byte for an entry.
pub(crate) const STUB_BYTES: u64 = crate::kind::FIXED_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedUse {
    /// It will be filled: the more of it is touched already the better.
    Filled,
    /// It may stay almost empty.
    Unknown,
}

/// Allocates arenas and keeps a bounded amount of used ones, whose memory is already touched.
///
/// Clones share one pool. It may be shared by all keyspaces of a database.
#[derive(Clone, Debug)]
pub struct ArenaPool {
    shared: Arc<Mutex<Idle>>,
    /// Seed of the hash tables of memtables in these arenas.
    hash_seed: u64,
}

#[derive(Debug)]
struct Idle {
    /// Least recently returned first.
    arenas: Vec<Memory>,
    limit_bytes: u64,
    /// Touched bytes of arenas that memtables of [`ExpectedUse::Unknown`] hold.
    loaned_bytes: u64,
}

impl Idle {
    fn touched_bytes(&self) -> u64 {
        self.arenas.iter().map(touched_bytes).sum()
    }

    /// Removes what exceeds the limit; the caller frees it after unlocking, because unmapping is slow.
    fn take_excess(&mut self) -> Vec<Memory> {
        let mut excess = Vec::new();
        while self.touched_bytes() > self.limit_bytes {
            excess.push(self.arenas.remove(0));
        }
        excess
    }
}

fn touched_bytes(memory: &Memory) -> u64 {
    let (low, high) = memory.touched();
    (low + high) as u64
}

impl ArenaPool {
    /// A pool that keeps at most `idle_limit_bytes` of touched memory that no memtable uses.
    pub fn new(idle_limit_bytes: u64) -> ArenaPool {
        ArenaPool {
            shared: Arc::new(Mutex::new(Idle {
                arenas: Vec::new(),
                limit_bytes: idle_limit_bytes,
                loaned_bytes: 0,
            })),
            // Loom replays an execution step by step.
            hash_seed: if cfg!(loom) { 0 } else { SystemRandom.next_u64() },
        }
    }

    /// Seed of hash tables, random so that keys cannot be chosen to collide.
    pub(crate) fn hash_seed(&self) -> u64 {
        self.hash_seed
    }

    /// Touched memory that is not in use. Takes a lock and visits each idle arena.
    pub fn idle_bytes(&self) -> u64 {
        self.lock().touched_bytes()
    }

    /// Changes the limit of idle memory and frees what exceeds it.
    pub fn set_idle_limit_bytes(&self, limit_bytes: u64) {
        let excess = {
            let mut idle = self.lock();
            idle.limit_bytes = limit_bytes;
            idle.take_excess()
        };
        drop(excess);
    }

    /// Returns the memory of all idle arenas to the system. Their address space stays for the next memtables.
    pub fn discard_idle(&self) {
        // Not under the lock: returning memory is slow. A memtable created meanwhile gets a fresh arena.
        let mut touched = {
            let mut idle = self.lock();
            let arenas = std::mem::take(&mut idle.arenas).into_iter();
            let (touched, rest): (Vec<Memory>, _) = arenas.partition(|memory| touched_bytes(memory) > 0);
            idle.arenas = rest;
            touched
        };
        touched.iter_mut().for_each(Memory::discard);
        self.lock().arenas.append(&mut touched);
    }

    /// An arena of at least `reserve_bytes` of address space: the idle one that fits most closely, of several
    /// the one with most touched memory, else a fresh one; also how many touched bytes of it count as loaned.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] beyond 16 GiB; the operating system's error when it refuses.
    pub(crate) fn acquire(&self, reserve_bytes: u64, expected_use: ExpectedUse) -> Result<(Memory, u64)> {
        if reserve_bytes <= STUB_BYTES {
            return Ok((Memory::stub(STUB_BYTES as usize), 0));
        }
        if reserve_bytes > MAX_ARENA_BYTES {
            return Err(Error::invalid(format!(
                "a memtable cannot reserve {reserve_bytes} bytes: its references reach {MAX_ARENA_BYTES} bytes"
            )));
        }
        {
            let mut idle = self.lock();
            let may_lend = idle.limit_bytes.saturating_sub(idle.loaned_bytes);
            let is_affordable = |memory: &Memory| match expected_use {
                ExpectedUse::Filled => true,
                ExpectedUse::Unknown => touched_bytes(memory) <= may_lend,
            };
            let fitting = idle
                .arenas
                .iter()
                .enumerate()
                .filter(|(_, memory)| memory.len() as u64 >= reserve_bytes && is_affordable(memory));
            let best = fitting
                .min_by_key(|(_, memory)| (memory.len(), u64::MAX - touched_bytes(memory)))
                .map(|(index, _)| index);
            if let Some(index) = best {
                let memory = idle.arenas.remove(index);
                let lent = if expected_use == ExpectedUse::Unknown { touched_bytes(&memory) } else { 0 };
                idle.loaned_bytes += lent;
                return Ok((memory, lent));
            }
        }
        let bytes = usize::try_from(reserve_bytes).map_err(|_| {
            Error::invalid(format!("{reserve_bytes} bytes exceed this machine's address space"))
        })?;
        Ok((Memory::reserve(bytes)?, 0))
    }

    /// Takes an arena back, of which `low` and `high` bytes were used and `loaned_bytes` count as loaned.
    pub(crate) fn release(&self, mut memory: Memory, low: usize, high: usize, loaned_bytes: u64) {
        if memory.len() as u64 <= STUB_BYTES {
            return;
        }
        if memory.is_spilled() {
            // Its pages are a file's: there is nothing to reuse.
            self.lock().loaned_bytes -= loaned_bytes;
            return drop(memory);
        }
        memory.retire(low, high);
        let excess = {
            let mut idle = self.lock();
            idle.loaned_bytes -= loaned_bytes;
            idle.arenas.push(memory);
            idle.take_excess()
        };
        drop(excess);
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        // No state of the pool is half changed when a panic passes through.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The two ends of the free middle of an arena; belongs to the inserter.
#[derive(Debug)]
pub(crate) struct Allocator {
    low: usize,
    high: usize,
    end: usize,
}

impl Allocator {
    pub(crate) fn new(memory: &Memory) -> Allocator {
        let end = memory.len() / UNIT_BYTES * UNIT_BYTES;
        Allocator { low: FIRST_BYTE, high: end, end }
    }

    /// Whether this is the arena of a stub, which has no room.
    pub(crate) fn is_stub(&self) -> bool {
        self.end as u64 <= STUB_BYTES
    }

    /// Allocates an entry of `bytes` bytes; returns its unit number.
    ///
    /// # Panics
    /// If there is no room, which `Inserter::has_room` rules out.
    #[inline(always)]
    pub(crate) fn entry(&mut self, bytes: usize) -> u32 {
        let at = self.low;
        let size = bytes.next_multiple_of(UNIT_BYTES);
        assert!(size <= self.high - at, "the arena is full: room was not checked");
        self.low = at + size;
        (at / UNIT_BYTES) as u32
    }

    /// The unit of the next entry: entries are contiguous.
    #[inline]
    pub(crate) fn next_entry(&self) -> u32 {
        (self.low / UNIT_BYTES) as u32
    }

    /// Allocates a node of `words` words; returns its unit number. Panics like [`Allocator::entry`].
    #[inline(always)]
    pub(crate) fn node(&mut self, words: usize) -> u32 {
        let size = (words * 4).next_multiple_of(UNIT_BYTES);
        assert!(size <= self.high - self.low, "the arena is full: room was not checked");
        self.high -= size;
        (self.high / UNIT_BYTES) as u32
    }

    #[inline]
    pub(crate) fn low_bytes(&self) -> usize {
        self.low
    }

    #[inline]
    pub(crate) fn high_bytes(&self) -> usize {
        self.end - self.high
    }
}
