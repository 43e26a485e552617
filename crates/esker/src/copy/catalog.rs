//! The catalog of a backup: a text file, `BACKUP`, that lists its contents.
//!
//! ```text
//! esker backup 1
//! created 1732226400000
//! seqno 123456
//! entries 1000
//! table 7 000102030405060708 4096 89abcdef01234567
//! blob 9 08090a0b0c0d0e0f 33554432 0123456789abcdef
//! crc 0123abcd
//! ```
//!
//! `created` is milliseconds since 1970; a `table` line has the file's number in the database, the table's
//! uid in hexadecimal, its bytes, and the XXH3-64 of all of them; a `blob` line the same of a blob file. The
//! last line is the CRC-32C of everything before it. A table is stored in the shared directory under a name
//! made of uid and bytes; the uid is random and part of every checksum inside the table, so two tables with
//! one name are the same table.

use esker_base::checksum::crc32c;
use esker_base::{Error, FileNumber, Result, TableUid};
use esker_engine::file_transfer::StoredData;
use esker_env::{FileSystem, OpenMode};
use esker_version::FileKind;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Name of the file.
pub(crate) const CATALOG_NAME: &str = "BACKUP";
const FIRST_LINE: &str = "esker backup 1";

/// A table or blob file of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CatalogTable {
    pub(crate) kind: FileKind,
    pub(crate) number: FileNumber,
    pub(crate) uid: TableUid,
    pub(crate) bytes: u64,
    pub(crate) checksum: u64,
}

impl CatalogTable {
    /// Its name in the shared directory.
    pub(crate) fn file_name(&self) -> String {
        pool_name(self.kind, self.uid, self.bytes)
    }

    /// What the file must be.
    pub(crate) fn data(&self) -> StoredData {
        StoredData { kind: self.kind, uid: self.uid, bytes: self.bytes }
    }
}

/// The name of a file in the shared directory.
pub(crate) fn pool_name(kind: FileKind, uid: TableUid, bytes: u64) -> String {
    let suffix = match kind {
        FileKind::Table => "sst",
        FileKind::Blob => "blob",
    };
    format!("{:016x}-{bytes}.{suffix}", uid.0)
}

fn word_of(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Table => "table",
        FileKind::Blob => "blob",
    }
}

/// The contents of a backup, besides its manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Catalog {
    pub(crate) created_ms: u64,
    pub(crate) seqno: u64,
    pub(crate) entries: u64,
    pub(crate) tables: Vec<CatalogTable>,
}

impl Catalog {
    /// Bytes of all tables.
    pub(crate) fn bytes(&self) -> u64 {
        self.tables.iter().fold(0, |sum, table| sum.saturating_add(table.bytes))
    }

    pub(crate) fn encode(&self) -> String {
        let mut text = format!(
            "{FIRST_LINE}\ncreated {}\nseqno {}\nentries {}\n",
            self.created_ms, self.seqno, self.entries
        );
        for CatalogTable { kind, number, uid, bytes, checksum } in &self.tables {
            let kind = word_of(*kind);
            // Writing to a string does not fail.
            let _ = writeln!(text, "{kind} {} {:016x} {bytes} {checksum:016x}", number.get(), uid.0);
        }
        let crc = crc32c(text.as_bytes());
        let _ = writeln!(text, "crc {crc:08x}");
        text
    }

    /// Parses the content of the file; an error is a reason.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Catalog, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
        let body = text.strip_suffix('\n').ok_or("its last line is not ended")?;
        let crc_at = body.rfind('\n').ok_or("it has a single line")? + 1;
        let (signed, crc) = body.split_at(crc_at);
        if crc != format!("crc {:08x}", crc32c(signed.as_bytes())) {
            return Err("its checksum does not match".to_owned());
        }
        let mut lines = signed.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err("its format is not known".to_owned());
        }
        let mut catalog = Catalog {
            created_ms: number_after(lines.next(), "created ")?,
            seqno: number_after(lines.next(), "seqno ")?,
            entries: number_after(lines.next(), "entries ")?,
            tables: Vec::new(),
        };
        for line in lines {
            let table = parse_table(line).ok_or_else(|| format!("it has the line {line:?}"))?;
            catalog.tables.push(table);
        }
        Ok(catalog)
    }

    /// Reads the catalog of the backup in `dir`.
    ///
    /// # Errors
    /// Corruption if its content was changed.
    pub(crate) fn read(fs: &dyn FileSystem, dir: &Path) -> Result<Catalog> {
        /// A line takes about 60 bytes: room for a hundred million tables.
        const MAX_BYTES: u64 = 6 << 30;
        let path: PathBuf = dir.join(CATALOG_NAME);
        let file = fs.open(&path, OpenMode::Read)?;
        let len = file.len()?;
        if len > MAX_BYTES {
            return Err(Error::corruption(&path, None, format!("a catalog of {len} bytes")));
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut bytes, 0)?;
        Catalog::decode(&bytes).map_err(|reason| Error::corruption(&path, None, reason))
    }

    /// Writes the catalog to a file, durable except for its name.
    pub(crate) fn write(&self, fs: &dyn FileSystem, path: &Path, mode: OpenMode) -> Result<()> {
        let file = fs.open(path, mode)?;
        file.write_at(self.encode().as_bytes(), 0)?;
        file.sync_all()
    }
}

fn number_after<T: FromStr>(line: Option<&str>, word: &str) -> Result<T, String> {
    let value = line.and_then(|line| line.strip_prefix(word)).and_then(|number| number.parse().ok());
    value.ok_or_else(|| format!("the line {:?} is missing or has no number", word.trim_end()))
}

fn parse_table(line: &str) -> Option<CatalogTable> {
    let mut words = line.split(' ');
    let word = words.next()?;
    let kind = [FileKind::Table, FileKind::Blob].into_iter().find(|kind| word_of(*kind) == word)?;
    let number = FileNumber(words.next()?.parse().ok()?);
    let uid = TableUid(parse_hex(words.next()?)?);
    let bytes = words.next()?.parse().ok()?;
    let checksum = parse_hex(words.next()?)?;
    words.next().is_none().then_some(CatalogTable { kind, number, uid, bytes, checksum })
}

fn parse_hex(text: &str) -> Option<u64> {
    (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Catalog {
        let file = |kind, number, uid, bytes, checksum| CatalogTable {
            kind,
            number: FileNumber(number),
            uid: TableUid(uid),
            bytes,
            checksum,
        };
        let tables = vec![
            file(FileKind::Table, 7, 1, 4096, u64::MAX),
            file(FileKind::Blob, u64::MAX, u64::MAX, u64::MAX, 0),
        ];
        Catalog { created_ms: 1_732_226_400_000, seqno: 99, entries: 12, tables }
    }

    #[test]
    fn reads_back_what_was_written() {
        assert_eq!(Catalog::decode(catalog().encode().as_bytes()), Ok(catalog()));
        assert_eq!(Catalog::decode(Catalog::default().encode().as_bytes()), Ok(Catalog::default()));
    }

    #[test]
    fn every_changed_or_missing_byte_is_noticed() {
        let text = catalog().encode().into_bytes();
        for at in 0..text.len() {
            assert!(Catalog::decode(&text[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut changed = text.clone();
                changed[at] ^= 1 << bit;
                assert!(Catalog::decode(&changed).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn lines_that_are_not_understood_are_named() {
        let text = "esker backup 1\ncreated 1\nseqno 2\nentries 3\ntable 7 0001 9 0\n";
        let text = format!("{text}crc {:08x}\n", crc32c(text.as_bytes()));
        let reason = Catalog::decode(text.as_bytes()).unwrap_err();
        assert!(reason.contains("table 7 0001"), "{reason}");
    }
}
