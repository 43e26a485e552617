//! Export: writes keyspaces in the portable format.

use super::chunk::{CHUNK_BYTES, ChunkWriter, PortableEntry, Totals, kind, put_entry};
use crate::handle::{Database, Keyspace};
use esker_base::error::MergeFailure;
use esker_base::{Error, Result, SeqNo};
use std::io::Write;

/// The contents of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportReport {
    /// Its moment.
    pub seqno: SeqNo,
    /// Keyspaces.
    pub keyspaces: u64,
    /// Pairs in all of them.
    pub entries: u64,
    /// Bytes of keys and values.
    pub data_bytes: u64,
    /// Bytes of the export.
    pub written_bytes: u64,
    /// Keys that were left out, because their operands cannot be merged ([`Database::export_skipping`]).
    pub skipped: u64,
}

impl Database {
    /// Writes keyspaces to a stream in the portable format (`docs/format/export.md`), as they are at one
    /// moment, concurrent with reads and writes. It contains keys, values and expiry times; not options, old
    /// versions and merge operators (operands are merged). Memory: a chunk of 256 KiB, or the longest value.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// let mut bytes = Vec::new();
    /// let report = db.export(&[db.keyspace("users")?], &mut bytes, |_| {})?;
    /// println!("{} users in {} bytes", report.entries, report.written_bytes);
    ///
    /// let other = esker::Database::open("elsewhere")?;
    /// other.import(&mut bytes.as_slice(), |_| {})?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Io` if the stream cannot be written; any error of reading. `Merge` names a key whose operands the
    /// merge operator refuses: [`Database::export_skipping`] leaves it out.
    #[doc(alias = "dump")]
    #[doc(alias = "ExportColumnFamily")]
    pub fn export(
        &self,
        keyspaces: &[Keyspace],
        to: &mut dyn Write,
        told: impl FnMut(ExportReport),
    ) -> Result<ExportReport> {
        self.export_by(keyspaces, to, told, Err)
    }

    /// As [`Database::export`], without the keys whose operands cannot be merged: each is passed to
    /// `skipped`, in key order, and counted in the report.
    ///
    /// ```no_run
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Database::open("data")?;
    /// let keyspaces = [db.keyspace("users")?];
    /// let mut bytes = Vec::new();
    /// db.export_skipping(&keyspaces, &mut bytes, |_| {}, |failure| eprintln!("left out: {failure}"))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Io` if the stream cannot be written; any error of reading but `Merge`.
    pub fn export_skipping(
        &self,
        keyspaces: &[Keyspace],
        to: &mut dyn Write,
        told: impl FnMut(ExportReport),
        mut skipped: impl FnMut(&MergeFailure),
    ) -> Result<ExportReport> {
        self.export_by(keyspaces, to, told, |error| match error {
            Error::Merge(failure) => {
                skipped(&failure);
                Ok(failure)
            }
            error => Err(error),
        })
    }

    fn export_by(
        &self,
        keyspaces: &[Keyspace],
        to: &mut dyn Write,
        mut told: impl FnMut(ExportReport),
        mut skip: impl FnMut(Error) -> Result<Box<MergeFailure>>,
    ) -> Result<ExportReport> {
        let snapshot = self.snapshot();
        let mut report = ExportReport { seqno: snapshot.seqno(), ..ExportReport::default() };
        let mut writer = ChunkWriter::begin(to)?;
        let mut chunk = Vec::with_capacity(CHUNK_BYTES + 4096);
        for keyspace in keyspaces {
            writer.chunk(kind::KEYSPACE, keyspace.name().as_bytes())?;
            report.keyspaces += 1;
            let mut cursor = keyspace.at(&snapshot).cursor()?;
            let mut moved = cursor.seek_to_first();
            loop {
                if let Err(error) = moved {
                    let failure = skip(error)?;
                    report.skipped += 1;
                    moved = cursor.seek([&failure.key, &[0][..]].concat());
                    continue;
                }
                let Some((key, value)) = cursor.entry() else { break };
                let expiry_ms = cursor.expiry().map(esker_view::time::to_ms);
                // A long entry gets a chunk of its own.
                if !chunk.is_empty() && chunk.len() + key.len() + value.len() > CHUNK_BYTES {
                    writer.chunk(kind::ENTRIES, &chunk)?;
                    chunk.clear();
                    report.written_bytes = writer.written_bytes;
                    told(report);
                }
                put_entry(&mut chunk, PortableEntry { key, value, expiry_ms });
                report.entries += 1;
                report.data_bytes += (key.len() + value.len()) as u64;
                moved = cursor.advance();
            }
            if !chunk.is_empty() {
                writer.chunk(kind::ENTRIES, &chunk)?;
                chunk.clear();
            }
        }
        let totals = Totals { keyspaces: report.keyspaces, entries: report.entries };
        writer.chunk(kind::END, &totals.encode())?;
        report.written_bytes = writer.finish()?;
        told(report);
        Ok(report)
    }
}
