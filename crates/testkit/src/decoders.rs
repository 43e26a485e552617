//! Fuzz targets: every decoder of bytes from outside, as a function that a fuzzer can call.
//!
//! A *target* takes any bytes, hands them to a decoder and must not panic, whatever they are. What a decoder
//! accepts is checked further: it is encoded again and must come back the same, and different ways of reading
//! the same bytes must agree. Where a checksum guards the bytes, the target also repairs it and decodes once
//! more: random damage stops at the checksum, but a newer or hostile writer gets past it.
//!
//! The same functions are run in three ways: over the corpus in `fuzz/corpus`, over seeded mutations of valid
//! encodings (`tests/decoders.rs`, with every test run), and by libFuzzer (`fuzz/README.md`).
//!
//! A target's first byte often selects how the rest is decoded; the module of each says so.

pub mod backup_catalog;
pub mod blob_file;
pub mod block;
pub mod codec;
pub mod dsl_line;
pub mod export;
pub mod filter;
pub mod manifest_edit;
pub mod merge_operands;
pub mod mutate;
pub mod range_deletes;
mod table;
mod table_file;
pub mod table_footer_and_properties;
pub mod wal_record;
pub mod wal_segment;
pub mod write_batch;

use esker_env::SeededRandom;

/// A target, its name and its generator.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    /// Name of the target, of its corpus and of its fuzz binary.
    pub name: &'static str,
    /// Decodes any bytes; returns whether they are a whole valid encoding. Panics if the decoder is wrong.
    pub accepts: fn(&[u8]) -> bool,
    /// Writes a valid encoding.
    pub valid: fn(&SeededRandom) -> Vec<u8>,
}

/// All targets.
pub const ALL: &[Decoder] = &[
    Decoder { name: "backup_catalog", accepts: backup_catalog::accepts, valid: backup_catalog::valid },
    Decoder { name: "blob_file", accepts: blob_file::accepts, valid: blob_file::valid },
    Decoder { name: "block", accepts: block::accepts, valid: block::valid },
    Decoder { name: "codec", accepts: codec::accepts, valid: codec::valid },
    Decoder { name: "dsl_line", accepts: dsl_line::accepts, valid: dsl_line::valid },
    Decoder { name: "export", accepts: export::accepts, valid: export::valid },
    Decoder { name: "filter", accepts: filter::accepts, valid: filter::valid },
    Decoder { name: "manifest_edit", accepts: manifest_edit::accepts, valid: manifest_edit::valid },
    Decoder { name: "merge_operands", accepts: merge_operands::accepts, valid: merge_operands::valid },
    Decoder { name: "range_deletes", accepts: range_deletes::accepts, valid: range_deletes::valid },
    Decoder {
        name: "table_footer_and_properties",
        accepts: table_footer_and_properties::accepts,
        valid: table_footer_and_properties::valid,
    },
    Decoder { name: "wal_record", accepts: wal_record::accepts, valid: wal_record::valid },
    Decoder { name: "wal_segment", accepts: wal_segment::accepts, valid: wal_segment::valid },
    Decoder { name: "write_batch", accepts: write_batch::accepts, valid: write_batch::valid },
];

fn random_bytes(random: &SeededRandom, end: u64) -> Vec<u8> {
    let len = random.below(end);
    (0..len).map(|_| random.below(256) as u8).collect()
}

/// Random bytes of a small alphabet, as in keys and texts.
fn random_text(random: &SeededRandom, end: u64) -> Vec<u8> {
    let len = random.below(end);
    (0..len).map(|_| b"abcdef:0123 user"[random.below(16) as usize]).collect()
}
