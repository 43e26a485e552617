//! Options of the adaptive choice and their text form.

use super::cost::Encoding;
use crate::kind::Codec;
use esker_base::{Error, Result};
use std::fmt;

/// What the choice optimizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Compresses whatever shrinks, by the fastest codec.
    Speed,
    /// Least time to write, store and read a block, by [`AdaptiveOptions::device_mb_s`] and `reads`.
    #[default]
    Balanced,
    /// Compresses whatever shrinks, by a strong codec.
    Ratio,
}

impl Mode {
    /// All modes.
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
/// Options that differ from their defaults follow the name:
/// `adaptive:mode=ratio:sample=8192:entropy=7.2:ratio=1.5:least=1024`, `adaptive:device=50:reads=1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdaptiveOptions {
    /// What the choice optimizes.
    pub mode: Mode,
    /// Most bytes of the sample, 256 to 1 MiB. Of shorter blocks than eight times as many an eighth is
    /// sampled, at least 512 bytes: the sample must cost less than it saves.
    pub sample_bytes: u32,
    /// Blocks with more entropy than this stay raw: thousandths of a bit a byte, up to 8,000.
    pub entropy_limit_millibits: u16,
    /// Blocks that shrink by a lesser factor stay raw: thousandths, at least 1,000. Below 1,143 it changes
    /// nothing ([`MIN_SAVED_FRACTION`](crate::MIN_SAVED_FRACTION)).
    pub min_ratio_thousandths: u16,
    /// Blocks with fewer bytes stay raw.
    pub min_block_bytes: u32,
    /// Speed of the written device in MB/s, 1 to 100,000, for [`Mode::Balanced`].
    pub device_mb_s: u32,
    /// Reads of a block from the device for each time it is written, up to 1,000. Used by [`Mode::Balanced`]
    /// only.
    pub reads: u16,
}

/// The size classes: blocks shorter than the first number are small, those not shorter than the second large.
const SMALL_BYTES: usize = 8 << 10;
const LARGE_BYTES: usize = 256 << 10;

impl AdaptiveOptions {
    /// CS265's figures, balanced for a common cloud volume.
    pub const DEFAULT: AdaptiveOptions = AdaptiveOptions {
        mode: Mode::Balanced,
        sample_bytes: 4096,
        entropy_limit_millibits: 7_500,
        min_ratio_thousandths: 1_200,
        min_block_bytes: 512,
        device_mb_s: 400,
        reads: 4,
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
        if !(1..=100_000).contains(&self.device_mb_s) {
            let found = self.device_mb_s;
            return Err(Error::invalid(format!("a device has 1 to 100000 MB/s, not {found}")));
        }
        if self.reads > 1_000 {
            let found = self.reads;
            return Err(Error::invalid(format!("a block is read up to 1000 times, not {found}")));
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
            (self.device_mb_s != default.device_mb_s, "device", self.device_mb_s.to_string()),
            (self.reads != default.reads, "reads", self.reads.to_string()),
        ];
        for (_, name, value) in parts.iter().filter(|(differs, ..)| *differs) {
            write!(f, ":{name}={value}")?;
        }
        Ok(())
    }

    pub(crate) fn parse(text: Option<&str>) -> Result<AdaptiveOptions> {
        let mut options = AdaptiveOptions::DEFAULT;
        let Some(text) = text else { return Ok(options) };
        for part in text.split(':') {
            options.set(part).ok_or_else(|| {
                Error::invalid(format!(
                    "{part:?} is nothing to set for adaptive compression: mode=speed, balanced or ratio, sample=BYTES, \
                     entropy=BITS, ratio=FACTOR, least=BYTES, device=MB/S, reads=COUNT"
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
            "device" => self.device_mb_s = value.parse().ok()?,
            "reads" => self.reads = value.parse().ok()?,
            _ => return None,
        }
        Some(())
    }

    /// The longest compressed form worth keeping.
    pub(super) fn limit(&self, raw_len: usize) -> usize {
        let limit = raw_len as u64 * 1_000 / u64::from(self.min_ratio_thousandths.max(1_000));
        // Not more than the block has.
        limit as usize
    }

    /// Most thousandths of a bit a byte.
    pub(super) fn entropy_limit(&self) -> u32 {
        u32::from(self.entropy_limit_millibits)
    }

    /// The encoding of text and binary where size or speed alone decides.
    pub(super) fn encoding(&self) -> Encoding {
        if self.mode == Mode::Ratio { Encoding::Zstd } else { Encoding::Lz4 }
    }

    /// The level of Zstandard for a block.
    pub(super) fn zstd_level(&self, raw_len: usize) -> i32 {
        match self.mode {
            Mode::Ratio if raw_len < SMALL_BYTES => 3,
            Mode::Ratio if raw_len < LARGE_BYTES => 6,
            Mode::Ratio => 9,
            Mode::Balanced | Mode::Speed => 1,
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

impl From<AdaptiveOptions> for Codec {
    fn from(options: AdaptiveOptions) -> Codec {
        Codec::Adaptive(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_blocks_get_a_higher_level_where_size_decides() {
        let level = |mode, raw_len| AdaptiveOptions { mode, ..AdaptiveOptions::DEFAULT }.zstd_level(raw_len);
        for (raw_len, expected) in
            [(8 << 10) - 1, 8 << 10, (256 << 10) - 1, 256 << 10].into_iter().zip([3, 6, 6, 9])
        {
            assert_eq!(level(Mode::Ratio, raw_len), expected, "{raw_len} bytes");
            assert_eq!(level(Mode::Balanced, raw_len), 1);
        }
    }

    #[test]
    fn options_round_trip_by_name() {
        for text in [
            "adaptive",
            "adaptive:mode=speed",
            "adaptive:mode=ratio:sample=8192:entropy=7.25:ratio=1.5:least=1024",
            "adaptive:entropy=8",
            "adaptive:ratio=1.005",
            "adaptive:device=50:reads=1",
            "adaptive:reads=0",
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
            "adaptive:device=0",
            "adaptive:device=100001",
            "adaptive:reads=1001",
            "adaptive:reads=-1",
        ] {
            assert!(matches!(text.parse::<Codec>(), Err(Error::InvalidArgument(_))), "{text}");
        }
    }
}
