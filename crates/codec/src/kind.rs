//! The codecs: persisted ids, names for people, limits of their parameters.

use esker_base::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// The bytes stored beside a compressed block. They never change and are never reused.
pub mod id {
    /// Stored as it is.
    pub const NONE: u8 = 0;
    /// LZ4, block format.
    pub const LZ4: u8 = 1;
    /// Reserved for Snappy.
    pub const SNAPPY: u8 = 2;
    /// Zstandard, one frame.
    pub const ZSTD: u8 = 3;
    /// Reserved for LZMA.
    pub const LZMA: u8 = 4;

    /// The name of an id for messages and inspection; `None` for numbers that mean nothing yet.
    pub const fn name(id: u8) -> Option<&'static str> {
        match id {
            NONE => Some("none"),
            LZ4 => Some("lz4"),
            SNAPPY => Some("snappy"),
            ZSTD => Some("zstd"),
            LZMA => Some("lzma"),
            _ => None,
        }
    }
}

/// How blocks are compressed.
///
/// People write it as `none`, `lz4`, `zstd` (level [`Codec::DEFAULT_ZSTD_LEVEL`]) or `zstd:10`; [`fmt::Display`]
/// gives the same names back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Not at all.
    #[default]
    None,
    /// Fast both ways, about half the saving of Zstandard.
    Lz4,
    /// Smaller, slower. The level trades time of compression for size; decompression hardly depends on it.
    Zstd {
        /// 1 (fast) to 22 (small and very slow). Other numbers are taken as the nearest of these;
        /// [`Codec::validate`] refuses them.
        level: i32,
    },
}

impl Codec {
    /// The level meant by plain `zstd`.
    pub const DEFAULT_ZSTD_LEVEL: i32 = 3;
    /// Lowest level of Zstandard.
    pub const MIN_ZSTD_LEVEL: i32 = 1;
    /// Highest level of Zstandard.
    pub const MAX_ZSTD_LEVEL: i32 = 22;

    /// The id of blocks that this codec did compress.
    #[inline]
    pub const fn id(self) -> u8 {
        match self {
            Codec::None => id::NONE,
            Codec::Lz4 => id::LZ4,
            Codec::Zstd { .. } => id::ZSTD,
        }
    }

    /// The name without parameters.
    pub const fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Lz4 => "lz4",
            Codec::Zstd { .. } => "zstd",
        }
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a level is out of range.
    pub fn validate(self) -> Result<()> {
        match self {
            Codec::Zstd { level } if !(Self::MIN_ZSTD_LEVEL..=Self::MAX_ZSTD_LEVEL).contains(&level) => {
                Err(Error::invalid(format!("zstd has levels 1 to 22, not {level}")))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Codec::Zstd { level } => write!(f, "zstd:{level}"),
            other => f.write_str(other.name()),
        }
    }
}

impl FromStr for Codec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Codec> {
        let unknown = || Error::invalid(format!("unknown codec {text:?}: none, lz4, zstd or zstd:LEVEL"));
        match text {
            "none" => Ok(Codec::None),
            "lz4" => Ok(Codec::Lz4),
            "zstd" => Ok(Codec::Zstd { level: Codec::DEFAULT_ZSTD_LEVEL }),
            _ => {
                let level = text.strip_prefix("zstd:").ok_or_else(unknown)?;
                let codec = Codec::Zstd { level: level.parse().map_err(|_| unknown())? };
                codec.validate()?;
                Ok(codec)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_levels_round_trip() {
        let mut codecs = vec![Codec::None, Codec::Lz4];
        codecs.extend((1..=22).map(|level| Codec::Zstd { level }));
        for codec in codecs {
            assert_eq!(codec.to_string().parse::<Codec>().unwrap(), codec);
            assert_eq!(id::name(codec.id()), Some(codec.name()));
            codec.validate().unwrap();
        }
        assert_eq!("zstd".parse::<Codec>().unwrap(), Codec::Zstd { level: 3 });
    }

    #[test]
    fn wrong_names_and_levels_are_refused_with_the_facts() {
        for text in
            ["", "LZ4", "snappy", "zstd:", "zstd:x", "zstd:0", "zstd:23", "zstd:-1", "zstd 3", "lz4:1"]
        {
            let error = text.parse::<Codec>().unwrap_err();
            assert!(matches!(error, Error::InvalidArgument(_)), "{text:?} gave {error}");
        }
        assert_eq!("zstd:99".parse::<Codec>().unwrap_err().to_string(), "zstd has levels 1 to 22, not 99");
        assert!(Codec::Zstd { level: 0 }.validate().is_err());
    }

    #[test]
    fn stored_ids_never_change() {
        assert_eq!([id::NONE, id::LZ4, id::SNAPPY, id::ZSTD, id::LZMA], [0, 1, 2, 3, 4]);
        assert_eq!([Codec::None.id(), Codec::Lz4.id(), Codec::Zstd { level: 9 }.id()], [0, 1, 3]);
        assert_eq!(id::name(5), None);
    }
}
