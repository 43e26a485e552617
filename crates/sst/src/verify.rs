//! Full verification of a table: reads everything and checks what must hold.

use crate::block::cursor::BlockCursor;
use crate::block::header::HEADER_BYTES;
use crate::block::{BlockBytes, BlockHeader, LayoutView};
use crate::decode_error::DecodeError;
use crate::expiring::Expiring;
use crate::footer::{FILE_HEADER_BYTES, SectionKind, decode_file_header};
use crate::index::BlockIndex;
use crate::index::locator::Locator;
use crate::index::page_search::PagedIndex;
use crate::index::section::DecodedIndex;
use crate::load::{unpack, verify_numbered};
use crate::page_alignment::{PAGE_BYTES, check_padding};
use crate::read_ahead::ReadAhead;
use crate::section_reader::{decode_section, read_range};
use crate::simd::Portable;
use crate::table::Table;
use esker_base::checksum::key_hash;
use esker_base::{Error, Result, SeqNo, Tag};
use esker_codec::id;
use esker_filter::Filter;
use std::ops::Range;

/// The result of verifying an undamaged table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Blocks read.
    pub blocks: u64,
    /// Entries read.
    pub entries: u64,
    /// Their kind bytes.
    pub kinds: KindBytes,
}

/// A set of kind bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindBytes([u64; 4]);

impl KindBytes {
    fn add(&mut self, kind_byte: u8) {
        self.0[usize::from(kind_byte >> 6)] |= 1 << (kind_byte & 63);
    }

    /// The kind bytes in the set, ascending.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |byte| self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1)
    }
}

impl Table {
    /// Reads the whole table past the cache and checks every checksum, that entries are in order and where
    /// the index says, that lookups and seeks find every one of them, that the filter has every key, that all
    /// kinds are known, and that the properties are true. Range tombstones were checked when the table was
    /// opened.
    ///
    /// Takes the time of reading the file once and of looking up every entry; memory stays below a mebibyte,
    /// plus the sections that the open table does not hold.
    ///
    /// # Errors
    /// [`Error::Corruption`] with the first damage found, a damaged filter included, and errors of reading.
    pub fn verify(&self) -> Result<Verified> {
        self.check_filter()?;
        if let Some(damage) = self.index_damage() {
            return Err(damage.clone());
        }
        let unloaded = UnloadedSections::read(self)?;
        let mut header = [0; FILE_HEADER_BYTES];
        self.file.read_exact_at(&mut header, 0)?;
        let uid = decode_file_header(&header).map_err(|error| self.decode_error_at(error, 0))?;
        if uid != self.uid {
            return Err(
                self.wrong(0, format!("the file header names table {uid:x?}, the footer {:x?}", self.uid))
            );
        }
        let mut counts = TableCounts::default();
        if let Some((oldest, newest)) = self.range_tombstones().seqnos() {
            (counts.min_seqno, counts.max_seqno) = (oldest, newest);
        }
        let (mut read_ahead, mut unpacked) = (ReadAhead::full(), Vec::new());
        if let Some(index) = &self.index {
            for number in 0..index.blocks() {
                self.visit_block(number, &mut read_ahead, &mut unpacked, |block, cursor| {
                    counts.block(self, &unloaded, index, number, block, cursor)
                })?;
            }
        }
        counts.compare(self)
    }

    /// Reads block `number` past the cache and passes it to `visit` with a cursor on its first entry.
    pub(crate) fn visit_block<R>(
        &self,
        number: usize,
        read_ahead: &mut ReadAhead,
        unpacked: &mut Vec<u8>,
        visit: impl FnOnce(&BlockBytes, &mut BlockCursor) -> Result<R>,
    ) -> Result<R> {
        let offset = self.place(number)?.start;
        let image = read_ahead.image(self, number)?;
        let decoded = verify_numbered(image, self.uid, offset, number).and_then(|header| {
            if header.codec_id == id::NONE {
                return BlockBytes::from_bytes(image);
            }
            unpacked.resize(BlockBytes::memory_len(header.raw_len as usize), 0);
            unpack(&header, image, self.dictionary.as_ref(), unpacked)?;
            BlockBytes::from_bytes(unpacked)
        });
        let block = decoded.map_err(|error| self.decode_error_at(error, offset))?;
        let mut cursor = BlockCursor::new(true);
        // SAFETY: the buffers outlive the cursor and are borrowed until it is gone.
        unsafe {
            cursor.open(block);
            cursor.move_to_first();
        }
        visit(block, &mut cursor)
    }

    #[cold]
    fn wrong(&self, offset: u64, detail: impl Into<String>) -> Error {
        Error::corruption(self.file.path(), offset, detail)
    }
}

/// Sections for finding keys that the open table does not use.
struct UnloadedSections {
    filter: Option<Filter>,
    locator: Option<Locator>,
}

impl UnloadedSections {
    /// Reads the sections that opening left out, checks all checksums, and that index and index pages agree.
    fn read(table: &Table) -> Result<UnloadedSections> {
        for section in table.sections() {
            table.section(section.kind, |_| Ok(()))?;
        }
        let has_locator = table.index.as_ref().is_some_and(|index| index.locator().is_some());
        let filter = match table.filter() {
            Some(_) => None,
            None => table
                .section(SectionKind::FILTER, |bytes| Filter::decode(bytes).map_err(DecodeError::Damaged))?,
        };
        let locator = match has_locator {
            true => None,
            false => table.section(SectionKind::LOCATOR, |bytes| Locator::decode(bytes, table.blocks()))?,
        };
        table.compare_pages()?;
        let used = table.index.as_ref().and_then(BlockIndex::locator);
        let keys = table.properties().keys;
        if let Some(wrong) = used.or(locator.as_ref()).filter(|locator| locator.keys() != keys) {
            let found = wrong.keys();
            return Err(table.wrong(0, format!("the properties state {keys} keys, the locator {found}")));
        }
        Ok(UnloadedSections { filter, locator })
    }
}

impl Table {
    fn section<T>(
        &self,
        kind: SectionKind,
        decode: impl FnOnce(&[u8]) -> Result<T, DecodeError>,
    ) -> Result<Option<T>> {
        let Some(section) = self.sections().iter().copied().find(|section| section.kind == kind) else {
            return Ok(None);
        };
        let bytes = read_range(&*self.file, section.offset, section.len)?;
        decode_section(&*self.file, self.uid, section, &bytes, decode).map(Some)
    }

    fn compare_pages(&self) -> Result<()> {
        let Some(at) = self.sections().iter().find(|section| section.kind == SectionKind::INDEX_PAGES) else {
            return Ok(());
        };
        let (at, blocks) = (at.offset..at.offset + at.len, self.blocks() as u64);
        let pages = self.section(SectionKind::INDEX_PAGES, |bytes| {
            PagedIndex::decode(bytes, self.uid, at, blocks, self.data_end)
        })?;
        let decoded = self.section(SectionKind::INDEX, |bytes| {
            DecodedIndex::decode(bytes, FILE_HEADER_BYTES as u64, self.data_end)
        })?;
        match (pages, decoded) {
            (Some(pages), Some(decoded)) => self.compare_pages_with(&pages, &decoded),
            _ => Ok(()),
        }
    }
}

struct TableCounts {
    blocks: u64,
    entries: u64,
    keys: u64,
    tombstones: u64,
    key_bytes: u64,
    value_bytes: u64,
    uncompressed_bytes: u64,
    min_seqno: SeqNo,
    max_seqno: SeqNo,
    all_plain: bool,
    expiring: Expiring,
    kinds: KindBytes,
    last_key: Vec<u8>,
    last_tag: Tag,
}

impl Default for TableCounts {
    fn default() -> TableCounts {
        TableCounts {
            blocks: 0,
            entries: 0,
            keys: 0,
            tombstones: 0,
            key_bytes: 0,
            value_bytes: 0,
            uncompressed_bytes: 0,
            min_seqno: SeqNo::MAX,
            max_seqno: SeqNo::ZERO,
            all_plain: true,
            expiring: Expiring::default(),
            kinds: KindBytes::default(),
            last_key: Vec::new(),
            last_tag: Tag::OLDEST,
        }
    }
}

impl Table {
    /// Compares the index pages with the index section, for all blocks.
    fn compare_pages_with(&self, pages: &PagedIndex, index: &DecodedIndex) -> Result<()> {
        let mut continuations = index.continuations.iter().peekable();
        for block in 0..pages.blocks() {
            let leaf = pages.leaf(self, block)?;
            let continued = continuations.next_if(|continuation| continuation.block as usize == block);
            let tag = continued.map_or(Tag::NEWEST, |continuation| continuation.tag);
            let (start, end) = (index.starts[block], index.starts[block + 1]);
            if leaf.separator != index.separators.get(block) || leaf.place != (start..end) || leaf.tag != tag
            {
                let detail = format!("index pages and index disagree about block {block}");
                return Err(Error::corruption(self.file.path(), start, detail));
            }
        }
        Ok(())
    }
}

impl Table {
    /// Checks that a block of `len` bytes fills its place, but for padding.
    fn check_span(&self, number: usize, span: &Range<u64>, len: u64) -> Result<()> {
        let (offset, end) = (span.start, span.start + len);
        if end == span.end {
            return Ok(());
        }
        if end > span.end || span.end - end >= PAGE_BYTES as u64 {
            let stated = span.end - offset;
            return Err(
                self.wrong(offset, format!("the index gives block {number} {stated} bytes, it has {len}"))
            );
        }
        let padding = read_range(&*self.file, end, span.end - end)?;
        check_padding(end, &padding).map_err(|error| self.decode_error_at(error, end))
    }
}

/// A block that is being verified.
struct BlockInFile {
    number: usize,
    /// File offset of its payload.
    entries_at: u64,
}

impl TableCounts {
    fn block(
        &mut self,
        table: &Table,
        unloaded: &UnloadedSections,
        index: &BlockIndex,
        number: usize,
        block: &BlockBytes,
        cursor: &mut BlockCursor,
    ) -> Result<()> {
        let span = table.place(number)?;
        let offset = span.start;
        let header: BlockHeader = block.header();
        table.check_span(number, &span, header.file_len() as u64)?;
        if *cursor.key() < *table.separator(index, number)? {
            return Err(
                table.wrong(offset, format!("the separator of block {number} is behind its first key"))
            );
        }
        // Seeks use this tag; lookups with whole tags would not detect a wrong one.
        let continues = self.entries > 0 && *cursor.key() == self.last_key[..];
        if table.continued_at(index, number)? != continues.then(|| cursor.tag()) {
            return Err(
                table.wrong(offset, format!("index and block {number} disagree about the key it continues"))
            );
        }
        let first_key = cursor.key().to_vec();
        self.blocks += 1;
        self.uncompressed_bytes += u64::from(header.raw_len);
        let mut seeker = BlockCursor::new(true);
        // SAFETY: the block is borrowed for longer than the cursor lives.
        unsafe { seeker.open(block) };
        let place = BlockInFile { number, entries_at: offset + HEADER_BYTES as u64 };
        while cursor.is_valid() {
            // SAFETY: the block is borrowed for longer than the value.
            let value = unsafe { cursor.value() };
            self.entry(table, unloaded, &place, cursor.key(), cursor.tag(), value)?;
            // SAFETY: the block is alive, and both cursors are in it.
            if !unsafe { is_reached(table, index, number, block, &mut seeker, cursor) }? {
                let key = cursor.key().escape_ascii();
                return Err(table.wrong(offset, format!("lookups of key {key} do not find its entry")));
            }
            // SAFETY: the block is alive.
            unsafe { cursor.next() };
        }
        for key in [&first_key, &self.last_key] {
            if table.excludes(index, number, key)? {
                let key = key.escape_ascii();
                return Err(table.wrong(offset, format!("the bounds exclude key {key} from block {number}")));
            }
        }
        let next = number + 1;
        if next < index.blocks() && self.last_key[..] > *table.separator(index, next)? {
            return Err(
                table.wrong(offset, format!("block {number} has keys beyond the separator of the next"))
            );
        }
        Ok(())
    }

    fn entry(
        &mut self,
        table: &Table,
        unloaded: &UnloadedSections,
        block: &BlockInFile,
        key: &[u8],
        tag: Tag,
        value: &[u8],
    ) -> Result<()> {
        let named = |what: &str| table.wrong(block.entries_at, format!("key {} {what}", key.escape_ascii()));
        let is_new_key = self.entries == 0 || self.last_key[..] != *key;
        let in_order =
            if is_new_key { self.entries == 0 || self.last_key[..] < *key } else { tag < self.last_tag };
        if !in_order {
            return Err(named("is out of order"));
        }
        let Some(kind) = tag.kind() else { return Err(named("has an entry of unknown kind")) };
        if !kind.has_value() && !value.is_empty() {
            return Err(named("is deleted but has a value"));
        }
        if is_new_key {
            let hash = key_hash(key);
            if !table.may_contain(hash)
                || unloaded.filter.as_ref().is_some_and(|filter| !filter.may_contain(hash))
            {
                return Err(named("is not in the filter"));
            }
            let mut locators =
                table.index.as_ref().and_then(BlockIndex::locator).into_iter().chain(&unloaded.locator);
            if !locators.all(|locator| locator.candidates(hash).any(|candidate| candidate == block.number)) {
                return Err(named("is not where the locator says"));
            }
            self.keys += 1;
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        self.last_tag = tag;
        if self.entries == 0 && table.properties().min_key != key {
            return Err(named("is the first one, which the properties do not state"));
        }
        self.entries += 1;
        self.tombstones += u64::from(tag.is_tombstone());
        self.key_bytes += key.len() as u64;
        self.value_bytes += value.len() as u64;
        self.expiring.count(tag, value);
        self.min_seqno = self.min_seqno.min(tag.seqno());
        self.max_seqno = self.max_seqno.max(tag.seqno());
        self.all_plain &= tag.is_plain_put();
        self.kinds.add(tag.kind_byte());
        Ok(())
    }

    fn compare(&self, table: &Table) -> Result<Verified> {
        let stated = table.properties();
        let numbers = [
            ("entries", stated.entries, self.entries),
            ("keys", stated.keys, self.keys),
            ("tombstones", stated.tombstones, self.tombstones),
            ("range tombstones", stated.range_tombstones, table.range_tombstones().len()),
            ("bytes of keys", stated.raw_key_bytes, self.key_bytes),
            ("bytes of values", stated.raw_value_bytes, self.value_bytes),
            ("blocks", stated.blocks, self.blocks),
            ("bytes before compression", stated.uncompressed_bytes, self.uncompressed_bytes),
            ("as least sequence number", stated.min_seqno.get(), self.min_seqno.get()),
            ("as greatest sequence number", stated.max_seqno.get(), self.max_seqno.get()),
        ];
        for (what, stated, found) in numbers {
            if stated != found {
                return Err(table.wrong(0, format!("the properties state {stated} {what}, {found} found")));
            }
        }
        if stated.expiring.entries > 0 && stated.expiring != self.expiring {
            let (stated, found) = (stated.expiring, self.expiring);
            return Err(table.wrong(0, format!("the properties state {stated:?}, {found:?} found")));
        }
        let single = self.entries > 0
            && self.keys == self.entries
            && self.all_plain
            && table.range_tombstones().is_empty();
        if stated.single_version && !single {
            return Err(table.wrong(0, "the table is marked as having single versions, and has others"));
        }
        if stated.max_key != self.last_key {
            let (stated, found) = (stated.max_key.escape_ascii(), self.last_key.escape_ascii());
            return Err(table.wrong(0, format!("the properties state the last key {stated}, {found} found")));
        }
        Ok(Verified { blocks: self.blocks, entries: self.entries, kinds: self.kinds })
    }
}

/// Whether a lookup and a seek find the entry under `cursor`: the index leads to its block, and the block's
/// directory (fingerprints, heads, hash slots, restart points) leads to the entry.
///
/// # Safety
/// `block` must be alive, and both cursors be in it.
unsafe fn is_reached(
    table: &Table,
    index: &BlockIndex,
    number: usize,
    block: &BlockBytes,
    seeker: &mut BlockCursor,
    cursor: &BlockCursor,
) -> Result<bool> {
    let (key, tag) = (cursor.key(), cursor.tag());
    let hash = key_hash(key);
    // SAFETY: the portable kernel needs no special instructions, and the caller keeps the block alive.
    let (found, fits) = unsafe {
        seeker.seek::<Portable>(key, tag);
        let fits = match block.view() {
            LayoutView::Flat(flat) => flat.directory_fits(cursor.index(), hash),
            LayoutView::Delta(_) => true,
        };
        (block.find::<Portable>(key, hash, tag), fits)
    };
    let mut start = table.locate(index, key, tag)?;
    while start < number && table.continues_after(index, start, key)? {
        start += 1;
    }
    let is_found = found.is_some_and(|found| found.tag == tag);
    Ok(fits && is_found && start == number && seeker.index() == cursor.index())
}
