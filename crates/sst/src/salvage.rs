//! Salvage: recovers entries from a file that cannot be opened as a table, because index, footer or blocks
//! are lost.
//!
//! Blocks are found by searching for their magic bytes and keeping what verifies, bound to the table and its
//! offset. That needs only the table's identity, which the file states at both ends and the manifest knows.
//! Blocks compressed with the table's dictionary need that, too: it is found in the same way; if damaged they
//! are lost. Pages that the device cannot read count as damaged, so that the rest of the file is found.

use crate::block::cursor::BlockCursor;
use crate::block::header::{BLOCK_MAGIC, CODEC_AT, FRAME_BYTES, HEADER_BYTES, MAX_RAW_BYTES, verify_image};
use crate::block::{BlockBytes, BlockHeader, SLACK_BYTES};
use crate::decode_error::DecodeError;
use crate::dictionary;
use crate::footer::{FILE_HEADER_BYTES, FOOTER_BYTES, Footer, decode_file_header};
use crate::load::unpack;
use esker_base::{Error, Result, TableUid, Tag};
use esker_codec::{DictionaryDecoder, id};
use esker_env::File;
use std::sync::Arc;

const WINDOW_BYTES: usize = 1 << 20;
/// What is given up at once where the device reports an error: a page.
const PAGE_BYTES: usize = 4096;

/// A recovered block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SalvagedBlock {
    /// Where it starts in the file.
    pub offset: u64,
    /// Its header; the number tells whether blocks before it are missing.
    pub header: BlockHeader,
}

/// A search for blocks, from the start of a file to its end.
#[derive(Debug)]
pub struct Salvage {
    window: SearchWindow,
    uid: TableUid,
    position: u64,
    skipped_bytes: u64,
    /// Searched for when the first block needs it; `Some(None)` if there is none.
    dictionary: Option<Option<DictionaryDecoder>>,
    unpacked: Vec<u8>,
}

/// A range of the file in memory, with slack behind it.
#[derive(Debug)]
struct SearchWindow {
    file: Arc<dyn File>,
    file_bytes: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Salvage {
    /// Starts a search in `file`, which has `file_bytes`. Without `uid` the identity is taken from the
    /// undamaged end of the file.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the identity is not given and both ends of the file are damaged, and errors
    /// of reading.
    pub fn open(file: Arc<dyn File>, file_bytes: u64, uid: Option<TableUid>) -> Result<Salvage> {
        let uid = match uid {
            Some(uid) => uid,
            None => uid_of_file(&*file, file_bytes)?,
        };
        let position = (FILE_HEADER_BYTES as u64).min(file_bytes);
        let window = SearchWindow { file, file_bytes, start: 0, bytes: Vec::new() };
        Ok(Salvage { window, uid, position, skipped_bytes: 0, dictionary: None, unpacked: Vec::new() })
    }

    /// Identity of the table.
    pub fn uid(&self) -> TableUid {
        self.uid
    }

    /// Bytes passed so far that belong to no good block: damaged blocks, and what lies behind the blocks.
    pub fn skipped_bytes(&self) -> u64 {
        self.skipped_bytes
    }

    /// Finds the next good block and calls `visit` with its entries, in order; `None` at the end of the file.
    ///
    /// # Errors
    /// Errors of reading the dictionary, and [`Error::Unsupported`] for a good block of a newer version.
    pub fn next_block(&mut self, visit: impl FnMut(&[u8], Tag, &[u8])) -> Result<Option<SalvagedBlock>> {
        while let Some(offset) = self.next_candidate()? {
            let Some(image) = self.window.image_at(offset)? else {
                self.skip_to(offset + 1);
                continue;
            };
            if image[CODEC_AT] == id::ZSTD_DICTIONARY && self.dictionary.is_none() {
                let found = dictionary::find(&*self.window.file, self.window.file_bytes, self.uid)?;
                self.dictionary = Some(found);
                continue;
            }
            let dictionary = self.dictionary.as_ref().and_then(Option::as_ref);
            match decode(image, self.uid, offset, dictionary, &mut self.unpacked) {
                Ok((header, _)) if header.is_index_page() => self.skip_to(offset + header.file_len() as u64),
                Ok((header, block)) => {
                    visit_all(block, visit);
                    self.position = offset + header.file_len() as u64;
                    return Ok(Some(SalvagedBlock { offset, header }));
                }
                Err(DecodeError::Damaged(_)) => self.skip_to(offset + 1),
                Err(unsupported) => return Err(unsupported.into_error(self.window.file.path(), offset)),
            }
        }
        Ok(None)
    }

    fn skip_to(&mut self, position: u64) {
        self.skipped_bytes += position - self.position;
        self.position = position;
    }

    /// Moves to the next offset where a block may start.
    fn next_candidate(&mut self) -> Result<Option<u64>> {
        const OVERLAP: u64 = BLOCK_MAGIC.len() as u64 - 1;
        let file_bytes = self.window.file_bytes;
        while self.position + FRAME_BYTES as u64 <= file_bytes {
            let bytes = self.window.at_least(self.position, BLOCK_MAGIC.len())?;
            let found = bytes.windows(BLOCK_MAGIC.len()).position(|bytes| bytes == BLOCK_MAGIC);
            let passed = found.map_or(bytes.len() as u64 - OVERLAP, |at| at as u64);
            self.skip_to(self.position + passed);
            if found.is_some() {
                return Ok(Some(self.position));
            }
        }
        self.skip_to(file_bytes);
        Ok(None)
    }
}

impl SearchWindow {
    /// The file image of the block that may start at `offset`, with slack behind it; `None` if no block can.
    fn image_at(&mut self, offset: u64) -> Result<Option<&[u8]>> {
        let left = self.file_bytes - offset;
        if left < FRAME_BYTES as u64 {
            return Ok(None);
        }
        let Some(header) = self.at_least(offset, HEADER_BYTES)?.first_chunk() else { return Ok(None) };
        let stored_len = u32::from_le_bytes([header[12], header[13], header[14], header[15]]) as usize;
        let len = FRAME_BYTES + stored_len;
        // Checked first, so that no bytes are read for an impossible header.
        let is_impossible = matches!(BlockHeader::decode(header), Err(DecodeError::Damaged(_)));
        if is_impossible || stored_len > MAX_RAW_BYTES || len as u64 > left {
            return Ok(None);
        }
        self.at_least(offset, len)?;
        Ok(Some(&self.bytes[(offset - self.start) as usize..]))
    }

    /// The bytes of the file from `offset` on that are in memory: at least `len`, which the file must have.
    fn at_least(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let held = self.start..self.start + self.bytes.len().saturating_sub(SLACK_BYTES) as u64;
        if offset < held.start || offset + len as u64 > held.end {
            let wanted = (len.max(WINDOW_BYTES) as u64).min(self.file_bytes - offset) as usize;
            self.start = offset;
            self.bytes.resize(wanted + SLACK_BYTES, 0);
            if self.file.read_exact_at(&mut self.bytes[..wanted], offset).is_err() {
                self.read_what_is_readable(wanted, offset);
            }
        }
        let from = (offset - self.start) as usize;
        Ok(&self.bytes[from..self.bytes.len() - SLACK_BYTES])
    }

    /// Fills the first `wanted` bytes page by page; a page that cannot be read becomes zeros, in which no
    /// block begins.
    fn read_what_is_readable(&mut self, wanted: usize, offset: u64) {
        for (page, at) in self.bytes[..wanted].chunks_mut(PAGE_BYTES).zip((offset..).step_by(PAGE_BYTES)) {
            if self.file.read_exact_at(page, at).is_err() {
                page.fill(0);
            }
        }
    }
}

fn decode<'a>(
    image: &'a [u8],
    uid: TableUid,
    offset: u64,
    dictionary: Option<&DictionaryDecoder>,
    unpacked: &'a mut Vec<u8>,
) -> Result<(BlockHeader, &'a BlockBytes), DecodeError> {
    let header = verify_image(image, uid, offset)?;
    if header.codec_id == id::NONE {
        return Ok((header, BlockBytes::from_bytes(image)?));
    }
    unpacked.resize(BlockBytes::memory_len(header.raw_len as usize), 0);
    unpack(&header, image, dictionary, unpacked)?;
    Ok((header, BlockBytes::from_bytes(unpacked)?))
}

fn visit_all(block: &BlockBytes, mut visit: impl FnMut(&[u8], Tag, &[u8])) {
    let mut cursor = BlockCursor::new(true);
    // SAFETY: the block outlives the cursor.
    unsafe {
        cursor.open(block);
        cursor.move_to_first();
        while cursor.is_valid() {
            visit(cursor.key(), cursor.tag(), cursor.value());
            cursor.next();
        }
    }
}

/// The identity that a table file states at its start or its end, whichever is undamaged.
///
/// # Errors
/// [`Error::Corruption`] if both ends of the file are damaged, and errors of reading.
pub fn uid_of_file(file: &dyn File, file_bytes: u64) -> Result<TableUid> {
    let mut start = [0; FILE_HEADER_BYTES];
    if file_bytes >= start.len() as u64 {
        file.read_exact_at(&mut start, 0)?;
        if let Ok(uid) = decode_file_header(&start) {
            return Ok(uid);
        }
    }
    let mut end = [0; FOOTER_BYTES];
    if file_bytes >= end.len() as u64 {
        file.read_exact_at(&mut end, file_bytes - FOOTER_BYTES as u64)?;
        if let Ok(footer) = Footer::decode(&end, file_bytes) {
            return Ok(footer.uid);
        }
    }
    Err(Error::corruption(file.path(), 0, "neither end of the file tells which table it is"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Shape, TestEntry, entries};
    use crate::tests::{UID, new_fs, options, path, write};
    use crate::{BlockLayout, TableOptions};
    use esker_codec::Codec;
    use esker_env::{FileSystem, OpenMode, SeededRandom};

    fn salvage(
        file: &Arc<dyn File>,
        uid: Option<TableUid>,
    ) -> Result<(Vec<SalvagedBlock>, Vec<TestEntry>, u64)> {
        let mut salvage = Salvage::open(Arc::clone(file), file.len()?, uid)?;
        let (mut blocks, mut found) = (Vec::new(), Vec::new());
        while let Some(block) = salvage.next_block(|key, tag, value| {
            found.push(TestEntry { key: key.to_vec(), tag, value: value.to_vec() });
        })? {
            blocks.push(block);
        }
        assert_eq!(salvage.uid(), UID);
        Ok((blocks, found, salvage.skipped_bytes()))
    }

    #[test]
    fn good_blocks_are_found_whatever_else_is_lost() {
        for (layout, codec) in [
            (BlockLayout::Flat, Codec::None),
            (BlockLayout::Delta, Codec::Lz4),
            (BlockLayout::Flat, Codec::ZstdDictionary { level: 3 }),
        ] {
            let fs = new_fs();
            let mut entries = entries(Shape::Paths, 2_000, 50, &SeededRandom::new(8));
            // A value that looks like the start of a block, and one larger than the window.
            entries[77].value = BLOCK_MAGIC.repeat(40);
            entries[500].value = vec![9; 3 << 20];
            write(&fs, &entries, TableOptions { layout, codec, ..options() });
            let file = fs.open(path(), OpenMode::ReadWrite).unwrap();
            let len = file.len().unwrap();
            let (blocks, found, _) = salvage(&file, None).unwrap();
            assert_eq!(found, entries);
            assert!(blocks.windows(2).all(|pair| pair[0].header.number + 1 == pair[1].header.number));

            // The footer is lost, and a block in the middle.
            let bad = blocks[blocks.len() / 2];
            file.write_at(&[0xee; 30], bad.offset + 50).unwrap();
            file.set_len(len - 100).unwrap();
            let (rest, found, skipped) = salvage(&file, None).unwrap();
            assert_eq!(rest.len(), blocks.len() - 1);
            assert_eq!(found.len(), entries.len() - bad.header.entries as usize);
            assert!(skipped >= bad.header.file_len() as u64);

            // The file's header is damaged as well: only the manifest has the identity.
            file.write_at(&[0; 32], 0).unwrap();
            assert!(salvage(&file, None).unwrap_err().is_corruption());
            assert_eq!(salvage(&file, Some(UID)).unwrap().0, rest);
        }
    }

    #[test]
    fn salvage_finds_nothing_in_noise() {
        let fs = new_fs();
        for len in [0u64, 3, 31, 32, 64, 70_000] {
            let file = fs.open(path(), OpenMode::CreateOrTruncate).unwrap();
            let noise: Vec<u8> = BLOCK_MAGIC.iter().copied().cycle().take(len as usize).collect();
            file.write_at(&noise, 0).unwrap();
            let (blocks, found, skipped) = salvage(&file, Some(UID)).unwrap();
            assert!(blocks.is_empty() && found.is_empty());
            assert_eq!(skipped, len.saturating_sub(32));
        }
    }
}
