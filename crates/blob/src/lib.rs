//! Blob files: large values, stored apart from the tables that point to them (key-value separation).
//!
//! A value above a keyspace's threshold is written once, into a *blob file*, when its memtable is flushed;
//! the table gets a [`BlobPointer`] of about 15 bytes. Compactions rewrite pointers, so a large value is
//! copied only when most of its file has become garbage.
//!
//! ```text
//! header (64 bytes) | record | record | ... | footer (40 bytes)
//! record: checksum, codec, lengths, key, value
//! ```
//!
//! A record describes itself: its key, the compression of its value, and a checksum over all of it. So a file
//! can be verified, and its values salvaged, without the tables. A pointer carries half of that checksum, so
//! that a pointer to the wrong record is detected.
//!
//! The engine decides which files exist and when they are collected (`docs/format/blob.md` has the bytes,
//! `ARCHITECTURE.md` the life of a large value).
//!
//! Map: [`mod@pointer`], [`record`] and [`frame`] are the encodings; [`writer`] writes a file and [`reader`]
//! reads it.
#![forbid(unsafe_code)]

pub mod frame;
pub mod pointer;
pub mod reader;
pub mod record;
pub mod writer;

pub use frame::{BlobFooter, BlobHeader, FOOTER_BYTES, HEADER_BYTES};
pub use pointer::BlobPointer;
pub use reader::{BlobReader, BlobScan, ExpectedBlob};
pub use record::{DecodeError, Record};
pub use writer::{BlobOptions, BlobSummary, BlobWriter};
