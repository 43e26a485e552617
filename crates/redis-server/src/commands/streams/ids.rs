//! Ids of stream entries in arguments and replies.

use crate::failure::Outcome;
use esker_redis_store::types::stream::{MAX_ID, MIN_ID, StreamId, next_id, previous_id};
use esker_resp::integer::write_unsigned;
use esker_resp::writer::ReplyWriter;

const INVALID: &str = "ERR Invalid stream ID specified as stream command argument";

/// Bytes of the longest argument that is looked at.
const LONGEST: usize = 127;

/// An id whose sequence may be `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartialId {
    Whole(StreamId),
    /// Any sequence within these milliseconds.
    Milliseconds(u64),
}

/// An id, without `-` and `+` as such. A missing sequence is `missing`.
pub(super) fn parse(text: &[u8], missing: u64) -> Outcome<StreamId> {
    match parse_partial(text, missing)? {
        PartialId::Whole(id) if !text.ends_with(b"*") => Ok(id),
        _ => Err(INVALID.into()),
    }
}

/// An id, or milliseconds with `*`.
pub(super) fn parse_partial(text: &[u8], missing: u64) -> Outcome<PartialId> {
    parse_parts(text, missing).ok_or_else(|| INVALID.into())
}

/// The same; `-` is the least id and `+` the greatest.
pub(super) fn parse_or_end(text: &[u8], missing: u64) -> Outcome<StreamId> {
    match text {
        b"-" => Ok(MIN_ID),
        b"+" => Ok(MAX_ID),
        _ => parse(text, missing),
    }
}

/// The first id of an interval: `(` excludes it.
pub(super) fn parse_start(text: &[u8]) -> Outcome<StreamId> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => {
            next_id(parse(id, 0)?).ok_or_else(|| "ERR invalid start ID for the interval".into())
        }
        _ => parse_or_end(text, 0),
    }
}

/// The last id of an interval: `(` excludes it.
pub(super) fn parse_end(text: &[u8]) -> Outcome<StreamId> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => {
            previous_id(parse(id, u64::MAX)?).ok_or_else(|| "ERR invalid end ID for the interval".into())
        }
        _ => parse_or_end(text, u64::MAX),
    }
}

fn parse_parts(text: &[u8], missing: u64) -> Option<PartialId> {
    if text.len() > LONGEST {
        return None;
    }
    // Redis reads arguments here up to their first zero byte.
    let text = super::shown(text);
    let mut parts = text.splitn(2, |&byte| byte == b'-');
    let milliseconds = parse_unsigned(parts.next()?)?;
    Some(match parts.next() {
        None => PartialId::Whole(StreamId { milliseconds, sequence: missing }),
        Some(b"*") => PartialId::Milliseconds(milliseconds),
        Some(sequence) => PartialId::Whole(StreamId { milliseconds, sequence: parse_unsigned(sequence)? }),
    })
}

/// A number as `strtoull` and Redis' own parser together take it.
fn parse_unsigned(text: &[u8]) -> Option<u64> {
    let is_plain = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    if !is_plain {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// An id as text.
pub(super) fn text(id: StreamId) -> Vec<u8> {
    let mut text = Vec::with_capacity(41);
    write_unsigned(id.milliseconds, &mut text);
    text.push(b'-');
    write_unsigned(id.sequence, &mut text);
    text
}

/// Writes an id.
pub(super) fn write(reply: &mut ReplyWriter<'_>, id: StreamId) {
    reply.bulk(&text(id));
}
