//! Verification: reads all files, checks everything that can be checked, and lists all corruption.

use crate::Database;
use crate::damage::{Damage, contradiction};
use esker_base::{Error, Result};
use esker_engine::state::keyspace::KeyspaceState;
use esker_engine::state::store::Store;
use esker_view::tree::blob_files::LargeFile;
use esker_view::tree::{Access, TreePart};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Database {
    /// Reads every table and checks every checksum, the order of all entries, and what the manifest says of
    /// them. Reports what is damaged instead of stopping at the first damage. The log and the manifest are
    /// checked by opening.
    #[doc(alias = "VerifyChecksum")]
    #[doc(alias = "check_integrity")]
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verify_with(|_| {})
    }

    /// As [`Database::verify`]; `told` gets the report so far after each table and each blob file.
    pub fn verify_with(&self, mut told: impl FnMut(&VerifyReport)) -> Result<VerifyReport> {
        verify(&self.handle().store, &mut told)
    }
}

/// The result of [`crate::Database::verify`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Tables read.
    pub tables: u64,
    /// Blocks whose checksums were verified.
    pub blocks: u64,
    /// Entries whose order was verified.
    pub entries: u64,
    /// Range tombstones whose order was verified.
    pub range_deletes: u64,
    /// Blob files read.
    pub blob_files: u64,
    /// Large values in them whose checksums were verified, garbage included.
    pub blob_values: u64,
    /// Bytes of tables and blob files.
    pub bytes: u64,
    /// All corruption found.
    pub damage: Vec<Damage>,
}

impl VerifyReport {
    /// Whether no corruption was found.
    pub fn is_clean(&self) -> bool {
        self.damage.is_empty()
    }
}

pub(crate) fn verify(store: &Store, told: &mut dyn FnMut(&VerifyReport)) -> Result<VerifyReport> {
    store.check_open()?;
    let mut report = VerifyReport::default();
    for keyspace in store.all_keyspaces().iter() {
        verify_keyspace(keyspace, &mut report, told);
    }
    Ok(report)
}

fn verify_keyspace(keyspace: &KeyspaceState, report: &mut VerifyReport, told: &mut dyn FnMut(&VerifyReport)) {
    let view = keyspace.view.load();
    let mut seen = BTreeSet::new();
    for part in view.tree.parts() {
        // A file with several parts is read once.
        if seen.insert(part.file.number())
            && let Err(error) = verify_table(part, report)
        {
            let error = error.in_keyspace(&keyspace.name());
            let file = part.file.path().to_path_buf();
            report.damage.push(Damage { keyspace: keyspace.name().to_string(), file, error });
        }
        told(report);
    }
    for blob in view.tree.large.iter() {
        if let Err(error) = verify_blob_file(blob, report) {
            let error = error.in_keyspace(&keyspace.name());
            let file = blob.path().to_path_buf();
            report.damage.push(Damage { keyspace: keyspace.name().to_string(), file, error });
        }
        told(report);
    }
    for problem in view.tree.version.problems() {
        let error = Error::internal(problem);
        report.damage.push(Damage { keyspace: keyspace.name().to_string(), file: "CURRENT".into(), error });
    }
}

/// Reads all of a blob file. That a pointer leads to the right record is checked when it is followed.
fn verify_blob_file(blob: &Arc<LargeFile>, report: &mut VerifyReport) -> Result<()> {
    blob.check_presence()?;
    let scanned = blob.reader()?.scan(|_, _, _| Ok(()))?;
    report.blob_files += 1;
    report.blob_values += scanned.records;
    report.bytes += blob.meta().file_bytes;
    if scanned.records == blob.meta().records {
        return Ok(());
    }
    let (told, actual) = (blob.meta().records, scanned.records);
    let detail = format!("the manifest says {told} values, the blob file has {actual}");
    Err(Error::corruption(blob.path(), None, detail))
}

fn verify_table(part: &TreePart, report: &mut VerifyReport) -> Result<()> {
    part.file.check_presence()?;
    let table = part.file.table(Access::Once)?;
    let found = table.verify()?;
    let (meta, properties) = (&part.meta, table.properties());
    report.tables += 1;
    report.blocks += found.blocks;
    report.entries += found.entries;
    report.range_deletes += properties.range_tombstones;
    report.bytes += part.meta.file_bytes;
    let deleted = table.range_tombstones().hull().map(esker_build::range_del::input_range_dels::key_range);
    match contradiction(meta, found.entries, properties, deleted.as_ref()) {
        Some(detail) => Err(Error::corruption(part.file.path(), None, detail)),
        None => Ok(()),
    }
}
