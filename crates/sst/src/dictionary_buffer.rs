//! Dictionary buffer: holds a table's first blocks until its compression dictionary is trained from them.
//!
//! [`SAMPLE_BYTES`] of blocks are buffered, encoded but not compressed; after the training they are written
//! like any others. Keys ascend, so the first blocks are no fair sample of keys, but the common form of
//! values and the names in them do not depend on the order. Samples from all inputs of a compaction would
//! have to be read twice.
//!
//! A dictionary is used only if it saves more than its own length on the buffered blocks, with the saving
//! multiplied if more blocks follow.

use crate::block::staged::Staged;
use crate::block::{self, BlockHeader, BlockLayout, Scratch};
use crate::options::MAX_BLOCK_SIZE_BYTES;
use esker_base::{Result, Tag};
use esker_cache::Admission;
use esker_codec::dictionary::SAMPLE_BYTES;
use esker_codec::{Codec, DictionaryEncoder, History};

/// Length of the training samples: a usual block. Longer blocks are cut, because training needs many samples.
const PIECE_BYTES: usize = 4096;

/// A continuing table is assumed this many times as long as the buffered blocks. Most are much longer.
const LIKELY_MULTIPLE: usize = 4;

/// Bytes of a block in the file and of its index entry, without its stored payload and its separator.
const AROUND_BYTES: usize = 48;

/// A block that is encoded but not compressed.
#[derive(Debug)]
pub(crate) struct BufferedBlock {
    /// As if the block were stored raw.
    pub(crate) header: BlockHeader,
    /// Its lower bound in the index.
    pub(crate) separator: Vec<u8>,
    pub(crate) continued_at: Option<Tag>,
    /// The kind of reader to cache it for.
    pub(crate) admission: Option<Admission>,
}

/// What is known of a block whose entries are staged.
#[derive(Debug)]
pub(crate) struct StagedBlock<'a> {
    pub(crate) layout: BlockLayout,
    pub(crate) number: u32,
    pub(crate) separator: &'a [u8],
    /// As in the block index.
    pub(crate) continued_at: Option<Tag>,
    /// The kind of reader to cache the block for.
    pub(crate) admission: Option<Admission>,
}

#[derive(Debug, Default)]
pub(crate) struct DictionaryBuffer {
    payloads: Vec<u8>,
    blocks: Vec<BufferedBlock>,
    /// Bytes of the blocks in the file without a dictionary.
    plain_bytes: usize,
}

impl DictionaryBuffer {
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(crate) fn is_enough(&self) -> bool {
        self.payloads.len() >= SAMPLE_BYTES
    }

    /// Bytes of the blocks in the file without a dictionary, with frames and index entries.
    pub(crate) fn estimated_bytes(&self) -> usize {
        self.plain_bytes + AROUND_BYTES * self.blocks.len()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.payloads.capacity() + self.blocks.capacity() * size_of::<BufferedBlock>()
    }

    pub(crate) fn add(
        &mut self,
        staged: &mut Staged,
        block: &StagedBlock<'_>,
        codec: Codec,
        scratch: &mut Scratch,
    ) {
        let start = self.payloads.len();
        let header = block::append_payload(staged, block.layout, block.number, &mut self.payloads);
        let stored = codec.compress(&self.payloads[start..], scratch.compressed());
        self.plain_bytes += stored.bytes.len();
        let (continued_at, admission) = (block.continued_at, block.admission);
        self.blocks.push(BufferedBlock {
            header,
            separator: block.separator.to_vec(),
            continued_at,
            admission,
        });
    }

    /// Trains the dictionary; `None` if it saves too little. `is_all`: no block follows. `check_cancelled` is
    /// called before the training, which cannot be interrupted, and before each block.
    ///
    /// # Errors
    /// Those of `check_cancelled`.
    pub(crate) fn train(
        &self,
        codec: Codec,
        is_all: bool,
        scratch: &mut Scratch,
        check_cancelled: &dyn Fn() -> Result<()>,
    ) -> Result<Option<DictionaryEncoder>> {
        let Codec::ZstdDictionary { level } = codec else { return Ok(None) };
        check_cancelled()?;
        let mut samples = Vec::with_capacity(self.payloads.len().min(2 * SAMPLE_BYTES));
        // A giant value is not representative.
        for (_, payload) in self.blocks().filter(|(_, payload)| payload.len() <= MAX_BLOCK_SIZE_BYTES) {
            samples.extend_from_slice(payload);
        }
        let lengths: Vec<usize> = samples.chunks(PIECE_BYTES).map(<[u8]>::len).collect();
        let Some(dictionary) = DictionaryEncoder::train(&samples, &lengths, level) else { return Ok(None) };
        let mut len = 0;
        for (_, payload) in self.blocks() {
            check_cancelled()?;
            let stored = codec.compress_with(
                payload,
                &[],
                Some(&dictionary),
                &mut History::default(),
                scratch.compressed(),
            );
            len += stored.bytes.len();
        }
        let saved = self.plain_bytes.saturating_sub(len) * if is_all { 1 } else { LIKELY_MULTIPLE };
        Ok((saved > dictionary.bytes().len()).then_some(dictionary))
    }

    pub(crate) fn blocks(&self) -> impl Iterator<Item = (&BufferedBlock, &[u8])> {
        let mut rest = &self.payloads[..];
        self.blocks.iter().map(move |block| {
            let (payload, behind) = rest.split_at(block.header.raw_len as usize);
            rest = behind;
            (block, payload)
        })
    }
}
