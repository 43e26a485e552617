//! Table stream: the entries of a table in order, block by block, whether the table is whole or not.
//!
//! Blocks are found by their own headers, so index and footer are not needed. Where a block is missing the
//! stream goes on behind it and notes the gap. Memory is one block and a window of the file, whatever the
//! size of the table.

use super::finding::KeySpan;
use esker_base::{Result, SeqNo, TableUid, Tag};
use esker_env::File;
use esker_sst::{Salvage, SalvagedBlock, SalvagedEnd};
use std::sync::Arc;

/// Blocks that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableGap {
    /// Where the damaged bytes begin.
    pub(crate) offset: u64,
    /// How many blocks are missing, if that is known.
    pub(crate) blocks: Option<u64>,
    /// The last key before the gap and the first behind it; versions of both may be missing.
    pub(crate) after: Option<Vec<u8>>,
    pub(crate) before: Option<Vec<u8>>,
}

impl TableGap {
    /// The keys that may be missing, within the keys that the table may hold.
    pub(crate) fn keys(&self, table: &KeySpan) -> KeySpan {
        let start = self.after.clone().unwrap_or_else(|| table.start.clone());
        let behind = |key: &Vec<u8>| [key, &[0u8][..]].concat();
        KeySpan { start, end: self.before.as_ref().map(behind).or_else(|| table.end.clone()) }
    }
}

/// What is known of a table before its blocks are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownTable {
    /// What a stored sequence number of 0 stands for.
    pub(crate) global_seqno: Option<SeqNo>,
    /// How many entries it has.
    pub(crate) entries: Option<u64>,
    /// Where its blocks end.
    pub(crate) data_end: Option<u64>,
    /// How many blocks it has.
    pub(crate) blocks: Option<u64>,
}

impl KnownTable {
    /// What the end of the table says.
    pub(crate) fn from_end(end: &SalvagedEnd) -> KnownTable {
        KnownTable {
            global_seqno: None,
            entries: end.properties.as_ref().map(|properties| properties.entries),
            data_end: end.data_end,
            blocks: end.properties.as_ref().map(|properties| properties.blocks),
        }
    }
}

/// A walk over the entries of one table.
#[derive(Debug)]
pub(crate) struct TableStream {
    salvage: Salvage,
    known: KnownTable,
    block: EntryBlock,
    at: usize,
    /// The last entry of the blocks before the present one.
    last: Option<(Vec<u8>, Tag)>,
    next_number: u64,
    /// Behind the last readable block.
    good_end: u64,
    seen: u64,
    gaps: Vec<TableGap>,
}

/// The entries of one block.
#[derive(Debug, Default)]
struct EntryBlock {
    bytes: Vec<u8>,
    entries: Vec<EntryPlace>,
}

#[derive(Clone, Copy, Debug)]
struct EntryPlace {
    at: usize,
    key_len: usize,
    value_len: usize,
    tag: Tag,
}

impl EntryBlock {
    fn push(&mut self, key: &[u8], tag: Tag, value: &[u8]) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.entries.push(EntryPlace { at, key_len: key.len(), value_len: value.len(), tag });
    }

    fn get(&self, at: usize) -> Option<(&[u8], Tag, &[u8])> {
        let EntryPlace { at, key_len, value_len, tag } = *self.entries.get(at)?;
        let (key, value) = self.bytes[at..at + key_len + value_len].split_at(key_len);
        Some((key, tag, value))
    }

    /// Whether the entries are in internal order, and behind `last`.
    fn follows(&self, last: Option<&(Vec<u8>, Tag)>) -> bool {
        let entries = (0..self.entries.len()).filter_map(|at| self.get(at));
        let mut before = last.map(|(key, tag)| (&**key, *tag));
        for (key, tag, _) in entries {
            let is_behind = before.is_none_or(|(last, newer)| last < key || last == key && newer > tag);
            if !is_behind {
                return false;
            }
            before = Some((key, tag));
        }
        true
    }
}

impl TableStream {
    /// The stream of the table `uid` in `file`, on its first entry.
    ///
    /// # Errors
    /// [`esker_base::Error::Unsupported`] if a newer version wrote the table.
    pub(crate) fn open(
        file: Arc<dyn File>,
        file_bytes: u64,
        uid: TableUid,
        known: KnownTable,
    ) -> Result<TableStream> {
        let mut stream = TableStream {
            salvage: Salvage::open(file, file_bytes, Some(uid))?,
            known,
            block: EntryBlock::default(),
            at: 0,
            last: None,
            next_number: 0,
            good_end: FIRST_BLOCK_AT,
            seen: 0,
            gaps: Vec::new(),
        };
        stream.load()?;
        Ok(stream)
    }

    /// The present entry; `None` behind the last.
    pub(crate) fn entry(&self) -> Option<(&[u8], Tag, &[u8])> {
        let (key, tag, value) = self.block.get(self.at)?;
        let tag = match self.known.global_seqno {
            Some(global) if tag.seqno() == SeqNo::ZERO => Tag::from_parts(global, tag.kind_byte()),
            _ => tag,
        };
        Some((key, tag, value))
    }

    /// Moves to the next entry.
    pub(crate) fn advance(&mut self) -> Result<()> {
        self.at += 1;
        if self.at >= self.block.entries.len() { self.load() } else { Ok(()) }
    }

    /// The missing blocks; complete behind the last entry.
    pub(crate) fn gaps(&self) -> &[TableGap] {
        &self.gaps
    }

    /// Entries that were read.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// At most so many entries are missing, if that is known.
    pub(crate) fn missing_at_most(&self) -> Option<u64> {
        self.known.entries.map(|entries| entries.saturating_sub(self.seen))
    }

    /// Reads the next good block.
    fn load(&mut self) -> Result<()> {
        if let Some(EntryPlace { at, key_len, tag, .. }) = self.block.entries.last().copied() {
            self.last = Some((self.block.bytes[at..at + key_len].to_vec(), tag));
        }
        loop {
            (self.at, self.block) =
                (0, EntryBlock { bytes: std::mem::take(&mut self.block.bytes), ..EntryBlock::default() });
            self.block.bytes.clear();
            let block = &mut self.block;
            let Some(found) = self.salvage.next_block(|key, tag, value| block.push(key, tag, value))? else {
                self.note_end();
                return Ok(());
            };
            // A block with a right checksum and entries out of order was not written by any version.
            if u64::from(found.header.number) >= self.next_number && self.block.follows(self.last.as_ref()) {
                self.note_block(&found);
                return Ok(());
            }
        }
    }

    fn note_block(&mut self, found: &SalvagedBlock) {
        let number = u64::from(found.header.number);
        if number > self.next_number {
            self.gaps.push(TableGap {
                offset: self.good_end,
                blocks: Some(number - self.next_number),
                after: self.last.as_ref().map(|(key, _)| key.clone()),
                before: self.block.get(0).map(|(key, _, _)| key.to_vec()),
            });
        }
        self.next_number = number + 1;
        self.good_end = found.offset + found.header.file_len() as u64;
        self.seen += self.block.entries.len() as u64;
    }

    /// Judges whether blocks are missing at the end.
    fn note_end(&mut self) {
        let is_whole = match (self.known.blocks, self.known.entries, self.known.data_end) {
            (Some(blocks), _, _) => self.next_number >= blocks,
            (_, _, Some(end)) => self.good_end >= end,
            (_, Some(entries), _) => self.seen >= entries,
            _ => false,
        };
        let is_noted = self.gaps.last().is_some_and(|gap| gap.before.is_none());
        if !is_whole && !is_noted {
            self.gaps.push(TableGap {
                offset: self.good_end,
                blocks: self.known.blocks.map(|blocks| blocks - self.next_number.min(blocks)),
                after: self.last.as_ref().map(|(key, _)| key.clone()),
                before: None,
            });
        }
    }
}

/// Where the first block of a table starts.
const FIRST_BLOCK_AT: u64 = 32;
