//! Anonymous memory in large pieces: arenas of memtables.
//!
//! Filled in with the platform's mapping; see [`Region`].

/// A contiguous range of zeroed, writable, private memory, reserved at once and committed by first touch.
#[derive(Debug)]
pub struct Region {}
