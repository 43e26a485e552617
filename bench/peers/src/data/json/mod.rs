//! Values that are JSON: `{"etag":"<tag in hex>",` and one of some hundred documents, which follows from the
//! tag.
//!
//! Documents are made once, so that making a value is a copy. Their compressibility is that of real JSON.
//! The minified files of simdjson's collection, `github_events.json`, `random.json`, `update-center.json` and
//! `twitter.json`, shrink by this repository's LZ4 to these parts of their length: in blocks of 4 KiB to
//! 0.391, 0.447, 0.484 and 0.485, in blocks of 32 KiB to 0.290, 0.320, 0.372 and 0.186. Values shrink to
//! 0.474 and 0.287; a test holds them between.

mod documents;

use super::hex;
use super::random::{Random, mix};
use documents::Writer;

/// Bytes of values.
pub(crate) const LEAST_JSON_BYTES: usize = 50;
pub(crate) const MOST_JSON_BYTES: usize = 2_000;
/// Documents. Together they have about 350 KB, which stay in a core's L2 cache; of the 69 values in a block
/// of 32 KiB three have the document of another one.
const DOCUMENTS: u64 = 768;
/// What begins a value, before and behind the tag.
const HEAD: &[u8; 9] = b"{\"etag\":\"";
const BEHIND: &[u8; 2] = b"\",";
const TAG_BYTES: usize = 16;
const HEAD_BYTES: usize = HEAD.len() + TAG_BYTES + BEHIND.len();

/// Values of many lengths.
pub(super) struct JsonValues {
    /// All documents, each without its opening brace.
    pool: Vec<u8>,
    /// Where documents begin; the last one is the end of all.
    starts: Vec<u32>,
}

impl JsonValues {
    pub(super) fn new(seed: u64) -> JsonValues {
        let mut random = Random::new(seed ^ 0x6a_73_6f_6e);
        let (mut pool, mut starts) = (Vec::new(), vec![0]);
        let (least, most) = (LEAST_JSON_BYTES - HEAD_BYTES, MOST_JSON_BYTES - HEAD_BYTES);
        for _ in 0..DOCUMENTS {
            // Evenly by the logarithm: half of them are shorter than the geometric mean, 316 bytes.
            let ratio = MOST_JSON_BYTES as f64 / LEAST_JSON_BYTES as f64;
            let wanted = (LEAST_JSON_BYTES as f64 * ratio.powf(random.unit())) as usize - HEAD_BYTES;
            let document = Writer::new(&mut random, wanted.clamp(least, most)).document(least);
            pool.extend_from_slice(document.as_bytes());
            starts.push(pool.len() as u32);
        }
        JsonValues { pool, starts }
    }

    /// Bytes of a value, by mean.
    pub(super) fn mean_bytes(&self) -> usize {
        HEAD_BYTES + self.pool.len() / DOCUMENTS as usize
    }

    #[inline]
    fn document(&self, tag: u64) -> &[u8] {
        let place = ((u128::from(mix(tag)) * u128::from(DOCUMENTS)) >> 64) as usize;
        &self.pool[self.starts[place] as usize..self.starts[place + 1] as usize]
    }

    /// Bytes of the value with this tag.
    // Cold, as all that is not for records of one length: it stays out of their way.
    #[cold]
    #[inline(never)]
    pub(super) fn len(&self, tag: u64) -> usize {
        HEAD_BYTES + self.document(tag).len()
    }

    /// Fills the beginning of `value`, and returns its length.
    #[cold]
    #[inline(never)]
    pub(super) fn fill(&self, tag: u64, value: &mut [u8]) -> usize {
        let document = self.document(tag);
        let (head, rest) = value.split_at_mut(HEAD_BYTES);
        head.copy_from_slice(&head_of(tag));
        rest[..document.len()].copy_from_slice(document);
        HEAD_BYTES + document.len()
    }

    /// The tag of a value, if its length follows from it.
    #[cold]
    #[inline(never)]
    pub(super) fn tag_of(&self, value: &[u8]) -> Option<u64> {
        let digits = value.get(HEAD.len()..)?.first_chunk::<TAG_BYTES>()?;
        let [high, low] =
            [digits.first_chunk()?, digits.last_chunk()?].map(|half: &[u8; 8]| u64::from_be_bytes(*half));
        let tag = (u64::from(hex::number(high)) << 32) | u64::from(hex::number(low));
        (value.len() == self.len(tag)).then_some(tag)
    }

    /// Whether all of a value with this tag is right.
    pub(super) fn is_whole(&self, tag: u64, value: &[u8]) -> bool {
        value.starts_with(&head_of(tag)) && value[HEAD_BYTES..] == *self.document(tag)
    }
}

fn head_of(tag: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    let (begin, rest) = head.split_at_mut(HEAD.len());
    begin.copy_from_slice(HEAD);
    rest[..8].copy_from_slice(&hex::digits((tag >> 32) as u32).to_be_bytes());
    rest[8..TAG_BYTES].copy_from_slice(&hex::digits(tag as u32).to_be_bytes());
    rest[TAG_BYTES..].copy_from_slice(BEHIND);
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_codec::Codec;

    fn values(count: u64) -> Vec<Vec<u8>> {
        let json = JsonValues::new(1);
        let value = |number| {
            let mut value = vec![0; MOST_JSON_BYTES];
            let len = json.fill(mix(number), &mut value);
            value.truncate(len);
            value
        };
        (0..count).map(value).collect()
    }

    #[test]
    fn values_are_json_of_many_small_and_few_large_lengths() {
        let values = values(4_000);
        for value in &values {
            let parsed: serde_json::Value = serde_json::from_slice(value).unwrap();
            assert_eq!(parsed["etag"].as_str().unwrap().len(), TAG_BYTES);
        }
        let mut lens: Vec<usize> = values.iter().map(Vec::len).collect();
        lens.sort_unstable();
        let (least, median, most) = (lens[0], lens[lens.len() / 2], lens[lens.len() - 1]);
        assert!((LEAST_JSON_BYTES..70).contains(&least), "{least}");
        assert!((250..400).contains(&median), "{median}");
        assert!((1_800..=MOST_JSON_BYTES).contains(&most), "{most}");
        let mean = JsonValues::new(1).mean_bytes();
        assert!((450..550).contains(&mean) && mean.abs_diff(lens.iter().sum::<usize>() / lens.len()) < 30);
    }

    /// Within what the files named above shrink to.
    #[test]
    fn values_shrink_as_real_json_does() {
        let bytes = values(8_000).concat();
        for (block_bytes, least, most) in [(4 << 10, 0.391, 0.485), (32 << 10, 0.186, 0.372)] {
            let mut scratch = Vec::new();
            let stored =
                bytes.chunks(block_bytes).map(|block| Codec::Lz4.compress(block, &mut scratch).bytes.len());
            let part = stored.sum::<usize>() as f64 / bytes.len() as f64;
            println!("blocks of {block_bytes} bytes shrink to {part:.3}");
            assert!((least..most).contains(&part), "blocks of {block_bytes} bytes shrink to {part:.3}");
        }
    }
}
