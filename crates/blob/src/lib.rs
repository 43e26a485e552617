//! Blob files: where large values lie, apart from the tables that point to them.
//!
//! A value above a keyspace's threshold is written once, into a *blob file*, when its memtable is flushed;
//! the table gets a [`BlobPointer`] of about 15 bytes instead. Compactions rewrite pointers, not values, so a
//! large value is copied only when the file that holds it has become garbage for the most part.
//!
//! ```text
//! header (64 bytes) | record | record | ... | footer (40 bytes)
//! record: checksum, codec, lengths, key, value
//! ```
//!
//! A record says by itself what it is: which key it belongs to, how its value is compressed, and a checksum
//! over all of it. So a file can be verified, and its values saved, without the tables. A pointer carries
//! half of that checksum, so that it is noticed when it leads to another record than the one it was made for.
//!
//! The crate knows the bytes of one file. Which files exist, who points to them and when they go is the
//! engine's matter (`docs/format/blob.md` has the bytes, `ARCHITECTURE.md` the life of a large value).
//!
//! Map: [`mod@pointer`], [`record`] and [`frame`] are the bytes; [`writer`] and [`reader`] the two ways to
//! use them.
#![forbid(unsafe_code)]

pub mod frame;
pub mod pointer;
pub mod reader;
pub mod record;
pub mod writer;

pub use frame::{BlobFooter, BlobHeader, FOOTER_BYTES, HEADER_BYTES};
pub use pointer::BlobPointer;
pub use reader::{BlobCheck, BlobReader, Scanned};
pub use record::{Flaw, Record};
pub use writer::{BlobOptions, BlobSummary, BlobWriter};
