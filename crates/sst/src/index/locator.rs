//! Hash locator: a hash table from each key of a table to its block, in place of filter and index for
//! lookups.
//!
//! A slot holds a fingerprint of a key and the number of the block with the key's newest version. A lookup
//! reads the bucket of its key, one cache line, and then the blocks with equal fingerprints: mostly one, and
//! none for 99.5 % of absent keys with twelve bits. Filter and tree take four or five lines. Walks and seeks
//! use the search tree, which stays in memory beside it.
//!
//! ```text
//! section: version u8 (1) | slot bytes u8 (4 or 5) | block bits u8 | 0 u8 | buckets u32 | longest u32
//!          | 0 u32 | keys u64 | bucket*
//! bucket:  64 bytes, 16 slots of 4 bytes or 12 of 5, filled from the front; the rest is 0
//! slot:    fingerprint << block bits | block; the fingerprint is at least 1, so a slot of 0 is empty
//! ```
//! The home bucket of a key is `(hash >> 32) * buckets >> 32`, and its fingerprint the lowest bits of its
//! hash (linear probing by buckets). A key whose home bucket is full lies in one of the next buckets,
//! wrapping around; `longest` is the most buckets of a search, and a bucket with an empty slot ends it.
//!
//! Cost: 5.3 bytes a key with slots of four bytes, 6.7 with five, in memory and in the file (at 10 million
//! keys 274 ns a lookup instead of 553); the writer keeps 12 bytes a key until the table is finished. A
//! locator that does not fit is not built: fingerprints never get shorter than twelve bits for the sake of
//! block numbers.

use crate::decode_error::{DecodeError, damaged, unsupported};
use crate::simd::prefetch;
use esker_base::Result;
use esker_base::coding::Reader;

/// The format that this build writes, and the newest that it reads.
const VERSION: u8 = 1;
/// Bytes in front of the buckets.
const HEADER_BYTES: usize = 24;
const BUCKET_BYTES: usize = 64;
/// Fewest bits of a fingerprint: one absent key in 200 to 300 reads a block. With eight bits it would be one
/// in 20, and a filter would be worth keeping.
const MIN_FINGERPRINT_BITS: u32 = 12;
/// Most bits of a fingerprint: higher hash bits choose the block's own fingerprint and the bucket.
const MAX_FINGERPRINT_BITS: u32 = 24;
/// Most keys of a table: 1.8 GB of locator. It keeps all lengths within 32 bits of buckets.
const MAX_KEYS: usize = 1 << 28;
/// Keys between two checks for cancellation: at 50 to 160 ns each, some milliseconds.
pub(crate) const KEYS_PER_CHECK: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SlotWidth {
    bytes: usize,
    block_bits: u32,
}

impl SlotWidth {
    /// The least for so many blocks; `None` if there are too many.
    fn for_blocks(blocks: usize) -> Option<SlotWidth> {
        let block_bits = (blocks.saturating_sub(1).max(1)).ilog2() + 1;
        let fits = |bytes: usize| 8 * bytes as u32 >= block_bits + MIN_FINGERPRINT_BITS;
        [4, 5].into_iter().find(|&bytes| fits(bytes)).map(|bytes| SlotWidth { bytes, block_bits })
    }

    fn slots_per_bucket(self) -> usize {
        BUCKET_BYTES / self.bytes
    }

    /// Slots filled on average: more would make searches longer than a bucket or two.
    fn filled_per_bucket(self) -> f64 {
        self.slots_per_bucket() as f64 * if self.bytes == 4 { 0.75 } else { 0.8 }
    }

    /// What a slot holds above the block number for a key with this hash.
    #[inline]
    fn fingerprint(self, hash: u64) -> u64 {
        let bits = (8 * self.bytes as u32 - self.block_bits).min(MAX_FINGERPRINT_BITS);
        (hash & ((1 << bits) - 1)).max(1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
struct Bucket([u8; BUCKET_BYTES]);

impl Bucket {
    #[inline]
    fn slot(&self, width: SlotWidth, at: usize) -> u64 {
        let mut slot = [0; 8];
        slot[..width.bytes].copy_from_slice(&self.0[at * width.bytes..(at + 1) * width.bytes]);
        u64::from_le_bytes(slot)
    }
}

#[derive(Debug)]
pub(crate) struct Locator {
    width: SlotWidth,
    buckets: Vec<Bucket>,
    longest: usize,
    keys: u64,
}

impl Locator {
    /// Decodes the section of a table with so many blocks. Allocates no more than the section has bytes.
    pub(crate) fn decode(section: &[u8], blocks: usize) -> Result<Locator, DecodeError> {
        let mut reader = Reader::new(section);
        let fields = (reader.u8(), reader.u8(), reader.u8(), reader.u8());
        let numbers = (reader.u32(), reader.u32(), reader.u32(), reader.u64());
        let (Some(version), Some(bytes), Some(block_bits), Some(0)) = fields else {
            return damaged(format!("a locator of {} bytes has no header", section.len()));
        };
        let (Some(buckets), Some(longest), Some(0), Some(keys)) = numbers else {
            return damaged(format!("a locator of {} bytes has no header", section.len()));
        };
        if version != VERSION {
            return unsupported(format!("the locator has format {version}, this build reads {VERSION}"));
        }
        let width = SlotWidth { bytes: usize::from(bytes), block_bits: u32::from(block_bits) };
        let stored = reader.rest();
        let (buckets, longest) = (buckets as usize, longest as usize);
        if SlotWidth::for_blocks(blocks) != Some(width)
            || buckets == 0
            || stored.len() != buckets * BUCKET_BYTES
            || !(1..=buckets).contains(&longest)
        {
            return damaged(format!(
                "a locator for {blocks} blocks cannot have {buckets} buckets in {} bytes, slots of {bytes} bytes with \
                 {block_bits} for the block, and searches of {longest}",
                stored.len()
            ));
        }
        let (lines, _) = stored.as_chunks::<BUCKET_BYTES>();
        let locator = Locator { width, buckets: lines.iter().copied().map(Bucket).collect(), longest, keys };
        let block_of = |slot: u64| slot & ((1 << width.block_bits) - 1);
        let is_good = |bucket: &Bucket| {
            (0..width.slots_per_bucket()).all(|at| block_of(bucket.slot(width, at)) < blocks as u64)
        };
        if !locator.buckets.iter().all(is_good) {
            return damaged(format!("the locator names blocks behind the last of {blocks}"));
        }
        Ok(locator)
    }

    #[inline]
    fn home_bucket(&self, hash: u64) -> usize {
        (((hash >> 32) * self.buckets.len() as u64) >> 32) as usize
    }

    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch(self.buckets.as_ptr().wrapping_add(self.home_bucket(hash)).cast());
    }

    /// The blocks that may hold the newest version of the key with this hash; no other does.
    #[inline]
    pub(crate) fn candidates(&self, hash: u64) -> Candidates<'_> {
        Candidates {
            locator: self,
            fingerprint: self.width.fingerprint(hash),
            bucket: self.home_bucket(hash),
            at: 0,
            left: self.longest,
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * BUCKET_BYTES
    }

    pub(crate) fn keys(&self) -> u64 {
        self.keys
    }

    pub(crate) fn fingerprint_bits(&self) -> u32 {
        (8 * self.width.bytes as u32 - self.width.block_bits).min(MAX_FINGERPRINT_BITS)
    }
}

/// Iterator over candidate block numbers, see [`Locator::candidates`].
pub(crate) struct Candidates<'a> {
    locator: &'a Locator,
    fingerprint: u64,
    bucket: usize,
    at: usize,
    /// Buckets that may be read, this one included.
    left: usize,
}

impl Iterator for Candidates<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let (width, buckets) = (self.locator.width, &self.locator.buckets);
        while self.left > 0 {
            let bucket = buckets.get(self.bucket)?;
            while self.at < width.slots_per_bucket() {
                let slot = bucket.slot(width, self.at);
                self.at += 1;
                if slot == 0 {
                    self.left = 0;
                    return None;
                }
                if slot >> width.block_bits == self.fingerprint {
                    return Some((slot & ((1 << width.block_bits) - 1)) as usize);
                }
            }
            self.left -= 1;
            self.at = 0;
            self.bucket = if self.bucket + 1 == buckets.len() { 0 } else { self.bucket + 1 };
        }
        None
    }
}

#[derive(Debug, Default)]
pub(crate) struct LocatorBuilder {
    hashes: Vec<u64>,
    blocks: Vec<u32>,
}

impl LocatorBuilder {
    /// Adds the next key, whose newest version is in this block.
    #[inline]
    pub(crate) fn add(&mut self, hash: u64, block: u32) {
        if self.hashes.len() <= MAX_KEYS {
            self.hashes.push(hash);
            self.blocks.push(block);
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<u64>() + self.blocks.capacity() * size_of::<u32>()
    }

    /// Estimated bytes of the section, with slots of the common width.
    pub(crate) fn estimated_bytes(&self) -> u64 {
        (self.hashes.len() as f64 * 4.0 / 0.75) as u64 + HEADER_BYTES as u64
    }

    /// The section of a table with so many blocks. `None` if there are no keys, or more keys or blocks than
    /// fit: lookups then use filter and search tree. Calls `check_cancelled` after each [`KEYS_PER_CHECK`].
    ///
    /// # Errors
    /// Those of `check_cancelled`.
    pub(crate) fn finish(
        &self,
        blocks: usize,
        check_cancelled: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Vec<u8>>> {
        if self.hashes.is_empty() || self.hashes.len() > MAX_KEYS {
            return Ok(None);
        }
        let Some(width) = SlotWidth::for_blocks(blocks) else { return Ok(None) };
        let count = (self.hashes.len() as f64 / width.filled_per_bucket()).ceil() as usize;
        let mut locator = Locator { width, buckets: vec![Bucket([0; 64]); count], longest: 1, keys: 0 };
        let mut filled = vec![0u8; count];
        for (hashes, blocks) in self.hashes.chunks(KEYS_PER_CHECK).zip(self.blocks.chunks(KEYS_PER_CHECK)) {
            check_cancelled()?;
            for (&hash, &block) in hashes.iter().zip(blocks) {
                locator.insert(&mut filled, hash, block);
            }
        }
        check_cancelled()?;
        let mut section = Vec::with_capacity(HEADER_BYTES + count * BUCKET_BYTES);
        section.extend_from_slice(&[VERSION, width.bytes as u8, width.block_bits as u8, 0]);
        section.extend_from_slice(&(count as u32).to_le_bytes());
        section.extend_from_slice(&(locator.longest as u32).to_le_bytes());
        section.extend_from_slice(&[0; 4]);
        section.extend_from_slice(&(self.hashes.len() as u64).to_le_bytes());
        locator.buckets.iter().for_each(|bucket| section.extend_from_slice(&bucket.0));
        Ok(Some(section))
    }
}

impl Locator {
    /// Inserts a key into the first free bucket from its home on; there is one, as slots stay free.
    fn insert(&mut self, filled: &mut [u8], hash: u64, block: u32) {
        let SlotWidth { bytes, block_bits } = self.width;
        let slot = self.width.fingerprint(hash) << block_bits | u64::from(block);
        let mut bucket = self.home_bucket(hash);
        for looked_into in 1.. {
            let at = usize::from(filled[bucket]);
            if (0..at).any(|at| self.buckets[bucket].slot(self.width, at) == slot) {
                // Another key with this fingerprint is in the same block.
                return;
            }
            if at < self.width.slots_per_bucket() {
                self.buckets[bucket].0[at * bytes..(at + 1) * bytes]
                    .copy_from_slice(&slot.to_le_bytes()[..bytes]);
                filled[bucket] += 1;
                self.longest = self.longest.max(looked_into);
                return;
            }
            bucket = (bucket + 1) % filled.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_env::{Random, SeededRandom};

    fn finish(builder: &LocatorBuilder, blocks: usize) -> Option<Vec<u8>> {
        builder.finish(blocks, &|| Ok(())).unwrap()
    }

    /// A section of keys in blocks of thirty, and their hashes.
    fn build(keys: usize, blocks: usize, random: &SeededRandom) -> (Vec<u8>, Vec<u64>) {
        let mut builder = LocatorBuilder::default();
        let hashes: Vec<u64> = (0..keys).map(|_| random.next_u64()).collect();
        for (at, &hash) in hashes.iter().enumerate() {
            builder.add(hash, (at * blocks / keys) as u32);
        }
        (finish(&builder, blocks).unwrap(), hashes)
    }

    #[test]
    fn every_key_is_found_and_few_others() {
        let random = SeededRandom::new(1);
        for (keys, blocks) in
            [(1, 1), (10, 2), (999, 40), (40_000, 1_300), (3_000, (1 << 20) + 1), (5_000, 1 << 28)]
        {
            let (section, hashes) = build(keys, blocks, &random);
            let locator = Locator::decode(&section, blocks).unwrap();
            assert!(locator.fingerprint_bits() >= 12 && locator.keys() == keys as u64);
            for (at, &hash) in hashes.iter().enumerate() {
                let block = at * blocks / keys;
                assert!(locator.candidates(hash).any(|candidate| candidate == block), "key {at} of {keys}");
            }
            let wrong: usize = (0..20_000).map(|_| locator.candidates(random.next_u64()).count()).sum();
            assert!(
                wrong < 20_000 / 150,
                "{wrong} of 20000 absent keys check_cancelled present, {keys} keys, {blocks} blocks"
            );
            if keys > 1_000 {
                let bytes_a_key = locator.memory_bytes() as f64 / keys as f64;
                assert!((5.0..7.0).contains(&bytes_a_key), "{bytes_a_key}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_not_cut_short() {
        let mut builder = LocatorBuilder::default();
        assert!(finish(&builder, 0).is_none() && finish(&builder, 5).is_none(), "no keys, no locator");
        builder.add(7, 0);
        assert!(finish(&builder, 1 << 28).is_some());
        assert!(
            finish(&builder, (1 << 28) + 1).is_none(),
            "no block number of 29 bits beside 12 of a fingerprint"
        );
    }

    #[test]
    fn keys_of_one_bucket_spread_over_the_next() {
        // The home bucket of all is 0, and fingerprints of one block are equal only if the keys' are.
        let mut builder = LocatorBuilder::default();
        (0..100).for_each(|key| builder.add(key + 1, (key % 3) as u32));
        let locator = Locator::decode(&finish(&builder, 3).unwrap(), 3).unwrap();
        assert!(locator.longest >= 7);
        assert!((0..100).all(|key| locator.candidates(key + 1).eq([(key % 3) as usize])));
        assert_eq!(locator.candidates(101).count(), 0);
    }

    #[test]
    fn damaged_sections_never_panic() {
        let (good, _) = build(70, 9, &SeededRandom::new(2));
        for at in 0..good.len() {
            for byte in [0, 1, 4, 5, 0x7f, 0x80, 0xff, good[at] ^ 1] {
                let mut bytes = good.clone();
                bytes[at] = byte;
                if let Ok(locator) = Locator::decode(&bytes, 9) {
                    let blocks = (0..200u64).flat_map(|key| locator.candidates(key << 25 | key));
                    assert!(blocks.take(5_000).all(|block| block < 9));
                }
            }
            assert!(Locator::decode(&good[..at], 9).is_err());
        }
        assert!(Locator::decode(&good, 8).is_err() && Locator::decode(&good, 17).is_err());
    }
}
