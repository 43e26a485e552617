//! Packed lists: all elements in the payload of the record.

use super::{PACKED_BYTES, PACKED_ELEMENTS, Side};
use crate::types::malformed;
use esker::Result;

/// The payload of a list without elements, which is never stored.
pub(super) const EMPTY: &[u8] = &[0];

/// The number of elements.
pub(super) fn len(payload: &[u8]) -> usize {
    payload.first().copied().unwrap_or_default().into()
}

/// Takes the first element off; both parts.
fn take(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let wrong = || malformed("packed list");
    // A length is below 2^14: two bytes at most.
    let (length, at) = match bytes {
        [low @ 0..0x80, ..] => (usize::from(*low), 1),
        [low, high @ 0..0x80, ..] => (usize::from(low & 0x7f) | usize::from(*high) << 7, 2),
        _ => return Err(wrong()),
    };
    let item = bytes.get(at..at + length).ok_or_else(wrong)?;
    Ok((item, &bytes[at + length..]))
}

/// The elements from the head.
pub(super) fn items(payload: &[u8]) -> impl Iterator<Item = Result<&[u8]>> {
    let mut rest = payload.get(1..).unwrap_or_default();
    (0..len(payload)).map(move |_| {
        let (item, after) = take(rest)?;
        rest = after;
        Ok(item)
    })
}

/// Offset of the element at an index; the end of the payload for the number of elements.
fn offset(payload: &[u8], index: usize) -> Result<usize> {
    if index >= len(payload) {
        return Ok(payload.len());
    }
    let mut rest = &payload[1..];
    for _ in 0..index {
        rest = take(rest)?.1;
    }
    Ok(payload.len() - rest.len())
}

/// The element at an index.
pub(super) fn get(payload: &[u8], index: usize) -> Result<Option<&[u8]>> {
    if index >= len(payload) {
        return Ok(None);
    }
    Ok(Some(take(&payload[offset(payload, index)?..])?.0))
}

fn append(payload: &mut Vec<u8>, item: &[u8]) {
    let length = item.len();
    if length < 0x80 {
        payload.push(length as u8);
    } else {
        payload.extend_from_slice(&[(length & 0x7f) as u8 | 0x80, (length >> 7) as u8]);
    }
    payload.extend_from_slice(item);
}

/// The payload with `remove` elements from `index` replaced by others; `None` if it would be too large.
pub(super) fn splice(payload: &[u8], index: usize, remove: usize, put: &[&[u8]]) -> Result<Option<Vec<u8>>> {
    let remove = remove.min(len(payload).saturating_sub(index));
    let count = len(payload) - remove + put.len();
    if count > PACKED_ELEMENTS || put.iter().any(|item| item.len() > PACKED_BYTES) {
        return Ok(None);
    }
    let start = offset(payload, index)?;
    let mut end = start;
    for _ in 0..remove {
        end = payload.len() - take(&payload[end..])?.1.len();
    }
    let put_bytes: usize = put.iter().map(|item| item.len() + 2).sum();
    let mut spliced = Vec::with_capacity(start + put_bytes + payload.len() - end);
    spliced.extend_from_slice(&payload[..start]);
    spliced[0] = count as u8;
    put.iter().for_each(|item| append(&mut spliced, item));
    spliced.extend_from_slice(&payload[end..]);
    Ok((spliced.len() <= PACKED_BYTES).then_some(spliced))
}

/// The payload of `count` elements from `first`.
pub(super) fn part(payload: &[u8], first: usize, count: usize) -> Result<Vec<u8>> {
    let (start, end) = (offset(payload, first)?, offset(payload, first + count)?);
    let mut part = vec![count as u8];
    part.extend_from_slice(&payload[start..end]);
    Ok(part)
}

/// The payload without up to `most` elements that equal `value`, and how many those are.
pub(super) fn without(payload: &[u8], value: &[u8], most: u64, from: Side) -> Result<(Vec<u8>, u64)> {
    let equal = items(payload)
        .try_fold(0, |equal, item| Ok::<u64, esker::Error>(equal + u64::from(item? == value)))?;
    let removed = equal.min(most);
    // Of the elements that are equal, these are removed.
    let chosen = match from {
        Side::Head => 0..removed,
        Side::Tail => equal - removed..equal,
    };
    let mut kept = vec![(len(payload) as u64 - removed) as u8];
    let mut seen = 0;
    for item in items(payload) {
        let item = item?;
        let is_equal = item == value;
        if !(is_equal && chosen.contains(&seen)) {
            append(&mut kept, item);
        }
        seen += u64::from(is_equal);
    }
    Ok((kept, removed))
}

/// Shows the elements with indexes from `first` to below `end`.
pub(super) fn for_each(
    payload: &[u8],
    first: u64,
    end: u64,
    from: Side,
    mut show: impl FnMut(u64, &[u8]) -> bool,
) -> Result<()> {
    let shown = (0u64..).zip(items(payload)).take(end as usize).skip(first as usize);
    if from == Side::Head {
        for (index, item) in shown {
            if !show(index, item?) {
                break;
            }
        }
        return Ok(());
    }
    let shown = shown.map(|(index, item)| Ok((index, item?))).collect::<Result<Vec<_>>>()?;
    for (index, item) in shown.into_iter().rev() {
        if !show(index, item) {
            break;
        }
    }
    Ok(())
}
