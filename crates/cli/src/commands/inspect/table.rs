//! `inspect table`: prints properties, sections and block statistics of a table, and all entries on request.

use super::Printer;
use crate::failure::{Exit, Failure};
use crate::format::encode_hex;
use esker::parts::base::{Result, Tag};
use esker::parts::cache::BlockCache;
use esker::parts::codec;
use esker::parts::env::{FileSystem, OpenMode, StdFileSystem};
use esker::parts::sst::{
    BlockFacts, BlockLayout, IndexFacts, IndexKind, LayoutFacts, SlotCounts, Table, TableIdentity,
    TableReading,
};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// Opens the table with this kind of index. Reads bypass the cache, so it has no capacity.
fn open(path: &Path, index: IndexKind) -> Result<Table> {
    let file = StdFileSystem.open(path, OpenMode::Read)?;
    let file_bytes = file.len()?;
    let identity = TableIdentity::standalone(Arc::new(BlockCache::new(0)))?;
    Table::open_for(file, file_bytes, None, identity, TableReading { index })
}

pub(super) fn inspect(
    printer: &mut Printer<'_>,
    path: &Path,
    with_entries: bool,
    index: IndexKind,
) -> Result<Exit, Failure> {
    let table = open(path, index)?;
    properties(printer, &table)?;
    let mut exit = Exit::Done;
    if let Some(damage) = table.index_damage() {
        printer.remark(&format!("what the index needs is damaged and not used: {damage}"))?;
        exit = Exit::Damage;
    }
    match table.index_facts() {
        Ok(facts) => index_facts(printer, path, index, facts)?,
        Err(error) => {
            printer.remark(&format!("the index: {error}"))?;
            exit = Exit::Damage;
        }
    }
    if let Some(damage) = table.filter_damage() {
        printer.remark(&format!("the filter is damaged and not used: {damage}"))?;
        exit = Exit::Damage;
    }
    for section in table.sections() {
        let facts = [
            ("kind", section.kind.name().into()),
            ("at", section.offset.into()),
            ("bytes", section.len.into()),
            ("optional", section.is_optional.into()),
        ];
        printer.part("section", &facts)?;
    }
    let mut totals = Totals::default();
    // All delta blocks are read, for the sums below.
    let is_delta = table.properties().layout == BlockLayout::Delta.name();
    let mut shown = true;
    for number in 0..table.blocks() {
        if !shown && !is_delta {
            break;
        }
        match table.block_facts(number) {
            Ok(facts) => {
                totals.add(&facts.layout);
                if shown {
                    shown = block(printer, &facts)?;
                }
                if shown && with_entries {
                    shown = entries(printer, &table, number)?;
                }
            }
            Err(error) => {
                printer.remark(&format!("block {number}: {error}"))?;
                exit = Exit::Damage;
            }
        }
    }
    totals.print(printer, &table)?;
    Ok(exit)
}

fn properties(printer: &mut Printer<'_>, table: &Table) -> Result<(), Failure> {
    let properties = table.properties();
    let filter = match table.filter() {
        Some(filter) => format!("{}, {} bytes in memory", filter.describe(), filter.memory_bytes()),
        None => "none".to_owned(),
    };
    let facts: [(&str, Value); 26] = [
        ("file bytes", table.file_bytes().into()),
        ("uid", format!("{:016x}", properties.uid.get()).into()),
        ("database", encode_hex(&properties.db_uuid).into()),
        ("keyspace", properties.keyspace.get().into()),
        ("written for level", properties.level.into()),
        ("created at ms", properties.created_ms.into()),
        ("entries", properties.entries.into()),
        ("keys", properties.keys.into()),
        ("tombstones", properties.tombstones.into()),
        ("range deletes", properties.range_tombstones.into()),
        ("single version", properties.single_version.into()),
        ("smallest", printer.key(&properties.min_key)),
        ("largest", printer.key(&properties.max_key)),
        ("first seqno", properties.min_seqno.get().into()),
        ("last seqno", properties.max_seqno.get().into()),
        ("key bytes", properties.raw_key_bytes.into()),
        ("value bytes", properties.raw_value_bytes.into()),
        ("blocks", properties.blocks.into()),
        ("block size", properties.block_size_bytes.into()),
        ("layout", properties.layout.as_str().into()),
        ("restart interval", properties.restart_interval.into()),
        ("hash slots percent", properties.hash_slots_percent.into()),
        ("codec", properties.codec.as_str().into()),
        ("block bytes", properties.data_bytes.into()),
        ("uncompressed bytes", properties.uncompressed_bytes.into()),
        ("filter", filter.into()),
    ];
    printer.facts("table", &facts)?;
    for delete in table.range_tombstones().deletes() {
        let end = delete.end.map_or_else(|| Value::from("no end"), |end| printer.key(end));
        let delete =
            [("from", printer.key(delete.start)), ("up to", end), ("seqno", delete.seqno.get().into())];
        printer.facts("range delete", &delete)?;
    }
    for (tag, body) in &properties.unknown {
        printer.remark(&format!("  unknown property {tag}: {}", encode_hex(body)))?;
    }
    Ok(())
}

/// The block index, the reason for its kind, and the memory that each kind would take.
fn index_facts(
    printer: &mut Printer<'_>,
    path: &Path,
    asked: IndexKind,
    facts: Option<IndexFacts>,
) -> Result<(), Failure> {
    let Some(facts) = facts else { return Ok(()) };
    let lines = [
        ("asked for", facts.requested.to_string().into()),
        ("used", facts.used.to_string().into()),
        ("because", facts.reason.into()),
        ("entries", facts.entries.into()),
        ("pages", facts.pages.map_or(Value::Null, Value::from)),
        ("fingerprint bits", facts.fingerprint_bits.map_or(Value::Null, Value::from)),
    ];
    let known: Vec<(&str, Value)> = lines.into_iter().filter(|(_, value)| !value.is_null()).collect();
    printer.facts("block index", &known)?;
    if let Some(bytes) = facts.bounds_bytes {
        let line = [
            ("bytes", bytes.into()),
            ("an entry", format!("{:.1}", bytes as f64 / facts.entries as f64).into()),
        ];
        printer.part("  bounds of blocks", &line)?;
    }
    index_memory(printer, "  takes", &facts)?;
    for other in IndexKind::ALL.into_iter().filter(|&other| other != asked) {
        // Another kind may need damaged parts of the file that this one does not.
        if let Ok(Some(facts)) = open(path, other).and_then(|table| table.index_facts()) {
            index_memory(printer, "  would take", &facts)?;
        }
    }
    Ok(())
}

/// Memory of an index, and the saving against whole separators in order.
fn index_memory(printer: &mut Printer<'_>, what: &str, facts: &IndexFacts) -> Result<(), Failure> {
    let (taken, array) = (facts.memory_bytes as f64, facts.sorted_array_bytes.max(1) as f64);
    let line = [
        ("kind", facts.requested.to_string().into()),
        ("as", if facts.used == facts.requested { Value::Null } else { facts.used.to_string().into() }),
        ("bytes", facts.memory_bytes.into()),
        ("an entry", format!("{:.1}", taken / facts.entries as f64).into()),
        ("saved", format!("{:.1} %", (1.0 - taken / array) * 100.0).into()),
    ];
    printer.part(what, &line)
}

fn block(printer: &mut Printer<'_>, facts: &BlockFacts) -> Result<bool, Failure> {
    let header = &facts.header;
    let codec = codec::id::name(header.codec_id).map_or_else(|| header.codec_id.to_string(), str::to_owned);
    let mut line: Vec<(&str, Value)> = vec![
        ("number", header.number.into()),
        ("at", facts.offset.into()),
        ("bytes", facts.file_bytes.into()),
        ("raw", header.raw_len.into()),
        ("codec", codec.into()),
        ("layout", header.layout.to_string().into()),
        ("entries", header.entries.into()),
        ("tag bytes", facts.tag_bytes.into()),
    ];
    match facts.layout {
        LayoutFacts::Flat { prefix_bytes } => line.push(("prefix", prefix_bytes.into())),
        LayoutFacts::Delta { restarts, slots, shared_bytes, varint_bytes } => line.extend([
            ("restarts", restarts.into()),
            ("slots usable", slots.usable.into()),
            ("empty", slots.empty.into()),
            ("cancelled", slots.cancelled.into()),
            ("shared bytes", shared_bytes.into()),
            ("varint bytes", varint_bytes.into()),
        ]),
    }
    line.push(("first", printer.key(&facts.first_key)));
    printer.item("block", &line)
}

fn entries(printer: &mut Printer<'_>, table: &Table, number: usize) -> Result<bool, Failure> {
    let mut result = Ok(true);
    table.visit_entries(number, |key, tag, value| {
        if matches!(result, Ok(true)) {
            result = entry(printer, key, tag, value);
        }
    })?;
    result
}

fn entry(printer: &mut Printer<'_>, key: &[u8], tag: Tag, value: &[u8]) -> Result<bool, Failure> {
    let kind =
        tag.kind().map_or_else(|| format!("kind {:#04x}", tag.kind_byte()), |kind| format!("{kind:?}"));
    let value =
        if tag.kind().is_none_or(|kind| kind.has_value()) { printer.value(value) } else { Value::Null };
    let facts = [("seqno", tag.seqno().get().into()), ("key", printer.key(key)), ("value", value)];
    printer.item(&format!("  {}", kind.to_lowercase()), &facts)
}

#[derive(Default)]
struct Totals {
    slots: SlotCounts,
    shared_bytes: u64,
    varint_bytes: u64,
}

impl Totals {
    fn add(&mut self, layout: &LayoutFacts) {
        if let LayoutFacts::Delta { slots, shared_bytes, varint_bytes, .. } = layout {
            self.slots.usable += slots.usable;
            self.slots.empty += slots.empty;
            self.slots.cancelled += slots.cancelled;
            self.shared_bytes += shared_bytes;
            self.varint_bytes += varint_bytes;
        }
    }

    /// The expected share of each kind of slot is printed beside the real one: with k keys a slot, e^-k of
    /// the slots stay empty and k e^-k have one key.
    fn print(&self, printer: &mut Printer<'_>, table: &Table) -> Result<(), Failure> {
        let all = self.slots.usable + self.slots.empty + self.slots.cancelled;
        if all == 0 {
            return Ok(());
        }
        let keys_per_slot = table.properties().keys as f64 / all as f64;
        let empty = (-keys_per_slot).exp();
        let usable = keys_per_slot * empty;
        let share = |count: u64, expected: f64| {
            format!(
                "{count} ({:.1} %, by chance {:.1} %)",
                count as f64 * 100.0 / all as f64,
                expected * 100.0
            )
        };
        let facts = [
            ("usable", share(self.slots.usable, usable).into()),
            ("empty", share(self.slots.empty, empty).into()),
            ("cancelled", share(self.slots.cancelled, 1.0 - empty - usable).into()),
            ("key bytes shared", self.shared_bytes.into()),
            ("bytes saved by varints", self.varint_bytes.into()),
        ];
        printer.facts("hash slots and savings", &facts)
    }
}
