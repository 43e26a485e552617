//! Generates keys of several shapes, laid out flat, so that timed loops do not chase pointers to their keys.

use esker::parts::env::SeededRandom;

/// The shape of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Sixteen random bytes.
    Random,
    /// Sixteen decimal digits, ascending.
    Sequential,
    /// `user:` and ten digits, all numbers, in random order.
    Dense,
    /// `user:` and ten digits, three of four numbers absent, in random order.
    Sparse,
    /// A big-endian number of eight bytes, in random order.
    Number,
    /// A path with few directories and many files, in random order.
    Path,
}

/// The sparse shape uses one of so many numbers.
const SPARSE_EVERY: u64 = 4;

impl Shape {
    pub(crate) const ALL: [Shape; 6] =
        [Shape::Random, Shape::Sequential, Shape::Dense, Shape::Sparse, Shape::Number, Shape::Path];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Shape::Random => "random",
            Shape::Sequential => "sequential",
            Shape::Dense => "dense",
            Shape::Sparse => "sparse",
            Shape::Number => "number",
            Shape::Path => "path",
        }
    }

    /// Appends key number `number`; different numbers give different keys, and all have one length.
    fn push(self, number: u64, bytes: &mut Vec<u8>) {
        match self {
            Shape::Random => {
                bytes.extend_from_slice(&scatter(number).to_be_bytes());
                bytes.extend_from_slice(&scatter(number ^ 0xABCD_EF01).to_be_bytes());
            }
            Shape::Sequential => push_decimal(number, 16, bytes),
            Shape::Dense => push_user(number, bytes),
            Shape::Sparse => push_user(number * SPARSE_EVERY + scatter(number) % SPARSE_EVERY, bytes),
            Shape::Number => bytes.extend_from_slice(&number.to_be_bytes()),
            Shape::Path => {
                bytes.extend_from_slice(b"tenant/");
                push_decimal(number % 1000, 4, bytes);
                bytes.extend_from_slice(b"/table/");
                push_decimal(number % 7, 3, bytes);
                bytes.extend_from_slice(b"/row/");
                push_decimal(number, 10, bytes);
            }
        }
    }
}

fn push_user(number: u64, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(b"user:");
    push_decimal(number, 10, bytes);
}

/// The last `digits` decimal digits of a number.
pub(crate) fn push_decimal(mut number: u64, digits: usize, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.resize(start + digits, b'0');
    for digit in bytes[start..].iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// A bijection of 64-bit numbers that scatters neighbours (the finalizer of splitmix64; Steele, Lea and
/// Flood, 2014).
#[inline]
pub(crate) fn scatter(number: u64) -> u64 {
    let mut word = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[derive(Debug)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    len: usize,
}

impl Keys {
    /// `count` distinct keys, in the order in which they are to be inserted.
    pub(crate) fn new(shape: Shape, count: usize, random: &SeededRandom) -> Keys {
        let mut order: Vec<u32> = (0..count as u32).collect();
        if shape != Shape::Sequential {
            shuffle(&mut order, random);
        }
        let mut one = Vec::new();
        shape.push(0, &mut one);
        let len = one.len();
        let mut bytes = Vec::with_capacity(count * len);
        order.iter().for_each(|&number| shape.push(u64::from(number), &mut bytes));
        Keys { bytes, len }
    }

    /// `count` of these keys, some perhaps more than once, copied out in the order of their use.
    pub(crate) fn drawn(&self, count: usize, random: &SeededRandom) -> Keys {
        self.picked((0..count).map(|_| random.below(self.count() as u64) as usize))
    }

    /// Every other key, beginning with the first.
    pub(crate) fn every_other(&self) -> Keys {
        self.picked((0..self.count()).step_by(2))
    }

    pub(crate) fn picked(&self, places: impl Iterator<Item = usize>) -> Keys {
        let mut bytes = Vec::new();
        places.for_each(|place| bytes.extend_from_slice(self.at(place)));
        Keys { bytes, len: self.len }
    }

    pub(crate) fn count(&self) -> usize {
        self.bytes.len() / self.len
    }

    pub(crate) fn key_len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn at(&self, index: usize) -> &[u8] {
        &self.bytes[index * self.len..(index + 1) * self.len]
    }

    pub(crate) fn iter(&self) -> std::slice::ChunksExact<'_, u8> {
        self.bytes.chunks_exact(self.len)
    }
}

/// Shuffles after Fisher and Yates.
pub(crate) fn shuffle<T>(items: &mut [T], random: &SeededRandom) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_are_distinct_and_of_one_length() {
        for shape in Shape::ALL {
            let keys = Keys::new(shape, 3000, &SeededRandom::new(5));
            assert_eq!(keys.count(), 3000);
            assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 3000, "{}", shape.name());
            assert_eq!(keys.iter().is_sorted(), shape == Shape::Sequential, "{}", shape.name());
            let drawn = keys.drawn(100, &SeededRandom::new(6));
            assert!(drawn.iter().all(|key| keys.iter().any(|other| other == key)));
        }
    }

    #[test]
    fn keys_have_their_described_form() {
        let key = |shape: Shape, number| {
            let mut bytes = Vec::new();
            shape.push(number, &mut bytes);
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!(key(Shape::Sequential, 42), "0000000000000042");
        assert_eq!(key(Shape::Dense, 42), "user:0000000042");
        assert_eq!(key(Shape::Path, 1008), "tenant/0008/table/000/row/0000001008");
        let sparse: u64 = key(Shape::Sparse, 42)[5..].parse().unwrap();
        assert!((168..172).contains(&sparse));
    }
}
