//! Memory of a filter for each key: bits a key, and bits of a fingerprint.

/// Bits of the filter for each key, in tenths: the allocation over the levels gives fractions, and rounding
/// them to whole bits would cost up to 8 % of the saved reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitsPerKey(u16);

impl BitsPerKey {
    /// One bit a key: the filter still rejects a third of the absent keys.
    pub const MIN: BitsPerKey = BitsPerKey(10);
    /// Thirty-two bits a key: one false positive in four million lookups.
    pub const MAX: BitsPerKey = BitsPerKey(320);
    /// Twenty-four bits a key, the most of kinds whose keys have their bits in one line or two. A line holds
    /// too few keys to use more: each added bit brings half of its usual gain.
    pub const MAX_OF_LINES: BitsPerKey = BitsPerKey(240);
    /// Ten bits a key.
    pub const DEFAULT: BitsPerKey = BitsPerKey(100);

    /// The nearest value within the limits; [`BitsPerKey::MIN`] for NaN.
    pub fn from_bits(bits: f64) -> BitsPerKey {
        // A float saturates when cast, and NaN becomes 0.
        BitsPerKey::from_tenths((bits * 10.0).round() as u16)
    }

    /// This many tenths of a bit, clamped to the limits.
    pub fn from_tenths(tenths: u16) -> BitsPerKey {
        BitsPerKey(tenths).clamp(Self::MIN, Self::MAX)
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

/// Bits of each key's fingerprint, from 1 to 16: absent keys pass with a chance of one half to that power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FingerprintBits(u8);

impl FingerprintBits {
    /// One bit.
    pub const MIN: FingerprintBits = FingerprintBits(1);
    /// Sixteen bits.
    pub const MAX: FingerprintBits = FingerprintBits(16);
    /// Eight bits: 0.4 % false positives.
    pub const DEFAULT: FingerprintBits = FingerprintBits(8);

    /// That many bits, if they are within the limits.
    pub fn new(bits: u8) -> Option<FingerprintBits> {
        (Self::MIN.0..=Self::MAX.0).contains(&bits).then_some(FingerprintBits(bits))
    }

    /// The number of bits.
    #[inline]
    pub const fn bits(self) -> u8 {
        self.0
    }

    #[inline]
    pub(crate) const fn mask(self) -> u16 {
        u16::MAX >> (16 - self.0)
    }
}
