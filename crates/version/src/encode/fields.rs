//! Fields of edits: numbers, names and bytes.
//!
//! Numbers from which others are counted on are refused where counting would overflow.

use crate::version::LevelIndex;
use esker_base::coding::{Reader, put_prefixed, put_varint};
use esker_base::{FileNumber, KeyspaceId, LogId, PartId, RunId, SeqNo};
use std::sync::Arc;

/// Larger files do not exist; the limit keeps sums of sizes far from overflow. 2^48 bytes are 256 TiB.
pub(super) const MAX_FILE_BYTES: u64 = 1 << 48;

/// Most that a count or a sum of bytes of one file can be: raw bytes may be more than the file's.
pub(super) const MAX_AMOUNT: u64 = 1 << 52;

/// Appends a number and returns the tag.
pub(super) fn put(body: &mut Vec<u8>, value: u64, tag: u64) -> u64 {
    put_varint(body, value);
    tag
}

pub(super) fn put_two(body: &mut Vec<u8>, first: u64, second: u64, tag: u64) -> u64 {
    put_varint(body, first);
    put(body, second, tag)
}

pub(super) fn put_bytes(body: &mut Vec<u8>, bytes: &[u8], tag: u64) -> u64 {
    put_prefixed(body, bytes);
    tag
}

pub(super) fn keyspace_id(body: &mut Reader<'_>) -> Option<KeyspaceId> {
    body.varint_u32().and_then(KeyspaceId::stored)
}

pub(super) fn file_number(body: &mut Reader<'_>) -> Option<FileNumber> {
    body.varint().and_then(FileNumber::stored)
}

pub(super) fn part_id(body: &mut Reader<'_>) -> Option<PartId> {
    body.varint().and_then(PartId::stored)
}

pub(super) fn run_id(body: &mut Reader<'_>) -> Option<RunId> {
    body.varint().and_then(RunId::stored)
}

/// The order of a run, counted as run ids are.
pub(super) fn order(body: &mut Reader<'_>) -> Option<u64> {
    body.varint().filter(|order| *order <= RunId::MAX_STORED.get())
}

pub(super) fn log_id(body: &mut Reader<'_>) -> Option<LogId> {
    body.varint().and_then(LogId::stored)
}

/// A count or sum of bytes of a part or blob file; those of all files of a database are added up.
pub(super) fn amount(body: &mut Reader<'_>) -> Option<u64> {
    body.varint().filter(|amount| *amount <= MAX_AMOUNT)
}

pub(super) fn level(body: &mut Reader<'_>) -> Option<LevelIndex> {
    LevelIndex::new(body.u8()?)
}

pub(super) fn seqno(body: &mut Reader<'_>) -> Option<SeqNo> {
    let value = body.varint()?;
    (value <= SeqNo::MAX_STORED.get()).then(|| SeqNo::new(value))
}

pub(super) fn name(body: &mut Reader<'_>) -> Option<Arc<str>> {
    std::str::from_utf8(body.prefixed()?).ok().map(Arc::from)
}
