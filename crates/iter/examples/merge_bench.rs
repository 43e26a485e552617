//! Measures merging, visibility and retention over sources in memory, in nanoseconds per entry.
//!
//! `cargo run --release -p esker-iter --example merge_bench [entries]`
//!
//! Keys are 16 random bytes, values 100 bytes, packed as in blocks. "equal" deals the entries to the sources
//! at random, "one big" gives nine of ten to the first, "prefix" gives all keys a common prefix of 8 bytes
//! that the merge is told of, "untold" does not tell it, "updates" gives each key four versions.

#![expect(clippy::print_stdout, reason = "a program for people")]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use esker_base::{Result, SeqNo, Tag, ValueKind};
use esker_iter::{Boundaries, CompactionIter, Cursor, MergingCursor, Visible};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 5;

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    sources: usize,
    /// Of a hundred entries, so many go to the first source; 0 for an equal share.
    share: u64,
    prefix: &'static [u8],
    skip: usize,
    versions: u64,
}

/// Entries packed one behind the other, as blocks hold them: tag, key, value, all of fixed lengths.
struct Packed {
    bytes: Vec<u8>,
    key_len: usize,
}

const VALUE_LEN: usize = 100;

impl Packed {
    fn new(mut entries: Vec<(Vec<u8>, Tag)>, key_len: usize) -> Packed {
        entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        let mut bytes = Vec::with_capacity(entries.len() * (8 + key_len + VALUE_LEN));
        for (key, tag) in entries {
            bytes.extend_from_slice(&tag.raw().to_le_bytes());
            bytes.extend_from_slice(&key);
            bytes.extend_from_slice(&[1; VALUE_LEN]);
        }
        Packed { bytes, key_len }
    }
}

struct PackedCursor<'a> {
    source: &'a Packed,
    entry: &'a [u8],
    at: usize,
}

impl<'a> PackedCursor<'a> {
    fn new(source: &'a Packed) -> PackedCursor<'a> {
        PackedCursor { source, entry: &[], at: 0 }
    }

    #[inline]
    fn load(&mut self, at: usize) -> Result<()> {
        let len = 8 + self.source.key_len + VALUE_LEN;
        self.at = at;
        self.entry = self.source.bytes.get(at..at.wrapping_add(len)).unwrap_or_default();
        Ok(())
    }
}

impl Cursor for PackedCursor<'_> {
    fn seek_to_first(&mut self) -> Result<()> {
        self.load(0)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let len = 8 + self.source.key_len + VALUE_LEN;
        self.load(self.source.bytes.len().wrapping_sub(len))
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.seek_to_first()?;
        while self.is_valid()
            && (self.key() < key || (self.key() == key && self.tag() > Tag::visible_at(seqno)))
        {
            self.next()?;
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.seek_to_last()?;
        while self.is_valid() && self.key() >= key {
            self.prev()?;
        }
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.load(self.at + self.entry.len())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.load(self.at.wrapping_sub(self.entry.len()))
    }

    #[inline]
    fn is_valid(&self) -> bool {
        !self.entry.is_empty()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        &self.entry[8..8 + self.source.key_len]
    }

    #[inline]
    fn tag(&self) -> Tag {
        Tag::from_raw(u64::from_le_bytes(*self.entry.first_chunk().unwrap_or(&[0; 8])))
    }

    #[inline]
    fn value(&self) -> &[u8] {
        &self.entry[8 + self.source.key_len..]
    }
}

fn build(case: &Case, count: u64) -> Vec<Packed> {
    let mut state = 7;
    let mut sources = vec![Vec::new(); case.sources];
    for number in 0..count / case.versions {
        let mut key = case.prefix.to_vec();
        key.extend(random(&mut state).to_be_bytes());
        key.extend(number.to_be_bytes());
        for version in 0..case.versions {
            let tag = Tag::new(SeqNo::new(number * case.versions + version + 1), ValueKind::Put);
            let to_first = random(&mut state) % 100 < case.share;
            let source = if to_first { 0 } else { random(&mut state) as usize % case.sources };
            sources[source].push((key.clone(), tag));
        }
    }
    let key_len = case.prefix.len() + 16;
    sources.into_iter().map(|entries| Packed::new(entries, key_len)).collect()
}

/// The best of several rounds: other work on the machine only ever adds time.
fn best_ns(entries: u64, mut round: impl FnMut() -> Result<u64>) -> Result<f64> {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        black_box(round()?);
        best = best.min(start.elapsed().as_nanos() as f64 / entries as f64);
    }
    Ok(best)
}

fn row(case: &Case, count: u64) -> Result<()> {
    let sources = build(case, count);
    let merge = || {
        let mut merge = MergingCursor::new(sources.iter().map(PackedCursor::new).collect());
        merge.set_skip(case.skip);
        merge
    };
    let forward = best_ns(count, || {
        let (mut merge, mut sum) = (merge(), 0);
        merge.seek_to_first()?;
        while merge.is_valid() {
            sum += u64::from(merge.key()[0]) + u64::from(merge.value()[0]);
            merge.next()?;
        }
        Ok(sum)
    })?;
    let backward = best_ns(count, || {
        let (mut merge, mut sum) = (merge(), 0);
        merge.seek_to_last()?;
        while merge.is_valid() {
            sum += u64::from(merge.key()[0]) + u64::from(merge.value()[0]);
            merge.prev()?;
        }
        Ok(sum)
    })?;
    let visible = |backward: bool, single_version: bool| {
        best_ns(count, || {
            let (mut visible, mut sum) = (Visible::new(merge(), SeqNo::MAX), 0);
            if single_version {
                visible = visible.assume_single_version();
            }
            if backward {
                visible.seek_to_last()?;
            } else {
                visible.seek_to_first()?;
            }
            while let Some((key, value)) = visible.entry() {
                sum += u64::from(key[0]) + u64::from(value[0]);
                if backward {
                    visible.prev()?;
                } else {
                    visible.next()?;
                }
            }
            Ok(sum)
        })
    };
    let compaction = best_ns(count, || {
        let boundaries = Boundaries::new([], SeqNo::new(count + 1));
        let (mut compaction, mut sum) = (CompactionIter::new(merge(), boundaries, |_, _| true), 0);
        compaction.seek_to_first()?;
        while compaction.is_valid() {
            sum += u64::from(compaction.key()[0]) + u64::from(compaction.value()[0]);
            compaction.next()?;
        }
        Ok(sum)
    })?;
    let (shown, shown_backward) = (visible(false, false)?, visible(true, false)?);
    print!(
        "{:<10} k={:<3} merge {forward:5.1}  backward {backward:5.1}  visible {shown:5.1}  backward {shown_backward:5.1}  \
         compaction {compaction:5.1}",
        case.name, case.sources
    );
    if case.versions == 1 {
        print!("  single version {:5.1}", visible(false, true)?);
    }
    println!();
    Ok(())
}

fn main() -> Result<()> {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    println!("{count} entries, best of {ROUNDS} rounds, ns per entry");
    let equal = Case { name: "equal", sources: 1, share: 0, prefix: b"", skip: 0, versions: 1 };
    for sources in [1, 2, 4, 8, 16, 40] {
        row(&Case { sources, ..equal }, count)?;
    }
    for sources in [2, 4, 8] {
        row(&Case { name: "one big", sources, share: 90, ..equal }, count)?;
    }
    let told = Case { name: "prefix", sources: 4, prefix: b"user0000", skip: 8, ..equal };
    row(&told, count)?;
    row(&Case { name: "untold", skip: 0, ..told }, count)?;
    row(&Case { name: "updates", sources: 4, versions: 4, ..equal }, count)
}
