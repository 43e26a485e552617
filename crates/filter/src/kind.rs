//! The kinds of filters, their names and sizes.

use crate::bits::{BitsPerKey, FingerprintBits};
use crate::fuse;
use crate::policy::FilterPolicy;

/// A kind of filter, without its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FilterKind {
    /// No filter.
    None,
    /// [`FilterPolicy::BlockedBloom`].
    BlockedBloom,
    /// [`FilterPolicy::Bloom`].
    Bloom,
    /// [`FilterPolicy::LocalBloom`].
    LocalBloom,
    /// [`FilterPolicy::DoubleProbeBloom`].
    DoubleProbeBloom,
    /// [`FilterPolicy::Ribbon`].
    Ribbon,
    /// [`FilterPolicy::BinaryFuse`].
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

    /// The filter of this kind that takes about `bits_per_key`, brought within the kind's limits. Below the
    /// least, where a filter is not worth its lookup, and for what is no number, the policy is
    /// [`FilterPolicy::None`].
    pub fn policy(self, bits_per_key: f64) -> FilterPolicy {
        let Some((least, most)) = self.sizes() else { return FilterPolicy::None };
        if bits_per_key.is_nan() || bits_per_key < self.policy_of_size(least).bits_per_key() {
            return FilterPolicy::None;
        }
        self.policy_of_size(self.size_for(bits_per_key).min(most))
    }

    /// Least and largest size, in the kind's steps, each with more memory and fewer false positives.
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

    /// The size for these bits a key: the nearest, or with large steps the largest within.
    fn size_for(self, bits_per_key: f64) -> u16 {
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

    pub(crate) fn policy_of_size(self, size: u16) -> FilterPolicy {
        let bits_per_key = BitsPerKey::from_tenths(size);
        match self {
            FilterKind::None => FilterPolicy::None,
            FilterKind::BlockedBloom => FilterPolicy::BlockedBloom { bits_per_key },
            FilterKind::Bloom => FilterPolicy::Bloom { bits_per_key },
            FilterKind::LocalBloom => FilterPolicy::LocalBloom { bits_per_key },
            FilterKind::DoubleProbeBloom => FilterPolicy::DoubleProbeBloom { bits_per_key },
            FilterKind::Ribbon => FilterPolicy::Ribbon { bits_per_key },
            FilterKind::BinaryFuse => {
                let bits = u8::try_from(size).ok().and_then(FingerprintBits::new);
                FilterPolicy::BinaryFuse { fingerprint_bits: bits.unwrap_or(FingerprintBits::MAX) }
            }
        }
    }

    /// The parameter of this kind's policies, for error texts.
    pub(crate) fn parameter(self) -> String {
        let Some((least, most)) = self.sizes() else { return self.name().to_owned() };
        if self == FilterKind::BinaryFuse {
            return format!("{}:BITS with {least} to {most} bits of each key", self.name());
        }
        let (least, most) =
            (self.policy_of_size(least).bits_per_key(), self.policy_of_size(most).bits_per_key());
        format!("{}:BITS with {least} to {most} bits a key", self.name())
    }
}
