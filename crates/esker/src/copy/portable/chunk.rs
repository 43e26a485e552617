//! Chunks: the units of an export, each with a checksum of its own.

use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::coding::{Reader, put_prefixed, put_varint};
use esker_base::limits::{MAX_KEY_LEN, MAX_KEYSPACE_NAME_LEN, MAX_VALUE_LEN};
use esker_base::{Error, Result};
use esker_codec::{Codec, decompress, id};
use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;

const MAGIC: [u8; 8] = *b"ESKEREXP";
const FORMAT: u32 = 1;
pub(super) const HEADER_BYTES: usize = 16;
const CHUNK_HEADER_BYTES: usize = 16;

/// An entries chunk is closed at this many bytes; one entry may be longer than that.
pub(super) const CHUNK_BYTES: usize = 256 << 10;
/// Longer payloads are stored uncompressed, so that a reader allocates no more memory than this for a length
/// that may be wrong.
const MAX_COMPRESSED_RAW_BYTES: usize = 2 * CHUNK_BYTES;
/// Fast, because an export is read far more rarely than it is written; the first that the build has.
const CODECS: [Codec; 2] = [Codec::Zstd { level: 1 }, Codec::Lz4];

/// Flag: the entry has an expiry time.
const ENTRY_EXPIRY: u8 = 1;

/// Kinds of chunks.
pub(super) mod kind {
    /// The name of the keyspace that the following entries belong to.
    pub(in crate::copy::portable) const KEYSPACE: u8 = 1;
    /// Entries in key order.
    pub(in crate::copy::portable) const ENTRIES: u8 = 2;
    /// The totals; nothing follows.
    pub(in crate::copy::portable) const END: u8 = 3;
}

/// One pair, with its expiry time in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PortableEntry<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    pub(super) expiry_ms: Option<u64>,
}

impl PortableEntry<'_> {
    pub(super) fn data_bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }
}

/// The contents of an end chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) keyspaces: u64,
    pub(super) entries: u64,
}

pub(super) fn put_entry(out: &mut Vec<u8>, entry: PortableEntry<'_>) {
    out.push(if entry.expiry_ms.is_some() { ENTRY_EXPIRY } else { 0 });
    put_prefixed(out, entry.key);
    if let Some(ms) = entry.expiry_ms {
        out.extend_from_slice(&ms.to_le_bytes());
    }
    put_prefixed(out, entry.value);
}

/// The entries of a chunk; an error is a reason.
pub(super) fn entries(payload: &[u8]) -> impl Iterator<Item = Result<PortableEntry<'_>, &'static str>> {
    let mut reader = Reader::new(payload);
    std::iter::from_fn(move || {
        if reader.is_empty() {
            return None;
        }
        let entry = take_entry(&mut reader);
        if entry.is_err() {
            reader.rest();
        }
        Some(entry)
    })
}

fn take_entry<'a>(reader: &mut Reader<'a>) -> Result<PortableEntry<'a>, &'static str> {
    let flags = reader.u8().ok_or("an entry without flags")?;
    if flags & !ENTRY_EXPIRY != 0 {
        return Err("an entry has a flag that this version does not know");
    }
    let key = reader.prefixed().ok_or("an entry is cut off in its key")?;
    let expiry_ms = match flags & ENTRY_EXPIRY {
        0 => None,
        _ => Some(reader.u64().ok_or("an entry is cut off in its expiry time")?),
    };
    let value = reader.prefixed().ok_or("an entry is cut off in its value")?;
    if key.len() > MAX_KEY_LEN || value.len() > MAX_VALUE_LEN {
        return Err("a key or value is longer than a database takes");
    }
    Ok(PortableEntry { key, value, expiry_ms })
}

impl Totals {
    pub(super) fn encode(self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.keyspaces);
        put_varint(&mut out, self.entries);
        out
    }

    pub(super) fn decode(payload: &[u8]) -> Option<Totals> {
        let mut reader = Reader::new(payload);
        let totals = Totals { keyspaces: reader.varint()?, entries: reader.varint()? };
        reader.is_empty().then_some(totals)
    }
}

/// Writes chunks.
pub(super) struct ChunkWriter<'w> {
    to: &'w mut dyn Write,
    scratch: Vec<u8>,
    pub(super) written_bytes: u64,
}

impl<'w> ChunkWriter<'w> {
    /// Begins a stream.
    pub(super) fn begin(to: &'w mut dyn Write) -> Result<ChunkWriter<'w>> {
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&FORMAT.to_le_bytes());
        header.extend_from_slice(&crc32c(&header).to_le_bytes());
        let mut writer = ChunkWriter { to, scratch: Vec::new(), written_bytes: 0 };
        writer.write(&header)?;
        Ok(writer)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.to.write_all(bytes).map_err(|source| Error::io("write", stream(), source))?;
        self.written_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Writes one chunk, compressed if that is worth it.
    pub(super) fn chunk(&mut self, kind: u8, payload: &[u8]) -> Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let codec = if payload.len() <= MAX_COMPRESSED_RAW_BYTES {
            Codec::first_available(&CODECS)
        } else {
            Codec::None
        };
        let stored = codec.compress(payload, &mut scratch);
        let mut header = vec![kind, stored.codec_id, 0, 0];
        header.extend_from_slice(&(stored.bytes.len() as u32).to_le_bytes());
        header.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        let crc = crc32c_append(crc32c(&header), stored.bytes);
        header.extend_from_slice(&crc.to_le_bytes());
        let written = self.write(&header).and_then(|()| self.write(stored.bytes));
        self.scratch = scratch;
        written
    }

    pub(super) fn finish(self) -> Result<u64> {
        self.to.flush().map_err(|source| Error::io("write", stream(), source))?;
        Ok(self.written_bytes)
    }
}

/// Reads chunks.
pub(super) struct ChunkReader<'r> {
    from: &'r mut dyn Read,
    stored: Vec<u8>,
    payload: Vec<u8>,
    /// The offset of the next chunk.
    pub(super) at: u64,
}

impl<'r> ChunkReader<'r> {
    /// Begins to read a stream.
    pub(super) fn begin(from: &'r mut dyn Read) -> Result<ChunkReader<'r>> {
        let mut reader = ChunkReader { from, stored: Vec::new(), payload: Vec::new(), at: 0 };
        let mut header = [0; HEADER_BYTES];
        reader.fill(&mut header, "it ends within its header")?;
        let (signed, crc) = header.split_at(HEADER_BYTES - 4);
        if signed[..8] != MAGIC {
            return Err(reader.damage("it does not begin like an export of Esker"));
        }
        if crc32c(signed).to_le_bytes() != crc {
            return Err(reader.damage("the checksum of its header does not match"));
        }
        if signed[8..] != FORMAT.to_le_bytes() {
            let format = u32::from_le_bytes([signed[8], signed[9], signed[10], signed[11]]);
            return Err(Error::Unsupported(
                format!("an export of format {format}; this version reads format {FORMAT}").into(),
            ));
        }
        reader.at = HEADER_BYTES as u64;
        Ok(reader)
    }

    /// The next chunk: kind, payload, and its offset.
    pub(super) fn next(&mut self) -> Result<(u8, &[u8], u64)> {
        let at = self.at;
        let mut header = [0; CHUNK_HEADER_BYTES];
        self.fill(&mut header, "it ends before its end chunk")?;
        let number =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let [kind, codec_id, ..] = header;
        let (stored_len, raw_len) = (number(4) as usize, number(8) as usize);
        // Read incrementally, so that a wrong length costs no memory.
        self.stored.clear();
        let read = self.from.take(stored_len as u64).read_to_end(&mut self.stored);
        read.map_err(|source| Error::io("read", stream(), source))?;
        if self.stored.len() < stored_len {
            return Err(self.damage("it ends within a chunk"));
        }
        if crc32c_append(crc32c(&header[..12]), &self.stored) != number(12) {
            return Err(self.damage("the checksum of a chunk does not match"));
        }
        if header[2..4] != [0, 0] {
            return Err(Error::Unsupported(format!("a chunk with flags at byte {at} of an export").into()));
        }
        self.at += (CHUNK_HEADER_BYTES + stored_len) as u64;
        if codec_id == id::NONE {
            return if raw_len == stored_len { Ok((kind, &self.stored, at)) } else { Err(other_length(at)) };
        }
        if raw_len > MAX_COMPRESSED_RAW_BYTES {
            return Err(other_length(at));
        }
        decompress(codec_id, &self.stored, raw_len, &mut self.payload)
            .map_err(|error| error.into_error(&stream(), at))?;
        Ok((kind, &self.payload, at))
    }

    /// Whether nothing follows.
    pub(super) fn is_at_end(&mut self) -> Result<bool> {
        let mut byte = [0];
        loop {
            match self.from.read(&mut byte) {
                Ok(read) => return Ok(read == 0),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::io("read", stream(), source)),
            }
        }
    }

    fn fill(&mut self, buffer: &mut [u8], short: &str) -> Result<()> {
        self.from.read_exact(buffer).map_err(|source| match source.kind() {
            ErrorKind::UnexpectedEof => Error::corruption(stream(), self.at, short.to_owned()),
            _ => Error::io("read", stream(), source),
        })
    }

    pub(super) fn damage(&self, detail: &str) -> Error {
        Error::corruption(stream(), self.at, detail.to_owned())
    }
}

fn other_length(at: u64) -> Error {
    Error::corruption(stream(), at, "a chunk with another length than it says".to_owned())
}

/// The name, if it is a valid keyspace name.
pub(super) fn keyspace_name(payload: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(payload).ok()?;
    (!name.is_empty() && name.len() <= MAX_KEYSPACE_NAME_LEN).then_some(name)
}

/// Streams have no names of their own; the caller adds one.
fn stream() -> PathBuf {
    PathBuf::from("the export")
}
