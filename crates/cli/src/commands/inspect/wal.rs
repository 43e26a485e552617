//! `inspect wal`: prints the header and the records of one segment of the log.

use super::Printer;
use crate::failure::{Exit, Failure};
use crate::format::encode_hex;
use esker::parts::env::StdFileSystem;
use esker::parts::wal::{SegmentInspector, StopReason};
use std::path::Path;

pub(super) fn inspect(printer: &mut Printer<'_>, path: &Path) -> Result<Exit, Failure> {
    let mut segment = SegmentInspector::open(&StdFileSystem, path)?;
    let Some(header) = segment.header().cloned() else {
        for (copy, number) in segment.copies().0.iter().zip(1..) {
            if let Err(fault) = copy {
                printer.remark(&format!("header copy {number}: {fault}"))?;
            }
        }
        return Ok(Exit::Damage);
    };
    printer.facts(
        "segment",
        &[
            ("log id", header.log_id.get().into()),
            ("first seqno", header.first_seqno.get().into()),
            ("bytes", header.size_bytes.into()),
            ("salt", format!("{:016x}", header.salt).into()),
            ("database", encode_hex(&header.db_uuid).into()),
            ("manifest edit", header.manifest_edit.into()),
            ("begun at ms", header.wall_ms.into()),
            ("previous end", header.prev_end.to_string().into()),
        ],
    )?;
    for (copy, number) in segment.copies().0.iter().zip(1..) {
        if let Err(fault) = copy {
            printer.remark(&format!("header copy {number}: {fault}"))?;
        }
    }
    while let Some(record) = segment.next_record()? {
        let facts = [
            ("at", record.offset.into()),
            ("bytes", record.record_len.into()),
            ("seqno", record.first_seqno.get().into()),
            ("count", record.count.into()),
            ("payload", record.payload_len.into()),
            ("in flight", record.in_flight.into()),
            ("durable up to", record.mark.map(|mark| mark.to_string()).into()),
            ("next log id", record.next_log_id.map(|id| id.get()).into()),
            ("damage", (!record.payload_valid).then_some("the payload does not match").into()),
        ];
        if !printer.item(&record.kind.to_string(), &facts)? {
            return Ok(Exit::Done);
        }
    }
    let Some(stop) = segment.stop() else { return Ok(Exit::Done) };
    let reason = match stop.reason {
        None => "the log goes on in the next segment".to_owned(),
        Some(reason) => reason.to_string(),
    };
    printer.remark(&format!("the records end at byte {}: {reason}", stop.offset))?;
    // The bytes behind the last record of a segment in use belong to an earlier use of the file, or are zero.
    // Only a record whose header is valid but whose payload fails its checksum is certainly torn or damaged.
    let torn = matches!(stop.reason, Some(StopReason::PayloadChecksum { .. } | StopReason::CutOff { .. }));
    Ok(if torn { Exit::Damage } else { Exit::Done })
}
