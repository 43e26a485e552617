//! Byte formats and algorithms of Redis values: bytes in, bytes out.
//!
//! What a server that speaks the protocol of Redis needs to know of values, and nothing of sockets, keys or
//! stores. Every result is that of Redis 7.0.15; the tests compare with a running server where there is one.
//! Nothing here panics on bytes from outside, and no length that they state reserves memory.
//!
//! # Map
//!
//! [`value`] and [`stream`] are values as such; [`dump`](mod@dump) turns them into payloads of DUMP and back.
//! Below it are the packed structures [`listpack`], [`ziplist`], [`zipmap`] and [`intset`], compression
//! ([`lzf`]) and the checksum ([`crc64`]).
//!
//! [`hyperloglog`], [`bits`] and [`lcs`] compute on strings, [`geo`] on the scores of sorted sets. [`fuzz`]
//! has the targets of fuzzers.

#![forbid(unsafe_code)]

pub mod bits;
mod corrupt;
pub mod crc64;
pub mod dump;
pub mod fuzz;
pub mod geo;
pub mod hyperloglog;
pub mod intset;
pub mod lcs;
pub mod listpack;
pub mod lzf;
mod packed;
mod reader;
pub mod stream;
mod strings;
pub mod value;
pub mod ziplist;
pub mod zipmap;

pub use corrupt::Corrupt;
pub use dump::{
    EncodingLimits, MAX_DECOMPRESSED_BYTES, MAX_EXPANSION, RestoreError, dump, dump_functions, restore,
    restore_functions,
};
pub use listpack::{ListpackBuilder, ListpackReader};
pub use packed::Packed;
pub use stream::{Stream, StreamConsumer, StreamEntries, StreamGroup, StreamId, StreamPending};
pub use strings::Strings;
pub use value::{SortedSet, Value};
pub use ziplist::ZiplistReader;
