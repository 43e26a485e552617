//! Adaptive choice of a codec for each block, by trials on earlier blocks of the same kind of data.
//!
//! Blocks of one table often differ: pictures beside their descriptions, counters beside texts. The defaults
//! are the figures of the course CS265: entropy of a sample of 4 KiB; blocks stay raw that have more than 7.5
//! bits a byte, are shorter than 512 bytes or do not shrink by a factor of 1.2.
//!
//! # Classification and trials
//! A block of 4 KiB is written to a device in 10 us, and LZ4 takes as long to compress it. Trying codecs on
//! each block costs as much as it can save. So each block is *classified* ([`sample::classify`], 0.2 us) as
//! integers, text, binary or noise; and for each kind the [`History`] of the table remembers how the last
//! block was stored. The next ones are stored in the same way until a *trial* is due: at first for every
//! fourth block of a kind, then, while trials agree, half as often each time, down to one block in 64. A
//! remembered codec that does not pay for a block is forgotten at once.
//!
//! A trial takes these steps:
//!
//! 1. Bytes that repeat at the distance of a row: *integers*, for which [`Codec::Delta`](crate::Codec::Delta)
//!    is tried.
//! 2. Bytes of a sample are counted. Too many bits of entropy: compressed already (or encrypted), raw.
//! 3. The codecs of the mode are tried on the block; if it does not shrink by the least ratio it is raw.
//!
//! | mode | integers | else, below 8 KiB | below 256 KiB | longer |
//! |---|---|---|---|---|
//! | speed | what costs less of delta and LZ4 | LZ4 | LZ4 | LZ4 |
//! | balanced | what costs least of raw, delta, LZ4, zstd 1 | the same, without delta | | |
//! | ratio | delta, if it at least halves them | zstd 3 | zstd 6 | zstd 9 |
//!
//! [`cost`] estimates the cost of a block: its bytes on the device when it is written, at rest, and as often
//! as it is read, the time to compress it, and the time to decompress it as often. On a device of 400 MB/s
//! and with four reads LZ4 pays for what shrinks by three tenths, as text and JSON do. Where space matters
//! more than time the mode says so; where the device is faster or slower, or reads are more or fewer, the
//! options do.
//!
//! # Invariants
//! * Equal blocks in equal order give equal bytes: a choice depends on the blocks that the same history has
//!   seen, never on a clock or on the thread. A history belongs to one table.
//! * A block shorter than the minimum stays raw and does not change the history.
//! * The history affects cost only: any block can be read back whatever was remembered.
//!
//! Rejected: measuring codecs when the process starts (two runs would write different tables, and a busy
//! machine misjudges itself); estimating LZ4's ratio from counts of bytes or of repeated words (cheaper than
//! a trial by less than what one trial in 64 saves, and wrong).

mod cost;
mod history;
mod options;
mod sample;

use crate::columns::{self, Codings, Rows};
use crate::compress::grown;
use crate::kind::id;
use crate::{lz4, zstd};
use cost::Encoding;
use esker_base::planted;
pub use history::History;
pub use options::{AdaptiveOptions, Mode};
use sample::{DataKind, IntegerRows};

/// Least shrinking of integers where size alone decides; otherwise the block counts as binary.
const MIN_INTEGER_RATIO: usize = 2;

/// The block at the start of `out`, and its codec; `None` if it should stay raw.
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
    let (kind, found) = sample::classify(raw, rows);
    let block = Block { options, raw, found, limit: options.limit(raw.len()) };
    let Some(encoding) = history.next(kind) else {
        let (encoding, stored) = block.try_encodings(kind, out);
        history.remember(kind, encoding);
        return stored;
    };
    if encoding == Encoding::Raw {
        return None;
    }
    let stored = block.encode(encoding, out).filter(|&(_, len)| block.is_worth(encoding, len));
    if stored.is_none() {
        history.forget(kind);
    }
    stored
}

struct Block<'a> {
    options: &'a AdaptiveOptions,
    raw: &'a [u8],
    /// Where rows of integers lie.
    found: Option<IntegerRows<'a>>,
    /// The longest compressed form worth keeping.
    limit: usize,
}

impl Block<'_> {
    /// A trial: the encoding for blocks of this kind, and the block itself.
    fn try_encodings(&self, kind: DataKind, out: &mut Vec<u8>) -> (Encoding, Option<(u8, usize)>) {
        let is_noise = || sample::entropy_millibits(self.options, self.raw) > self.options.entropy_limit();
        if kind != DataKind::Integers && is_noise() {
            return (Encoding::Raw, None);
        }
        match self.options.mode {
            Mode::Balanced => {
                return self
                    .cheapest(&[Encoding::Raw, Encoding::Integers, Encoding::Lz4, Encoding::Zstd], out);
            }
            // LZ4 finds nothing in noise, but its rows may have a small range.
            Mode::Speed if kind == DataKind::Integers && is_noise() => {
                return self.cheapest(&[Encoding::Integers], out);
            }
            Mode::Speed => return self.cheapest(&[Encoding::Integers, Encoding::Lz4], out),
            Mode::Ratio => {}
        }
        if let Some(stored) = self.encode(Encoding::Integers, out) {
            return (Encoding::Integers, Some(stored));
        }
        if kind == DataKind::Integers && is_noise() {
            return (Encoding::Raw, None);
        }
        let encoding = self.options.encoding();
        self.encode(encoding, out).map_or((Encoding::Raw, None), |stored| (encoding, Some(stored)))
    }

    /// The cheapest of some encodings that shrink the block enough; raw has a cost only if it is among them.
    fn cheapest(&self, encodings: &[Encoding], out: &mut Vec<u8>) -> (Encoding, Option<(u8, usize)>) {
        let (mut best, mut least) = (Encoding::Raw, u64::MAX);
        let (mut stored, mut last) = (None, Encoding::Raw);
        for &encoding in encodings {
            if encoding == Encoding::Raw {
                least = encoding.cost_ps(self.options, self.raw.len(), self.raw.len());
                continue;
            }
            // Too expensive even for an empty result.
            if encoding.cost_ps(self.options, self.raw.len(), 0) >= least {
                continue;
            }
            let encoded = self.encode(encoding, out);
            // Also a trial that fails leaves its bytes in the buffer.
            if encoded.is_some() || !planted!(KeepsNameOfEarlierTrial) {
                last = encoding;
            }
            let Some(encoded) = encoded else { continue };
            let cost = encoding.cost_ps(self.options, self.raw.len(), encoded.1);
            if cost < least {
                (best, least, stored) = (encoding, cost, Some(encoded));
            }
        }
        if best != last && best != Encoding::Raw {
            // A later trial has overwritten the buffer.
            stored = self.encode(best, out);
        }
        (best, stored)
    }

    /// Whether the stored form of a block costs less than the raw one.
    fn is_worth(&self, encoding: Encoding, stored_len: usize) -> bool {
        let raw_len = self.raw.len();
        self.options.mode != Mode::Balanced
            || encoding.cost_ps(self.options, raw_len, stored_len)
                < Encoding::Raw.cost_ps(self.options, raw_len, raw_len)
    }

    /// The block at the start of `out`, if it shrinks enough.
    fn encode(&self, encoding: Encoding, out: &mut Vec<u8>) -> Option<(u8, usize)> {
        let (raw, limit) = (self.raw, self.limit);
        let (codec_id, len) = match encoding {
            Encoding::Raw => return None,
            Encoding::Integers => {
                let is_timed = self.options.mode != Mode::Ratio;
                let limit = if is_timed { limit } else { limit.min(raw.len() / MIN_INTEGER_RATIO) };
                let rows = self.found.as_ref()?.as_slice();
                return columns::compress(Codings::DELTA, raw, rows, limit, out).map(|len| (id::DELTA, len));
            }
            Encoding::Lz4 => (id::LZ4, lz4::fast::compress(raw, out)),
            Encoding::Zstd => {
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

    /// A trial that shrinks the block too little overwrites the buffer of the one before it, whose name the
    /// block would then have.
    #[test]
    fn a_failed_trial_leaves_no_bytes_in_the_block() {
        // Keys that rise by random steps: small differences, and little that LZ4 finds.
        let mut state = 1u64;
        let mut key = 0u64;
        let raw: Vec<u8> = (0..512)
            .flat_map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                key += 1 + (state >> 36);
                key.to_be_bytes()
            })
            .collect();
        for mode in [Mode::Speed, Mode::Balanced, Mode::Ratio] {
            let options = AdaptiveOptions { mode, ..AdaptiveOptions::DEFAULT };
            let mut out = Vec::new();
            let stored = compress(&options, &raw, &[], &mut History::default(), &mut out);
            let Some((id::DELTA, len)) = stored else { panic!("{mode:?}: {stored:?}") };
            let mut found = vec![0; raw.len()];
            assert!(columns::decompress(&out[..len], &mut found).is_ok(), "{mode:?}");
            assert_eq!(found, raw, "{mode:?}");
        }
    }

    /// Otherwise a codec that does not pay any more would be tried in vain for up to 63 blocks.
    #[test]
    fn a_codec_that_does_not_pay_is_forgotten() {
        let options = AdaptiveOptions { mode: Mode::Speed, ..AdaptiveOptions::DEFAULT };
        let (mut history, mut out) = (History::default(), Vec::new());
        let mut next = |raw: &[u8]| compress(&options, raw, &[], &mut history, &mut out).is_some();
        let text = b"some words, and the same again; ".repeat(128);
        assert!((0..5).all(|_| next(&text)));
        // Any of 64 letters: classified as text, and nothing for LZ4 to find.
        let mut state = 1u64;
        let letters: Vec<u8> = (0..4096)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                b'!' + (state >> 58) as u8
            })
            .collect();
        assert!(history.clone().next(DataKind::Text).is_some());
        assert_eq!(sample::classify(&letters, &[]).0, DataKind::Text);
        assert!(compress(&options, &letters, &[], &mut history, &mut out).is_none());
        assert!(history.next(DataKind::Text).is_none());
    }
}
