//! Keys, values and pseudo-random numbers, all from one seed.

/// Bytes of the pool that values are slices of; more for large values.
const POOL_BYTES: usize = 1 << 20;

/// A bijection of 64-bit numbers that scatters neighbours (the finalizer of splitmix64, Steele et al. 2014).
#[inline]
pub(crate) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Pseudo-random numbers: splitmix64.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// Independent streams for one seed: another `stream`, other numbers.
    pub(crate) fn new(seed: u64, stream: u64) -> Rng {
        Rng(mix(seed) ^ mix(!stream))
    }

    pub(crate) fn next(&mut self) -> u64 {
        let value = mix(self.0);
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        value
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number with the standard normal distribution, by the method of Box and Muller (1958).
    pub(crate) fn gaussian(&mut self) -> f64 {
        // One minus a number below 1 is above 0, so the logarithm is finite.
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// A number in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Many keys of one length in one allocation.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    key_size: usize,
}

/// A slice of [`Keys`], for one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    bytes: &'a [u8],
    key_size: usize,
}

impl Keys {
    pub(crate) fn whole(&self) -> Part<'_> {
        Part { bytes: &self.bytes, key_size: self.key_size }
    }

    /// Cut into `count` parts of nearly equal size; the last ones may be empty.
    pub(crate) fn split(&self, count: usize) -> Vec<Part<'_>> {
        let per_part = self.whole().len().div_ceil(count).max(1) * self.key_size;
        let parts = self.bytes.chunks(per_part).chain(std::iter::repeat(&[][..]));
        parts.take(count).map(|bytes| Part { bytes, key_size: self.key_size }).collect()
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.bytes.capacity() as u64
    }
}

impl<'a> Part<'a> {
    #[inline]
    pub(crate) fn iter(self) -> std::slice::ChunksExact<'a, u8> {
        self.bytes.chunks_exact(self.key_size)
    }

    pub(crate) fn len(self) -> usize {
        self.iter().len()
    }

    /// Groups of `size` keys; the last one may be smaller.
    pub(crate) fn groups(self, size: usize) -> impl Iterator<Item = Part<'a>> {
        self.bytes.chunks(size * self.key_size).map(move |bytes| Part { bytes, ..self })
    }
}

/// Makes keys and values, and checks values.
#[derive(Debug)]
pub(crate) struct Data {
    key_size: usize,
    value_size: usize,
    seed: u64,
    pool: Vec<u8>,
    /// Values start at multiples of this in the pool.
    piece_len: usize,
    /// Number of value starts.
    starts: u64,
}

impl Data {
    pub(crate) fn new(key_size: usize, value_size: usize, seed: u64) -> Data {
        // Pieces whose second half repeats the first: an LZ codec halves them.
        let half_len = (value_size / 2).clamp(1, 50);
        let pool_len = (POOL_BYTES + value_size).max(2 * value_size);
        let mut rng = Rng::new(seed, 0);
        let mut pool = Vec::with_capacity(pool_len + 2 * half_len);
        while pool.len() < pool_len {
            let start = pool.len();
            pool.extend((0..half_len).map(|_| rng.next() as u8));
            pool.extend_from_within(start..);
        }
        let piece_len = 2 * half_len;
        let starts = ((pool.len() - value_size) / piece_len) as u64;
        Data { key_size, value_size, seed, pool, piece_len, starts }
    }

    /// Appends the key of a record. Records beyond the data set are absent.
    fn push_key(&self, record: u64, keys: &mut Vec<u8>) {
        let end = keys.len() + self.key_size;
        let mut word = mix(record ^ self.seed.rotate_left(32));
        while keys.len() < end {
            let bytes = word.to_be_bytes();
            let len = bytes.len().min(end - keys.len());
            keys.extend_from_slice(&bytes[..len]);
            word = mix(word);
        }
    }

    pub(crate) fn keys(&self, records: impl Iterator<Item = u64>) -> Keys {
        let mut bytes = Vec::with_capacity(records.size_hint().0 * self.key_size);
        for record in records {
            self.push_key(record, &mut bytes);
        }
        Keys { bytes, key_size: self.key_size }
    }

    /// The first `count` records in the order of their keys.
    pub(crate) fn sorted_records(&self, count: u64) -> Vec<u64> {
        let mut records: Vec<(u64, u64)> =
            (0..count).map(|record| (mix(record ^ self.seed.rotate_left(32)), record)).collect();
        records.sort_unstable();
        records.into_iter().map(|(_, record)| record).collect()
    }

    /// The keys of the first `count` records in ascending order.
    pub(crate) fn sorted_keys(&self, count: u64) -> Keys {
        self.keys(self.sorted_records(count).into_iter())
    }

    /// The value of a key. Version 1 is what overwrites write.
    #[inline]
    pub(crate) fn value(&self, key: &[u8], version: u64) -> &[u8] {
        let scattered = match key.first_chunk::<8>() {
            Some(head) => mix(u64::from_le_bytes(*head) ^ version),
            None => 0,
        };
        let start = ((u128::from(scattered) * u128::from(self.starts)) >> 64) as usize * self.piece_len;
        self.pool.get(start..start + self.value_size).unwrap_or_default()
    }

    /// Whether `value` belongs to `key`: length and first bytes always, everything when `thorough`.
    #[inline]
    pub(crate) fn is_right(&self, key: &[u8], value: &[u8], thorough: bool) -> bool {
        if value.len() != self.value_size {
            return false;
        }
        let compared = if thorough { self.value_size } else { self.value_size.min(8) };
        let equals = |expected: &[u8]| expected.get(..compared) == value.get(..compared);
        equals(self.value(key, 0)) || equals(self.value(key, 1))
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.pool.capacity() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_are_distinct_and_of_their_length() {
        for key_size in [8, 9, 16, 33] {
            let data = Data::new(key_size, 100, 7);
            let keys = data.keys(0..2000);
            assert_eq!(keys.whole().len(), 2000);
            let set: BTreeSet<&[u8]> = keys.whole().iter().collect();
            assert_eq!(set.len(), 2000);
            assert!(set.iter().all(|key| key.len() == key_size));
            assert!(data.sorted_keys(2000).whole().iter().eq(set.iter().copied()));
        }
    }

    #[test]
    fn splitting_loses_no_key() {
        let keys = Data::new(16, 100, 7).keys(0..10);
        for parts in 1..15 {
            let split = keys.split(parts);
            assert_eq!(split.len(), parts);
            assert!(split.iter().flat_map(|part| part.iter()).eq(keys.whole().iter()));
            let grouped = keys.whole().groups(parts).flat_map(Part::iter);
            assert!(grouped.eq(keys.whole().iter()));
        }
    }

    #[test]
    fn values_belong_to_their_keys() {
        for value_size in [0, 1, 8, 100, 3 << 20] {
            let data = Data::new(16, value_size, 3);
            let keys = data.keys(0..50);
            for (key, other) in keys.whole().iter().zip(keys.whole().iter().skip(1)) {
                for version in [0, 1] {
                    assert!(data.is_right(key, data.value(key, version), true));
                }
                assert!(!data.is_right(key, &vec![0; value_size + 1], false));
                assert!(value_size < 8 || !data.is_right(key, data.value(other, 0), false));
            }
        }
    }

    #[test]
    fn values_compress_to_about_a_half() {
        let data = Data::new(16, 100, 3);
        let keys = data.keys(0..200);
        let repeats = keys.whole().iter().map(|key| {
            let value = data.value(key, 0);
            (50..100).filter(|&at| value[at] == value[at - 50]).count()
        });
        // Every byte after the fiftieth repeats the one 50 bytes before it.
        assert_eq!(repeats.sum::<usize>(), 200 * 50);
    }
}
