//! The only door to the outside: files, memory, clock, randomness and threads.
//!
//! No other crate of the engine calls `std::fs`, reads a clock, asks for randomness or starts a thread (clippy
//! bans it). Everything goes through an [`Env`], so that a test can replace the world: a file system that loses
//! what was not synced, a clock that stands still, randomness from a seed, background work in one thread.

pub mod clock;
pub mod fs;
pub mod memory;
pub mod random;
pub mod world;

pub use clock::Clock;
pub use fs::{DirEntry, File, FileLock, FileSystem, LockKind, Mapping, OpenMode, StoreObserver};
pub use memory::Region;
pub use random::Random;
pub use world::{Background, Env};
