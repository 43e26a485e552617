//! Which filter new tables get.

use esker_base::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// How many bits a key has in the filter, in tenths: the allocation over the levels gives fractions, and rounding
/// them to whole bits would cost up to 8 % of the saved reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitsPerKey(u16);

impl BitsPerKey {
    /// One bit a key: the filter still refuses a third of the absent keys.
    pub const MIN: BitsPerKey = BitsPerKey(10);
    /// Twenty-four bits a key. One line holds too few keys to use more: the rate falls by half a bit's worth for
    /// each bit added.
    pub const MAX: BitsPerKey = BitsPerKey(240);

    /// The nearest representable value within the limits; [`BitsPerKey::MIN`] for what is no number.
    pub fn from_bits(bits: f64) -> BitsPerKey {
        // A float saturates when cast, and NaN becomes 0.
        BitsPerKey((bits * 10.0).round() as u16).clamp(Self::MIN, Self::MAX)
    }

    /// The number of bits.
    pub fn bits(self) -> f64 {
        f64::from(self.0) / 10.0
    }

    /// The number of tenths of bits.
    #[inline]
    pub const fn tenths(self) -> u16 {
        self.0
    }
}

/// The filter of new tables.
///
/// People write it as `none` or `blocked-bloom:9.5`; [`fmt::Display`] gives the same back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FilterPolicy {
    /// No filter: every lookup searches the table.
    None,
    /// A Bloom filter whose probes for one key all lie in one cache line.
    BlockedBloom {
        /// Memory spent.
        bits_per_key: BitsPerKey,
    },
}

impl FilterPolicy {
    /// Ten bits a key: 1 % false positives for 1.25 bytes a key.
    pub const DEFAULT: FilterPolicy = FilterPolicy::BlockedBloom { bits_per_key: BitsPerKey(100) };

    /// A blocked Bloom filter of about `bits_per_key`, which is brought within the limits. Below one bit, where a
    /// filter is not worth its lookup, the policy is [`FilterPolicy::None`].
    pub fn blocked_bloom(bits_per_key: f64) -> FilterPolicy {
        if bits_per_key >= BitsPerKey::MIN.bits() {
            FilterPolicy::BlockedBloom { bits_per_key: BitsPerKey::from_bits(bits_per_key) }
        } else {
            FilterPolicy::None
        }
    }

    /// Bits a key; 0 without a filter.
    pub fn bits_per_key(self) -> f64 {
        match self {
            FilterPolicy::None => 0.0,
            FilterPolicy::BlockedBloom { bits_per_key } => bits_per_key.bits(),
        }
    }
}

impl Default for FilterPolicy {
    fn default() -> FilterPolicy {
        FilterPolicy::DEFAULT
    }
}

impl fmt::Display for FilterPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilterPolicy::None => f.write_str("none"),
            FilterPolicy::BlockedBloom { bits_per_key } => write!(f, "blocked-bloom:{}", bits_per_key.bits()),
        }
    }
}

impl FromStr for FilterPolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<FilterPolicy> {
        let wrong = || {
            let (min, max) = (BitsPerKey::MIN.bits(), BitsPerKey::MAX.bits());
            Error::invalid(format!(
                "unknown filter {text:?}: none or blocked-bloom:BITS with {min} to {max} bits a key"
            ))
        };
        match text {
            "none" => Ok(FilterPolicy::None),
            "blocked-bloom" => Ok(FilterPolicy::DEFAULT),
            _ => {
                let bits = text.strip_prefix("blocked-bloom:").ok_or_else(wrong)?;
                let bits: f64 = bits.parse().map_err(|_| wrong())?;
                if !(BitsPerKey::MIN.bits()..=BitsPerKey::MAX.bits()).contains(&bits) {
                    return Err(wrong());
                }
                Ok(FilterPolicy::blocked_bloom(bits))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_for_every_tenth() {
        for tenths in BitsPerKey::MIN.tenths()..=BitsPerKey::MAX.tenths() {
            let policy = FilterPolicy::blocked_bloom(f64::from(tenths) / 10.0);
            assert_eq!(policy, FilterPolicy::BlockedBloom { bits_per_key: BitsPerKey(tenths) });
            assert_eq!(policy.to_string().parse::<FilterPolicy>().unwrap(), policy);
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
        for text in
            ["", "bloom", "blocked-bloom:", "blocked-bloom:0.5", "blocked-bloom:25", "blocked-bloom:NaN"]
        {
            assert!(text.parse::<FilterPolicy>().is_err(), "{text:?}");
        }
    }
}
