//! The kinds of filters: what there is to choose from.

use crate::bits::BitsPerKey;
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
}

impl FilterKind {
    /// All kinds.
    pub const ALL: &'static [FilterKind] = &[
        FilterKind::None,
        FilterKind::BlockedBloom,
        FilterKind::Bloom,
        FilterKind::LocalBloom,
        FilterKind::DoubleProbeBloom,
    ];

    /// The name that people write.
    pub fn name(self) -> &'static str {
        match self {
            FilterKind::None => "none",
            FilterKind::BlockedBloom => "blocked-bloom",
            FilterKind::Bloom => "bloom",
            FilterKind::LocalBloom => "local-bloom",
            FilterKind::DoubleProbeBloom => "double-probe-bloom",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<FilterKind> {
        FilterKind::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// The filter of this kind that takes about `bits_per_key`, brought within the kind's limits. Below the least, where
    /// a filter is not worth its lookup, and for what is no number, the policy is [`FilterPolicy::None`].
    pub fn policy(self, bits_per_key: f64) -> FilterPolicy {
        let Some((least, most)) = self.sizes() else { return FilterPolicy::None };
        if bits_per_key.is_nan() || bits_per_key < self.policy_of_size(least).bits_per_key() {
            return FilterPolicy::None;
        }
        self.policy_of_size(self.nearest_size(bits_per_key).min(most))
    }

    /// The least and the largest size, in the kind's own steps. Each step more takes more memory and makes fewer false
    /// positives.
    pub(crate) fn sizes(self) -> Option<(u16, u16)> {
        match self {
            FilterKind::None => None,
            FilterKind::Bloom => Some((BitsPerKey::MIN.tenths(), BitsPerKey::MAX.tenths())),
            FilterKind::BlockedBloom | FilterKind::LocalBloom | FilterKind::DoubleProbeBloom => {
                Some((BitsPerKey::MIN.tenths(), BitsPerKey::MAX_OF_LINES.tenths()))
            }
        }
    }

    /// The size that comes nearest to a number of bits a key, which is not below the least one's.
    fn nearest_size(self, bits_per_key: f64) -> u16 {
        BitsPerKey::from_bits(bits_per_key).tenths()
    }

    /// The policy of one of the [`FilterKind::sizes`].
    pub(crate) fn policy_of_size(self, size: u16) -> FilterPolicy {
        let bits_per_key = BitsPerKey::from_tenths(size);
        match self {
            FilterKind::None => FilterPolicy::None,
            FilterKind::BlockedBloom => FilterPolicy::BlockedBloom { bits_per_key },
            FilterKind::Bloom => FilterPolicy::Bloom { bits_per_key },
            FilterKind::LocalBloom => FilterPolicy::LocalBloom { bits_per_key },
            FilterKind::DoubleProbeBloom => FilterPolicy::DoubleProbeBloom { bits_per_key },
        }
    }

    /// What follows the name in a policy of this kind, for a sentence.
    pub(crate) fn parameter(self) -> String {
        let Some((least, most)) = self.sizes() else { return self.name().to_owned() };
        let (least, most) =
            (self.policy_of_size(least).bits_per_key(), self.policy_of_size(most).bits_per_key());
        format!("{}:BITS with {least} to {most} bits a key", self.name())
    }
}
