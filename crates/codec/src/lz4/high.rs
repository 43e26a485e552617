//! Thorough LZ4 encoder: the longest match at each position within a number of tries, then the cheapest parse
//! of the block.
//!
//! The reference has such an encoder too ("HC"), in C. This one is 200 lines of safe Rust and needs no C
//! library. For blocks of a few KiB its tables, sized by the block, are cheaper to clear than the reference's
//! 256 KiB.
//!
//! 1. Positions are chained by a hash of their next four bytes. At each, some earlier ones are tried, newest
//!    first ([`TRIES`]). A match of [`LONG_MATCH`] bytes ends the search and is reused for the positions
//!    inside of it, so that runs cost no more than text.
//! 2. In LZ4 every match costs the same three bytes, whatever its distance, and more only beyond 18 bytes. So
//!    with the longest match of each position known, the least cost from a position to the end is computed
//!    from the back, and any prefix of the longest match is a match as well. The length bytes of long runs of
//!    literals are left out of the sum; with them the result would be optimal.
//!
//! The block is encoded in segments of [`SEGMENT_BYTES`], which bounds the tables; matches end with the
//! segment but may begin before it.
//!
//! Costs, at level 9: 20 to 30 MB/s to write, the size of text and JSON 7 % below that of LZ4, of repeating
//! values 30 %, reading as fast or faster.

use super::format::{
    EXTRA_MAX, LAST_LITERALS, LAST_MATCH_START, MAX_DISTANCE, MIN_MATCH, TOKEN_MAX, token, write_extra,
};
use esker_base::key::common_prefix_len;
use esker_base::with_thread_buffer;
use std::cell::RefCell;

/// Positions whose costs are computed together: 12 bytes of table for each.
const SEGMENT_BYTES: usize = 16 << 10;
/// A match of this length is taken without further search.
const LONG_MATCH: usize = 64;
/// Earlier positions tried by each level, at every position; the reference's try up to 4,096.
const TRIES: [u32; 12] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 24, 64, 256];
/// Most hash buckets: one for each two positions within reach.
const MAX_HASH_BITS: u32 = 15;
const MIN_HASH_BITS: u32 = 8;

/// A position in the segment: its longest match, then its cheapest step.
#[derive(Clone, Copy, Default)]
struct Step {
    /// Least number of bytes from here to the end of the segment.
    cost: u32,
    /// Length of the longest match, then of the one to take; 0 for a literal.
    len: u32,
    distance: u16,
}

#[derive(Default)]
struct ChainMatchFinder {
    hash_bits: u32,
    /// Newest position of each hash, plus one.
    newest: Vec<u32>,
    /// For each position, modulo the reach: distance to the previous one of its hash, or 0.
    before: Vec<u16>,
    steps: Vec<Step>,
}

thread_local! {
    static FINDER: RefCell<ChainMatchFinder> = RefCell::default();
}

/// The block at the start of `scratch`.
pub(crate) fn compress(level: u8, raw: &[u8], scratch: &mut Vec<u8>) -> Option<usize> {
    // Positions are kept in 32 bits; blocks end far below.
    u32::try_from(raw.len()).ok()?;
    scratch.clear();
    let tries = TRIES[usize::from(level.clamp(1, crate::Codec::MAX_LZ4HC_LEVEL)) - 1];
    with_thread_buffer(&FINDER, ChainMatchFinder::default, |finder| {
        finder.empty_for(raw.len());
        let mut anchor = 0;
        let mut start = 0;
        // Only literals follow.
        let matched_end = raw.len().saturating_sub(LAST_LITERALS);
        while start < matched_end {
            let end = (start + SEGMENT_BYTES).min(matched_end);
            finder.find_all(raw, start, end, tries);
            finder.choose();
            anchor = finder.write(raw, start, anchor, scratch);
            start = end;
        }
        write_sequence(&raw[anchor..], None, scratch);
    });
    Some(scratch.len())
}

impl ChainMatchFinder {
    fn empty_for(&mut self, len: usize) {
        self.hash_bits = len.max(2).ilog2().clamp(MIN_HASH_BITS, MAX_HASH_BITS);
        self.newest.clear();
        self.newest.resize(1 << self.hash_bits, 0);
        let reach = len.next_power_of_two().min(MAX_DISTANCE + 1);
        // Entries are written before they are read, so old ones do no harm.
        if self.before.len() < reach {
            self.before.resize(reach, 0);
        }
    }

    /// Enters position `at`; returns the newest earlier one with the same hash.
    fn enter(&mut self, raw: &[u8], at: usize) -> Option<usize> {
        let word = raw[at..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
        let bucket = (word.wrapping_mul(0x9e37_79b1) >> (32 - self.hash_bits)) as usize;
        let found = (self.newest[bucket] as usize).checked_sub(1);
        self.newest[bucket] = at as u32 + 1;
        let distance = found.map_or(0, |found| at - found);
        self.before[at & MAX_DISTANCE] = if distance > MAX_DISTANCE { 0 } else { distance as u16 };
        found.filter(|_| distance <= MAX_DISTANCE)
    }

    /// Fills `steps` with the longest match at each position, none beyond `end`.
    fn find_all(&mut self, raw: &[u8], start: usize, end: usize, tries: u32) {
        self.steps.clear();
        self.steps.resize(end - start + 1, Step::default());
        let last_start = raw.len().saturating_sub(LAST_MATCH_START);
        let mut at = start;
        while at < end && at <= last_start {
            let first = self.enter(raw, at);
            let (len, distance) = self.longest(raw, at, end, first, tries);
            if len < LONG_MATCH {
                if len >= MIN_MATCH {
                    self.steps[at - start] = Step { cost: 0, len: len as u32, distance };
                }
                at += 1;
                continue;
            }
            for inside in 0..len {
                let left = len - inside;
                if inside > 0 && at + inside <= last_start {
                    self.enter(raw, at + inside);
                }
                if left >= MIN_MATCH && at + inside <= last_start {
                    self.steps[at + inside - start] = Step { cost: 0, len: left as u32, distance };
                }
            }
            at += len;
        }
    }

    /// The longest match at `at`, up to `end`, and its distance.
    fn longest(&self, raw: &[u8], at: usize, end: usize, first: Option<usize>, tries: u32) -> (usize, u16) {
        let (mut best, mut best_distance) = (0, 0);
        let mut candidate = first;
        for _ in 0..tries {
            let Some(from) = candidate else { break };
            let distance = at - from;
            // A longer match has to agree where the best one ended.
            if at + best < end && raw[from + best] == raw[at + best] {
                let len = common_prefix_len(&raw[from..], &raw[at..end]);
                if len > best {
                    (best, best_distance) = (len, distance as u16);
                    if len >= LONG_MATCH {
                        break;
                    }
                }
            }
            let further = usize::from(self.before[from & MAX_DISTANCE]);
            candidate =
                from.checked_sub(further).filter(|_| further > 0 && distance + further <= MAX_DISTANCE);
        }
        (best, best_distance)
    }

    /// From the back, the cheapest parse of the segment.
    fn choose(&mut self) {
        for at in (0..self.steps.len() - 1).rev() {
            let longest = self.steps[at].len as usize;
            let mut cheapest = Step { cost: self.steps[at + 1].cost + 1, ..Step::default() };
            let shortest = if longest >= LONG_MATCH { longest } else { MIN_MATCH };
            for len in shortest..=longest {
                let cost = self.steps[at + len].cost + match_cost(len);
                // Of equal costs the longer match: fewer sequences are faster to decode.
                if cost <= cheapest.cost {
                    cheapest = Step { cost, len: len as u32, distance: self.steps[at].distance };
                }
            }
            self.steps[at] = cheapest;
        }
    }

    /// Writes the sequences of the segment that starts at `start`; literals from `anchor` on are not yet
    /// written. Returns the new start of unwritten literals.
    fn write(&self, raw: &[u8], start: usize, mut anchor: usize, out: &mut Vec<u8>) -> usize {
        let mut at = 0;
        while at + 1 < self.steps.len() {
            let Step { len, distance, .. } = self.steps[at];
            if len == 0 {
                at += 1;
                continue;
            }
            write_sequence(&raw[anchor..start + at], Some((len as usize, distance)), out);
            at += len as usize;
            anchor = start + at;
        }
        anchor
    }
}

/// Bytes of a match: the token, the distance, and the part of the length that does not fit the token.
fn match_cost(len: usize) -> u32 {
    let beyond = (len - MIN_MATCH).checked_sub(TOKEN_MAX);
    3 + beyond.map_or(0, |beyond| 1 + beyond / EXTRA_MAX) as u32
}

/// Literals, and the match behind them unless the block ends.
fn write_sequence(literals: &[u8], found: Option<(usize, u16)>, out: &mut Vec<u8>) {
    let match_len = found.map_or(MIN_MATCH, |(len, _)| len);
    out.push(token(literals.len(), match_len));
    write_extra(literals.len(), |byte| out.push(byte));
    out.extend_from_slice(literals);
    if let Some((_, distance)) = found {
        out.extend_from_slice(&distance.to_le_bytes());
        write_extra(match_len - MIN_MATCH, |byte| out.push(byte));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(level: u8, raw: &[u8]) -> usize {
        let mut stored = Vec::new();
        let len = compress(level, raw, &mut stored).unwrap();
        let mut out = vec![0; raw.len()];
        assert_eq!(super::super::decompress(&stored[..len], &mut out).unwrap(), raw.len());
        assert!(out == raw, "level {level}, {} bytes", raw.len());
        len
    }

    #[test]
    fn every_length_around_the_formats_limits_survives() {
        for len in (0..300).chain([16_383, 16_384, 16_385, 16_400, 65_535, 65_536, 65_537, 200_000]) {
            let zeros = vec![0; len];
            let text: Vec<u8> =
                (0..).flat_map(|i: u32| format!("user:{i:06}=").into_bytes()).take(len).collect();
            for level in [1, 5, 12] {
                round_trip(level, &zeros);
                round_trip(level, &text);
            }
        }
    }

    #[test]
    fn more_tries_are_not_worse_and_beat_the_fast_encoder() {
        let words: Vec<Vec<u8>> = (0..300u64).map(|i| format!("w{:x}", i * i * 7919).into_bytes()).collect();
        let mut state = 7u64;
        let mut text = Vec::new();
        while text.len() < 60_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text.extend_from_slice(&words[(state >> 33) as usize % words.len()]);
            text.push(b' ');
        }
        let mut fast = Vec::new();
        let fast = super::super::fast::compress(&text, &mut fast);
        let sizes: Vec<usize> = [1, 4, 7, 10].into_iter().map(|level| round_trip(level, &text)).collect();
        assert!(sizes.windows(2).all(|pair| pair[1] <= pair[0]), "{sizes:?}");
        assert!(sizes[3] * 100 < fast * 90, "{sizes:?} against {fast}");
    }

    /// A match is found up to the greatest distance and not beyond it.
    #[test]
    fn distances_end_where_two_bytes_do() {
        let mut state = 1u64;
        let mut noise = |len: usize| -> Vec<u8> {
            (0..len)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 56) as u8
                })
                .collect()
        };
        let pattern = noise(300);
        for (gap, is_near) in [(65_535 - 300, true), (65_536 - 300, false)] {
            let mut raw = pattern.clone();
            raw.extend(noise(gap));
            raw.extend_from_slice(&pattern);
            raw.extend(noise(20));
            let len = round_trip(12, &raw);
            assert_eq!(len < raw.len(), is_near, "{len} of {}", raw.len());
        }
    }
}
