//! Batch encoding: the bytes of a write batch, which are the payload of its log record and fill the
//! memtables.
//!
//! [`BatchEncoder`] encodes a batch once, outside of every lock. [`EntryIter`] walks the same bytes to fill
//! the memtables, after the commit and in recovery.
//!
//! ```text
//! entry = kind u8 | keyspace varint u32 | key length varint | [value length varint] | key | [value]
//! ```
//!
//! The value and its length are present only for kinds that have one. With the expiry flag the first eight
//! bytes of the value are the expiry time, so a store handles an entry as two slices, key and value. Entry
//! `i` of a record has sequence number `first + i`.

mod carry;
mod encoder;
mod entry;
mod ingest;

pub use carry::CarryIter;
pub use encoder::BatchEncoder;
pub use entry::{BatchDamage, Entry, EntryIter, count_entries};
pub use ingest::{Ingest, IngestedFile};

#[cfg(test)]
mod tests;
