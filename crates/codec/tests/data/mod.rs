//! Blocks to compress, from a seed.

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// Named blocks of many lengths and kinds, those around LZ4's and Zstandard's own limits included.
#[allow(dead_code, reason = "not every test wants all samples")]
pub(crate) fn samples(seed: u64) -> Vec<(String, Vec<u8>)> {
    let mut random = Random(seed);
    let mut samples = Vec::new();
    for len in [0, 1, 2, 12, 13, 14, 63, 64, 65, 511, 4096, 4097, 65_534, 65_535, 65_536, 131_072] {
        samples.push((format!("{len} zeros"), vec![0; len]));
        samples.push((format!("{len} random bytes"), random.bytes(len)));
        let entries = (0..).flat_map(|i| format!("user:{i:010}=").into_bytes()).take(len).collect();
        samples.push((format!("{len} bytes of keys"), entries));
        let mut half = random.bytes(len / 2);
        half.extend_from_within(..);
        samples.push((format!("{len} bytes, noise twice"), half));
        let few = (0..len).map(|_| b"abc"[random.below(3)]).collect();
        samples.push((format!("{len} bytes of three letters"), few));
    }
    samples
}
