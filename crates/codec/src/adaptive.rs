//! A codec for each block, by a look at a sample of it.
//!
//! Data of one table is seldom all alike: pictures lie beside their descriptions, counters beside texts. The course CS265 asks for
//! a choice by block, whose figures are the defaults here: entropy of a sample of 4 KiB, nothing compressed that has
//! more than 7.5 bits a byte, is shorter than 512 bytes or does not shrink by a factor of 1.2.
//!
//! 1. A block shorter than the minimum stays raw.
//! 2. Bytes that repeat at the distance of a row: *integers*, which go to [`Codec::Delta`], kept if that at least
//!    halves them.
//! 3. Bytes of a sample are counted ([`sample`]). Too many bits of entropy: *already compressed* (or encrypted), raw.
//! 4. Nine of ten bytes printable: *text*, JSON and XML among it.
//! 5. Everything else is *binary*.
//! 6. Text and binary are compressed as the mode says, harder the longer they are, because a longer block has more to find and its
//!    fixed cost is spread further:
//!
//! | mode | below 8 KiB | below 256 KiB | longer |
//! |---|---|---|---|
//! | speed | LZ4 | LZ4 | LZ4 |
//! | balanced | LZ4 | LZ4 | zstd 1 |
//! | ratio | zstd 3 | zstd 6 | zstd 9 |
//!
//! Costs: the look takes 0.5 to 1 us for a block of 4 KiB, a twentieth of what LZ4 takes for text.

mod sample;

use crate::columns::{self, Codings, Rows};
use crate::compress::grown;
use crate::kind::{Codec, id};
use crate::{lz4, zstd};
use esker_base::{Error, Result};
use sample::{Class, classify};
use std::fmt;

/// What matters most when text and binary are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Time.
    Speed,
    /// Time, unless blocks are long.
    #[default]
    Balanced,
    /// Size.
    Ratio,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 3] = [Mode::Speed, Mode::Balanced, Mode::Ratio];

    /// The name in options.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Speed => "speed",
            Mode::Balanced => "balanced",
            Mode::Ratio => "ratio",
        }
    }
}

/// When [`Codec::Adaptive`] compresses, and how hard.
///
/// Written behind the name, those that differ from their defaults: `adaptive:mode=ratio:sample=8192:entropy=7.2:ratio=1.5:least=1024`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdaptiveOptions {
    /// What matters most.
    pub mode: Mode,
    /// Most bytes looked at, 256 to 1 MiB. Of blocks shorter than eight times as many an eighth is looked at, at least
    /// 512 bytes: the look must not cost more than it is worth.
    pub sample_bytes: u32,
    /// Blocks with more entropy than this stay raw: thousandths of a bit a byte, up to 8,000.
    pub entropy_limit_millibits: u16,
    /// Blocks that shrink by a lesser factor stay raw: thousandths, at least 1,000. Below 1,143 it changes nothing
    /// ([`MIN_SAVED_FRACTION`](crate::MIN_SAVED_FRACTION)).
    pub min_ratio_thousandths: u16,
    /// Blocks with fewer bytes stay raw.
    pub min_block_bytes: u32,
}

/// The size classes: blocks shorter than the first number are small, those not shorter than the second large.
const SMALL_BYTES: usize = 8 << 10;
const LARGE_BYTES: usize = 256 << 10;

/// Integers must shrink by this factor, or the block is taken as binary.
const MIN_INTEGER_RATIO: usize = 2;

impl AdaptiveOptions {
    /// CS265's figures, balanced.
    pub const DEFAULT: AdaptiveOptions = AdaptiveOptions {
        mode: Mode::Balanced,
        sample_bytes: 4096,
        entropy_limit_millibits: 7_500,
        min_ratio_thousandths: 1_200,
        min_block_bytes: 512,
    };

    pub(crate) fn validate(self) -> Result<()> {
        if !(256..=1 << 20).contains(&self.sample_bytes) {
            let found = self.sample_bytes;
            return Err(Error::invalid(format!("a sample has 256 to 1048576 bytes, not {found}")));
        }
        if self.entropy_limit_millibits > 8_000 {
            let found = Thousandths(self.entropy_limit_millibits);
            return Err(Error::invalid(format!("a byte has at most 8 bits of entropy, not {found}")));
        }
        if self.min_ratio_thousandths < 1_000 {
            let found = Thousandths(self.min_ratio_thousandths);
            return Err(Error::invalid(format!("the least ratio is at least 1, not {found}")));
        }
        Ok(())
    }

    /// Writes what differs from the defaults.
    pub(crate) fn write_to(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = AdaptiveOptions::DEFAULT;
        let parts = [
            (self.mode != default.mode, "mode", self.mode.name().to_owned()),
            (self.sample_bytes != default.sample_bytes, "sample", self.sample_bytes.to_string()),
            (
                self.entropy_limit_millibits != default.entropy_limit_millibits,
                "entropy",
                Thousandths(self.entropy_limit_millibits).to_string(),
            ),
            (
                self.min_ratio_thousandths != default.min_ratio_thousandths,
                "ratio",
                Thousandths(self.min_ratio_thousandths).to_string(),
            ),
            (self.min_block_bytes != default.min_block_bytes, "least", self.min_block_bytes.to_string()),
        ];
        for (_, name, value) in parts.iter().filter(|(differs, ..)| *differs) {
            write!(f, ":{name}={value}")?;
        }
        Ok(())
    }

    /// Reads what stands behind the name.
    pub(crate) fn parse(text: Option<&str>) -> Result<AdaptiveOptions> {
        let mut options = AdaptiveOptions::DEFAULT;
        let Some(text) = text else { return Ok(options) };
        for part in text.split(':') {
            options.set(part).ok_or_else(|| {
                Error::invalid(format!(
                    "{part:?} is nothing to set for adaptive compression: mode=speed, balanced or ratio, sample=BYTES, \
                     entropy=BITS, ratio=FACTOR, least=BYTES"
                ))
            })?;
        }
        Ok(options)
    }

    fn set(&mut self, part: &str) -> Option<()> {
        let (name, value) = part.split_once('=')?;
        match name {
            "mode" => self.mode = Mode::ALL.into_iter().find(|mode| mode.name() == value)?,
            "sample" => self.sample_bytes = value.parse().ok()?,
            "entropy" => self.entropy_limit_millibits = Thousandths::parse(value)?,
            "ratio" => self.min_ratio_thousandths = Thousandths::parse(value)?,
            "least" => self.min_block_bytes = value.parse().ok()?,
            _ => return None,
        }
        Some(())
    }

    /// The longest compressed form worth keeping.
    fn limit(&self, raw_len: usize) -> usize {
        let limit = raw_len as u64 * 1_000 / u64::from(self.min_ratio_thousandths.max(1_000));
        // Not more than the block has.
        limit as usize
    }

    /// The level of Zstandard for a block of text or binary; `None` for LZ4.
    fn zstd_level(&self, raw_len: usize) -> Option<i32> {
        match self.mode {
            Mode::Speed => None,
            Mode::Balanced => (raw_len >= LARGE_BYTES).then_some(1),
            Mode::Ratio if raw_len < SMALL_BYTES => Some(3),
            Mode::Ratio if raw_len < LARGE_BYTES => Some(6),
            Mode::Ratio => Some(9),
        }
    }
}

impl Default for AdaptiveOptions {
    fn default() -> AdaptiveOptions {
        AdaptiveOptions::DEFAULT
    }
}

/// A number with three digits behind the point.
struct Thousandths(u16);

impl Thousandths {
    fn parse(text: &str) -> Option<u16> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        if part.len() > 3 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let whole: u16 = whole.parse().ok()?;
        let part: u16 = format!("{part:0<3}").parse().ok()?;
        whole.checked_mul(1_000)?.checked_add(part)
    }
}

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1_000, format!("{:03}", self.0 % 1_000));
        match part.trim_end_matches('0') {
            "" => write!(f, "{whole}"),
            part => write!(f, "{whole}.{part}"),
        }
    }
}

/// The block at the start of `out`, and by which codec; `None` if it should stay raw.
pub(crate) fn compress(
    options: &AdaptiveOptions,
    raw: &[u8],
    rows: &[Rows],
    out: &mut Vec<u8>,
) -> Option<(u8, usize)> {
    if raw.len() < options.min_block_bytes as usize {
        return None;
    }
    if let Some(rows) = sample::integers(raw, rows) {
        let limit = raw.len() / MIN_INTEGER_RATIO;
        if let Some(len) = columns::compress(Codings::DELTA, raw, rows.as_slice(), limit, out) {
            return Some((id::DELTA, len));
        }
    }
    if classify(options, raw) == Class::Compressed {
        return None;
    }
    let limit = options.limit(raw.len());
    let (codec_id, len) = match options.zstd_level(raw.len()) {
        Some(level) => (id::ZSTD, zstd::compress(level, raw, grown(out, limit))?),
        None => (id::LZ4, lz4::compress(raw, out)?),
    };
    (len <= limit).then_some((codec_id, len))
}

impl From<AdaptiveOptions> for Codec {
    fn from(options: AdaptiveOptions) -> Codec {
        Codec::Adaptive(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_round_trip_by_name() {
        for text in [
            "adaptive",
            "adaptive:mode=speed",
            "adaptive:mode=ratio:sample=8192:entropy=7.25:ratio=1.5:least=1024",
            "adaptive:entropy=8",
            "adaptive:ratio=1.005",
        ] {
            assert_eq!(text.parse::<Codec>().unwrap().to_string(), text);
        }
        for text in [
            "adaptive:mode=fast",
            "adaptive:sample=100",
            "adaptive:entropy=8.1",
            "adaptive:ratio=0.9",
            "adaptive:ratio=1.2345",
            "adaptive:ratio=1.-2",
            "adaptive:ratio=99",
            "adaptive:least",
            "adaptive:size=3",
        ] {
            assert!(matches!(text.parse::<Codec>(), Err(Error::InvalidArgument(_))), "{text}");
        }
    }
}
