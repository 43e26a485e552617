//! Import: reads an export into a database, or verifies it.

use super::chunk::{ChunkReader, PortableEntry, Totals, entries, keyspace_name, kind};
use crate::handle::{Database, Keyspace};
use esker_base::{Error, Result};
use std::io::Read;

/// The part of an export that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportReport {
    /// Keyspaces.
    pub keyspaces: u64,
    /// Pairs.
    pub entries: u64,
    /// Bytes of keys and values.
    pub data_bytes: u64,
    /// Bytes of the export that were read.
    pub read_bytes: u64,
}

impl Database {
    /// Puts all entries of an export into the keyspaces of the same names, which are created if missing.
    /// Existing keys get the export's values; others stay. Each chunk of the export, up to 256 KiB or one
    /// long entry, is one atomic batch.
    ///
    /// # Errors
    /// `Corruption` with the offset in the stream, `Unsupported` if a newer version wrote it, `Io`; and any
    /// error of writing. Chunks before the error have been written: importing the whole export again is safe.
    #[doc(alias = "CreateColumnFamilyWithImport")]
    pub fn import(&self, from: &mut dyn Read, told: impl FnMut(ImportReport)) -> Result<ImportReport> {
        read_export(from, &mut Importer { database: self, keyspace: None }, told)
    }
}

/// Reads all of an export and verifies every checksum and every count, without a database.
///
/// # Errors
/// As [`Database::import`].
pub fn check_export(from: &mut dyn Read, told: impl FnMut(ImportReport)) -> Result<ImportReport> {
    read_export(from, &mut NoSink, told)
}

/// The target of an export.
trait Sink {
    /// The following entries belong to this keyspace.
    fn keyspace(&mut self, name: &str) -> Result<()>;

    /// One chunk of entries, all or nothing.
    fn entries(&mut self, entries: &[PortableEntry<'_>]) -> Result<()>;
}

struct NoSink;

impl Sink for NoSink {
    fn keyspace(&mut self, _: &str) -> Result<()> {
        Ok(())
    }

    fn entries(&mut self, _: &[PortableEntry<'_>]) -> Result<()> {
        Ok(())
    }
}

struct Importer<'d> {
    database: &'d Database,
    keyspace: Option<Keyspace>,
}

impl Sink for Importer<'_> {
    fn keyspace(&mut self, name: &str) -> Result<()> {
        self.keyspace = Some(self.database.keyspace(name)?);
        Ok(())
    }

    fn entries(&mut self, entries: &[PortableEntry<'_>]) -> Result<()> {
        let Some(keyspace) = &self.keyspace else { return Ok(()) };
        let mut batch = self.database.batch();
        for entry in entries {
            match entry.expiry_ms {
                None => batch.put(keyspace, entry.key, entry.value),
                until => batch.put_until(keyspace, entry.key, entry.value, until),
            }
        }
        self.database.write(&batch).map(drop)
    }
}

fn read_export(
    from: &mut dyn Read,
    sink: &mut dyn Sink,
    mut told: impl FnMut(ImportReport),
) -> Result<ImportReport> {
    let mut report = ImportReport::default();
    let mut reader = ChunkReader::begin(from)?;
    loop {
        let (kind, payload, at) = reader.next()?;
        let damage = |detail: &str| Error::corruption("the export", at, detail.to_owned());
        match kind {
            kind::KEYSPACE => {
                let name = keyspace_name(payload)
                    .ok_or_else(|| damage("a keyspace with a name that none can have"))?;
                sink.keyspace(name)?;
                report.keyspaces += 1;
            }
            kind::ENTRIES if report.keyspaces == 0 => return Err(damage("entries before any keyspace")),
            kind::ENTRIES => {
                let entries: Vec<PortableEntry<'_>> =
                    entries(payload).collect::<Result<_, _>>().map_err(damage)?;
                sink.entries(&entries)?;
                report.entries += entries.len() as u64;
                report.data_bytes += entries.iter().map(PortableEntry::data_bytes).sum::<u64>();
            }
            kind::END => {
                let told_totals =
                    Totals::decode(payload).ok_or_else(|| damage("an end chunk without counts"))?;
                let totals = Totals { keyspaces: report.keyspaces, entries: report.entries };
                if told_totals != totals {
                    return Err(damage("it has other counts than its end chunk says"));
                }
                if !reader.is_at_end()? {
                    return Err(reader.damage("something follows its end chunk"));
                }
                report.read_bytes = reader.at;
                told(report);
                return Ok(report);
            }
            other => {
                let text = format!("a chunk of kind {other} at byte {at} of an export");
                return Err(Error::Unsupported(text.into()));
            }
        }
        report.read_bytes = reader.at;
        told(report);
    }
}
