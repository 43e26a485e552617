//! Encoding of parts and blob files: fixed fields, and figures by tag.

use super::fields::{MAX_FILE_BYTES, amount, file_number, part_id, seqno};
use crate::blob::BlobFileMeta;
use crate::part::{BlobReference, PartFlags, PartMeta};
use crate::range::{Key, KeyEnd, KeyRange};
use esker_base::coding::{Reader, put_prefixed, put_varint};
use esker_base::{SeqNo, TableUid};
use std::sync::Arc;

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
/// The part is a slice of its file.
const SLICED: u8 = 2;

pub(super) fn encode_part(part: &PartMeta, body: &mut Vec<u8>) {
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
pub(super) fn decode_part(body: &mut Reader<'_>) -> Option<PartMeta> {
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
pub(super) fn decode_figure(tag: u64, value: &mut Reader<'_>, part: &mut PartMeta) -> Option<bool> {
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

pub(super) fn encode_blob_file(file: &BlobFileMeta, body: &mut Vec<u8>) {
    put_varint(body, file.number.get());
    put_varint(body, file.file_bytes);
    body.extend_from_slice(&file.uid.get().to_le_bytes());
    put_varint(body, file.records);
    put_varint(body, file.record_bytes);
    put_varint(body, file.value_bytes);
    put_varint(body, file.created_ms);
}

pub(super) fn decode_blob_file(body: &mut Reader<'_>) -> Option<BlobFileMeta> {
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
