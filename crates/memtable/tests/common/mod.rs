//! Helpers of the tests: randomness from a seed, key generators, and a model of a memtable.
#![allow(dead_code, reason = "each test uses a part of it")]

use esker_base::{SeqNo, Tag, ValueKind};
use esker_memtable::{ArenaPool, Inserter, Memtable, MemtableKind};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

pub(crate) fn create(kind: MemtableKind, pool: &ArenaPool, bytes: u64) -> (Arc<Memtable>, Inserter) {
    Memtable::create(kind, pool, bytes).expect("address space")
}

/// Miri is thousands of times slower: there, a hundredth of the operations.
pub(crate) fn scaled(count: usize) -> usize {
    if cfg!(miri) { count / 100 } else { count }
}

pub(crate) fn put_tag(seqno: u64) -> Tag {
    Tag::new(SeqNo::new(seqno), ValueKind::Put)
}

/// SplitMix64.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A distribution of keys.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    /// Up to so many random bytes.
    Binary(usize),
    /// Up to so many letters of an alphabet.
    Letters(&'static [u8], usize),
    /// A prefix and so many digits of a number below a bound.
    Decimal(&'static str, usize, u64),
    /// Up to the first length, of which the second is a common part with rare deviations.
    Long(usize, usize),
}

impl Keys {
    pub(crate) fn binary(max_len: usize) -> Keys {
        Keys::Binary(max_len)
    }

    pub(crate) fn letters(alphabet: &'static [u8], max_len: usize) -> Keys {
        Keys::Letters(alphabet, max_len)
    }

    pub(crate) fn decimal(prefix: &'static str, digits: usize, below: u64) -> Keys {
        Keys::Decimal(prefix, digits, below)
    }

    pub(crate) fn long(max_len: usize, common: usize) -> Keys {
        Keys::Long(max_len, common)
    }

    pub(crate) fn next(&mut self, rng: &mut Rng) -> Vec<u8> {
        match *self {
            Keys::Binary(max) => {
                let len = if rng.below(4) == 0 { rng.below(max as u64 + 1) as usize } else { max };
                (0..len).map(|_| rng.next() as u8).collect()
            }
            Keys::Letters(alphabet, max) => {
                let len = rng.below(max as u64 + 1);
                (0..len).map(|_| alphabet[rng.below(alphabet.len() as u64) as usize]).collect()
            }
            Keys::Decimal(prefix, digits, below) => {
                format!("{prefix}{:0digits$}", rng.below(below)).into_bytes()
            }
            Keys::Long(max, common) => {
                let mut key = vec![b'x'; common.min(max)];
                while key.len() < max && rng.below(3) != 0 {
                    key.push(rng.below(3) as u8);
                }
                if rng.below(2) == 0 {
                    let at = rng.below(key.len() as u64) as usize;
                    key[at] = rng.next() as u8;
                }
                if rng.below(3) == 0 {
                    key.truncate(rng.below(key.len() as u64 + 1) as usize);
                }
                key
            }
        }
    }
}

/// All entries, in internal order.
#[derive(Debug, Default)]
pub(crate) struct Model {
    entries: BTreeMap<(Vec<u8>, Reverse<u64>), Vec<u8>>,
    payload_bytes: u64,
    newest: u64,
}

pub(crate) type Seen<'a> = (&'a [u8], Tag, &'a [u8]);

fn seen<'a>((key, value): (&'a (Vec<u8>, Reverse<u64>), &'a Vec<u8>)) -> Seen<'a> {
    (&key.0, Tag::from_raw(key.1.0), value)
}

impl Model {
    pub(crate) fn insert(&mut self, key: Vec<u8>, tag: Tag, value: Vec<u8>) {
        self.payload_bytes += (key.len() + value.len()) as u64;
        self.newest = self.newest.max(tag.seqno().get());
        assert!(self.entries.insert((key, Reverse(tag.raw())), value).is_none());
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    pub(crate) fn newest_seqno(&self) -> u64 {
        self.newest
    }

    pub(crate) fn entries(&self) -> impl DoubleEndedIterator<Item = Seen<'_>> {
        self.entries.iter().map(seen)
    }

    /// The result of `seek`.
    pub(crate) fn from(&self, key: &[u8], seqno: SeqNo) -> Option<Seen<'_>> {
        let start = (key.to_vec(), Reverse(Tag::visible_at(seqno).raw()));
        self.entries.range((Included(start), Unbounded)).next().map(seen)
    }

    /// The result of `seek_before`.
    pub(crate) fn before(&self, key: &[u8]) -> Option<Seen<'_>> {
        let end = (key.to_vec(), Reverse(u64::MAX));
        self.entries.range((Unbounded, Excluded(end))).next_back().map(seen)
    }

    pub(crate) fn after(&self, key: &[u8], tag: Tag) -> Option<Seen<'_>> {
        let start = (key.to_vec(), Reverse(tag.raw()));
        self.entries.range((Excluded(start), Unbounded)).next().map(seen)
    }

    pub(crate) fn preceding(&self, key: &[u8], tag: Tag) -> Option<Seen<'_>> {
        let end = (key.to_vec(), Reverse(tag.raw()));
        self.entries.range((Unbounded, Excluded(end))).next_back().map(seen)
    }

    pub(crate) fn get(&self, key: &[u8], seqno: SeqNo) -> Option<(Tag, &[u8])> {
        self.from(key, seqno).filter(|(found, ..)| *found == key).map(|(_, tag, value)| (tag, value))
    }
}
