//! The codecs: persisted ids, names in options, limits of their parameters.

use crate::adaptive::AdaptiveOptions;
use esker_base::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// The bytes stored beside a compressed block. They never change and are never reused.
pub mod id {
    /// Stored raw.
    pub const NONE: u8 = 0;
    /// LZ4, block format, whichever encoder wrote it.
    pub const LZ4: u8 = 1;
    /// Snappy, raw format.
    pub const SNAPPY: u8 = 2;
    /// Zstandard, one frame.
    pub const ZSTD: u8 = 3;
    /// LZMA2 without a container.
    pub const LZMA: u8 = 4;
    /// Zstandard, one frame that needs the dictionary beside the block.
    pub const ZSTD_DICTIONARY: u8 = 5;
    /// Columns of integers, written by [`Codec::BitPacking`](super::Codec::BitPacking).
    pub const BIT_PACKING: u8 = 6;
    /// Columns of integers, written by [`Codec::Delta`](super::Codec::Delta).
    pub const DELTA: u8 = 7;
    /// Columns of integers, written by [`Codec::Dictionary`](super::Codec::Dictionary).
    pub const DICTIONARY: u8 = 8;

    /// All known ids.
    pub const ALL: [u8; 9] = [NONE, LZ4, SNAPPY, ZSTD, LZMA, ZSTD_DICTIONARY, BIT_PACKING, DELTA, DICTIONARY];

    /// The name of an id for messages and inspection; `None` for unknown ids.
    pub const fn name(id: u8) -> Option<&'static str> {
        match id {
            NONE => Some("none"),
            LZ4 => Some("lz4"),
            SNAPPY => Some("snappy"),
            ZSTD => Some("zstd"),
            LZMA => Some("lzma"),
            ZSTD_DICTIONARY => Some("zstd+dict"),
            BIT_PACKING => Some("bit-packing"),
            DELTA => Some("delta"),
            DICTIONARY => Some("dictionary"),
            _ => None,
        }
    }

    /// The Cargo feature that blocks with this id need and this build is without.
    pub const fn missing_feature(id: u8) -> Option<&'static str> {
        match id {
            LZ4 if !cfg!(feature = "lz4") => Some("lz4"),
            SNAPPY if !cfg!(feature = "snappy") => Some("snappy"),
            ZSTD | ZSTD_DICTIONARY if !cfg!(feature = "zstd") => Some("zstd"),
            LZMA if !cfg!(feature = "lzma") => Some("lzma"),
            _ => None,
        }
    }
}

/// How blocks are compressed.
///
/// [`fmt::Display`] and [`FromStr`] are inverse; levels may be left out:
///
/// | name | what |
/// |---|---|
/// | `none` | [`Codec::None`] |
/// | `lz4` | [`Codec::Lz4`] |
/// | `lz4hc`, `lz4hc:1` to `lz4hc:12` | [`Codec::Lz4Hc`] |
/// | `snappy` | [`Codec::Snappy`] |
/// | `zstd`, `zstd:1` to `zstd:22` | [`Codec::Zstd`] |
/// | `zstd+dict`, `zstd:1+dict` to `zstd:22+dict` | [`Codec::ZstdDictionary`] |
/// | `lzma`, `lzma:0` to `lzma:9` | [`Codec::Lzma`] |
/// | `bit-packing` | integers: [`Codec::BitPacking`] |
/// | `delta` | integers: [`Codec::Delta`] |
/// | `dictionary` | integers: [`Codec::Dictionary`] |
/// | `adaptive`, `adaptive:mode=ratio:sample=8192` | [`Codec::Adaptive`] |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Codec {
    /// No compression.
    #[default]
    None,
    /// Fast both ways, about half the saving of Zstandard.
    Lz4,
    /// LZ4 with a thorough search for matches: as fast to read, smaller, several times slower to write.
    Lz4Hc {
        /// 1 to 12: earlier places tried for a match, 1 to 256. Clamped; [`Codec::validate`] refuses others.
        level: u8,
    },
    /// About as fast as LZ4 to write, slower to read.
    Snappy,
    /// Smaller, slower. The level trades time of compression for size; decompression hardly depends on it.
    Zstd {
        /// 1 (fast) to 22 (small and very slow). Clamped; [`Codec::validate`] refuses other numbers.
        level: i32,
    },
    /// Zstandard with a dictionary trained from each table's first blocks; small blocks gain most. Without a
    /// dictionary (large values, tables too small to train one) it is [`Codec::Zstd`].
    ZstdDictionary {
        /// As for [`Codec::Zstd`].
        level: i32,
    },
    /// Smallest and slowest, both ways: for data that is written once and hardly ever read.
    Lzma {
        /// 0 (fastest) to 9.
        level: u8,
    },
    /// Columns of integers, as distances from the least, in as many bits as needed. See [`crate::columns`].
    BitPacking,
    /// As [`Codec::BitPacking`], or the differences of neighbours packed so, whichever is smaller.
    Delta,
    /// As [`Codec::BitPacking`], or distinct values once with packed places, whichever is smaller.
    Dictionary,
    /// Chosen for each block by trials: raw, LZ4, [`Codec::Delta`] or Zstandard. See [`crate::adaptive`].
    Adaptive(AdaptiveOptions),
}

impl Codec {
    /// One codec of each kind, with usual parameters: for tests and experiments.
    pub const ALL: [Codec; 11] = [
        Codec::None,
        Codec::Lz4,
        Codec::Lz4Hc { level: Self::DEFAULT_LZ4HC_LEVEL },
        Codec::Snappy,
        Codec::Zstd { level: Self::DEFAULT_ZSTD_LEVEL },
        Codec::ZstdDictionary { level: Self::DEFAULT_ZSTD_LEVEL },
        Codec::Lzma { level: Self::DEFAULT_LZMA_LEVEL },
        Codec::BitPacking,
        Codec::Delta,
        Codec::Dictionary,
        Codec::ADAPTIVE,
    ];
    /// [`Codec::Adaptive`] with its defaults.
    pub const ADAPTIVE: Codec = Codec::Adaptive(AdaptiveOptions::DEFAULT);
    /// The level meant by plain `zstd`.
    pub const DEFAULT_ZSTD_LEVEL: i32 = 3;
    /// Lowest level of Zstandard.
    pub const MIN_ZSTD_LEVEL: i32 = 1;
    /// Highest level of Zstandard.
    pub const MAX_ZSTD_LEVEL: i32 = 22;
    /// The level meant by plain `lz4hc`.
    pub const DEFAULT_LZ4HC_LEVEL: u8 = 9;
    /// Highest level of LZ4 HC; the lowest is 1.
    pub const MAX_LZ4HC_LEVEL: u8 = 12;
    /// The level meant by plain `lzma`.
    pub const DEFAULT_LZMA_LEVEL: u8 = 6;
    /// Highest level of LZMA; the lowest is 0.
    pub const MAX_LZMA_LEVEL: u8 = 9;

    /// The ids that blocks of this codec may have besides [`id::NONE`].
    pub const fn ids(self) -> &'static [u8] {
        match self {
            Codec::None => &[],
            Codec::Lz4 | Codec::Lz4Hc { .. } => &[id::LZ4],
            Codec::Snappy => &[id::SNAPPY],
            Codec::Zstd { .. } => &[id::ZSTD],
            Codec::ZstdDictionary { .. } => &[id::ZSTD_DICTIONARY, id::ZSTD],
            Codec::Lzma { .. } => &[id::LZMA],
            Codec::BitPacking => &[id::BIT_PACKING],
            Codec::Delta => &[id::DELTA],
            Codec::Dictionary => &[id::DICTIONARY],
            Codec::Adaptive(_) => &[id::LZ4, id::ZSTD, id::DELTA],
        }
    }

    /// The Cargo feature that this codec needs and this build is without.
    pub fn missing_feature(self) -> Option<&'static str> {
        self.ids().iter().find_map(|stored| id::missing_feature(*stored))
    }

    /// The first of these codecs that this build has; [`Codec::None`] if it has none of them.
    pub fn first_available(codecs: &[Codec]) -> Codec {
        codecs.iter().copied().find(|codec| codec.missing_feature().is_none()).unwrap_or(Codec::None)
    }

    /// The name without parameters.
    pub const fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Lz4 => "lz4",
            Codec::Lz4Hc { .. } => "lz4hc",
            Codec::Snappy => "snappy",
            Codec::Zstd { .. } => "zstd",
            Codec::ZstdDictionary { .. } => "zstd+dict",
            Codec::Lzma { .. } => "lzma",
            Codec::BitPacking => "bit-packing",
            Codec::Delta => "delta",
            Codec::Dictionary => "dictionary",
            Codec::Adaptive(_) => "adaptive",
        }
    }

    /// Whether knowledge of rows helps it ([`Codec::compress_with`]).
    #[inline]
    pub const fn uses_rows(self) -> bool {
        matches!(self, Codec::BitPacking | Codec::Delta | Codec::Dictionary | Codec::Adaptive(_))
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a level is out of range, [`Error::Unsupported`] for a codec that this
    /// build is without, naming the Cargo feature.
    pub fn validate(self) -> Result<()> {
        if let Some(feature) = self.missing_feature() {
            let name = self.name();
            return Err(Error::Unsupported(
                format!("the codec {name} needs the Cargo feature {feature:?}, which this build is without")
                    .into(),
            ));
        }
        match self {
            Codec::Zstd { level } | Codec::ZstdDictionary { level }
                if !(Self::MIN_ZSTD_LEVEL..=Self::MAX_ZSTD_LEVEL).contains(&level) =>
            {
                Err(Error::invalid(format!("zstd has levels 1 to 22, not {level}")))
            }
            Codec::Lz4Hc { level } if !(1..=Self::MAX_LZ4HC_LEVEL).contains(&level) => {
                Err(Error::invalid(format!("lz4hc has levels 1 to 12, not {level}")))
            }
            Codec::Lzma { level } if level > Self::MAX_LZMA_LEVEL => {
                Err(Error::invalid(format!("lzma has levels 0 to 9, not {level}")))
            }
            Codec::Adaptive(options) => options.validate(),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Codec::Lz4Hc { level } => write!(f, "lz4hc:{level}"),
            Codec::Zstd { level } => write!(f, "zstd:{level}"),
            Codec::ZstdDictionary { level } => write!(f, "zstd:{level}+dict"),
            Codec::Lzma { level } => write!(f, "lzma:{level}"),
            Codec::Adaptive(options) => {
                f.write_str("adaptive")?;
                options.write_to(f)
            }
            other => f.write_str(other.name()),
        }
    }
}

impl FromStr for Codec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Codec> {
        let unknown = || {
            Error::invalid(format!(
                "unknown codec {text:?}: none, lz4, lz4hc:LEVEL, snappy, zstd:LEVEL, zstd:LEVEL+dict, lzma:LEVEL, \
                 bit-packing, delta, dictionary or adaptive"
            ))
        };
        let (name, parameters) = match text.split_once(':') {
            None => (text, None),
            Some((name, parameters)) => (name, Some(parameters)),
        };
        // Of a number of any size, so that a level out of range is reported as such.
        let level = |text: Option<&str>, default: i32| -> Result<i32> {
            text.map_or(Ok(default), |text| text.parse().map_err(|_| unknown()))
        };
        let small = |text: Option<&str>, default: u8| -> Result<u8> {
            Ok(level(text, i32::from(default))?.clamp(0, i32::from(u8::MAX)) as u8)
        };
        let codec = match (name, parameters) {
            ("none", None) => Codec::None,
            ("lz4", None) => Codec::Lz4,
            ("lz4hc", text) => Codec::Lz4Hc { level: small(text, Codec::DEFAULT_LZ4HC_LEVEL)? },
            ("snappy", None) => Codec::Snappy,
            ("zstd+dict", None) => Codec::ZstdDictionary { level: Codec::DEFAULT_ZSTD_LEVEL },
            ("zstd", text) => match text.and_then(|text| text.strip_suffix("+dict")) {
                Some(text) => Codec::ZstdDictionary { level: level(Some(text), 0)? },
                None => Codec::Zstd { level: level(text, Codec::DEFAULT_ZSTD_LEVEL)? },
            },
            ("lzma", text) => Codec::Lzma { level: small(text, Codec::DEFAULT_LZMA_LEVEL)? },
            ("bit-packing", None) => Codec::BitPacking,
            ("delta", None) => Codec::Delta,
            ("dictionary", None) => Codec::Dictionary,
            ("adaptive", text) => Codec::Adaptive(AdaptiveOptions::parse(text)?),
            _ => return Err(unknown()),
        };
        codec.validate()?;
        Ok(codec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_levels_round_trip() {
        let mut codecs = Codec::ALL.to_vec();
        for level in 1..=22 {
            codecs.extend([Codec::Zstd { level }, Codec::ZstdDictionary { level }]);
        }
        codecs.extend((1..=12).map(|level| Codec::Lz4Hc { level }));
        codecs.extend((0..=9).map(|level| Codec::Lzma { level }));
        for codec in codecs {
            assert_eq!(codec.to_string().parse::<Codec>().unwrap(), codec);
            assert!(codec.ids().iter().all(|&stored| id::name(stored).is_some()));
            codec.validate().unwrap();
        }
        for codec in Codec::ALL {
            assert_eq!(codec.name().parse::<Codec>().unwrap(), codec);
        }
    }

    #[test]
    fn wrong_names_and_levels_are_refused_with_the_facts() {
        for text in [
            "",
            "LZ4",
            "snappy:1",
            "zstd:",
            "zstd:x",
            "zstd:0",
            "zstd:23",
            "zstd:-1",
            "zstd 3",
            "lz4:1",
            "zstd:3+",
            "zstd:+dict",
            "zstd+dict:3",
            "zstd:0+dict",
            "lz4hc:0",
            "lz4hc:13",
            "lz4hc:-1",
            "lz4hc:257",
            "lzma:10",
            "lzma:x",
            "none:",
            "delta:3",
            "adaptive:",
            "adaptive:x",
        ] {
            let Err(error) = text.parse::<Codec>() else { panic!("{text:?} is a codec") };
            assert!(matches!(error, Error::InvalidArgument(_)), "{text:?} gave {error}");
        }
        assert_eq!("zstd:99".parse::<Codec>().unwrap_err().to_string(), "zstd has levels 1 to 22, not 99");
        assert_eq!("lzma:12".parse::<Codec>().unwrap_err().to_string(), "lzma has levels 0 to 9, not 12");
        assert!(Codec::Zstd { level: 0 }.validate().is_err());
    }

    #[test]
    fn stored_ids_never_change() {
        assert_eq!(id::ALL, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        let names = id::ALL.map(|id| id::name(id).unwrap());
        let known =
            ["none", "lz4", "snappy", "zstd", "lzma", "zstd+dict", "bit-packing", "delta", "dictionary"];
        assert_eq!(names, known);
        assert_eq!(id::name(9), None);
    }
}
