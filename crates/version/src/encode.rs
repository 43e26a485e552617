//! Encoding of version edits: the payload of a manifest record (`docs/format/manifest.md`).
//!
//! A payload is a list of fields, `tag varint | length varint | body`. A reader that does not know a tag must
//! stop if the tag is odd and may skip the field if it is even. So a newer writer can add hints, but no
//! meaning that older readers would miss.

use crate::edit::{EditOp, LogLife, VersionEdit};
use crate::figures::KeyspaceFigures;
use crate::version::Place;
use esker_base::KeyspaceId;
use esker_base::coding::{Reader, put_prefixed, put_varint};
use fields::{
    file_number, keyspace_id, level, log_id, name, order, part_id, put, put_bytes, put_two, run_id, seqno,
};
use part::{decode_blob_file, decode_figure, decode_part, encode_blob_file, encode_part};
use std::sync::Arc;

mod fields;
mod part;

/// Tags of the fields of an edit. Persisted: they never change.
mod tag {
    pub(super) const SNAPSHOT: u64 = 1;
    pub(super) const COUNTER: u64 = 2;
    pub(super) const CREATE_KEYSPACE: u64 = 3;
    pub(super) const TIME_FLOOR: u64 = 4;
    pub(super) const DROP_KEYSPACE: u64 = 5;
    pub(super) const DURABLE_POSITION: u64 = 6;
    pub(super) const ADD_PART: u64 = 7;
    pub(super) const CURSOR: u64 = 8;
    pub(super) const REMOVE_PART: u64 = 9;
    pub(super) const FIGURES: u64 = 10;
    pub(super) const FLUSHED_SEQNO: u64 = 11;
    pub(super) const MIN_LOG_ID: u64 = 13;
    pub(super) const NEXT_FILE: u64 = 15;
    pub(super) const LAST_SEQNO: u64 = 17;
    pub(super) const ADD_BLOB_FILE: u64 = 19;
    pub(super) const NEXT_KEYSPACE: u64 = 21;
    pub(super) const NEXT_PART: u64 = 23;
    pub(super) const RENAME_KEYSPACE: u64 = 25;
    pub(super) const SET_KEYSPACE_OPTIONS: u64 = 27;
    pub(super) const CONSUMER: u64 = 29;
    pub(super) const DROP_CONSUMER: u64 = 31;
    pub(super) const LOG_LIFE: u64 = 33;
}

/// Why a payload cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes are not what was written.
    Damaged(String),
    /// A newer version wrote something that must be understood.
    Unsupported(String),
}

impl VersionEdit {
    /// Appends the encoded edit.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        for op in &self.ops {
            body.clear();
            let tag = encode_op(op, &mut body);
            put_varint(out, tag);
            put_prefixed(out, &body);
        }
    }

    /// Decodes a payload.
    ///
    /// # Errors
    /// [`DecodeError`]; nothing is allocated beyond the size of the payload.
    pub fn decode(payload: &[u8]) -> Result<VersionEdit, DecodeError> {
        let mut reader = Reader::new(payload);
        let mut edit = VersionEdit::new();
        while !reader.is_empty() {
            let at = reader.position();
            let damaged = |what: &str| DecodeError::Damaged(format!("{what}, {at} bytes into the edit"));
            let (Some(tag), Some(body)) = (reader.varint(), reader.prefixed()) else {
                return Err(damaged("a field runs past the end"));
            };
            let mut body = Reader::new(body);
            match decode_op(tag, &mut body) {
                DecodedOp::Op(op) if body.is_empty() => {
                    edit.push(op);
                }
                DecodedOp::Op(_) => return Err(damaged(&format!("field {tag} is longer than its content"))),
                DecodedOp::Damaged => return Err(damaged(&format!("field {tag} is malformed"))),
                DecodedOp::Unknown if tag % 2 == 0 => {}
                DecodedOp::Unknown => {
                    let text = format!("the manifest has a field {tag}, which this version does not know");
                    return Err(DecodeError::Unsupported(text));
                }
                DecodedOp::UnknownFigure(figure) => {
                    let text = format!("a part has a figure {figure}, which this version does not know");
                    return Err(DecodeError::Unsupported(text));
                }
            }
        }
        Ok(edit)
    }
}

fn encode_op(op: &EditOp, body: &mut Vec<u8>) -> u64 {
    match op {
        EditOp::Snapshot => tag::SNAPSHOT,
        EditOp::CreateKeyspace { id, name, options } => {
            put_varint(body, id.get().into());
            put_prefixed(body, name.as_bytes());
            put_prefixed(body, options);
            tag::CREATE_KEYSPACE
        }
        EditOp::DropKeyspace { id } => put(body, id.get().into(), tag::DROP_KEYSPACE),
        EditOp::RenameKeyspace { id, name } => {
            put_varint(body, id.get().into());
            put_bytes(body, name.as_bytes(), tag::RENAME_KEYSPACE)
        }
        EditOp::SetKeyspaceOptions { id, options } => {
            put_varint(body, id.get().into());
            put_prefixed(body, options);
            tag::SET_KEYSPACE_OPTIONS
        }
        EditOp::AddPart { keyspace, place, part } => {
            put_varint(body, keyspace.get().into());
            body.push(place.level.get());
            put_varint(body, place.run.get());
            put_varint(body, place.order);
            encode_part(part, body);
            tag::ADD_PART
        }
        EditOp::RemovePart { keyspace, level, run, part, start } => {
            put_varint(body, part.get());
            put_varint(body, keyspace.get().into());
            body.push(level.get());
            put_varint(body, run.get());
            put_prefixed(body, start);
            tag::REMOVE_PART
        }
        EditOp::AddBlobFile { keyspace, file } => {
            put_varint(body, keyspace.get().into());
            encode_blob_file(file, body);
            tag::ADD_BLOB_FILE
        }
        EditOp::FlushedSeqno { keyspace, seqno } => {
            put_varint(body, keyspace.get().into());
            put(body, seqno.get(), tag::FLUSHED_SEQNO)
        }
        EditOp::Cursor { keyspace, level, key } => {
            put_varint(body, keyspace.get().into());
            body.push(level.get());
            put_prefixed(body, key);
            tag::CURSOR
        }
        EditOp::MinLogId(log) => put(body, log.get(), tag::MIN_LOG_ID),
        EditOp::NextFile(file) => put(body, file.get(), tag::NEXT_FILE),
        EditOp::LastSeqno(seqno) => put(body, seqno.get(), tag::LAST_SEQNO),
        EditOp::NextKeyspace(id) => put(body, id.get().into(), tag::NEXT_KEYSPACE),
        EditOp::NextPart(id) => put(body, id.get(), tag::NEXT_PART),
        EditOp::DurablePosition(log, offset) => {
            put_varint(body, log.get());
            put(body, *offset, tag::DURABLE_POSITION)
        }
        EditOp::TimeFloor(ms) => put(body, *ms, tag::TIME_FLOOR),
        EditOp::Consumer { name, seqno } => {
            put_prefixed(body, name.as_bytes());
            put(body, seqno.get(), tag::CONSUMER)
        }
        EditOp::DropConsumer { name } => put_bytes(body, name.as_bytes(), tag::DROP_CONSUMER),
        EditOp::LogLife(life) => put_two(body, life.last_log_id.get(), life.last_seqno.get(), tag::LOG_LIFE),
        EditOp::Counter { number, value } => put_two(body, (*number).into(), *value, tag::COUNTER),
        EditOp::Figures { keyspace, figures } => encode_figures(*keyspace, figures, body),
    }
}

/// What a field holds.
enum DecodedOp {
    Op(EditOp),
    Damaged,
    Unknown,
    UnknownFigure(u64),
}

fn decode_op(tag: u64, body: &mut Reader<'_>) -> DecodedOp {
    let op = match tag {
        tag::SNAPSHOT => Some(EditOp::Snapshot),
        tag::CREATE_KEYSPACE | tag::DROP_KEYSPACE | tag::RENAME_KEYSPACE | tag::SET_KEYSPACE_OPTIONS => {
            decode_keyspace_op(tag, body)
        }
        tag::ADD_PART => return decode_add_part(body),
        tag::REMOVE_PART => decode_remove_part(body),
        tag::ADD_BLOB_FILE => keyspace_id(body)
            .zip(decode_blob_file(body))
            .map(|(keyspace, file)| EditOp::AddBlobFile { keyspace, file }),
        tag::FLUSHED_SEQNO => keyspace_id(body)
            .zip(seqno(body))
            .map(|(keyspace, seqno)| EditOp::FlushedSeqno { keyspace, seqno }),
        tag::CURSOR => decode_cursor(body),
        tag::MIN_LOG_ID => log_id(body).map(EditOp::MinLogId),
        tag::NEXT_FILE => file_number(body).map(EditOp::NextFile),
        tag::LAST_SEQNO => seqno(body).map(EditOp::LastSeqno),
        tag::NEXT_KEYSPACE => keyspace_id(body).map(EditOp::NextKeyspace),
        tag::NEXT_PART => part_id(body).map(EditOp::NextPart),
        tag::DURABLE_POSITION => {
            log_id(body).zip(body.varint()).map(|(log, offset)| EditOp::DurablePosition(log, offset))
        }
        tag::TIME_FLOOR => body.varint().map(EditOp::TimeFloor),
        tag::CONSUMER => name(body).zip(seqno(body)).map(|(name, seqno)| EditOp::Consumer { name, seqno }),
        tag::DROP_CONSUMER => name(body).map(|name| EditOp::DropConsumer { name }),
        tag::LOG_LIFE => log_id(body)
            .zip(seqno(body))
            .map(|(last_log_id, last_seqno)| EditOp::LogLife(LogLife { last_log_id, last_seqno })),
        tag::COUNTER => {
            body.varint_u32().zip(body.varint()).map(|(number, value)| EditOp::Counter { number, value })
        }
        // LF1: what cannot be read is skipped, as a field that is not known.
        tag::FIGURES => return decode_figures(body).map_or(DecodedOp::Unknown, DecodedOp::Op),
        _ => return DecodedOp::Unknown,
    };
    op.map_or(DecodedOp::Damaged, DecodedOp::Op)
}

fn decode_keyspace_op(tag: u64, body: &mut Reader<'_>) -> Option<EditOp> {
    let id = keyspace_id(body)?;
    Some(match tag {
        tag::CREATE_KEYSPACE => {
            EditOp::CreateKeyspace { id, name: name(body)?, options: body.prefixed()?.into() }
        }
        tag::RENAME_KEYSPACE => EditOp::RenameKeyspace { id, name: name(body)? },
        tag::SET_KEYSPACE_OPTIONS => EditOp::SetKeyspaceOptions { id, options: body.prefixed()?.into() },
        _ => EditOp::DropKeyspace { id },
    })
}

fn encode_figures(keyspace: KeyspaceId, figures: &KeyspaceFigures, body: &mut Vec<u8>) -> u64 {
    put_varint(body, keyspace.get().into());
    figures.encode(body);
    tag::FIGURES
}

fn decode_figures(body: &mut Reader<'_>) -> Option<EditOp> {
    let keyspace = keyspace_id(body)?;
    Some(EditOp::Figures { keyspace, figures: Arc::new(KeyspaceFigures::decode(body)?) })
}

fn decode_cursor(body: &mut Reader<'_>) -> Option<EditOp> {
    Some(EditOp::Cursor { keyspace: keyspace_id(body)?, level: level(body)?, key: body.prefixed()?.into() })
}

fn decode_add_part(body: &mut Reader<'_>) -> DecodedOp {
    let head = |body: &mut Reader<'_>| {
        let keyspace = keyspace_id(body)?;
        let place = Place { level: level(body)?, run: run_id(body)?, order: order(body)? };
        Some((keyspace, place, decode_part(body)?))
    };
    let Some((keyspace, place, mut part)) = head(body) else { return DecodedOp::Damaged };
    while !body.is_empty() {
        let Some((tag, value)) = body.varint().zip(body.prefixed()) else { return DecodedOp::Damaged };
        let mut value = Reader::new(value);
        match decode_figure(tag, &mut value, &mut part) {
            Some(true) if value.is_empty() => {}
            Some(false) if tag % 2 == 0 => {}
            Some(false) => return DecodedOp::UnknownFigure(tag),
            _ => return DecodedOp::Damaged,
        }
    }
    if crate::check::part_problem(&part).is_some() {
        return DecodedOp::Damaged;
    }
    DecodedOp::Op(EditOp::AddPart { keyspace, place, part: Arc::new(part) })
}

fn decode_remove_part(body: &mut Reader<'_>) -> Option<EditOp> {
    let part = part_id(body)?;
    let (keyspace, level) = (keyspace_id(body)?, level(body)?);
    Some(EditOp::RemovePart { keyspace, level, run: run_id(body)?, part, start: body.prefixed()?.into() })
}

#[cfg(test)]
mod tests;
