//! Environment: files, memory, clock, randomness and threads behind replaceable interfaces.
//!
//! No other crate of the engine calls `std::fs`, reads a clock, draws randomness or starts a thread (clippy
//! bans it). Everything goes through an [`Env`], so that a test can replace it: a file system that loses
//! unsynced data, a manual clock, seeded randomness, background work in one thread.
//!
//! | module | holds |
//! |---|---|
//! | [`fs`] | the file system traits, and [`Mapping`] |
//! | [`fs_wrapper`] | [`FileWrapper`] and [`FileSystemWrapper`]: files and file systems over others |
//! | [`std_fs`] | [`StdFileSystem`], the machine's file system |
//! | [`memory`] | [`Region`], large pieces of anonymous memory |
//! | [`MemoryLedger`] | accounts of what a database holds beside memtables, cache and open tables |
//! | [`c_heap`] | settings of the C library's allocator, for programs |
//! | [`slabs`] | memory for blocks, many small pieces of such regions |
//! | [`OffHeapList`] | numbers by the million, in such regions |
//! | [`Published`] | a rarely replaced value, pinned by hazard pointers without a shared cache line |
//! | [`OffHeapSlice`] | slices of fixed length, in such regions if they are long |
//! | `huge_page_heap` | a huge-page heap: long-lived slices, many in one region |
//! | [`clock`], [`random`] | time and randomness, the machine's and a test's |
//! | [`host_pressure`] | [`HostPressure`], how short the machine is of processors, devices and memory |
//! | [`rate_limiter`] | [`RateLimiter`], token buckets for reads and writes of background work |
//! | [`TimedFile`] | files whose small reads are measured, for a self-tuning limiter |
//! | [`reads`] | [`ReadQueue`], asynchronous reads |
//! | [`counting`] | [`CountingFs`], which counts written and held bytes |
//! | [`deferred_syncs`] | [`DeferredSyncs`], new files that become durable together |
//! | [`fault`] | file systems for tests: one that loses unsynced data, one that fails on demand |
//! | [`mod@env`] | [`Env`], all of it in one value, and starting threads |
//! | [`fork`] | [`ProcessMark`], which tells inherited values from own ones; what a child of `fork` may not do |
//! | `fork_join` | [`Env::fork_join`], jobs run on several threads and joined |
//!
//! Unsafe code is in [`memory`], [`slabs`], `off_heap_slice`, `huge_page_heap`, `published`, [`fork`],
//! [`c_heap`], in [`fs`] ([`Mapping`]), in the two modules `mapping`, in `std_fs/write_back` and in
//! `reads/uring`, nowhere else.

mod aligned;
pub mod c_heap;
pub mod clock;
mod control_group;
pub mod counting;
pub mod deferred_syncs;
pub mod env;
pub mod fault;
pub mod fork;
mod fork_join;
pub mod fs;
pub mod fs_wrapper;
pub mod host;
pub mod host_pressure;
mod huge_page_heap;
pub mod memory;
mod memory_ledger;
mod off_heap_list;
mod off_heap_slice;
mod published;
pub mod random;
pub mod rate_limiter;
pub mod reads;
pub mod slabs;
pub mod std_fs;
mod timed_file;

pub use aligned::AlignedFile;
pub use clock::{Clock, ManualClock, SystemClock};
pub use counting::CountingFs;
pub use deferred_syncs::DeferredSyncs;
pub use env::{Background, Env};
pub use fork::ProcessMark;
pub use fs::{
    DIRECT_ALIGNMENT_BYTES, Descriptor, DirEntry, File, FileLock, FileSystem, LockKind, Mapping,
    MappingOwner, OpenMode, ReadPattern, SharedSync, StoreObserver,
};
pub use fs_wrapper::{FileSystemWrapper, FileWrapper};
pub use host_pressure::{HostPressure, ManualPressure, PressureSource, SystemPressure};
pub use memory::{PageAdvice, Region};
pub use memory_ledger::{MemoryAccount, MemoryHolding, MemoryLedger, MemoryTurn};
pub use off_heap_list::OffHeapList;
pub use off_heap_slice::OffHeapSlice;
pub use published::{Published, ReadGuard};
pub use random::{Random, SeededRandom, SystemRandom};
pub use rate_limiter::{BackgroundRates, Direction, MIN_BYTES_PER_SECOND, RateLimiter};
pub use reads::{AsyncReads, PendingRead, ReadMode, ReadQueue, ReadRequest};
pub use std_fs::StdFileSystem;
pub use timed_file::TimedFile;

/// Returns memory that was freed to the system, if there is much of it: [`slabs::return_idle_pages`] and
/// [`c_heap::trim`]. For threads in the background, whenever they have ended a piece of work.
pub fn return_free_memory() {
    slabs::return_idle_pages();
    c_heap::trim();
}
