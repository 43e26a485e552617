//! A portable format for keyspaces: one stream that any later version, and other programs, can read.
//!
//! Checkpoints and backups keep the files of the engine, with versions, tombstones and layouts. An export
//! contains the visible data only: keys, values, expiry times. It is written in one pass to any writer, so it
//! can be piped, and read in one pass. `docs/format/export.md` describes every byte.
//!
//! ```text
//! header     "ESKEREXP", format u32, CRC-32C of both
//! chunk*     kind u8, codec u8, zero u16, stored length u32, raw length u32, CRC-32C u32, payload
//! ```
//!
//! The order of chunks is: a keyspace, its entries in key order, the next keyspace, ..., the end. The end
//! chunk has the totals, so that a stream truncated between two chunks is detected.

mod chunk;
mod export;
mod import;

pub use export::ExportReport;
pub use import::{ImportReport, check_export};
