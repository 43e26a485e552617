//! Dictionaries for Zstandard, each trained from a table's first blocks and shared by all its blocks.
//!
//! A block of 4 KiB is too short to learn from: most repetitions lie in other blocks. A dictionary is a few
//! KiB of what blocks have in common, and tables of symbol frequencies; training is Zstandard's own (COVER:
//! Liao, Petri, Moffat and Wirth, *Effective construction of relative Lempel-Ziv dictionaries*, WWW 2016).
//!
//! Costs: training on 256 KiB takes 16 to 21 ms of processor time, once a table; the dictionary lies in the
//! file once and in memory prepared, about 27 KiB more than its length, while the table is open. Every block
//! that was written with it needs it, so it is not optional as a filter is.
//!
//! A dictionary has a number, derived from its contents, that every frame repeats (4 bytes a block): a block
//! is never decoded with another table's dictionary.

use crate::kind::Codec;
use crate::zstd::{CDict, DDict, train};

/// Longest dictionary that is written: four usual blocks. It takes memory for each open table.
pub const MAX_TRAINED_BYTES: usize = 16 << 10;

/// Longest dictionary that is read, so that damage cannot cause large allocations.
pub const MAX_DICTIONARY_BYTES: usize = 256 << 10;

/// Bytes of samples for training.
pub const SAMPLE_BYTES: usize = SAMPLES_PER_BYTE * MAX_TRAINED_BYTES;

/// Less than so many bytes of samples train no dictionary.
pub const MIN_SAMPLE_BYTES: usize = 16 << 10;

/// Bytes of samples for a byte of dictionary, at least.
const SAMPLES_PER_BYTE: usize = 16;

/// A dictionary to compress with, prepared for a level.
pub struct DictionaryEncoder {
    bytes: Vec<u8>,
    prepared: CDict<'static>,
}

impl DictionaryEncoder {
    /// Trains a dictionary from samples, which are concatenated in `samples` and have these `lengths`; `None`
    /// if they are too few, too short or have nothing in common.
    pub fn train(samples: &[u8], lengths: &[usize], level: i32) -> Option<DictionaryEncoder> {
        if samples.len() < MIN_SAMPLE_BYTES {
            return None;
        }
        let most = (samples.len() / SAMPLES_PER_BYTE).min(MAX_TRAINED_BYTES);
        let bytes = train(samples, lengths, most)?;
        let level = level.clamp(Codec::MIN_ZSTD_LEVEL, Codec::MAX_ZSTD_LEVEL);
        let prepared = CDict::try_create(&bytes, level)?;
        // A dictionary that readers would refuse, or could not tell from another, must not be written.
        prepared.get_dict_id()?;
        DictionaryDecoder::new(&bytes)?;
        Some(DictionaryEncoder { bytes, prepared })
    }

    /// The dictionary, to be stored beside the blocks.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.prepared.sizeof()
    }

    pub(crate) fn prepared(&self) -> &CDict<'static> {
        &self.prepared
    }
}

impl std::fmt::Debug for DictionaryEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DictionaryEncoder").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// A dictionary to decompress with; shared by all threads.
pub struct DictionaryDecoder {
    prepared: DDict<'static>,
}

impl DictionaryDecoder {
    /// Prepares a copy of a stored dictionary; `None` if it is none, is longer than [`MAX_DICTIONARY_BYTES`],
    /// or memory is exhausted. Accepts any bytes.
    pub fn new(bytes: &[u8]) -> Option<DictionaryDecoder> {
        if bytes.len() > MAX_DICTIONARY_BYTES {
            return None;
        }
        // Bytes without a dictionary's head would be taken as raw contents, which frames do not identify.
        let prepared = DDict::try_create(bytes).filter(|prepared| prepared.get_dict_id().is_some())?;
        Some(DictionaryDecoder { prepared })
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.prepared.sizeof()
    }

    pub(crate) fn prepared(&self) -> &DDict<'static> {
        &self.prepared
    }
}

impl std::fmt::Debug for DictionaryDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DictionaryDecoder")
            .field("memory_bytes", &self.memory_bytes())
            .finish_non_exhaustive()
    }
}
