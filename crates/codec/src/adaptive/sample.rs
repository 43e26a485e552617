//! Classification of a block's data by a sample.

use super::AdaptiveOptions;
use crate::columns::{MAX_STRIDE, Rows};

/// A kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataKind {
    /// Rows of integers, or of data that changes as little.
    Integers,
    /// Text, JSON, XML, mostly in Latin letters.
    Text,
    /// Anything else that may shrink.
    Binary,
    /// Likely compressed or encrypted already.
    Noise,
}

impl DataKind {
    pub(super) const COUNT: usize = 4;
}

/// The classification reads so many pieces of so many bytes.
const CLASSIFY_PIECES: usize = 4;
const CLASSIFY_PIECE_BYTES: usize = 64;

/// Of 256 random bytes 162 are different, give or take 5; of text or of records half as many.
const NOISY_DISTINCT: usize = 140;

/// Bytes of each piece of the sample; pieces are spread over the block.
const PIECE_BYTES: usize = 256;

/// Least sample of a short block: below it, entropy is mostly guessed.
const LEAST_SAMPLE_BYTES: usize = 512;

/// Distances tried where the caller does not know rows: the usual lengths of integers and pairs of them.
const USUAL_STRIDES: [usize; 4] = [8, 4, 16, 12];

/// Bytes compared with those a row later.
const REPEAT_WINDOW_BYTES: usize = 512;

/// Repeating bytes in eight of the next row, as above 48-bit numbers; text has one, noise none.
const REPEATS_IN_EIGHT: usize = 2;

/// Where rows of integers lie, if the block looks like them.
pub(super) enum IntegerRows<'a> {
    /// As the caller says.
    Known(&'a [Rows]),
    /// All over the block.
    Everywhere([Rows; 1]),
}

impl IntegerRows<'_> {
    pub(super) fn as_slice(&self) -> &[Rows] {
        match self {
            IntegerRows::Known(rows) => rows,
            IntegerRows::Everywhere(rows) => rows,
        }
    }
}

/// Where rows of integers lie, if bytes repeat at their distance: rows that the caller knows, of which the
/// last are taken to be the entries, or of a usual length.
fn integers<'a>(raw: &[u8], rows: &'a [Rows]) -> Option<IntegerRows<'a>> {
    if let Some(last) = rows.last() {
        let is_usable = (1..=MAX_STRIDE).contains(&last.stride);
        let entries = raw.get(last.start..).filter(|_| is_usable)?;
        return repeats_at(entries, last.stride).then_some(IntegerRows::Known(rows));
    }
    let stride = USUAL_STRIDES.into_iter().find(|&stride| repeats_at(raw, stride))?;
    Some(IntegerRows::Everywhere([Rows { start: 0, stride, count: raw.len() / stride }]))
}

/// Classifies a block; also where its rows lie if it is integers.
pub(super) fn classify<'a>(raw: &[u8], rows: &'a [Rows]) -> (DataKind, Option<IntegerRows<'a>>) {
    if let Some(found) = integers(raw, rows) {
        return (DataKind::Integers, Some(found));
    }
    let (mut seen, mut printable, mut total) = ([0u8; 256], 0, 0);
    for piece in 0..CLASSIFY_PIECES {
        let start = raw.len().saturating_sub(CLASSIFY_PIECE_BYTES) * piece / (CLASSIFY_PIECES - 1);
        let bytes = &raw[start..(start + CLASSIFY_PIECE_BYTES).min(raw.len())];
        total += bytes.len();
        // At most 64 of them, which the compiler counts in vectors of bytes.
        printable += usize::from(bytes.iter().fold(0u8, |count, &byte| count + u8::from(is_printable(byte))));
        for &byte in bytes {
            seen[usize::from(byte)] = 1;
        }
    }
    let distinct: usize = seen.iter().map(|&seen| usize::from(seen)).sum();
    let kind = match () {
        () if distinct >= NOISY_DISTINCT => DataKind::Noise,
        () if printable * 4 >= total * 3 => DataKind::Text,
        () => DataKind::Binary,
    };
    (kind, None)
}

fn is_printable(byte: u8) -> bool {
    byte.wrapping_sub(b' ') < 0x5f || byte == b'\n'
}

/// Entropy of a sample by the options, in thousandths of a bit a byte.
pub(super) fn entropy_millibits(options: &AdaptiveOptions, raw: &[u8]) -> u32 {
    Counts::of_sample(raw, options.sample_bytes as usize).entropy_millibits()
}

/// Whether bytes in the middle repeat at this distance as often as those of integers.
fn repeats_at(bytes: &[u8], stride: usize) -> bool {
    let Some(room) = bytes.len().checked_sub(stride) else { return false };
    let window = REPEAT_WINDOW_BYTES.min(room);
    let start = (room - window) / 2;
    let repeats = crate::columns::repeats(
        &bytes[start..start + window],
        &bytes[start + stride..start + stride + window],
    );
    window > 0 && repeats * 8 >= window * REPEATS_IN_EIGHT
}

struct Counts {
    of: [u32; 256],
    total: u32,
}

impl Counts {
    fn of_sample(raw: &[u8], most: usize) -> Counts {
        let wanted = most.min((raw.len() / 8).max(LEAST_SAMPLE_BYTES)).min(raw.len());
        let pieces = wanted.div_ceil(PIECE_BYTES).max(1);
        // Two counters for each byte, so that equal neighbours do not wait for each other.
        let (mut even, mut odd) = ([0u32; 256], [0u32; 256]);
        let mut total = 0;
        for piece in 0..pieces {
            let start = (raw.len() - PIECE_BYTES.min(raw.len())) * piece / pieces.saturating_sub(1).max(1);
            let bytes = &raw[start..(start + PIECE_BYTES).min(raw.len())];
            total += bytes.len() as u32;
            let pairs = bytes.chunks_exact(2);
            for &byte in pairs.remainder() {
                even[usize::from(byte)] += 1;
            }
            for pair in pairs {
                even[usize::from(pair[0])] += 1;
                odd[usize::from(pair[1])] += 1;
            }
        }
        for (even, odd) in even.iter_mut().zip(odd) {
            *even += odd;
        }
        Counts { of: even, total }
    }

    /// Shannon's entropy of the bytes, in thousandths of a bit, with Miller's correction for a small sample.
    fn entropy_millibits(&self) -> u32 {
        if self.total == 0 {
            return 0;
        }
        let (mut sum, mut kinds) = (0.0, 0u32);
        for &count in &self.of {
            // Most counts of a sample are small.
            sum += match SMALL_SUMMANDS.get(count as usize) {
                Some(summand) => *summand,
                None => count as f32 * log2(count as f32),
            };
            kinds += u32::from(count > 0);
        }
        let total = self.total as f32;
        let entropy = log2(total) - sum / total;
        let unseen = kinds.saturating_sub(1) as f32 / (2.0 * total * std::f32::consts::LN_2);
        ((entropy + unseen) * 1000.0) as u32
    }
}

/// Summand of the entropy for a byte that occurs so often.
static SMALL_SUMMANDS: [f32; 32] = {
    let mut summands = [0.0; 32];
    let mut count = 1;
    while count < summands.len() {
        summands[count] = count as f32 * log2(count as f32);
        count += 1;
    }
    summands
};

/// The logarithm within a hundredth, several times faster than the exact one; 0 for 0.
const fn log2(number: f32) -> f32 {
    let bits = number.to_bits();
    let exponent = (bits >> 23) as i32 - 127;
    let mantissa = f32::from_bits(bits & 0x007f_ffff | 0x3f80_0000);
    let log2 = exponent as f32 + (2.0 - mantissa / 3.0) * mantissa - 5.0 / 3.0;
    if number > 0.0 { log2 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(len: usize) -> Vec<u8> {
        let mut state = 3u64;
        (0..len)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect()
    }

    #[test]
    fn kinds_are_distinguished() {
        for len in [1024, 4096, 65_536] {
            let kind = |raw: &[u8]| classify(raw, &[]).0;
            assert_eq!(kind(&noise(len)), DataKind::Noise, "{len}");
            let text = "Müller, Straße 5; {\"name\": \"größer\", \"id\": 77}\n".repeat(len / 40);
            assert_eq!(kind(text.as_bytes()), DataKind::Text, "{len}");
            let numbers: Vec<u8> =
                noise(len / 4).chunks_exact(2).flat_map(|n| [n[0], n[1], 3, 0, 0, 0, 0, 0]).collect();
            let (kind_of_numbers, found) = classify(&numbers, &[]);
            let expected = [Rows { start: 0, stride: 8, count: len / 8 }];
            assert_eq!(
                (kind_of_numbers, found.unwrap().as_slice()),
                (DataKind::Integers, &expected[..]),
                "{len}"
            );
            let mixed: Vec<u8> = noise(len).iter().map(|byte| byte & 0x3f).collect();
            assert_eq!(kind(&mixed), DataKind::Binary, "{len}");
        }
        for len in 0..300 {
            assert!(classify(&noise(len), &[]).1.is_none());
        }
    }

    #[test]
    fn rows_say_where_integers_lie() {
        // 18 is no usual length.
        let rows: Vec<u8> = noise(4096)
            .chunks_exact(2)
            .flat_map(|n| [n[0], n[1], 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18])
            .collect();
        let known = [Rows { start: 0, stride: 18, count: rows.len() / 18 }];
        assert_eq!(integers(&rows, &known).unwrap().as_slice(), known);
        for stride in [0, 17, usize::MAX] {
            assert!(integers(&rows, &[Rows { start: 0, stride, count: 1 }]).is_none());
        }
        assert!(integers(&rows, &[Rows { start: usize::MAX, stride: 18, count: 1 }]).is_none());
    }

    #[test]
    fn entropy_is_that_of_the_bytes() {
        let entropy = |raw: &[u8]| Counts::of_sample(raw, 1 << 20).entropy_millibits();
        assert!(entropy(&[7; 5000]) < 30);
        let sixteen: Vec<u8> = noise(64 << 10).iter().map(|byte| byte & 15).collect();
        assert!((3_900..=4_100).contains(&entropy(&sixteen)), "{}", entropy(&sixteen));
        assert!(entropy(&noise(64 << 10)) > 7_900);
        for number in 1..5000u16 {
            let number = f32::from(number);
            assert!((log2(number) - number.log2()).abs() < 0.011, "{number}");
        }
    }
}
