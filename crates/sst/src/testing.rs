//! Entries for tests: shapes of keys that have broken stores before, each from a seed.

use esker_base::{SeqNo, Tag, ValueKind};
use esker_env::{Random, SeededRandom};
use std::cmp::Reverse;

/// One entry, ordered as in tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestEntry {
    pub(crate) key: Vec<u8>,
    pub(crate) tag: Tag,
    pub(crate) value: Vec<u8>,
}

impl TestEntry {
    pub(crate) fn order(&self) -> (&[u8], Reverse<Tag>) {
        (&self.key, Reverse(self.tag))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Sixteen random bytes.
    Random,
    /// `user:0000000042`.
    Decimal,
    /// Every key starts with the one before: "", "a", "aa", ...
    Nested,
    /// Up to six bytes out of three, with zero bytes and the empty key among them.
    Dense,
    /// Short and long ones with long common parts.
    Paths,
    /// Few keys, many versions of each.
    Versions,
    /// Keys of up to 65,535 bytes.
    Giant,
    /// Keys and values of eight bytes and no deletes, as in an index of numbers: entries of one length.
    Records,
}

pub(crate) const SHAPES: [Shape; 8] = [
    Shape::Random,
    Shape::Decimal,
    Shape::Nested,
    Shape::Dense,
    Shape::Paths,
    Shape::Versions,
    Shape::Giant,
    Shape::Records,
];

fn bytes(random: &SeededRandom, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.next_u64() as u8).collect()
}

/// A key of the shape; `spread` is about how many different ones there are.
pub(crate) fn key_of(shape: Shape, spread: u64, random: &SeededRandom) -> Vec<u8> {
    match shape {
        Shape::Random => bytes(random, 16),
        Shape::Decimal => format!("user:{:010}", random.below(spread * 4)).into_bytes(),
        Shape::Nested => vec![b'a'; random.below(spread.min(400)) as usize],
        Shape::Dense => {
            (0..random.below(7)).map(|_| [0, 1, 0xff][random.below(3) as usize]).collect::<Vec<u8>>()
        }
        Shape::Paths => {
            let mut key = b"/srv/data/tenants/0001/".to_vec();
            for _ in 0..random.below(4) {
                key.extend_from_slice([&b"images/"[..], b"documents/2024/", b"x/"][random.below(3) as usize]);
            }
            key.extend_from_slice(random.below(spread).to_string().as_bytes());
            key
        }
        Shape::Versions => random.below((spread / 40).max(2)).to_be_bytes().to_vec(),
        Shape::Giant => {
            let len = [65_535, 65_534, 40_000, 300, 97, 96, 95][random.below(7) as usize];
            let mut key = vec![b'g'; len];
            let at = key.len() - 1 - random.below(20) as usize;
            key[at] = random.next_u64() as u8;
            key
        }
        Shape::Records => (1_000_000 + random.below(spread * 4)).to_be_bytes().to_vec(),
    }
}

/// About `count` entries with tags below `seqnos`, in internal order without duplicates.
///
/// With `seqnos` of 0 there is one version a key, a put with sequence number 0.
pub(crate) fn entries(shape: Shape, count: usize, seqnos: u64, random: &SeededRandom) -> Vec<TestEntry> {
    let mut entries: Vec<TestEntry> = (0..count)
        .map(|_| {
            let key = key_of(shape, count as u64, random);
            let kind = match random.below(5) {
                0 if seqnos > 0 && shape != Shape::Records => ValueKind::Delete,
                _ => ValueKind::Put,
            };
            let seqno = if seqnos == 0 { 0 } else { 1 + random.below(seqnos) };
            let len = match random.below(20) {
                _ if shape == Shape::Records => 8,
                0 => random.below(700),
                1 => 0,
                _ => 8,
            };
            let value = if kind == ValueKind::Put { bytes(random, len as usize) } else { Vec::new() };
            TestEntry { key, tag: Tag::new(SeqNo::new(seqno), kind), value }
        })
        .collect();
    entries.sort_by(|a, b| a.order().cmp(&b.order()));
    // A sequence number belongs to one operation, whatever its kind.
    entries.dedup_by(|b, a| a.key == b.key && a.tag.seqno() == b.tag.seqno());
    entries
}

/// The entry that a reader at `seqno` should find.
pub(crate) fn expected<'a>(entries: &'a [TestEntry], key: &[u8], seqno: SeqNo) -> Option<&'a TestEntry> {
    let newest = Tag::visible_at(seqno);
    let at = entries.partition_point(|entry| entry.order() < (key, Reverse(newest)));
    entries.get(at).filter(|entry| entry.key == key)
}
