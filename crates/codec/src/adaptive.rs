//! A codec for each block, by what blocks like it have shown.
//!
//! Data of one table is seldom all alike: pictures lie beside their descriptions, counters beside texts. The
//! course CS265 asks for a choice by block, whose figures are the defaults here: entropy of a sample of 4
//! KiB, nothing compressed that has more than 7.5 bits a byte, is shorter than 512 bytes or does not shrink
//! by a factor of 1.2.
//!
//! # A glance, and now and then a look
//! A block of 4 KiB is written to a device in 10 us, and LZ4 takes as long to compress it. A choice that
//! tries codecs on each block costs as much as it can save. So each block gets a *glance*
//! ([`sample::glance`], 0.2 us) that tells its kind: integers, text, binary or noise; and for each kind the
//! [`History`] of the table remembers how the last one was stored. That is done again, until it is time for a
//! *look*: at first every fourth block of a kind, then, as long as looks agree with each other, half as often
//! each time, down to one block of 64. A remembered codec that turns out not to pay for a block is forgotten
//! at once.
//!
//! A look takes these steps:
//!
//! 1. Bytes that repeat at the distance of a row: *integers*, for which [`Codec::Delta`](crate::Codec::Delta)
//!    is tried.
//! 2. Bytes of a sample are counted. Too many bits of entropy: *already compressed* (or encrypted), raw.
//! 3. The codecs of the mode are tried on the block; what does not shrink by the least ratio is raw.
//!
//! | mode | integers | else, below 8 KiB | below 256 KiB | longer |
//! |---|---|---|---|---|
//! | speed | what costs less of delta and LZ4 | LZ4 | LZ4 | LZ4 |
//! | balanced | what costs least of raw, delta, LZ4, zstd 1 | the same, without delta | | |
//! | ratio | delta, if it at least halves them | zstd 3 | zstd 6 | zstd 9 |
//!
//! What a block costs is told by [`cost`]: its bytes on the device, the time to compress it, and the time to
//! decompress it as often as it is read. On a device of 400 MB/s and with four reads only integers and the
//! most repetitive data are worth it; whoever wants space rather than time sets the mode, whoever has a
//! slower device or fewer reads says so.
//!
//! # Invariants
//! * Equal blocks in equal order give equal bytes: a choice follows from the blocks that the same history has
//!   seen, never from a clock or from the thread. A history is one table's.
//! * A block shorter than the minimum stays raw and leaves no trace in the history.
//! * The history is a matter of cost only: any block can be read back whatever was remembered.
//!
//! Rejected: measuring codecs when the process starts (two runs would write different tables, and a busy
//! machine misjudges itself); guessing how well LZ4 does from counts of bytes or of repeated words (cheaper
//! than trying it by less than what looking at one of 64 saves, and wrong).

mod cost;
mod history;
mod options;
mod sample;

use crate::columns::{self, Codings, Rows};
use crate::compress::grown;
use crate::kind::id;
use crate::{lz4, zstd};
use cost::Way;
pub use history::History;
pub use options::{AdaptiveOptions, Mode};
use sample::{Found, Kind};

/// Where size alone decides, integers must shrink by this factor, or the block is taken as binary.
const MIN_INTEGER_RATIO: usize = 2;

/// The block at the start of `out`, and by which codec; `None` if it should stay raw.
pub(crate) fn compress(
    options: &AdaptiveOptions,
    raw: &[u8],
    rows: &[Rows],
    history: &mut History,
    out: &mut Vec<u8>,
) -> Option<(u8, usize)> {
    if raw.len() < options.min_block_bytes as usize {
        return None;
    }
    let (kind, found) = sample::glance(raw, rows);
    let block = Block { options, raw, found, limit: options.limit(raw.len()) };
    let Some(way) = history.next(kind) else {
        let (way, stored) = block.look(kind, out);
        history.learn(kind, way);
        return stored;
    };
    if way == Way::Raw {
        return None;
    }
    let stored = block.encode(way, out).filter(|&(_, len)| block.is_worth(way, len));
    if stored.is_none() {
        history.forget(kind);
    }
    stored
}

/// A block, and what is known of it.
struct Block<'a> {
    options: &'a AdaptiveOptions,
    raw: &'a [u8],
    /// Where rows of integers lie.
    found: Option<Found<'a>>,
    /// The longest compressed form worth keeping.
    limit: usize,
}

impl Block<'_> {
    /// The way for blocks of this kind, and the block itself.
    fn look(&self, kind: Kind, out: &mut Vec<u8>) -> (Way, Option<(u8, usize)>) {
        let is_noise = || sample::entropy_millibits(self.options, self.raw) > self.options.entropy_limit();
        if kind != Kind::Integers && is_noise() {
            return (Way::Raw, None);
        }
        match self.options.mode {
            Mode::Balanced => return self.cheapest(&[Way::Raw, Way::Integers, Way::Lz4, Way::Zstd], out),
            // For LZ4 there is nothing to find in noise, but its rows may span little.
            Mode::Speed if kind == Kind::Integers && is_noise() => {
                return self.cheapest(&[Way::Integers], out);
            }
            Mode::Speed => return self.cheapest(&[Way::Integers, Way::Lz4], out),
            Mode::Ratio => {}
        }
        if let Some(stored) = self.encode(Way::Integers, out) {
            return (Way::Integers, Some(stored));
        }
        if kind == Kind::Integers && is_noise() {
            return (Way::Raw, None);
        }
        let way = self.options.way();
        self.encode(way, out).map_or((Way::Raw, None), |stored| (way, Some(stored)))
    }

    /// What costs least of some ways that shrink the block enough; raw only costs something if it is among
    /// them.
    fn cheapest(&self, ways: &[Way], out: &mut Vec<u8>) -> (Way, Option<(u8, usize)>) {
        let (mut best, mut least) = (Way::Raw, u64::MAX);
        let (mut stored, mut last) = (None, Way::Raw);
        for &way in ways {
            if way == Way::Raw {
                least = way.cost_ps(self.options, self.raw.len(), self.raw.len());
                continue;
            }
            // Not even if nothing were left of the block.
            if way.cost_ps(self.options, self.raw.len(), 0) >= least {
                continue;
            }
            let Some(encoded) = self.encode(way, out) else { continue };
            last = way;
            let cost = way.cost_ps(self.options, self.raw.len(), encoded.1);
            if cost < least {
                (best, least, stored) = (way, cost, Some(encoded));
            }
        }
        if best != last && best != Way::Raw {
            // Another one was tried into the same memory.
            stored = self.encode(best, out);
        }
        (best, stored)
    }

    /// Whether it was right to store a block so.
    fn is_worth(&self, way: Way, stored_len: usize) -> bool {
        let raw_len = self.raw.len();
        self.options.mode != Mode::Balanced
            || way.cost_ps(self.options, raw_len, stored_len)
                < Way::Raw.cost_ps(self.options, raw_len, raw_len)
    }

    /// The block at the start of `out`, if it shrinks enough.
    fn encode(&self, way: Way, out: &mut Vec<u8>) -> Option<(u8, usize)> {
        let (raw, limit) = (self.raw, self.limit);
        let (codec_id, len) = match way {
            Way::Raw => return None,
            Way::Integers => {
                let is_timed = self.options.mode != Mode::Ratio;
                let limit = if is_timed { limit } else { limit.min(raw.len() / MIN_INTEGER_RATIO) };
                let rows = self.found.as_ref()?.as_slice();
                return columns::compress(Codings::DELTA, raw, rows, limit, out).map(|len| (id::DELTA, len));
            }
            Way::Lz4 => (id::LZ4, lz4::fast::compress(raw, out)),
            Way::Zstd => {
                let level = self.options.zstd_level(raw.len());
                (id::ZSTD, zstd::compress(level, raw, grown(out, limit))?)
            }
        };
        (len <= limit).then_some((codec_id, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise a codec that does not pay any more were tried in vain for up to 63 blocks.
    #[test]
    fn what_does_not_pay_is_forgotten() {
        let options = AdaptiveOptions { mode: Mode::Speed, ..AdaptiveOptions::DEFAULT };
        let (mut history, mut out) = (History::default(), Vec::new());
        let mut next = |raw: &[u8]| compress(&options, raw, &[], &mut history, &mut out).is_some();
        let text = b"some words, and the same again; ".repeat(128);
        assert!((0..5).all(|_| next(&text)));
        // Any of 64 letters: text by a glance, and nothing for LZ4 to find.
        let mut state = 1u64;
        let letters: Vec<u8> = (0..4096)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                b'!' + (state >> 58) as u8
            })
            .collect();
        assert!(history.clone().next(Kind::Text).is_some());
        assert_eq!(sample::glance(&letters, &[]).0, Kind::Text);
        assert!(compress(&options, &letters, &[], &mut history, &mut out).is_none());
        assert!(history.next(Kind::Text).is_none());
    }
}
