//! Fast LZ4 encoder in one pass, for the blocks of tables: a few KiB, in which repetitions are long or near.
//!
//! An encoder of this kind has a table with the newest position of each hash of four bytes. It looks up
//! positions of the block, and takes an entry as a match if the bytes agree. Most of its time goes to failing
//! lookups: a value of 100 bytes whose second half repeats the first is one match behind 66 bytes that repeat
//! nothing. The usual encoders look up and enter each position at first, and take larger steps the longer no
//! match is found. That loses matches, also long ones: where every fourth position is looked up and entered,
//! no match is found whose distance is not a multiple of four.
//!
//! Here the two are separate: **every `l`-th position is looked up, every `e`-th entered, and `l` and `e` are
//! coprime.** So whatever its distance, among `l * e` positions of a match there is one that is looked up and
//! lies that distance behind one that was entered. The match is found there and extended backwards to its
//! start. Entering takes a fifth of looking up, so `l` is the larger one. A search
//! ([`FastMatchFinder::search`]) goes through
//!
//! 1. [`DENSE_BYTES`] positions, each of which is looked up and entered. In text it seldom goes further.
//! 2. Windows of twelve positions, `l = 3` and `e = 2`: no match of nine bytes within them is lost, but to
//!    equal hashes.
//! 3. After each [`STRETCH_BYTES`] of such windows but the first a gap, the next one longer by [`GAP_BYTES`]
//!    until it has [`LONGEST_GAP_BYTES`], because a long search makes a match unlikely. Windows stay
//!    together: a stretch of them finds repetitions within itself, while single ones with gaps between them
//!    would miss them wherever gaps and distances disagree.
//!
//! If a search went beyond 1 and found a match of [`LONG_MATCH`] bytes, values and their repetitions are
//! long. So the next search is coarse: [`COARSE_DENSE_BYTES`] positions as in 1, then [`COARSE_WINDOWS`]
//! windows of 24 positions with `l = 8` and `e = 3`, which lose no match of 27 bytes, and only then 2.
//!
//! It leaves out a second candidate of a hash, a longer match that begins a byte later, and positions inside
//! of matches (but one, two bytes before the end). [`high`](super::high) does all of that.
//!
//! Costs, beside `lz4_flex` with its checks of bounds: 0.4 of the time for entries of 16 + 100 bytes with
//! values as above, and 2 % smaller; about as long for text, JSON and integers of 8 bytes, and as small
//! within half a percent. Blocks of more than 64 KiB in which matches are short take up to 1.5 times as long.
//! `docs/design/performance/compaction.md` has the table.

use super::format::{
    LAST_LITERALS, LAST_MATCH_START, MAX_DISTANCE, MIN_MATCH, longest_len, token, write_extra,
};
use crate::compress::grown;
use esker_base::key::common_prefix_len;
use esker_base::with_thread_buffer;
use std::cell::RefCell;
use std::ops::ControlFlow::{self, Break, Continue};

/// Hash buckets of two bytes, cleared for each block, while sixteen bits hold every position.
const BUCKETS: usize = 4 << 10;
const FAR_BUCKETS: usize = 8 << 10;
/// Positions after a match that are all looked up.
const DENSE_BYTES: usize = 32;
/// The same in a coarse search.
const COARSE_DENSE_BYTES: usize = 4;
/// Least length of matches that coarse windows never miss: 8 * 3 positions, and three more bytes that are
/// compared with the last.
const LONG_MATCH: usize = 27;
/// Windows of a coarse search before the finer ones.
const COARSE_WINDOWS: usize = 5;
/// Bytes that are searched without a gap: eight windows.
const STRETCH_BYTES: usize = 96;
/// Growth of the gap, and its limit.
const GAP_BYTES: usize = 32;
const LONGEST_GAP_BYTES: usize = 256;
/// Literals are copied in pieces of this length, the last one of which may write beyond their end.
const PIECE_BYTES: usize = 16;

thread_local! {
    static NEWEST: RefCell<Box<[u16; BUCKETS]>> = RefCell::new(empty_table());
    static FAR_NEWEST: RefCell<Box<[u16; FAR_BUCKETS]>> = RefCell::new(empty_table());
}

fn empty_table<const BUCKETS: usize>() -> Box<[u16; BUCKETS]> {
    Box::new([0; BUCKETS])
}

/// The block at the start of `scratch`.
pub(crate) fn compress(raw: &[u8], scratch: &mut Vec<u8>) -> usize {
    let bytes = grown(scratch, longest_len(raw.len()) + PIECE_BYTES);
    if raw.len() <= MAX_DISTANCE + 1 {
        with_thread_buffer(&NEWEST, empty_table, |newest| {
            write(FastMatchFinder::new(raw, newest), Output { bytes, len: 0 })
        })
    } else {
        with_thread_buffer(&FAR_NEWEST, empty_table, |newest| {
            write(FastMatchFinder::new(raw, newest), Output { bytes, len: 0 })
        })
    }
}

/// Writes the block that the finder searches; returns its length.
fn write<const LEN: usize>(mut finder: FastMatchFinder<'_, LEN>, mut out: Output<'_>) -> usize {
    let raw = finder.raw;
    let mut written = 0;
    let mut is_coarse = false;
    // Position 0 is what empty buckets contain.
    let mut start = 1;
    while let Break(Match { mut at, mut from }) = finder.search(start, is_coarse) {
        let is_late = at - written >= DENSE_BYTES;
        while at > written && from > 0 && raw[at - 1] == raw[from - 1] {
            at -= 1;
            from -= 1;
        }
        let rest = &raw[at + MIN_MATCH..raw.len() - LAST_LITERALS];
        let len = MIN_MATCH + common_prefix_len(rest, &raw[from + MIN_MATCH..][..rest.len()]);
        is_coarse = is_late && len >= LONG_MATCH;
        out.write_sequence(raw, written, at, at - from, len);
        written = at + len;
        start = written;
        finder.enter(written - 2, word(raw, written - 2));
    }
    out.write_last(&raw[written..]);
    out.len
}

/// A match: the bytes at `at` are also at `from`, which is before it; four of them at least.
struct Match {
    at: usize,
    from: usize,
}

/// Finds matches from front to back: positions are entered in ascending order.
struct FastMatchFinder<'a, const LEN: usize> {
    raw: &'a [u8],
    /// The low bits of the newest position that was entered with each hash.
    newest: &'a mut [u16; LEN],
}

impl<'a, const LEN: usize> FastMatchFinder<'a, LEN> {
    /// Whether positions exceed sixteen bits.
    const IS_FAR: bool = LEN == FAR_BUCKETS;

    fn new(raw: &'a [u8], newest: &'a mut [u16; LEN]) -> Self {
        // So the bytes do not depend on earlier blocks. Zero is a valid position: bytes are compared anyway.
        newest.fill(0);
        FastMatchFinder { raw, newest }
    }

    /// Searches from `start` on as the module describes, and breaks with the first match.
    #[inline(always)]
    fn search(&mut self, start: usize, is_coarse: bool) -> ControlFlow<Match> {
        let Some(last) = self.raw.len().checked_sub(LAST_MATCH_START) else { return Continue(()) };
        let close_bytes = if is_coarse { COARSE_DENSE_BYTES } else { DENSE_BYTES };
        let mut at = start + close_bytes;
        for at in start..at.min(last + 1) {
            self.visit(at, word(self.raw, at))?;
        }
        if is_coarse {
            let end = at + COARSE_WINDOWS * 24;
            while at < end && at + 24 <= last {
                self.search_for_long(at)?;
                at += 24;
            }
        }
        let (mut end, mut gap) = (at + STRETCH_BYTES, 0);
        while at + 12 <= last {
            self.search_for_short(at)?;
            at += 12;
            if at >= end {
                at += gap;
                gap = (gap + GAP_BYTES).min(LONGEST_GAP_BYTES);
                end = at + STRETCH_BYTES;
            }
        }
        (at..=last).try_for_each(|at| self.visit(at, word(self.raw, at)))
    }

    /// Twelve positions from `at` on: every third is looked up, every second entered.
    #[inline(always)]
    fn search_for_short(&mut self, at: usize) -> ControlFlow<Match> {
        let window = &self.raw[at..at + 12 + MIN_MATCH];
        self.visit(at, word(window, 0))?;
        self.enter(at + 2, word(window, 2));
        self.look_up(at + 3, word(window, 3))?;
        self.enter(at + 4, word(window, 4));
        self.visit(at + 6, word(window, 6))?;
        self.enter(at + 8, word(window, 8));
        self.look_up(at + 9, word(window, 9))?;
        self.enter(at + 10, word(window, 10));
        Continue(())
    }

    /// 24 positions from `at` on: every eighth is looked up, every third entered.
    #[inline(always)]
    fn search_for_long(&mut self, at: usize) -> ControlFlow<Match> {
        let window = &self.raw[at..at + 24 + MIN_MATCH];
        self.visit(at, word(window, 0))?;
        self.enter(at + 3, word(window, 3));
        self.enter(at + 6, word(window, 6));
        self.look_up(at + 8, word(window, 8))?;
        self.enter(at + 9, word(window, 9));
        self.enter(at + 12, word(window, 12));
        self.enter(at + 15, word(window, 15));
        self.look_up(at + 16, word(window, 16))?;
        self.enter(at + 18, word(window, 18));
        self.enter(at + 21, word(window, 21));
        Continue(())
    }

    /// Looks up a position and enters it.
    #[inline(always)]
    fn visit(&mut self, at: usize, word: u32) -> ControlFlow<Match> {
        let found = self.look_up(at, word);
        self.enter(at, word);
        found
    }

    /// Breaks if a position before `at` starts with the same four bytes.
    #[inline(always)]
    fn look_up(&self, at: usize, sought: u32) -> ControlFlow<Match> {
        let low = self.newest[Self::bucket(sought)];
        // Entries lie before `at`, so where sixteen bits are not all of a position, they give the distance.
        // An entry 65,536 bytes before looks like `at` itself.
        let distance = usize::from((at as u16).wrapping_sub(low));
        let from = if Self::IS_FAR { at - distance } else { usize::from(low) };
        if word(self.raw, from) == sought && (!Self::IS_FAR || distance > 0) {
            return Break(Match { at, from });
        }
        Continue(())
    }

    #[inline(always)]
    fn enter(&mut self, at: usize, word: u32) {
        self.newest[Self::bucket(word)] = at as u16;
    }

    #[inline(always)]
    fn bucket(word: u32) -> usize {
        (word.wrapping_mul(0x9e37_79b1) >> (u32::BITS - LEN.ilog2())) as usize
    }
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

struct Output<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl Output<'_> {
    /// Literals from `written` to `at`, and the match there.
    #[inline(always)]
    fn write_sequence(&mut self, raw: &[u8], written: usize, at: usize, distance: usize, match_len: usize) {
        let literals = at - written;
        self.push(token(literals, match_len));
        write_extra(literals, |byte| self.push(byte));
        let in_pieces = literals.next_multiple_of(PIECE_BYTES);
        if let Some(source) = raw.get(written..written + in_pieces) {
            let target = &mut self.bytes[self.len..self.len + in_pieces];
            let pieces = target.as_chunks_mut::<PIECE_BYTES>().0.iter_mut();
            for (target, source) in pieces.zip(source.as_chunks::<PIECE_BYTES>().0) {
                *target = *source;
            }
        } else {
            self.bytes[self.len..self.len + literals].copy_from_slice(&raw[written..at]);
        }
        self.len += literals;
        // Distances end where two bytes do.
        self.bytes[self.len..self.len + 2].copy_from_slice(&(distance as u16).to_le_bytes());
        self.len += 2;
        write_extra(match_len - MIN_MATCH, |byte| self.push(byte));
    }

    fn write_last(&mut self, literals: &[u8]) {
        self.push(token(literals.len(), MIN_MATCH));
        write_extra(literals.len(), |byte| self.push(byte));
        self.bytes[self.len..self.len + literals.len()].copy_from_slice(literals);
        self.len += literals.len();
    }

    #[inline(always)]
    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }
}
