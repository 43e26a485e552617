//! Encoder of the flat layout, which [`super::flat`] describes.

use super::header::BlockHeader;
use super::header::{FLAG_EQUAL_ENTRIES, FLAG_FIXED_SUFFIX, FLAG_WIDE_OFFSETS};
use super::raw::{STEP_BYTES, copy_in_steps, copy_steps};
use super::staged::Staged;
use super::tags::TagCoding;
use crate::simd::{InstructionSet, with_kernel};
use esker_base::coding::varint_len;
use esker_codec::Rows;
use esker_codec::columns::MAX_STRIDE;

/// Bytes in front of the prefix: tag coding, prefix length, suffix length, entry length.
pub(crate) const PAYLOAD_HEADER_BYTES: usize = 16;

pub(super) const HEAD_BYTES: usize = 2;

/// Directory bytes of an entry besides its offset.
pub(super) const FINGERPRINT_AND_HEAD_BYTES: usize = 1 + HEAD_BYTES;

pub(super) const DIRECTORY_BYTES: usize = FINGERPRINT_AND_HEAD_BYTES + 2;

/// Bytes of a payload without the entries, with `directory_bytes` for each in the directory.
pub(crate) fn fixed_len(entries: usize, prefix_len: usize, directory_bytes: usize) -> usize {
    PAYLOAD_HEADER_BYTES + prefix_len + entries * directory_bytes
}

/// Bytes of each entry, if tags, suffixes and values have these lengths. `None` if the payload's header
/// cannot state it, or if it is zero, which readers take for entries with offsets.
pub(super) fn stride_of(tag_bytes: usize, suffix_len: usize, value_len: usize) -> Option<u16> {
    u16::try_from(tag_bytes + suffix_len + value_len).ok().filter(|&stride| stride != 0)
}

/// Up to this length of suffix and value, entries are copied in a constant number of steps.
const LONGEST_STEPPED: usize = 128;

/// Bytes that writing entries may touch behind the last of them, in the source and in the destination.
pub(super) const ENTRY_SLACK: usize = LONGEST_STEPPED;

/// The byte of a key's hash that the directory holds.
#[inline(always)]
pub(crate) fn fingerprint(hash: u64) -> u8 {
    (hash >> 24) as u8
}

/// The first two bytes of a suffix, big-endian, zero-padded.
#[inline(always)]
pub(crate) fn head_of_suffix(suffix: &[u8]) -> u16 {
    match suffix {
        [first, second, ..] => u16::from_be_bytes([*first, *second]),
        [only] => u16::from_be_bytes([*only, 0]),
        [] => 0,
    }
}

/// Where rows of integers lie in a payload that was just encoded, for codecs that pack integers: offsets and
/// heads, or heads and entries where these have one length, unless that is longer than a row may be.
/// Fingerprints are as good as random.
///
/// Returns the rows and their number.
pub(crate) fn rows(header: &BlockHeader, payload: &[u8]) -> ([Rows; 2], usize) {
    let count = header.entries as usize;
    let field = |at: usize| usize::from(u16::from_le_bytes([payload[at], payload[at + 1]]));
    let (prefix_len, stride) = (field(10), field(14));
    let fingerprints_end = PAYLOAD_HEADER_BYTES + prefix_len + count;
    if header.flags & FLAG_EQUAL_ENTRIES != 0 {
        let entries_at = fingerprints_end + HEAD_BYTES * count;
        let heads = Rows { start: fingerprints_end, stride: HEAD_BYTES, count };
        return (
            [heads, Rows { start: entries_at, stride, count }],
            if stride <= MAX_STRIDE { 2 } else { 1 },
        );
    }
    let offset_bytes = if header.wide_offsets() { 4 } else { 2 };
    let heads_at = fingerprints_end + count * offset_bytes;
    let offsets = Rows { start: fingerprints_end, stride: offset_bytes, count };
    ([offsets, Rows { start: heads_at, stride: HEAD_BYTES, count }], 2)
}

struct Plan {
    prefix_len: usize,
    tags: TagCoding,
    fixed_suffix: bool,
    /// Bytes of each entry, if all have the same.
    stride: Option<u16>,
    wide: bool,
    fingerprints_at: usize,
    offsets_at: usize,
    heads_at: usize,
    entries_at: usize,
    len: usize,
    /// Steps in which each entry can be copied, if all are short and the payload is plain; else 0.
    steps: usize,
}

impl Plan {
    fn of(staged: &Staged) -> Plan {
        let count = staged.entries().len();
        let prefix_len = staged.common_prefix_len();
        let tags = staged.tag_coding();
        let fixed_suffix = staged.has_equal_lengths();
        let mut contents = staged.raw_len() - count * prefix_len + count * tags.width();
        if !fixed_suffix {
            let suffix_len = |key_len: u16| u64::from(key_len) - prefix_len as u64;
            contents += staged.entries().iter().map(|e| varint_len(suffix_len(e.key_len))).sum::<usize>();
        }
        let fingerprints_at = PAYLOAD_HEADER_BYTES + prefix_len;
        let stride = staged
            .equal_value_len()
            .filter(|_| fixed_suffix)
            .and_then(|value_len| stride_of(tags.width(), staged.last_key().len() - prefix_len, value_len));
        // The last entry may reach beyond what two bytes can state; its start may not.
        let narrow_len = fixed_len(count, prefix_len, DIRECTORY_BYTES) + contents;
        let last_len = staged.entries().last().map_or(0, |last| last.value_len as usize);
        let wide = stride.is_none() && narrow_len - last_len > usize::from(u16::MAX);
        let offset_bytes = match (stride, wide) {
            (Some(_), _) => 0,
            (None, false) => 2,
            (None, true) => 4,
        };
        let offsets_at = fingerprints_at + count;
        let heads_at = offsets_at + count * offset_bytes;
        let entries_at = heads_at + HEAD_BYTES * count;
        let len = entries_at + contents;
        let longest_value = staged.entries().iter().map(|entry| entry.value_len).max().unwrap_or(0) as usize;
        let longest = staged.last_key().len() - prefix_len + longest_value;
        let is_stepped = fixed_suffix && !wide && longest <= LONGEST_STEPPED;
        let steps = if is_stepped { longest.div_ceil(STEP_BYTES) } else { 0 };
        Plan {
            prefix_len,
            tags,
            fixed_suffix,
            stride,
            wide,
            fingerprints_at,
            offsets_at,
            heads_at,
            entries_at,
            len,
            steps,
        }
    }

    fn flags(&self) -> u8 {
        let wide = if self.wide { FLAG_WIDE_OFFSETS } else { 0 };
        let equal = if self.stride.is_some() { FLAG_EQUAL_ENTRIES } else { 0 };
        wide | equal | if self.fixed_suffix { FLAG_FIXED_SUFFIX } else { 0 }
    }
}

/// Appends the payload of the staged entries, at least one, to `out`; returns the header's flags.
pub(crate) fn encode(staged: &Staged, out: &mut Vec<u8>) -> u8 {
    let plan = Plan::of(staged);
    let start = out.len();
    out.reserve(plan.len + ENTRY_SLACK + 8);
    out.extend_from_slice(&plan.tags.encode());
    out.extend_from_slice(&(plan.prefix_len as u16).to_le_bytes());
    let suffix_len = if plan.fixed_suffix { staged.last_key().len() - plan.prefix_len } else { 0 };
    out.extend_from_slice(&(suffix_len as u16).to_le_bytes());
    out.extend_from_slice(&plan.stride.unwrap_or(0).to_le_bytes());
    out.extend_from_slice(&staged.bytes()[..plan.prefix_len]);
    // SAFETY: `plan.len` bytes and the slack of a copy and a tag behind them were reserved from `start`, and
    // `write_entries` initialises everything from here to `plan.len`.
    unsafe {
        write_in_steps(staged, &plan, out.as_mut_ptr().add(start));
        out.set_len(start + plan.len);
    }
    plan.flags()
}

/// [`write_entries`] compiled for this machine's vectors, so that a step of 32 bytes is one instruction, and
/// for the shape that most blocks have or for any.
///
/// # Safety
/// As [`write_entries`].
unsafe fn write_in_steps(staged: &Staged, plan: &Plan, to: *mut u8) {
    with_kernel!(
        InstructionSet::detect(),
        |_K| (staged: &Staged, plan: &Plan, to: *mut u8) -> () {
            // SAFETY: guaranteed by the caller.
            unsafe {
                match plan.steps {
                    1 => write_entries::<true, 1>(staged, plan, to),
                    2 => write_entries::<true, 2>(staged, plan, to),
                    3 => write_entries::<true, 3>(staged, plan, to),
                    4 => write_entries::<true, 4>(staged, plan, to),
                    _ if plan.fixed_suffix && !plan.wide => write_entries::<true, 0>(staged, plan, to),
                    _ => write_entries::<false, 0>(staged, plan, to),
                }
            }
        }
        (staged, plan, to)
    );
}

/// Writes directory and entries: everything behind the prefix. `PLAIN`: suffixes have one length and no
/// offset is wide. `STEPS`: the number of steps in which every entry is copied without a branch; 0 if each
/// needs its own.
///
/// # Safety
/// `plan.len + ENTRY_SLACK + 8` bytes from `to` must be writable, `plan` must be that of `staged`, and as
/// plain as `PLAIN` says.
#[inline(always)]
unsafe fn write_entries<const PLAIN: bool, const STEPS: usize>(staged: &Staged, plan: &Plan, to: *mut u8) {
    let mut from = staged.bytes().as_ptr();
    let mut at = plan.entries_at;
    let (prefix_len, equal_len) = (plan.prefix_len, staged.last_key().len());
    for (i, entry) in staged.entries().iter().enumerate() {
        let key_len = if PLAIN { equal_len } else { usize::from(entry.key_len) };
        let suffix_len = key_len - prefix_len;
        let own_len = suffix_len + entry.value_len as usize;
        // SAFETY: `from` walks over the keys and values of `staged`, which has `ENTRY_SLACK` bytes of
        // capacity behind them; `at` walks over the entries, whose lengths `plan` added up to `plan.len`;
        // directory positions lie in front of `entries_at`. A copy in steps may spill into bytes that a later
        // entry overwrites, never backwards.
        unsafe {
            let own = from.add(prefix_len);
            to.add(plan.fingerprints_at + i).write(fingerprint(entry.hash));
            if plan.wide && !PLAIN {
                to.add(plan.offsets_at + 4 * i).cast::<[u8; 4]>().write((at as u32).to_le_bytes());
            } else {
                to.add(plan.offsets_at + 2 * i).cast::<[u8; 2]>().write((at as u16).to_le_bytes());
            }
            // Without offsets, heads lie in their place; the head overwrites what was just written.
            let head = head_of_suffix(std::slice::from_raw_parts(own, suffix_len));
            to.add(plan.heads_at + 2 * i).cast::<[u8; 2]>().write(head.to_le_bytes());
            // Eight bytes are written whatever the width; the excess is overwritten.
            to.add(at).cast::<[u8; 8]>().write(plan.tags.distance(entry.tag).to_le_bytes());
            at += plan.tags.width();
            if !plan.fixed_suffix && !PLAIN {
                at = write_varint(to, at, suffix_len);
            }
            // The value follows the key in source and destination.
            if STEPS > 0 {
                copy_steps::<STEPS>(own, to.add(at));
            } else {
                copy_in_steps(own, to.add(at), own_len);
            }
            at += own_len;
            from = own.add(own_len);
        }
    }
    debug_assert_eq!(at, plan.len);
}

/// # Safety
/// Three bytes from `to + at` must be writable; `value` must fit 16 bits.
#[inline(always)]
unsafe fn write_varint(to: *mut u8, mut at: usize, mut value: usize) -> usize {
    while value >= 0x80 {
        // SAFETY: at most two groups before the last.
        unsafe { to.add(at).write(value as u8 | 0x80) };
        value >>= 7;
        at += 1;
    }
    // SAFETY: the third byte at most.
    unsafe { to.add(at).write(value as u8) };
    at + 1
}
