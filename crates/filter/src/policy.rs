//! Filter policy: kind and size of the filter of new tables.

use crate::bits::{BitsPerKey, FingerprintBits};
use crate::fuse;
use crate::kind::FilterKind;
use crate::model;
use crate::reference::local;
use crate::ribbon;
use esker_base::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// The filter of new tables.
///
/// Its text is the name of the kind and its size, `none` or `blocked-bloom:9.5`; [`fmt::Display`] gives the
/// same back. Without a size it is ten bits a key.
///
/// ```
/// use esker_filter::FilterPolicy;
///
/// let policy: FilterPolicy = "blocked-bloom:10".parse()?;
/// assert!(policy.false_positive_rate() < 0.01);
/// // A tenth of the false positives costs half as many bits again.
/// let stronger = policy.with_false_positive_rate(0.001).expect("within the limits of the kind");
/// assert!((15.0..16.0).contains(&stronger.bits_per_key()));
/// assert_eq!(policy.with_bits_per_key(0.5), FilterPolicy::None);
/// # Ok::<(), esker_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FilterPolicy {
    /// No filter: every lookup searches the table.
    None,
    /// A Bloom filter whose probes for one key all lie in one cache line.
    BlockedBloom {
        /// Memory spent.
        bits_per_key: BitsPerKey,
    },
    /// A Bloom filter whose probes lie anywhere: fewest false positives, most cache misses.
    Bloom {
        /// Memory spent.
        bits_per_key: BitsPerKey,
    },
    /// For comparison: a blocked Bloom filter with RocksDB's choices.
    LocalBloom {
        /// Memory spent.
        bits_per_key: BitsPerKey,
    },
    /// For comparison: a Bloom filter whose probes for one key lie in two cache lines. Nearly as few false
    /// positives as the standard one, nearly as fast as the blocked one.
    DoubleProbeBloom {
        /// Memory spent.
        bits_per_key: BitsPerKey,
    },
    /// A third less memory than Bloom filters of the same rate, for slower builds and lookups.
    Ribbon {
        /// Memory spent.
        bits_per_key: BitsPerKey,
    },
    /// Fingerprints in three places: few false positives for little memory, in steps of a whole bit.
    BinaryFuse {
        /// Bits kept of each key; a filter of millions of keys takes 1.14 times as many.
        fingerprint_bits: FingerprintBits,
    },
}

impl FilterPolicy {
    /// Ten bits a key: 1 % false positives for 1.25 bytes a key.
    pub const DEFAULT: FilterPolicy = FilterPolicy::BlockedBloom { bits_per_key: BitsPerKey::DEFAULT };

    /// A blocked Bloom filter of about `bits_per_key`, which is brought within the limits. Below one bit,
    /// where a filter is not worth its lookup, the policy is [`FilterPolicy::None`].
    pub fn blocked_bloom(bits_per_key: f64) -> FilterPolicy {
        FilterKind::BlockedBloom.policy(bits_per_key)
    }

    /// The kind, without its size.
    pub fn kind(self) -> FilterKind {
        match self {
            FilterPolicy::None => FilterKind::None,
            FilterPolicy::BlockedBloom { .. } => FilterKind::BlockedBloom,
            FilterPolicy::Bloom { .. } => FilterKind::Bloom,
            FilterPolicy::LocalBloom { .. } => FilterKind::LocalBloom,
            FilterPolicy::DoubleProbeBloom { .. } => FilterKind::DoubleProbeBloom,
            FilterPolicy::Ribbon { .. } => FilterKind::Ribbon,
            FilterPolicy::BinaryFuse { .. } => FilterKind::BinaryFuse,
        }
    }

    /// Bits a key that filters of large tables take; 0 without a filter.
    pub fn bits_per_key(self) -> f64 {
        match self {
            FilterPolicy::None => 0.0,
            FilterPolicy::BlockedBloom { bits_per_key }
            | FilterPolicy::Bloom { bits_per_key }
            | FilterPolicy::LocalBloom { bits_per_key }
            | FilterPolicy::DoubleProbeBloom { bits_per_key }
            | FilterPolicy::Ribbon { bits_per_key } => bits_per_key.bits(),
            FilterPolicy::BinaryFuse { fingerprint_bits } => {
                f64::from(fingerprint_bits.bits()) * fuse::SLOTS_PER_KEY
            }
        }
    }

    /// The same kind of filter with another budget; see [`FilterKind::policy`].
    pub fn with_bits_per_key(self, bits_per_key: f64) -> FilterPolicy {
        self.kind().policy(bits_per_key)
    }

    /// Share of absent keys that filters of large tables answer "maybe" for, as the model of the kind
    /// predicts it for the number of probes it is built with; 1 without a filter. Takes some microseconds.
    /// Measured rates of the kinds made of lines exceed it by 1 to 3 % of their value up to 14 bits, because
    /// the probes of a key are not quite independent.
    pub fn false_positive_rate(self) -> f64 {
        match self {
            FilterPolicy::None => 1.0,
            FilterPolicy::BlockedBloom { bits_per_key } => {
                model::rate(bits_per_key.bits(), model::best_probes(bits_per_key))
            }
            FilterPolicy::LocalBloom { bits_per_key } => {
                model::rate(bits_per_key.bits(), local::probes(bits_per_key))
            }
            FilterPolicy::Bloom { bits_per_key } => {
                model::standard_rate(bits_per_key.bits(), model::standard_probes(bits_per_key))
            }
            FilterPolicy::DoubleProbeBloom { bits_per_key } => {
                model::double_rate(bits_per_key.bits(), model::double_probes(bits_per_key))
            }
            FilterPolicy::Ribbon { bits_per_key } => model::result_rate(ribbon::columns(bits_per_key)),
            FilterPolicy::BinaryFuse { fingerprint_bits } => {
                model::result_rate(fingerprint_bits.bits().into())
            }
        }
    }

    /// The smallest filter of the same kind whose [`FilterPolicy::false_positive_rate`] is at most `rate`, or
    /// `None` if the kind's largest does not reach it. A rate of 1 or more needs no filter and gives
    /// [`FilterPolicy::None`], which is also the only result for `FilterPolicy::None`. Takes some dozen
    /// microseconds.
    pub fn with_false_positive_rate(self, rate: f64) -> Option<FilterPolicy> {
        if rate >= 1.0 {
            return Some(FilterPolicy::None);
        }
        let kind = self.kind();
        let (mut least, mut most) = kind.sizes()?;
        let reaches = |size| kind.policy_of_size(size).false_positive_rate() <= rate;
        if !reaches(most) {
            return None;
        }
        while least < most {
            let middle = least + (most - least) / 2;
            if reaches(middle) {
                most = middle;
            } else {
                least = middle + 1;
            }
        }
        Some(kind.policy_of_size(most))
    }

    /// The substitute for unsolvable equations: a blocked Bloom filter of as many bits, within limits.
    pub(crate) fn without_solving(self) -> FilterPolicy {
        if self.is_solved() { FilterPolicy::blocked_bloom(self.bits_per_key()) } else { self }
    }

    /// Whether equations are solved for all keys together.
    pub(crate) fn is_solved(self) -> bool {
        matches!(self, FilterPolicy::Ribbon { .. } | FilterPolicy::BinaryFuse { .. })
    }

    /// Bits a key of [`FilterPolicy::with_false_positive_rate`].
    pub fn bits_for_rate(self, rate: f64) -> Option<f64> {
        self.with_false_positive_rate(rate).map(FilterPolicy::bits_per_key)
    }
}

impl FilterKind {
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

    /// The policy of one of the [`FilterKind::sizes`].
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

impl Default for FilterPolicy {
    fn default() -> FilterPolicy {
        FilterPolicy::DEFAULT
    }
}

impl fmt::Display for FilterPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name())?;
        match self {
            FilterPolicy::None => Ok(()),
            FilterPolicy::BinaryFuse { fingerprint_bits } => write!(f, ":{}", fingerprint_bits.bits()),
            sized => write!(f, ":{}", sized.bits_per_key()),
        }
    }
}

impl FromStr for FilterPolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<FilterPolicy> {
        let (name, parameter) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let Some(kind) = FilterKind::from_name(name) else {
            let known: Vec<_> = FilterKind::ALL.iter().map(|kind| kind.parameter()).collect();
            return Err(Error::invalid(format!("unknown filter {text:?}: {}", known.join(", "))));
        };
        let wrong = || Error::invalid(format!("wrong filter {text:?}: {}", kind.parameter()));
        let size = match (kind, parameter) {
            (FilterKind::None, None) => return Ok(FilterPolicy::None),
            (_, None) => kind.default_size(),
            (_, Some(size)) => kind.parse_size(size).ok_or_else(wrong)?,
        };
        Ok(kind.policy_of_size(size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_for_every_size() {
        for &kind in FilterKind::ALL {
            let Some((least, most)) = kind.sizes() else { continue };
            for size in least..=most {
                let policy = kind.policy_of_size(size);
                assert_eq!(policy.to_string().parse::<FilterPolicy>().unwrap(), policy);
            }
            assert!(kind.name().parse::<FilterPolicy>().unwrap().kind() == kind);
        }
        assert_eq!("none".parse::<FilterPolicy>().unwrap(), FilterPolicy::None);
        assert_eq!("blocked-bloom".parse::<FilterPolicy>().unwrap(), FilterPolicy::default());
        assert_eq!(FilterPolicy::DEFAULT.to_string(), "blocked-bloom:10");
    }

    #[test]
    fn numbers_are_brought_within_limits_and_names_are_not() {
        assert_eq!(FilterPolicy::blocked_bloom(1e9).bits_per_key(), 24.0);
        for none in [0.0, -3.0, 0.99, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(FilterPolicy::blocked_bloom(none), FilterPolicy::None);
        }
        for text in [
            "",
            "boom",
            "none:",
            "none:10",
            "blocked-bloom:",
            "blocked-bloom:0.5",
            "blocked-bloom:25",
            "bloom:33",
            "bloom:NaN",
            "ribbon:32.04",
            "binary-fuse:0",
            "binary-fuse:17",
            "binary-fuse:8.5",
            ":",
        ] {
            assert!(text.parse::<FilterPolicy>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_budget_keeps_the_kind() {
        for &kind in FilterKind::ALL {
            assert_eq!(FilterKind::from_name(kind.name()), Some(kind));
            let Some((least, most)) = kind.sizes() else { continue };
            for size in least..=most {
                let policy = kind.policy_of_size(size);
                assert_eq!((policy.kind(), policy.with_bits_per_key(policy.bits_per_key())), (kind, policy));
            }
            assert_eq!(kind.policy(f64::INFINITY), kind.policy_of_size(most));
            let below = kind.policy_of_size(least).bits_per_key() - 0.01;
            assert_eq!(kind.policy_of_size(most).with_bits_per_key(below), FilterPolicy::None);
        }
        assert_eq!(FilterPolicy::None.with_bits_per_key(10.0), FilterPolicy::None);
    }

    #[test]
    fn the_size_for_a_rate_is_the_least_that_reaches_it() {
        for &kind in FilterKind::ALL {
            let Some((least, most)) = kind.sizes() else { continue };
            let any = kind.policy_of_size(most);
            for size in least..=most {
                let policy = kind.policy_of_size(size);
                let rate = policy.false_positive_rate();
                assert_eq!(any.with_false_positive_rate(rate), Some(policy), "{policy}");
                // A little less needs the next size, which the largest does not have.
                let next = (size < most).then(|| kind.policy_of_size(size + 1));
                assert_eq!(any.with_false_positive_rate(rate * (1.0 - 1e-9)), next, "{policy}");
            }
            assert_eq!(any.bits_for_rate(f64::NAN), None);
            assert_eq!(any.bits_for_rate(1.0), Some(0.0));
        }
        assert_eq!(FilterPolicy::None.false_positive_rate(), 1.0);
        assert_eq!(FilterPolicy::None.bits_for_rate(0.5), None);
    }
}
