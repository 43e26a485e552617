//! Encoding of version edits: the payload of a manifest record (`docs/format/manifest.md`).
//!
//! A payload is a list of fields, `tag varint | length varint | body`. A reader that does not know a tag must
//! stop if the tag is odd and may skip the field if it is even. So a newer writer can add hints, but no
//! meaning that older readers would miss.

use crate::blob::BlobFileMeta;

use crate::edit::{EditOp, LogLife, VersionEdit};
use crate::figures::KeyspaceFigures;
use crate::part::BlobReference;
use crate::part::{PartFlags, PartMeta};
use crate::range::{Key, KeyEnd, KeyRange};
use crate::version::{LevelIndex, Place};
use esker_base::coding::{Reader, put_prefixed, put_varint};
use esker_base::{FileNumber, KeyspaceId, LogId, PartId, RunId, SeqNo, TableUid};
use std::sync::Arc;

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

/// Tags of a part's figures.
mod figure {
    /// Odd: a reader that does not know it would take the entries for the oldest possible.
    pub(super) const GLOBAL_SEQNO: u64 = 1;
    pub(super) const BYTES: u64 = 2;
    pub(super) const RAW_BYTES: u64 = 4;
    pub(super) const ENTRIES: u64 = 6;
    pub(super) const TOMBSTONES: u64 = 8;
    pub(super) const RANGE_TOMBSTONES: u64 = 10;
    pub(super) const OLDEST_DELETE_MS: u64 = 12;
    pub(super) const MIN_EXPIRY_MS: u64 = 14;
    pub(super) const MAX_EXPIRY_MS: u64 = 16;
    pub(super) const CREATED_MS: u64 = 18;
    pub(super) const FLAGS: u64 = 20;
    pub(super) const PINNED_BY: u64 = 22;
    pub(super) const EXPIRING: u64 = 24;
    pub(super) const LATEST_EXPIRY_MS: u64 = 26;
    /// Odd: a reader that does not know it would take the blob files for orphans.
    pub(super) const BLOBS: u64 = 29;
}

/// The part ends with an included key.
const END_INCLUDED: u8 = 0;
/// The part ends before a key, or has no end if that key is empty: nothing lies before the empty key.
const END_EXCLUDED: u8 = 1;
const SLICED: u8 = 2;

/// Larger files do not exist; the limit keeps sums of sizes far from overflow. 2^48 bytes are 256 TiB.
const MAX_FILE_BYTES: u64 = 1 << 48;
/// Most that a count or a sum of bytes of one file can be: raw bytes may be more than the file's.
const MAX_AMOUNT: u64 = 1 << 52;

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

/// Appends a number and returns the tag.
fn put(body: &mut Vec<u8>, value: u64, tag: u64) -> u64 {
    put_varint(body, value);
    tag
}

fn put_two(body: &mut Vec<u8>, first: u64, second: u64, tag: u64) -> u64 {
    put_varint(body, first);
    put(body, second, tag)
}

fn put_bytes(body: &mut Vec<u8>, bytes: &[u8], tag: u64) -> u64 {
    put_prefixed(body, bytes);
    tag
}

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

// Numbers from which others are counted on are refused where counting would overflow.

fn keyspace_id(body: &mut Reader<'_>) -> Option<KeyspaceId> {
    body.varint_u32().and_then(KeyspaceId::stored)
}

fn file_number(body: &mut Reader<'_>) -> Option<FileNumber> {
    body.varint().and_then(FileNumber::stored)
}

fn part_id(body: &mut Reader<'_>) -> Option<PartId> {
    body.varint().and_then(PartId::stored)
}

fn run_id(body: &mut Reader<'_>) -> Option<RunId> {
    body.varint().and_then(RunId::stored)
}

/// The order of a run, counted as run ids are.
fn order(body: &mut Reader<'_>) -> Option<u64> {
    body.varint().filter(|order| *order <= RunId::MAX_STORED.get())
}

fn log_id(body: &mut Reader<'_>) -> Option<LogId> {
    body.varint().and_then(LogId::stored)
}

/// A count or sum of bytes of a part or blob file; those of all files of a database are added up.
fn amount(body: &mut Reader<'_>) -> Option<u64> {
    body.varint().filter(|amount| *amount <= MAX_AMOUNT)
}

fn level(body: &mut Reader<'_>) -> Option<LevelIndex> {
    LevelIndex::new(body.u8()?)
}

fn seqno(body: &mut Reader<'_>) -> Option<SeqNo> {
    let value = body.varint()?;
    (value <= SeqNo::MAX_STORED.get()).then(|| SeqNo::new(value))
}

fn name(body: &mut Reader<'_>) -> Option<Arc<str>> {
    std::str::from_utf8(body.prefixed()?).ok().map(Arc::from)
}

fn encode_part(part: &PartMeta, body: &mut Vec<u8>) {
    put_varint(body, part.id.get());
    put_varint(body, part.file.get());
    put_varint(body, part.file_bytes);
    body.extend_from_slice(&part.table_uid.get().to_le_bytes());
    let end = if matches!(part.range.end, KeyEnd::Included(_)) { END_INCLUDED } else { END_EXCLUDED };
    body.push(end | if part.sliced { SLICED } else { 0 });
    put_prefixed(body, &part.range.start);
    put_prefixed(body, part.largest());
    put_varint(body, part.min_seqno.get());
    put_varint(body, part.max_seqno.get());
    for (tag, value) in figures(part) {
        if let Some(value) = value {
            put_varint(body, tag);
            put_varint(body, esker_base::coding::varint_len(value) as u64);
            put_varint(body, value);
        }
    }
    if !part.blobs.is_empty() {
        let mut blobs = Vec::new();
        for blob in &*part.blobs {
            put_varint(&mut blobs, blob.file.get());
            put_varint(&mut blobs, blob.bytes);
            put_varint(&mut blobs, blob.count);
        }
        put_varint(body, figure::BLOBS);
        put_prefixed(body, &blobs);
    }
}

fn encode_blob_file(file: &BlobFileMeta, body: &mut Vec<u8>) {
    put_varint(body, file.number.get());
    put_varint(body, file.file_bytes);
    body.extend_from_slice(&file.uid.get().to_le_bytes());
    put_varint(body, file.records);
    put_varint(body, file.record_bytes);
    put_varint(body, file.value_bytes);
    put_varint(body, file.created_ms);
}

fn decode_blob_file(body: &mut Reader<'_>) -> Option<BlobFileMeta> {
    Some(BlobFileMeta {
        number: file_number(body)?,
        file_bytes: body.varint().filter(|bytes| *bytes <= MAX_FILE_BYTES)?,
        uid: TableUid(body.u64()?),
        records: amount(body)?,
        record_bytes: amount(body)?,
        value_bytes: amount(body)?,
        created_ms: body.varint()?,
    })
}

/// The blob references of a part: by ascending file number, without zeros.
fn decode_blobs(body: &mut Reader<'_>) -> Option<Arc<[BlobReference]>> {
    let mut blobs: Vec<BlobReference> = Vec::new();
    while !body.is_empty() {
        let file = file_number(body)?;
        let (bytes, count) = (amount(body)?, amount(body)?);
        if blobs.last().is_some_and(|last| last.file >= file) || bytes == 0 || count == 0 {
            return None;
        }
        blobs.push(BlobReference { file, bytes, count });
    }
    Some(blobs.into())
}

/// The figures of a part by tag; missing ones decode as zero or none.
fn figures(part: &PartMeta) -> [(u64, Option<u64>); 14] {
    let nonzero = |value: u64| Some(value).filter(|value| *value != 0);
    [
        (figure::BYTES, Some(part.bytes)),
        (figure::RAW_BYTES, nonzero(part.raw_bytes)),
        (figure::ENTRIES, nonzero(part.entries)),
        (figure::TOMBSTONES, nonzero(part.tombstones)),
        (figure::RANGE_TOMBSTONES, nonzero(part.range_tombstones)),
        (figure::OLDEST_DELETE_MS, part.oldest_delete_ms),
        (figure::MIN_EXPIRY_MS, part.min_expiry_ms),
        (figure::MAX_EXPIRY_MS, part.max_expiry_ms),
        (figure::CREATED_MS, nonzero(part.created_ms)),
        (figure::FLAGS, nonzero(part.flags.0)),
        (figure::PINNED_BY, part.pinned_by.map(SeqNo::get)),
        (figure::EXPIRING, nonzero(part.expiring)),
        (figure::LATEST_EXPIRY_MS, part.latest_expiry_ms),
        (figure::GLOBAL_SEQNO, part.global_seqno.map(SeqNo::get)),
    ]
}

/// The fixed fields of a part; figures follow.
fn decode_part(body: &mut Reader<'_>) -> Option<PartMeta> {
    let (id, file) = (part_id(body)?, file_number(body)?);
    let file_bytes = body.varint().filter(|bytes| *bytes <= MAX_FILE_BYTES)?;
    let table_uid = TableUid(body.u64()?);
    let form = body.u8().filter(|form| *form <= END_EXCLUDED | SLICED)?;
    let start: Key = body.prefixed()?.into();
    let last: Key = body.prefixed()?.into();
    let excluded = form & END_EXCLUDED != 0;
    let end = match (excluded, last.is_empty()) {
        (true, true) => KeyEnd::Unbounded,
        (true, false) => KeyEnd::Excluded(last),
        (false, _) => KeyEnd::Included(last),
    };
    let mut part = PartMeta::new(id, file, file_bytes, table_uid, KeyRange { start, end });
    part.sliced = form & SLICED != 0;
    part.min_seqno = seqno(body)?;
    part.max_seqno = seqno(body)?;
    Some(part)
}

/// Whether the figure is known; `None` if it is malformed.
fn decode_figure(tag: u64, value: &mut Reader<'_>, part: &mut PartMeta) -> Option<bool> {
    match tag {
        figure::BYTES => part.bytes = amount(value)?,
        figure::RAW_BYTES => part.raw_bytes = amount(value)?,
        figure::ENTRIES => part.entries = amount(value)?,
        figure::TOMBSTONES => part.tombstones = amount(value)?,
        figure::RANGE_TOMBSTONES => part.range_tombstones = amount(value)?,
        figure::OLDEST_DELETE_MS => part.oldest_delete_ms = Some(value.varint()?),
        figure::MIN_EXPIRY_MS => part.min_expiry_ms = Some(value.varint()?),
        figure::MAX_EXPIRY_MS => part.max_expiry_ms = Some(value.varint()?),
        figure::CREATED_MS => part.created_ms = value.varint()?,
        figure::FLAGS => part.flags = PartFlags(value.varint()?),
        figure::EXPIRING => part.expiring = amount(value)?,
        figure::LATEST_EXPIRY_MS => part.latest_expiry_ms = Some(value.varint()?),
        figure::GLOBAL_SEQNO => part.global_seqno = Some(seqno(value)?),
        figure::BLOBS => part.blobs = decode_blobs(value)?,
        figure::PINNED_BY => part.pinned_by = Some(seqno(value)?),
        _ => return Some(false),
    }
    Some(true)
}

#[cfg(test)]
mod tests;
