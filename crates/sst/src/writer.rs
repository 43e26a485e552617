//! Table writer: stages entries, encodes and compresses blocks, and writes them in sequence; `finish` writes
//! the sections.
//!
//! Writes are sequential; memory is bounded by a buffer of 256 KiB, the index and the filter's hashes. Blocks
//! that will share a dictionary are buffered first ([`crate::dictionary_buffer`]). Nothing is allocated per
//! entry or block. The file is complete and durable when [`TableWriter::finish`] returns; the caller makes
//! its name durable.

mod finish;

use crate::block::header::{HEADER_BYTES, TRAILER_BYTES, placed_checksum};
use crate::block::staged::Staged;
use crate::block::{self, BlockHeader, BlockLayout, Compression, Scratch};
use crate::block_bounds::BoundsEncoder;
use crate::cache_warmer::CacheWarmer;
use crate::dictionary_buffer::{DictionaryBuffer, StagedBlock};
use crate::expiring::Expiring;
use crate::file_writer::FileWriter;
use crate::footer::{DIRECTORY_ENTRY_BYTES, FOOTER_BYTES, encode_file_header};
use crate::index::locator::LocatorBuilder;
use crate::index::section::{IndexEncoder, separator};
use crate::input_residency::JobControl;
use crate::options::TableOptions;
use crate::page_alignment::padding_before;
use crate::properties::TableProperties;
use esker_base::checksum::key_hash;
use esker_base::key::{common_prefix_len, leading};
use esker_base::large_buffer::LARGE_BYTES;
use esker_base::limits::{MAX_KEY_LEN, MAX_VALUE_LEN};
use esker_base::{Error, Result, TableUid, Tag};
use esker_cache::Admission;
use esker_codec::{Codec, DictionaryEncoder, id};
use esker_env::{File, MemoryHolding, MemoryLedger};
use esker_filter::{FilterBuilder, FilterPolicy};
use esker_iter::RangeTombstones;
use std::sync::Arc;

/// Approximate bytes of index pages for a block: separator, place, and the page's directory.
const PAGES_BYTES_A_BLOCK: u64 = 24;

/// Times that a large value is in memory while its block is made: staged and encoded, encoded and compressed,
/// compressed and appended.
const LARGE_VALUE_COPIES: u64 = 2;

/// What the writer holds is counted at its first block and then after so many: it grows by some bytes with
/// each.
const BLOCKS_PER_COUNT: u32 = 32;

/// What the writer holds is counted in such units, so that it changes rarely.
const HELD_UNIT_BYTES: usize = 64 << 10;

/// Most bytes of separators, which the index in memory addresses with 32 bits.
const MAX_SEPARATOR_BYTES: u64 = u32::MAX as u64;

/// Writes one table.
#[derive(Debug)]
pub struct TableWriter {
    out: FileWriter,
    layout: BlockLayout,
    /// The limit of the block that is being staged.
    block_size_bytes: usize,
    /// That of all blocks but the first.
    full_block_size_bytes: usize,
    aligns_blocks: bool,
    codec: Codec,
    uid: TableUid,
    properties: TableProperties,
    expiring: Expiring,
    staged: Staged,
    /// Tag of the entry added last, and the leading bytes of its key.
    last_tag: Tag,
    last_leading: u128,
    /// Entries of the block being staged whose key is that of the entry before.
    repeated_keys: u64,
    /// Whether a plain put of a new key concerns only the block and the filter, which allows the fast path.
    is_plain: bool,
    /// Last key of the block before the one being staged.
    closed_key: Vec<u8>,
    /// Lower bound of the block being staged, and the tag of its first entry if it continues a key.
    separator: Vec<u8>,
    continued_at: Option<Tag>,
    separator_bytes: u64,
    index: IndexEncoder,
    filter: FilterBuilder,
    filter_policy: FilterPolicy,
    /// Bits of the whole filter, if they are fixed.
    filter_bits: Option<u64>,
    with_pages: bool,
    locator: Option<LocatorBuilder>,
    bounds: Option<BoundsEncoder>,
    range_tombstones: RangeTombstones,
    buffered: Option<Box<DictionaryBuffer>>,
    dictionary: Option<DictionaryEncoder>,
    scratch: Scratch,
    warmer: Option<Box<CacheWarmer>>,
    /// What the writer has of the memory budget, and where it is counted.
    held: MemoryHolding,
    memory: Option<Arc<MemoryLedger>>,
}

impl TableWriter {
    /// Starts a table in an empty file.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for options out of range.
    #[expect(clippy::needless_pass_by_value, reason = "options are made for the call; some will be kept")]
    pub fn new(file: Arc<dyn File>, options: TableOptions) -> Result<TableWriter> {
        options.validate()?;
        let mut out = FileWriter::new(file, options.block_size_bytes + 4096);
        out.bytes.extend_from_slice(&encode_file_header(options.uid));
        Ok(TableWriter {
            out,
            layout: options.layout,
            block_size_bytes: options.first_block_size_bytes(),
            full_block_size_bytes: options.block_size_bytes,
            aligns_blocks: options.aligns_blocks,
            codec: options.codec,
            uid: options.uid,
            properties: options.initial_properties(),
            expiring: Expiring::default(),
            staged: Staged::new(options.layout_options()),
            last_tag: Tag::OLDEST,
            last_leading: 0,
            repeated_keys: 0,
            is_plain: options.layout == BlockLayout::Flat && !options.index.needs_locator(),
            closed_key: Vec::new(),
            separator: Vec::new(),
            continued_at: None,
            separator_bytes: 0,
            index: IndexEncoder::default(),
            filter: FilterBuilder::new(options.filter),
            filter_policy: options.filter,
            filter_bits: options.filter_bits,
            with_pages: options.index.needs_pages(),
            locator: options.index.needs_locator().then(LocatorBuilder::default),
            bounds: options.bounds.applies(options.filter != FilterPolicy::None).then(BoundsEncoder::default),
            range_tombstones: RangeTombstones::default(),
            buffered: matches!(options.codec, Codec::ZstdDictionary { .. }).then(Box::default),
            dictionary: None,
            scratch: Scratch::default(),
            warmer: None,
            held: MemoryHolding::default(),
            memory: None,
        })
    }

    /// Sets where the memory of the writer is counted. Large values wait there for their turn.
    pub fn set_memory(&mut self, memory: &Arc<MemoryLedger>) {
        self.memory = Some(Arc::clone(memory));
    }

    /// Sets what may cancel the writer: checked while dictionary, filter and index are made and written,
    /// after some milliseconds of work each, and before the file is synced. One step is longer: training a
    /// dictionary, about 20 ms of processor time.
    pub fn set_job_control(&mut self, control: Arc<dyn JobControl>) {
        self.out.set_job_control(control);
    }

    /// Sets the cache warmer, for a merge of tables or a flush of memtables that are read.
    pub fn set_cache_warmer(&mut self, warmer: CacheWarmer) {
        self.warmer = Some(Box::new(warmer));
    }

    fn check_cancelled(&self) -> Result<()> {
        self.out.check_cancelled()
    }

    /// Adds the next entry, in internal order: a greater key than the last one, or the same key with a lesser
    /// tag.
    ///
    /// # Errors
    /// [`Error::Internal`] if the order is violated, [`Error::InvalidArgument`] if key or value is too long,
    /// and errors of writing.
    #[inline(always)]
    pub fn add(&mut self, key: &[u8], tag: Tag, value: &[u8]) -> Result<()> {
        let leading = leading(key);
        // Greater leading bytes mean a greater key, and a value that fits the block is not too long.
        let is_fast = self.is_plain
            && leading > self.last_leading
            && tag.is_plain_put()
            && key.len() <= MAX_KEY_LEN
            && self.staged.certainly_fits(self.block_size_bytes, key, tag, value);
        if !is_fast {
            return self.add_out_of_line(key, tag, value);
        }
        self.add_plain(key, leading, tag, value);
        Ok(())
    }

    /// Adds a plain put of a greater key to the block.
    #[inline(always)]
    fn add_plain(&mut self, key: &[u8], leading: u128, tag: Tag, value: &[u8]) {
        let hash = key_hash(key);
        self.filter.add_new(hash);
        (self.last_tag, self.last_leading) = (tag, leading);
        self.staged.add_flat(key, hash, tag, value);
    }

    /// [`TableWriter::add`] for entries that may end the block or that are not plain.
    #[inline(never)]
    fn add_out_of_line(&mut self, key: &[u8], tag: Tag, value: &[u8]) -> Result<()> {
        if value.len() >= LARGE_BYTES {
            return self.add_large(key, tag, value);
        }
        let leading = leading(key);
        let is_short = key.len() <= MAX_KEY_LEN && value.len() <= MAX_VALUE_LEN;
        if !(self.is_plain && leading > self.last_leading && tag.is_plain_put() && is_short) {
            return self.add_any(key, tag, value);
        }
        if !self.staged.is_empty() && self.staged.would_exceed(self.block_size_bytes, key, tag, value, 0) {
            self.close_block()?;
            self.open_block(key, tag, true);
        }
        self.add_plain(key, leading, tag, value);
        Ok(())
    }

    #[inline(never)]
    fn add_any(&mut self, key: &[u8], tag: Tag, value: &[u8]) -> Result<()> {
        let last_key = if self.staged.is_empty() { &self.closed_key[..] } else { self.staged.last_key() };
        let shared_len = common_prefix_len(last_key, key);
        let is_first = self.properties.entries == 0 && self.staged.is_empty();
        let is_new_key = match (last_key.get(shared_len), key.get(shared_len)) {
            (None, Some(_)) => true,
            (Some(last), Some(this)) if last < this => true,
            (None, None) if is_first => true,
            (None, None) if tag < self.last_tag => false,
            _ => return Err(self.out_of_order(key, tag)),
        };
        if key.len() > MAX_KEY_LEN || value.len() > MAX_VALUE_LEN {
            return Err(too_long(key, value));
        }
        if !self.staged.is_empty()
            && self.staged.would_exceed(self.block_size_bytes, key, tag, value, shared_len)
        {
            self.close_block()?;
        }
        if self.staged.is_empty() && !is_first {
            self.open_block(key, tag, is_new_key);
        }
        let hash = key_hash(key);
        if is_new_key {
            self.filter.add(hash);
            if let Some(locator) = &mut self.locator {
                let waiting = self.buffered.as_ref().map_or(0, |buffered| buffered.len() as u32);
                locator.add(hash, self.index.blocks() + waiting);
            }
        }
        self.repeated_keys += u64::from(!is_new_key);
        self.expiring.count(tag, value);
        (self.last_tag, self.last_leading) = (tag, leading(key));
        self.staged.add(key, hash, tag, value, shared_len);
        Ok(())
    }

    /// Adds an entry with a large value and writes its block at once: its copies have a turn of the account
    /// of large values, and none stays behind.
    #[cold]
    fn add_large(&mut self, key: &[u8], tag: Tag, value: &[u8]) -> Result<()> {
        let bytes = LARGE_VALUE_COPIES * value.len() as u64;
        let turn = self.memory.as_ref().map(|memory| memory.large_values.wait_for_turn(bytes));
        self.add_any(key, tag, value)?;
        self.close_block()?;
        drop(turn);
        // The next entry opens a block, which the fast path does not.
        self.last_leading = u128::MAX;
        Ok(())
    }

    fn count_block(&mut self) {
        let (totals, properties) = (self.staged.totals(), &mut self.properties);
        if properties.entries == 0 {
            properties.min_key = self.staged.first_key().to_vec();
        }
        properties.entries += totals.entries;
        properties.keys += totals.entries - self.repeated_keys;
        properties.tombstones += totals.tombstones;
        properties.raw_key_bytes += totals.key_bytes;
        properties.raw_value_bytes += totals.value_bytes;
        properties.min_seqno = properties.min_seqno.min(totals.min_seqno);
        properties.max_seqno = properties.max_seqno.max(totals.max_seqno);
        properties.single_version &= self.repeated_keys == 0 && totals.is_all_plain;
        self.repeated_keys = 0;
    }

    #[cold]
    fn out_of_order(&self, key: &[u8], tag: Tag) -> Error {
        let last = if self.staged.is_empty() { &self.closed_key[..] } else { self.staged.last_key() };
        Error::internal(format!(
            "{}: entry {} (tag {:#x}) added behind {} (tag {:#x})",
            self.out.path().display(),
            key.escape_ascii(),
            tag.raw(),
            last.escape_ascii(),
            self.last_tag.raw()
        ))
    }

    /// Estimated length of the finished file, within a few percent; compression counts for closed blocks.
    #[inline]
    pub fn estimated_file_bytes(&self) -> u64 {
        let staged = self.staged.raw_len() + 8 * self.staged.entries().len();
        let filter = (self.filter.len() as f64 * self.final_filter_policy().bits_per_key() / 8.0) as u64;
        let locator = self.locator.as_ref().map_or(0, LocatorBuilder::estimated_bytes);
        let waiting = self.buffered.as_ref().map_or(0, |buffered| buffered.len() as u64);
        let blocks = u64::from(self.index.blocks()) + waiting;
        let pages = if self.with_pages { PAGES_BYTES_A_BLOCK * blocks } else { 0 };
        let fixed = (FOOTER_BYTES + 3 * DIRECTORY_ENTRY_BYTES + 400) as u64;
        let buffered = self.buffered.as_ref().map_or(0, |buffered| buffered.estimated_bytes())
            + self.dictionary.as_ref().map_or(0, |dictionary| dictionary.bytes().len());
        self.out.end()
            + (staged + self.index.len() + buffered) as u64
            + filter
            + locator
            + self.bounds.as_ref().map_or(0, BoundsEncoder::len) as u64
            + pages
            + fixed
    }

    /// Bytes of memory that the writer holds.
    pub fn memory_bytes(&self) -> usize {
        let buffered = self.buffered.as_ref().map_or(0, |buffered| buffered.memory_bytes())
            + self.dictionary.as_ref().map_or(0, DictionaryEncoder::memory_bytes);
        let locator = self.locator.as_ref().map_or(0, LocatorBuilder::memory_bytes);
        let (staged, filter) = (self.staged.raw_len(), self.filter.memory_bytes());
        let bounds = self.bounds.as_ref().map_or(0, BoundsEncoder::len);
        self.out.bytes.capacity() + staged + self.index.len() + bounds + filter + locator + buffered
    }

    /// Sets the table's range tombstones, once. They may cover keys outside of the table's.
    pub fn set_range_tombstones(&mut self, deletes: RangeTombstones) {
        if let Some((oldest, newest)) = deletes.seqnos() {
            let properties = &mut self.properties;
            properties.min_seqno = properties.min_seqno.min(oldest);
            properties.max_seqno = properties.max_seqno.max(newest);
            properties.range_tombstones = deletes.len();
        }
        self.range_tombstones = deletes;
    }

    /// Starts the block whose first entry is this one; the block before has been closed.
    fn open_block(&mut self, key: &[u8], tag: Tag, is_new_key: bool) {
        if let Some(bounds) = &mut self.bounds {
            bounds.add(&self.closed_key, key);
        }
        self.separator.clear();
        if is_new_key {
            self.separator.extend_from_slice(separator(&self.closed_key, key));
            self.continued_at = None;
        } else {
            self.separator.extend_from_slice(key);
            self.continued_at = Some(tag);
        }
    }

    fn close_block(&mut self) -> Result<()> {
        self.separator_bytes += self.separator.len() as u64;
        if self.separator_bytes > MAX_SEPARATOR_BYTES {
            return Err(Error::invalid(format!("{}: the index exceeds 4 GiB", self.out.path().display())));
        }
        self.count_block();
        self.block_size_bytes = self.full_block_size_bytes;
        self.closed_key.clear();
        self.closed_key.extend_from_slice(self.staged.last_key());
        let admission = self.warmer.as_mut().and_then(|warmer| warmer.end_block(self.index.blocks()));
        // A large value is not worth a third copy.
        let admission = admission.filter(|_| self.staged.raw_len() < LARGE_BYTES);
        if self.buffered.is_some() {
            return self.buffer_block(admission);
        }
        let start = self.out.bytes.len();
        self.scratch.keeps_payload = admission.is_some();
        let header = block::append_image(
            &mut self.staged,
            self.layout,
            self.index.blocks(),
            &Compression { codec: self.codec, dictionary: self.dictionary.as_ref() },
            &mut self.scratch,
            &mut self.out.bytes,
        );
        let start = self.aligned(start);
        if let (Some(admission), Some(warmer)) = (admission, &mut self.warmer) {
            insert_warm(warmer, &header, &self.out, start, self.scratch.raw(), admission)?;
        }
        self.end_block(start, &header)
    }

    #[cold]
    fn buffer_block(&mut self, admission: Option<Admission>) -> Result<()> {
        let Some(buffered) = &mut self.buffered else { return Ok(()) };
        let number = self.index.blocks() + buffered.len() as u32;
        let block = StagedBlock {
            layout: self.layout,
            number,
            separator: &self.separator,
            continued_at: self.continued_at,
            admission,
        };
        buffered.add(&mut self.staged, &block, self.codec, &mut self.scratch);
        if buffered.is_enough() { self.flush_buffered(false) } else { Ok(()) }
    }

    /// Trains the dictionary and writes the buffered blocks. `is_all`: no block follows.
    fn flush_buffered(&mut self, is_all: bool) -> Result<()> {
        let Some(buffered) = self.buffered.take() else { return Ok(()) };
        let control = self.out.control().cloned();
        let check_cancelled = || control.as_ref().map_or(Ok(()), |control| control.check_cancelled());
        self.dictionary = buffered.train(self.codec, is_all, &mut self.scratch, &check_cancelled)?;
        for (buffered, payload) in buffered.blocks() {
            check_cancelled()?;
            let start = self.out.bytes.len();
            let compression = Compression { codec: self.codec, dictionary: self.dictionary.as_ref() };
            let header = block::append_stored(
                buffered.header,
                payload,
                &compression,
                &mut self.scratch,
                &mut self.out.bytes,
            );
            let start = self.aligned(start);
            if let (Some(admission), Some(warmer)) = (buffered.admission, &mut self.warmer) {
                insert_warm(warmer, &header, &self.out, start, payload, admission)?;
            }
            self.separator.clone_from(&buffered.separator);
            self.continued_at = buffered.continued_at;
            self.end_block(start, &header)?;
        }
        Ok(())
    }

    /// Where the block begins that was appended from `start` on, once padding is before it.
    #[inline]
    fn aligned(&mut self, start: usize) -> usize {
        if self.aligns_blocks { self.pad_before(start) } else { start }
    }

    #[cold]
    fn pad_before(&mut self, start: usize) -> usize {
        let len = self.out.bytes.len() - start;
        let padding = match self.index.blocks() {
            // The first block begins behind the file header.
            0 => 0,
            _ => padding_before(self.out.end() - len as u64, len + TRAILER_BYTES),
        };
        self.out.bytes.splice(start..start, std::iter::repeat_n(0, padding));
        if padding > 0 {
            self.index.pad_last(padding as u64);
        }
        start + padding
    }

    /// Completes the block whose header and stored bytes were appended from `start` on.
    fn end_block(&mut self, start: usize, header: &BlockHeader) -> Result<()> {
        let image = &self.out.bytes[start..];
        let offset = self.out.end() - image.len() as u64;
        let checksum = placed_checksum(self.uid, offset, image);
        self.out.bytes.extend_from_slice(&checksum.to_le_bytes());
        self.properties.uncompressed_bytes += u64::from(header.raw_len);
        debug_assert_eq!(
            self.out.bytes.len() - start,
            HEADER_BYTES + header.stored_len as usize + TRAILER_BYTES
        );
        self.index.add(&self.separator, self.continued_at, (self.out.bytes.len() - start) as u64);
        self.scratch.free_if_large();
        self.out.write_full_pieces()?;
        if self.index.blocks() % BLOCKS_PER_COUNT == 1
            && let Some(memory) = &self.memory
        {
            let bytes = self.memory_bytes().next_multiple_of(HELD_UNIT_BYTES);
            self.held.hold(&memory.jobs, bytes as u64);
        }
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn add_to_filter(&mut self, hash: u64) {
        self.filter.add(hash);
    }

    #[cfg(test)]
    pub(crate) fn disable_fast_path(&mut self) {
        self.is_plain = false;
    }

    /// The filter policy for the keys so far: fixed bits are limited to what the kind can use for so many.
    #[inline]
    fn final_filter_policy(&self) -> FilterPolicy {
        match self.filter_bits.filter(|_| !self.filter.is_empty()) {
            Some(bits) => self.filter_policy.with_bits_per_key(bits as f64 / self.filter.len() as f64),
            None => self.filter_policy,
        }
    }
}

/// Inserts the block just appended at `start` into the cache. `raw` is its payload, if compressed.
fn insert_warm(
    warmer: &mut CacheWarmer,
    header: &BlockHeader,
    out: &FileWriter,
    start: usize,
    raw: &[u8],
    admission: Admission,
) -> Result<()> {
    let (image, offset) = (&out.bytes[start..], out.end() - (out.bytes.len() - start) as u64);
    let payload = if header.codec_id == id::NONE { &image[HEADER_BYTES..] } else { raw };
    warmer
        .insert_warm(header, image, payload, admission)
        .map_err(|error| error.into_error(out.path(), offset))
}

#[cold]
fn too_long(key: &[u8], value: &[u8]) -> Error {
    Error::invalid(format!(
        "keys have at most {MAX_KEY_LEN} bytes and values {MAX_VALUE_LEN}, not {} and {}",
        key.len(),
        value.len()
    ))
}
