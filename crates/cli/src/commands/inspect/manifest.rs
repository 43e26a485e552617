//! `inspect manifest`: prints the header and the edits of a manifest.

use super::Printer;
use crate::failure::{Exit, Failure};
use esker::parts::base::KeyspaceId;
use esker::parts::env::StdFileSystem;
use esker::parts::version::frame::Tail;
use esker::parts::version::{EditOp, KeyspaceFigures, ManifestFile, PartMeta, Place};
use serde_json::Value;
use std::path::Path;

pub(super) fn inspect(printer: &mut Printer<'_>, path: &Path) -> Result<Exit, Failure> {
    let file = ManifestFile::read(&StdFileSystem, path)?;
    let header = &file.header;
    printer.facts(
        "manifest",
        &[
            ("number", header.number.get().into()),
            ("format", header.format.into()),
            ("database", crate::format::encode_hex(&header.uuid).into()),
            ("salt", format!("{:08x}", header.salt).into()),
        ],
    )?;
    for record in file.records() {
        let record = record?;
        let kind = match record.edit.ops.as_slice() {
            // An edit without operations records that everything before it is durable.
            [] => "closed",
            [EditOp::Snapshot, ..] => "snapshot",
            _ => "edit",
        };
        let facts = [
            ("number", record.edit_no.into()),
            ("at", record.offset.into()),
            ("bytes", record.payload_bytes.into()),
        ];
        if !printer.item(kind, &facts)? {
            return Ok(Exit::Done);
        }
        for op in &record.edit.ops {
            let (name, facts) = describe(printer, op);
            if printer.shape.json {
                printer.object(name, &facts)?;
            } else {
                let facts: Vec<String> =
                    facts.iter().map(|(name, value)| format!("  {name} {}", super::plain(value))).collect();
                printer.remark(&format!("  {name}{}", facts.concat()))?;
            }
        }
    }
    if let Tail::Torn { .. } = file.tail() {
        printer.remark("behind the last edit stands one that was being written when the writer ended")?;
    }
    Ok(Exit::Done)
}

type Facts = Vec<(&'static str, Value)>;

fn named(name: &str) -> (&'static str, Value) {
    ("name", name.escape_debug().to_string().into())
}

/// The name and the fields of an operation.
fn describe(printer: &Printer<'_>, op: &EditOp) -> (&'static str, Facts) {
    match op {
        EditOp::Snapshot => ("begin snapshot", vec![]),
        EditOp::CreateKeyspace { id, name, .. } => {
            ("create keyspace", vec![("id", id.get().into()), named(name)])
        }
        EditOp::DropKeyspace { id } => ("drop keyspace", vec![("id", id.get().into())]),
        EditOp::RenameKeyspace { id, name } => {
            ("rename keyspace", vec![("id", id.get().into()), named(name)])
        }
        EditOp::SetKeyspaceOptions { id, .. } => ("set keyspace options", vec![("id", id.get().into())]),
        EditOp::AddPart { keyspace, place, part } => {
            ("add part", part_facts(printer, *keyspace, *place, part))
        }
        EditOp::AddBlobFile { keyspace, file } => (
            "add blob file",
            vec![
                ("file", file.number.get().into()),
                ("keyspace", keyspace.get().into()),
                ("bytes", file.file_bytes.into()),
                ("values", file.records.into()),
            ],
        ),
        EditOp::RemovePart { keyspace, level, run, part, .. } => (
            "remove part",
            vec![
                ("id", part.get().into()),
                ("keyspace", keyspace.get().into()),
                ("level", level.get().into()),
                ("run", run.get().into()),
            ],
        ),
        EditOp::FlushedSeqno { keyspace, seqno } => {
            ("flushed up to", vec![("keyspace", keyspace.get().into()), ("seqno", seqno.get().into())])
        }
        EditOp::Cursor { keyspace, level, key } => (
            "cursor",
            vec![
                ("keyspace", keyspace.get().into()),
                ("level", level.get().into()),
                ("key", printer.key(key)),
            ],
        ),
        EditOp::MinLogId(id) => ("oldest log", vec![("id", id.get().into())]),
        EditOp::NextFile(file) => ("next file", vec![("number", file.get().into())]),
        EditOp::LastSeqno(seqno) => ("last seqno", vec![("seqno", seqno.get().into())]),
        EditOp::NextKeyspace(id) => ("next keyspace", vec![("id", id.get().into())]),
        EditOp::NextPart(id) => ("next part", vec![("id", id.get().into())]),
        EditOp::DurablePosition(log, offset) => {
            ("log durable up to", vec![("log id", log.get().into()), ("byte", (*offset).into())])
        }
        EditOp::Consumer { name, seqno } => ("consumer", vec![named(name), ("seqno", seqno.get().into())]),
        EditOp::DropConsumer { name } => ("drop consumer", vec![named(name)]),
        EditOp::LogLife(life) => (
            "end of an earlier log",
            vec![("log id", life.last_log_id.get().into()), ("seqno", life.last_seqno.get().into())],
        ),
        EditOp::TimeFloor(ms) => ("time floor", vec![("ms", (*ms).into())]),
        EditOp::Counter { number, value } => {
            ("counter", vec![("number", (*number).into()), ("value", (*value).into())])
        }
        EditOp::Figures { keyspace, figures } => ("figures", figures_facts(*keyspace, figures)),
    }
}

fn figures_facts(keyspace: KeyspaceId, figures: &KeyspaceFigures) -> Facts {
    vec![
        ("keyspace", keyspace.get().into()),
        ("put bytes", figures.writes.put_bytes.into()),
        ("operations", figures.writes.operations.into()),
        ("traced lookups", figures.lookups.lookups.into()),
        ("scans", (figures.scans.short + figures.scans.long).into()),
    ]
}

fn part_facts(printer: &Printer<'_>, keyspace: KeyspaceId, place: Place, part: &PartMeta) -> Facts {
    vec![
        ("id", part.id.get().into()),
        ("keyspace", keyspace.get().into()),
        ("level", place.level.get().into()),
        ("run", place.run.get().into()),
        ("file", part.file.get().into()),
        ("bytes", part.bytes.into()),
        ("entries", part.entries.into()),
        ("tombstones", part.tombstones.into()),
        ("range deletes", part.range_tombstones.into()),
        ("blob files", part.blobs.len().into()),
        ("sliced", part.sliced.into()),
        ("smallest", printer.key(part.smallest())),
        ("largest", printer.key(part.largest())),
    ]
}
