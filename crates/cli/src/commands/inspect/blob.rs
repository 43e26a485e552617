//! `inspect blob`: prints the header of a blob file and all values in it, including those that no pointer
//! refers to any more.

use super::Printer;
use crate::failure::{Exit, Failure};
use crate::format::encode_hex;
use esker::parts::blob::BlobReader;
use esker::parts::codec;
use esker::parts::env::{FileSystem, OpenMode, StdFileSystem};
use serde_json::Value;
use std::path::Path;

pub(super) fn inspect(printer: &mut Printer<'_>, path: &Path) -> Result<Exit, Failure> {
    let file = StdFileSystem.open(path, OpenMode::Read)?;
    let file_bytes = file.len()?;
    let reader = BlobReader::open_any(file, file_bytes)?;
    let header = reader.header();
    let facts: [(&str, Value); 5] = [
        ("bytes", file_bytes.into()),
        ("database", encode_hex(&header.db_uuid).into()),
        ("uid", format!("{:016x}", header.uid.get()).into()),
        ("keyspace", header.keyspace.get().into()),
        ("created ms", header.created_ms.into()),
    ];
    printer.facts("blob file", &facts)?;
    let mut shown = Ok(());
    let scanned = reader.scan(|offset, record, value| {
        let codec_name = codec::id::name(record.codec_id).unwrap_or("unknown");
        let facts = [
            ("at", offset.into()),
            ("key", printer.key(record.key)),
            ("bytes", record.value_len.into()),
            ("stored", record.stored.len().into()),
            ("codec", codec_name.into()),
            ("value", printer.value(value)),
        ];
        if shown.is_ok() {
            shown = printer.item("value", &facts).map(|_| ());
        }
        Ok(())
    });
    shown?;
    match scanned {
        Ok(scanned) => {
            printer
                .remark(&format!("{} values of {} bytes, no damage", scanned.records, scanned.value_bytes))?;
            Ok(Exit::Done)
        }
        Err(error) => {
            printer.remark(&error.to_string())?;
            Ok(Exit::Damage)
        }
    }
}
