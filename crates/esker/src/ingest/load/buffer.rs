//! Sort buffer: entries in memory in the order of arrival, sorted on demand.

use esker_base::{SeqNo, Tag, key};

/// An entry of the buffer: the position of its key, which the value follows, and the first bytes of the key,
/// which decide most comparisons.
#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u64,
    at: u32,
    value_len: u32,
    key_len: u16,
    kind_byte: u8,
}

/// Entries that were added and are not written yet.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    /// Whether keys arrived in strictly ascending order.
    is_ascending: bool,
}

impl Buffer {
    pub(super) fn new() -> Buffer {
        Buffer { bytes: Vec::new(), slots: Vec::new(), is_ascending: true }
    }

    /// Adds an entry whose value is `expiry` and `value` concatenated. The caller keeps the buffer below 4
    /// GiB.
    #[inline]
    pub(super) fn push(&mut self, key: &[u8], kind_byte: u8, expiry: &[u8], value: &[u8]) {
        let head = key::head(key, 0);
        if let Some(last) = self.slots.last() {
            self.is_ascending &= last.head < head || self.key(last) < key;
        }
        let at = self.bytes.len() as u32;
        self.bytes.reserve(key.len() + expiry.len() + value.len());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(expiry);
        self.bytes.extend_from_slice(value);
        let value_len = (expiry.len() + value.len()) as u32;
        self.slots.push(Slot { head, at, value_len, key_len: key.len() as u16, kind_byte });
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of memory of the entries.
    #[inline]
    pub(super) fn used_bytes(&self) -> usize {
        self.bytes.len() + self.slots.len() * size_of::<Slot>()
    }

    /// Whether the entries arrived in ascending order, all of them above `after`.
    pub(super) fn ascends_after(&self, after: Option<&[u8]>) -> bool {
        let first = self.slots.first().map(|slot| self.key(slot));
        self.is_ascending && first.is_none_or(|first| after.is_none_or(|after| after < first))
    }

    /// The entries in order of arrival: key, kind byte, value.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], u8, &[u8])> {
        self.slots.iter().map(|slot| (self.key(slot), slot.kind_byte, self.value(slot)))
    }

    /// Sorts by key; of entries with one key only the last added one stays.
    pub(super) fn sort(&mut self) {
        if self.is_ascending {
            return;
        }
        let Buffer { bytes, slots, .. } = self;
        let key_of = |slot: &Slot| &bytes[slot.at as usize..][..usize::from(slot.key_len)];
        // Later entries have greater positions; after an entry without any bytes, with the empty key, the
        // next has the same position and is not shorter. So no two different entries are equal, and the
        // faster unstable sort suffices.
        let place = |slot: &Slot| (slot.at, slot.value_len);
        slots.sort_unstable_by(|left, right| {
            let heads = left.head.cmp(&right.head);
            heads.then_with(|| key_of(left).cmp(key_of(right))).then(place(right).cmp(&place(left)))
        });
        slots.dedup_by(|later, kept| later.head == kept.head && key_of(later) == key_of(kept));
        self.is_ascending = true;
    }

    /// Removes the entries and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.slots.clear();
        self.is_ascending = true;
    }

    #[inline]
    fn key(&self, slot: &Slot) -> &[u8] {
        &self.bytes[slot.at as usize..][..usize::from(slot.key_len)]
    }

    #[inline]
    fn value(&self, slot: &Slot) -> &[u8] {
        &self.bytes[slot.at as usize + usize::from(slot.key_len)..][..slot.value_len as usize]
    }

    /// A cursor over the sorted entries, with sequence number `seqno`.
    pub(super) fn into_cursor(mut self, seqno: SeqNo) -> BufferCursor {
        self.sort();
        BufferCursor { at: self.slots.len(), buffer: self, seqno }
    }
}

/// A forward cursor over a sorted buffer.
#[derive(Debug)]
pub(super) struct BufferCursor {
    buffer: Buffer,
    at: usize,
    seqno: SeqNo,
}

impl BufferCursor {
    fn slot(&self) -> &Slot {
        &self.buffer.slots[self.at]
    }

    pub(super) fn seek_to_first(&mut self) {
        self.at = 0;
    }

    #[inline]
    pub(super) fn next(&mut self) {
        self.at += 1;
    }

    #[inline]
    pub(super) fn is_valid(&self) -> bool {
        self.at < self.buffer.slots.len()
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        self.buffer.key(self.slot())
    }

    #[inline]
    pub(super) fn tag(&self) -> Tag {
        Tag::from_parts(self.seqno, self.slot().kind_byte)
    }

    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        self.buffer.value(self.slot())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_equal_keys_stays() {
        let mut buffer = Buffer::new();
        let long = [b"longer than a head, ".as_slice(), b"b"].concat();
        for (key, value) in
            [(b"b".as_slice(), b"1".as_slice()), (&long, b"2"), (b"a", b"3"), (b"b", b"4"), (&long, b"5")]
        {
            buffer.push(key, 1, &[], value);
        }
        assert!(!buffer.ascends_after(None));
        let mut cursor = buffer.into_cursor(SeqNo::new(7));
        cursor.seek_to_first();
        let mut found = Vec::new();
        while cursor.is_valid() {
            found.push((cursor.key().to_vec(), cursor.value().to_vec()));
            assert_eq!(cursor.tag().seqno(), SeqNo::new(7));
            cursor.next();
        }
        let expected =
            [(b"a".to_vec(), b"3".to_vec()), (b"b".to_vec(), b"4".to_vec()), (long, b"5".to_vec())];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_last_of_empty_keys_stays() {
        let mut buffer = Buffer::new();
        for value in [b"1".as_slice(), b"", b"", b"2"] {
            buffer.push(b"", 1, &[], value);
        }
        buffer.sort();
        assert_eq!(buffer.iter().collect::<Vec<_>>(), [(b"".as_slice(), 1, b"2".as_slice())]);
    }

    #[test]
    fn order_is_noticed() {
        let mut buffer = Buffer::new();
        buffer.push(b"b", 1, b"12345678", b"v");
        assert!(buffer.ascends_after(Some(b"a")) && !buffer.ascends_after(Some(b"b")));
        assert_eq!(buffer.iter().next(), Some((b"b".as_slice(), 1, b"12345678v".as_slice())));
        buffer.push(b"c", 1, &[], &[]);
        assert!(buffer.ascends_after(None));
        buffer.push(b"c", 1, &[], &[]);
        assert!(!buffer.ascends_after(None), "an equal key must replace the one before");
        buffer.clear();
        assert!(buffer.len() == 0 && buffer.ascends_after(Some(b"z")));
    }
}
