//! Lookups in a Ribbon filter.

use super::banding::parity;
use super::{MAX_COLUMNS, Row, Shape, WIDTH};
use crate::probe::{self, prefetch};
use crate::shards::shard_of;
use esker_base::coding::Reader;

const ENTRY_BYTES: usize = 12;

#[derive(Clone, Copy, Debug)]
struct RibbonShard {
    first_word: usize,
    shape: Shape,
    seed: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct Ribbon {
    shards: Box<[RibbonShard]>,
    /// All shards' words, and zeros after them: a row at the last slot reads one block further.
    words: Box<[u128]>,
}

#[derive(Clone, Copy, Default)]
struct RowLookup {
    row: Row,
    /// First word of the block that the row starts in.
    word: usize,
    columns: usize,
    refused: bool,
}

impl Ribbon {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Ribbon, String> {
        let cut = || "a Ribbon filter has no whole header".to_owned();
        let padding = reader.u16().ok_or_else(cut)?;
        let count = reader.u32().ok_or_else(cut)? as usize;
        if padding != 0 || count == 0 || count > reader.remaining() / ENTRY_BYTES {
            return Err(format!(
                "a Ribbon filter of {count} shards and padding {padding} in {} bytes",
                reader.remaining()
            ));
        }
        let mut shards = Vec::with_capacity(count);
        let mut first_word = 0u64;
        for number in 0..count {
            let (blocks, words) = (reader.u32().ok_or_else(cut)?, reader.u32().ok_or_else(cut)?);
            let [seed, zeros @ ..] = reader.u32().ok_or_else(cut)?.to_le_bytes();
            let shape = Shape::new(blocks, words).filter(|_| zeros == [0; 3]);
            let Some(shape) = shape else {
                return Err(format!(
                    "shard {number} of a Ribbon filter has {words} words for {blocks} blocks"
                ));
            };
            shards.push(RibbonShard { first_word: first_word as usize, shape, seed });
            first_word += u64::from(words);
        }
        let data = reader.rest();
        if data.len() as u64 != first_word * size_of::<u128>() as u64 {
            return Err(format!("a Ribbon filter of {first_word} words has {} bytes of them", data.len()));
        }
        let stored = data
            .chunks_exact(size_of::<u128>())
            .map(|bytes| u128::from_le_bytes(bytes.try_into().expect("chunks of sixteen bytes")));
        let words = stored.chain([0; MAX_COLUMNS as usize]).collect();
        Ok(Ribbon { shards: shards.into(), words })
    }

    #[inline(always)]
    fn lookup(&self, hash: u64) -> RowLookup {
        let shard = &self.shards[shard_of(hash, self.shards.len() as u32)];
        let starts = shard.shape.starts();
        if starts == 0 {
            return RowLookup { refused: true, ..RowLookup::default() };
        }
        let row = Row::new(hash, shard.seed, starts);
        let (word, columns) = shard.shape.words_of(row.start / u64::from(WIDTH));
        RowLookup { row, word: shard.first_word + word as usize, columns: columns as usize, refused: false }
    }

    #[inline(always)]
    fn prefetch_words(&self, lookup: &RowLookup) {
        const WORDS_OF_A_LINE: usize = 64 / size_of::<u128>();
        let first = self.words.as_ptr().wrapping_add(lookup.word);
        // One word more than needed at most, since the first one may lie anywhere in its line.
        for word in (0..2 * lookup.columns + WORDS_OF_A_LINE - 1).step_by(WORDS_OF_A_LINE) {
            prefetch(first.wrapping_add(word));
        }
    }

    /// Whether the equation holds, column by column: an absent key is rejected by the second one on average.
    #[inline(always)]
    fn holds(&self, lookup: &RowLookup) -> bool {
        if lookup.refused {
            return false;
        }
        let offset = (lookup.row.start % u64::from(WIDTH)) as u32;
        // With an offset of zero nothing is left for the next block; a shift by 128 would not be one.
        let here = lookup.row.coefficients << offset;
        let there = lookup.row.coefficients >> 1 >> (WIDTH - 1 - offset);
        let Some(words) = self.words.get(lookup.word..lookup.word + 2 * lookup.columns) else {
            return true;
        };
        let (first, second) = words.split_at(lookup.columns);
        first.iter().zip(second).enumerate().all(|(column, (first, second))| {
            parity(first & here ^ second & there) == (lookup.row.result >> column & 1 == 1)
        })
    }

    pub(crate) fn prefetch(&self, hash: u64) {
        let lookup = self.lookup(hash);
        self.prefetch_words(&lookup);
    }

    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        self.holds(&self.lookup(hash))
    }

    pub(crate) fn may_contain_many(&self, hashes: &[u64], maybe: &mut [bool]) {
        let ask = |hash| {
            let lookup = self.lookup(hash);
            self.prefetch_words(&lookup);
            lookup
        };
        probe::in_two_steps(hashes, maybe, ask, |lookup| self.holds(lookup));
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.words) + size_of_val(&*self.shards)
    }

    pub(crate) fn describe(&self) -> String {
        let blocks: u64 = self.shards.iter().map(|shard| u64::from(shard.shape.blocks)).sum();
        let words: u64 = self.shards.iter().map(|shard| shard.shape.words()).sum();
        format!("Ribbon, {} shards, {blocks} blocks, {words} words", self.shards.len())
    }
}
