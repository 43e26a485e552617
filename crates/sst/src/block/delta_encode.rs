//! Encoder of the delta layout, which [`super::delta`] describes.

use super::header::FLAG_WIDE_OFFSETS;
use super::staged::Staged;
use super::tags::TagCoding;
use esker_base::coding::{put_varint, varint_len};

/// Bytes in front of the entries: tag coding, restart interval, number of hash slots, two zero bytes.
pub(crate) const PAYLOAD_HEADER_BYTES: usize = 16;

/// A hash slot that no key claims: no key of the block has such a hash.
pub(crate) const SLOT_EMPTY: u8 = 255;
/// A hash slot that keys of different restart points claim: only a binary search can tell.
pub(crate) const SLOT_CANCELLED: u8 = 254;
/// A byte can name this many restart points; blocks with more have no hash index.
pub(crate) const MOST_INDEXED_RESTARTS: usize = 254;
/// Most hash slots of a block: their number has two bytes.
const MOST_SLOTS: usize = u16::MAX as usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeltaOptions {
    /// Entries from one restart point to the next, at least 1.
    pub(crate) restart_interval: u16,
    /// Hash slots for a hundred entries; 0 for no hash index.
    pub(crate) hash_slots_percent: u16,
}

impl DeltaOptions {
    /// Most hash slots for a hundred entries.
    pub(crate) const MAX_HASH_SLOTS_PERCENT: u16 = 400;

    /// Bytes of entry number `index`, without its tag.
    #[inline]
    pub(crate) fn entry_len(
        &self,
        index: usize,
        shared_len: usize,
        key_len: usize,
        value_len: usize,
    ) -> usize {
        let shared_len = self.stored_shared_len(index, shared_len);
        let unshared_len = key_len - shared_len;
        varint_len(shared_len as u64)
            + varint_len(unshared_len as u64)
            + varint_len(value_len as u64)
            + unshared_len
            + value_len
    }

    /// Bytes of a payload without the entries themselves, with narrow offsets.
    pub(crate) fn fixed_len(&self, entries: usize) -> usize {
        PAYLOAD_HEADER_BYTES + 2 * self.restarts(entries) + self.slots(entries)
    }

    fn restarts(&self, entries: usize) -> usize {
        entries.div_ceil(usize::from(self.restart_interval))
    }

    fn slots(&self, entries: usize) -> usize {
        if self.restarts(entries) > MOST_INDEXED_RESTARTS {
            return 0;
        }
        (entries * usize::from(self.hash_slots_percent) / 100).min(MOST_SLOTS)
    }

    fn stored_shared_len(&self, index: usize, shared_len: usize) -> usize {
        if index.is_multiple_of(usize::from(self.restart_interval)) { 0 } else { shared_len }
    }
}

#[inline(always)]
pub(crate) fn slot_of(hash: u64, slots: usize) -> usize {
    // The upper half of the hash times a number below 2^16, scaled down: below `slots`.
    ((hash >> 32) as usize * slots) >> 32
}

/// Appends the payload of the staged entries, at least one, to `out`; returns the header's flags.
pub(crate) fn encode(staged: &Staged, options: DeltaOptions, out: &mut Vec<u8>) -> u8 {
    let start = out.len();
    let count = staged.entries().len();
    let (tags, slots) = (staged.tag_coding(), options.slots(count));
    out.reserve(staged.raw_len() + count * 16 + options.fixed_len(count));
    out.extend_from_slice(&tags.encode());
    out.extend_from_slice(&options.restart_interval.to_le_bytes());
    out.extend_from_slice(&(slots as u16).to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    let mut restarts: Vec<u32> = Vec::with_capacity(options.restarts(count));
    write_entries(staged, options, tags, start, out, &mut restarts);
    // Payloads have less than 4 GiB, so that positions fit four bytes.
    let wide = restarts.last().is_some_and(|&at| at > u32::from(u16::MAX));
    for at in restarts {
        if wide {
            out.extend_from_slice(&at.to_le_bytes());
        } else {
            out.extend_from_slice(&(at as u16).to_le_bytes());
        }
    }
    write_slots(staged, options, slots, out);
    if wide { FLAG_WIDE_OFFSETS } else { 0 }
}

fn write_entries(
    staged: &Staged,
    options: DeltaOptions,
    tags: TagCoding,
    start: usize,
    out: &mut Vec<u8>,
    restarts: &mut Vec<u32>,
) {
    let mut rest = staged.bytes();
    for (i, entry) in staged.entries().iter().enumerate() {
        let (key, after) = rest.split_at(usize::from(entry.key_len));
        let (value, after) = after.split_at(entry.value_len as usize);
        rest = after;
        if i.is_multiple_of(usize::from(options.restart_interval)) {
            restarts.push((out.len() - start) as u32);
        }
        let shared_len = options.stored_shared_len(i, usize::from(entry.shared_len));
        put_varint(out, shared_len as u64);
        put_varint(out, (key.len() - shared_len) as u64);
        put_varint(out, value.len() as u64);
        out.extend_from_slice(&tags.distance(entry.tag).to_le_bytes()[..tags.width()]);
        out.extend_from_slice(&key[shared_len..]);
        out.extend_from_slice(value);
    }
}

/// One byte for each slot: the restart interval in which the keys of the slot first occur.
fn write_slots(staged: &Staged, options: DeltaOptions, slots: usize, out: &mut Vec<u8>) {
    if slots == 0 {
        return;
    }
    let at = out.len();
    out.resize(at + slots, SLOT_EMPTY);
    let mut previous_key_len = None;
    for (i, entry) in staged.entries().iter().enumerate() {
        // Older versions of a key follow the newest; a lookup finds them by walking on from there.
        let is_older_version = previous_key_len == Some(entry.key_len) && entry.shared_len == entry.key_len;
        previous_key_len = Some(entry.key_len);
        if is_older_version {
            continue;
        }
        let restart = (i / usize::from(options.restart_interval)) as u8;
        let slot = &mut out[at + slot_of(entry.hash, slots)];
        *slot = match *slot {
            SLOT_EMPTY => restart,
            same if same == restart => restart,
            _ => SLOT_CANCELLED,
        };
    }
}
