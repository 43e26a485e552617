//! Measures integer codecs in blocks of tables, where the table writer passes the layout of rows to the
//! codec.

use crate::context::Context;
use crate::error::Result;
use crate::table::{Column, Table};
use esker::options::Codec;
use esker::parts::base::{SeqNo, Tag, ValueKind};
use esker::parts::env::{FileSystem, OpenMode, StdFileSystem};
use esker::parts::sst::{TableOptions, TableWriter};

/// Keys and values of 64 bits, both within 2^16 of each other: 1 MiB.
const ENTRIES: u64 = 1 << 16;
const BASE: u64 = 5_000_000_000;

const NAMES: [&str; 7] = ["none", "lz4", "zstd:3", "bit-packing", "delta", "dictionary", "adaptive"];

/// Ratios against the same table uncompressed, headers, checksums and directories of blocks among them.
pub(super) fn measure(context: &mut Context<'_>) -> Result<Table> {
    let columns = [Column::key("codec"), Column::number("bytes_per_entry", 2), Column::number("ratio", 2)];
    let title = "A table of keys and values of 64 bits that span 2^16, blocks of 4 KiB";
    let mut table = Table::new("tables", title, &columns);
    let mut raw_bytes = None;
    for name in NAMES {
        context.step(&format!("a table with {name}"));
        let bytes = data_bytes(context, name)? as f64;
        let raw_bytes = *raw_bytes.get_or_insert(bytes);
        table.push(vec![name.into(), (bytes / ENTRIES as f64).into(), (raw_bytes / bytes).into()]);
    }
    Ok(table)
}

pub(super) const STEPS: usize = NAMES.len();

/// Bytes of the blocks of a table with this codec.
fn data_bytes(context: &Context<'_>, name: &str) -> Result<u64> {
    let codec: Codec = name.parse().expect("a codec of the list");
    let path = context.directory(&format!("{}.sst", name.replace(':', "-")))?;
    let file = StdFileSystem.open(&path, OpenMode::CreateNew)?;
    let mut writer = TableWriter::new(file, TableOptions { codec, ..TableOptions::default() })?;
    let random = context.random(1);
    for key in 0..ENTRIES {
        let tag = Tag::new(SeqNo::new(ENTRIES - key), ValueKind::Put);
        writer.add(&key.to_be_bytes(), tag, &(BASE + random.below(1 << 16)).to_le_bytes())?;
    }
    Ok(writer.finish()?.data_bytes)
}
