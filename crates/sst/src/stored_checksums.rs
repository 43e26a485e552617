//! Checksum verification of a stored table, without decompressing or decoding it: for copies of the file.
//!
//! Blocks describe themselves and lie one behind the other, so the walk needs no index. Everything that a
//! reader uses is covered: the file header, each block, each section, the section directory and the footer.
//! What checksums cannot show, such as entries out of order, is left to [`crate::Table::verify`].

use crate::block::header::{
    BLOCK_MAGIC, FRAME_BYTES, HEADER_BYTES, TRAILER_BYTES, place_of, placed_checksum,
};
use crate::footer::{DIRECTORY_ENTRY_BYTES, FILE_HEADER_BYTES, FOOTER_BYTES, Footer, decode_file_header};
use crate::page_alignment::{PAGE_BYTES, check_padding};
use crate::section_reader::read_range;
use esker_base::checksum::StreamHash;
use esker_base::{Error, Result, TableUid};
use esker_env::File;

/// Bytes read at a time: memory is bounded by it, however long a block or a section is.
const PIECE_BYTES: usize = 256 << 10;

/// Verifies all checksums of the table `uid`, whose file has `file_bytes`. Takes the time of reading the file
/// once.
///
/// # Errors
/// [`Error::Corruption`] with the first damage found, [`Error::Unsupported`] if a newer version wrote the
/// table, and errors of reading.
pub fn verify_stored_checksums(file: &dyn File, file_bytes: u64, uid: TableUid) -> Result<()> {
    if file_bytes < (FILE_HEADER_BYTES + FOOTER_BYTES) as u64 {
        return Err(Error::corruption(file.path(), 0, format!("a table expected, {file_bytes} bytes found")));
    }
    let footer_at = file_bytes - FOOTER_BYTES as u64;
    let mut bytes = [0; FOOTER_BYTES];
    file.read_exact_at(&mut bytes, footer_at)?;
    let footer =
        Footer::decode(&bytes, file_bytes).map_err(|error| error.into_error(file.path(), footer_at))?;
    let mut bytes = [0; FILE_HEADER_BYTES];
    file.read_exact_at(&mut bytes, 0)?;
    let named = decode_file_header(&bytes).map_err(|error| error.into_error(file.path(), 0))?;
    for (named, at) in [(named, 0), (footer.uid, footer_at)] {
        if named != uid {
            let detail = format!("table {:016x} expected, table {:016x} found", uid.get(), named.get());
            return Err(Error::corruption(file.path(), at, detail));
        }
    }
    let mut stored = StoredBytes { file, uid, end: footer_at, start: 0, piece: Vec::new() };
    let mut at = FILE_HEADER_BYTES as u64;
    for number in 0_u32.. {
        if at >= footer.data_end {
            break;
        }
        at = stored.verify_block(number, at, footer.data_end)?;
        at = stored.verify_padding(at, footer.data_end)?;
    }
    let directory_bytes = u64::from(footer.directory_entries) * DIRECTORY_ENTRY_BYTES as u64;
    let directory = read_range(file, footer.directory_offset, directory_bytes)?;
    let sections = footer
        .sections(&directory)
        .map_err(|error| error.into_error(file.path(), footer.directory_offset))?;
    for section in sections {
        let computed = stored.placed_checksum(section.offset, section.len)?;
        if computed != section.checksum {
            let (name, expected) = (section.kind.name(), section.checksum);
            let detail =
                format!("{name} section: checksum {expected:016x} expected, {computed:016x} computed");
            return Err(Error::corruption(file.path(), section.offset, detail));
        }
    }
    Ok(())
}

/// A file that is read in pieces.
struct StoredBytes<'a> {
    file: &'a dyn File,
    uid: TableUid,
    /// Where the footer begins: nothing behind it is asked for.
    end: u64,
    start: u64,
    piece: Vec<u8>,
}

impl StoredBytes<'_> {
    /// Bytes from `at` on, at least one and as many as the piece holds. `at` lies before the end.
    fn from(&mut self, at: u64) -> Result<&[u8]> {
        let held = self.start..self.start + self.piece.len() as u64;
        if !held.contains(&at) {
            let wanted = usize::try_from(self.end - at).unwrap_or(usize::MAX).min(PIECE_BYTES);
            self.piece.resize(wanted, 0);
            self.start = at;
            if let Err(error) = self.file.read_exact_at(&mut self.piece, at) {
                self.piece.clear();
                return Err(error);
            }
        }
        Ok(&self.piece[(at - self.start) as usize..])
    }

    /// Bytes `at..at + N`, which lie before the end.
    fn array<const N: usize>(&mut self, at: u64) -> Result<[u8; N]> {
        if let Some(bytes) = self.from(at)?.first_chunk() {
            return Ok(*bytes);
        }
        let mut bytes = [0; N];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }

    /// The checksum of `len` bytes at `offset`, bound to the table and the offset; they lie before the end.
    fn placed_checksum(&mut self, offset: u64, len: u64) -> Result<u64> {
        let uid = self.uid;
        let whole = usize::try_from(len).ok().filter(|len| (1..=PIECE_BYTES).contains(len));
        if let Some(whole) = whole
            && let Some(bytes) = self.from(offset)?.get(..whole)
        {
            return Ok(placed_checksum(uid, offset, bytes));
        }
        let (mut hash, mut at) = (StreamHash::new(), offset);
        while at < offset + len {
            let left = usize::try_from(offset + len - at).unwrap_or(usize::MAX);
            let bytes = self.from(at)?;
            let taken = bytes.len().min(left);
            hash.add(&bytes[..taken]);
            at += taken as u64;
        }
        Ok(hash.finish() ^ place_of(uid, offset))
    }

    /// Verifies what lies between the end of a block, at `at`, and the next one; returns where that begins.
    fn verify_padding(&mut self, at: u64, data_end: u64) -> Result<u64> {
        let end = at.next_multiple_of(PAGE_BYTES as u64);
        // Behind the last block there is none, and a block begins with a byte that is not zero.
        if end >= data_end || self.from(at)?[0] != 0 {
            return Ok(at);
        }
        let padding = read_range(self.file, at, end - at)?;
        check_padding(at, &padding).map_err(|error| error.into_error(self.file.path(), at))?;
        Ok(end)
    }

    /// Verifies block `number` at `at`, which lies before `data_end`; returns where the next one begins.
    fn verify_block(&mut self, number: u32, at: u64, data_end: u64) -> Result<u64> {
        let wrong = |detail: String| Error::corruption(self.file.path(), at, detail);
        let left = data_end - at;
        if left < FRAME_BYTES as u64 {
            return Err(wrong(format!("{left} bytes are left between the last block and the sections")));
        }
        let header: [u8; HEADER_BYTES] = self.array(at)?;
        if header[..4] != BLOCK_MAGIC {
            return Err(wrong(format!("no block starts here: {:02x?} found", &header[..4])));
        }
        let stored_len = u64::from(u32::from_le_bytes([header[12], header[13], header[14], header[15]]));
        if stored_len > left - FRAME_BYTES as u64 {
            return Err(wrong(format!("a block of {stored_len} stored bytes does not fit {left} bytes")));
        }
        let covered = HEADER_BYTES as u64 + stored_len;
        let computed = self.placed_checksum(at, covered)?;
        let stored = u64::from_le_bytes(self.array::<TRAILER_BYTES>(at + covered)?);
        if stored != computed {
            let detail = format!("block checksum {stored:016x} expected, {computed:016x} computed");
            return Err(Error::corruption(self.file.path(), at, detail));
        }
        // A block of zeros before the end of a page would pass for padding.
        let found = u32::from_le_bytes([header[20], header[21], header[22], header[23]]);
        if found != number {
            return Err(wrong(format!("block {number} expected, block {found} found")));
        }
        Ok(at + covered + TRAILER_BYTES as u64)
    }
}
