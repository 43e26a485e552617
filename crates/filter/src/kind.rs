//! The kinds of filters, their names and sizes.

use crate::bits::{BitsPerKey, FingerprintBits};
use crate::fuse;

/// A kind of filter, without its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FilterKind {
    /// No filter.
    None,
    /// [`crate::FilterPolicy::BlockedBloom`].
    BlockedBloom,
    /// [`crate::FilterPolicy::Bloom`].
    Bloom,
    /// [`crate::FilterPolicy::LocalBloom`].
    LocalBloom,
    /// [`crate::FilterPolicy::DoubleProbeBloom`].
    DoubleProbeBloom,
    /// [`crate::FilterPolicy::Ribbon`].
    Ribbon,
    /// [`crate::FilterPolicy::BinaryFuse`].
    BinaryFuse,
}

impl FilterKind {
    /// All kinds; those for comparison last ([`FilterKind::is_reference`]).
    pub const ALL: &'static [FilterKind] = &[
        FilterKind::None,
        FilterKind::BlockedBloom,
        FilterKind::Bloom,
        FilterKind::Ribbon,
        FilterKind::BinaryFuse,
        FilterKind::DoubleProbeBloom,
        FilterKind::LocalBloom,
    ];

    /// Whether the kind is for comparison only: others are faster or have fewer false positives.
    pub const fn is_reference(self) -> bool {
        matches!(self, FilterKind::LocalBloom | FilterKind::DoubleProbeBloom)
    }

    /// The name in options.
    pub fn name(self) -> &'static str {
        match self {
            FilterKind::None => "none",
            FilterKind::BlockedBloom => "blocked-bloom",
            FilterKind::Bloom => "bloom",
            FilterKind::LocalBloom => "local-bloom",
            FilterKind::DoubleProbeBloom => "double-probe-bloom",
            FilterKind::Ribbon => "ribbon",
            FilterKind::BinaryFuse => "binary-fuse",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<FilterKind> {
        FilterKind::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// The least and the largest size, in the kind's own steps. Each step more takes more memory and makes
    /// fewer false positives.
    pub(crate) fn sizes(self) -> Option<(u16, u16)> {
        match self {
            FilterKind::None => None,
            FilterKind::Bloom | FilterKind::Ribbon => {
                Some((BitsPerKey::MIN.tenths(), BitsPerKey::MAX.tenths()))
            }
            FilterKind::BinaryFuse => {
                Some((FingerprintBits::MIN.bits().into(), FingerprintBits::MAX.bits().into()))
            }
            FilterKind::BlockedBloom | FilterKind::LocalBloom | FilterKind::DoubleProbeBloom => {
                Some((BitsPerKey::MIN.tenths(), BitsPerKey::MAX_OF_LINES.tenths()))
            }
        }
    }

    /// The size for a number of bits a key, which is not below the least one's: the nearest, or if the steps
    /// are large the largest within.
    pub(crate) fn size_for(self, bits_per_key: f64) -> u16 {
        match self {
            // A float saturates when cast; the small addend is for rounded sizes.
            FilterKind::BinaryFuse => (bits_per_key / fuse::SLOTS_PER_KEY + 1e-6) as u16,
            _ => BitsPerKey::from_bits(bits_per_key).tenths(),
        }
    }

    /// Parses the size behind the name of a kind with sizes; `None` if it is none or beyond the limits.
    pub(crate) fn parse_size(self, text: &str) -> Option<u16> {
        let (least, most) = self.sizes()?;
        let size = match self {
            FilterKind::BinaryFuse => text.parse().ok()?,
            // Nothing beyond the limits of all kinds may be rounded into those of this one.
            _ => text
                .parse()
                .ok()
                .filter(|bits| (BitsPerKey::MIN.bits()..=BitsPerKey::MAX.bits()).contains(bits))
                .map(|bits| BitsPerKey::from_bits(bits).tenths())?,
        };
        (least..=most).contains(&size).then_some(size)
    }

    /// The size of a policy whose name stands alone.
    pub(crate) fn default_size(self) -> u16 {
        match self {
            FilterKind::BinaryFuse => FingerprintBits::DEFAULT.bits().into(),
            _ => BitsPerKey::DEFAULT.tenths(),
        }
    }
}
