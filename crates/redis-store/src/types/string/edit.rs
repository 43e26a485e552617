//! Changes within a string: only the chunks that are touched are read and written.

use super::{CHUNK_BYTES, CHUNKED, WHOLE_BYTES, WHOLE_RAW, chunk_key, chunks, inline, set_chunked};
use crate::entry::Entry;
use crate::layout::Space;
use crate::record::Kind;
use crate::txn::Txn;
use esker::Result;
use std::collections::BTreeMap;

/// A string that is being changed. It grows by what is written behind its end, the gap being zeros, and
/// never shrinks. [`Editor::save`] stores it.
#[derive(Debug)]
pub struct Editor {
    len: u64,
    stored_len: u64,
    /// Whether what is stored counts as changed in place already.
    is_raw: bool,
    object: Option<u64>,
    /// Chunks that were touched. A string in its record is chunk 0.
    touched: BTreeMap<u32, Chunk>,
}

#[derive(Debug, Default)]
struct Chunk {
    /// Zeros at its end may be left out (ST1).
    bytes: Vec<u8>,
    is_changed: bool,
}

/// What a range of the string has in each chunk: the chunk, where in it, and how many bytes.
fn places(offset: u64, count: usize) -> impl Iterator<Item = (u32, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % CHUNK_BYTES as u64) as usize;
        let length = (count - done).min(CHUNK_BYTES - within);
        done += length;
        (length > 0).then_some(((at / CHUNK_BYTES as u64) as u32, within, length))
    })
}

impl Editor {
    /// Begins to change the string of a key, which is empty if there is no key.
    ///
    /// # Errors
    /// `Internal` if the record is malformed.
    pub fn open(entry: &Entry) -> Result<Self> {
        let mut editor =
            Self { len: 0, stored_len: 0, is_raw: false, object: None, touched: BTreeMap::new() };
        let Some(record) = entry.record() else { return Ok(editor) };
        match inline(record) {
            Some(bytes) => {
                editor.len = bytes.len() as u64;
                editor.touched.insert(0, Chunk { bytes: bytes.to_vec(), is_changed: false });
            }
            None => {
                let (object, len) = chunks(record)?;
                editor.len = len;
                editor.object = Some(object);
            }
        }
        editor.stored_len = editor.len;
        editor.is_raw = matches!(record.layout(), WHOLE_RAW | CHUNKED);
        Ok(editor)
    }

    /// The length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes the string at least so long, with zeros.
    pub fn grow(&mut self, len: u64) {
        self.len = self.len.max(len);
    }

    /// Reads the bytes from an offset on; behind the end there are zeros.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn read(&mut self, txn: &Txn<'_>, offset: u64, out: &mut [u8]) -> Result<()> {
        out.fill(0);
        let mut out = out;
        for (number, within, length) in places(offset, out.len()) {
            let chunk = self.chunk(txn, number)?;
            let (piece, rest) = out.split_at_mut(length);
            let stored = chunk.bytes.get(within..).unwrap_or_default();
            let stored = &stored[..stored.len().min(length)];
            piece[..stored.len()].copy_from_slice(stored);
            out = rest;
        }
        Ok(())
    }

    /// Writes bytes at an offset.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn write(&mut self, txn: &Txn<'_>, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        for (number, within, length) in places(offset, bytes.len()) {
            // What is overwritten as a whole need not be read.
            let chunk = match length {
                CHUNK_BYTES => self.touched.entry(number).or_default(),
                _ => self.chunk(txn, number)?,
            };
            let (piece, behind) = rest.split_at(length);
            let end = within + length;
            if chunk.bytes.len() < end {
                chunk.bytes.resize(end, 0);
            }
            chunk.bytes[within..end].copy_from_slice(piece);
            chunk.is_changed = true;
            rest = behind;
        }
        self.grow(offset + bytes.len() as u64);
        Ok(())
    }

    fn chunk(&mut self, txn: &Txn<'_>, number: u32) -> Result<&mut Chunk> {
        use std::collections::btree_map::Entry;
        match self.touched.entry(number) {
            Entry::Occupied(chunk) => Ok(chunk.into_mut()),
            Entry::Vacant(place) => {
                let is_stored = u64::from(number) * (CHUNK_BYTES as u64) < self.stored_len;
                let stored = match self.object.filter(|_| is_stored) {
                    Some(object) => txn.get(Space::Elements, &chunk_key(object, number))?,
                    None => None,
                };
                let bytes = stored.map_or_else(Vec::new, |stored| stored.to_vec());
                Ok(place.insert(Chunk { bytes, is_changed: false }))
            }
        }
    }

    /// Stores the string, and that it was changed in place. The key keeps its expiry.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn save(mut self, txn: &mut Txn<'_>, entry: &mut Entry) -> Result<()> {
        let grows = self.len != self.stored_len;
        if self.is_raw && !grows && !self.touched.values().any(|chunk| chunk.is_changed) {
            return Ok(());
        }
        let expiry_ms = entry.expiry_ms();
        if self.object.is_none() && self.len <= WHOLE_BYTES as u64 {
            let mut bytes = self.touched.remove(&0).unwrap_or_default().bytes;
            bytes.resize(self.len as usize, 0);
            return txn.set_record(entry, Kind::String, WHOLE_RAW, expiry_ms, &bytes);
        }
        let (object, is_new) = match self.object {
            Some(object) => (object, false),
            None => (txn.store().new_object(entry.physical())?, true),
        };
        for (number, chunk) in &self.touched {
            if chunk.is_changed || is_new && !chunk.bytes.is_empty() {
                txn.put(Space::Elements, &chunk_key(object, *number), &chunk.bytes)?;
            }
        }
        if is_new || grows {
            set_chunked(txn, entry, object, self.len, expiry_ms)?;
        }
        Ok(())
    }
}
