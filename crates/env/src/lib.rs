//! The only door to the outside: files, memory, clock, randomness and threads.
//!
//! No other crate of the engine calls `std::fs`, reads a clock, asks for randomness or starts a thread
//! (clippy bans it). Everything goes through an [`Env`], so that a test can replace the world: a file system
//! that loses what was not synced, a clock that stands still, randomness from a seed, background work in one
//! thread.
//!
//! | module | holds |
//! |---|---|
//! | [`fs`] | what the engine asks of a file system: the traits, and [`Mapping`] |
//! | [`over`] | files and file systems that lie over others |
//! | [`std_fs`] | [`StdFileSystem`], the machine's own |
//! | [`memory`] | [`Region`], large pieces of anonymous memory |
//! | [`slabs`] | memory for blocks, many small pieces of such regions |
//! | [`NumberList`] | numbers by the million, in such regions |
//! | [`Published`] | a value that is replaced now and then, and that readers pin without a shared line |
//! | [`LongSlice`] | slices of fixed length, in such regions if they are long |
//! | `shelves` | memory for those that stay, many in one region |
//! | [`clock`], [`random`] | time and randomness, the machine's and a test's |
//! | [`rate_limiter`] | [`RateLimiter`], token buckets for what background work reads and writes |
//! | [`TimedFile`] | files whose small reads are measured, for a limiter that tunes itself |
//! | [`reads`] | [`ReadQueue`], reads that overlap |
//! | [`counting`] | [`CountingFs`], which counts what is written and held |
//! | [`fault`] | file systems for tests: one that forgets what was not synced, one that fails on demand |
//! | [`world`] | [`Env`], all of it in one value, and the starting of threads |
//! | `sharing` | [`Env::fork_join`], work that is done on several threads and waited for |
//!
//! Unsafe code is found in [`memory`], [`slabs`], `number_list`, `long_slice`, `shelves`, `published`, in
//! [`fs`] ([`Mapping`]), in the two modules `mapping`, in `std_fs/write_back` and in `reads/uring`, nowhere
//! else.

mod aligned;
pub mod clock;
pub mod counting;
pub mod env;
pub mod fault;
mod fork_join;
pub mod fs;
pub mod fs_wrapper;
pub mod host;
mod long_slice;
pub mod memory;
mod number_list;
mod published;
pub mod random;
pub mod rate_limiter;
pub mod reads;
mod shelves;
pub mod slabs;
pub mod std_fs;
mod timed_file;

pub use aligned::AlignedFile;
pub use clock::{Clock, ManualClock, SystemClock};
pub use counting::CountingFs;
pub use env::{Background, Env};
pub use fs::{
    DIRECT_ALIGNMENT_BYTES, Descriptor, DirEntry, File, FileLock, FileSystem, LockKind, Mapping,
    MappingOwner, OpenMode, StoreObserver,
};
pub use fs_wrapper::{FileSystemWrapper, FileWrapper};
pub use long_slice::LongSlice;
pub use memory::{PageAdvice, Region};
pub use number_list::NumberList;
pub use published::{Published, ReadGuard};
pub use random::{Random, SeededRandom, SystemRandom};
pub use rate_limiter::{BackgroundRates, Direction, MIN_BYTES_PER_SECOND, RateLimiter};
pub use reads::{AsyncReads, PendingRead, ReadMode, ReadQueue, ReadRequest};
pub use std_fs::StdFileSystem;
pub use timed_file::TimedFile;
