//! Carry records: entries of older records, each with its own sequence number.

use super::entry::{BatchDamage, Entry, EntryIter};
use esker_base::SeqNo;

/// Walks the payload of a Carry record: entries of older records, each after its own sequence number (u64).
#[derive(Clone, Debug)]
pub struct CarryIter<'a> {
    entries: EntryIter<'a>,
}

impl<'a> CarryIter<'a> {
    /// Starts at the first entry of a Carry payload.
    pub fn new(payload: &'a [u8]) -> CarryIter<'a> {
        CarryIter { entries: EntryIter::new(payload) }
    }
}

impl<'a> Iterator for CarryIter<'a> {
    type Item = Result<(SeqNo, Entry<'a>), BatchDamage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.entries.rest.is_empty() {
            return None;
        }
        let offset = self.entries.offset();
        let seqno = self.entries.rest.split_first_chunk::<8>().map(|(raw, tail)| {
            self.entries.rest = tail;
            u64::from_le_bytes(*raw)
        });
        let damage = match seqno {
            None => "its sequence number is cut off",
            Some(seqno) if seqno > SeqNo::MAX_STORED.get() => {
                "its sequence number is greater than any database has"
            }
            Some(_) if self.entries.rest.is_empty() => "it ends after its sequence number",
            Some(seqno) => {
                let entry = self.entries.next_general();
                return Some(entry.map(|entry| (SeqNo::new(seqno), entry)));
            }
        };
        self.entries.rest = &[];
        Some(Err(BatchDamage { offset, reason: damage }))
    }
}
