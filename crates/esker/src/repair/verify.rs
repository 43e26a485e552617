//! Verification of a directory: all damage of a database that need not open.
//!
//! Everything is read by itself: `CURRENT`, manifests, every table and blob file, every pointer between them,
//! and the log. Damage of one file keeps none of the others from being checked. Memory is bounded by the
//! largest table's index and filter.

use super::compare::compare;
use super::finding::{Finding, KeySpan, detail_of};
use super::survey::{Basis, Survey};
use super::table_file::{Expectation, TableHead, TableState, WholeTable, check_table};
use esker_base::Result;
use esker_version::FileKind;
use std::path::Path;

mod files;
mod pointers;
mod report;
mod tree;

use files::findings_of;
pub(crate) use files::scan_blob;
pub(crate) use pointers::pointer_in;
pub use report::{DirectoryReport, VerifyOptions};

/// Unreferenced files that are named one by one.
const NAMED_LEFTOVERS: usize = 20;

/// Reads a database directory without opening it, whatever state it is in, and lists all damage: each place
/// with file, offset, keyspace and key range where they are known, and with what it means. Changes nothing.
///
/// ```no_run
/// # fn main() -> esker::Result<()> {
/// use esker::repair::{VerifyOptions, verify_directory};
/// let report = verify_directory("data", &VerifyOptions::new().against("backups"))?;
/// for damage in &report.damage {
///     println!("{damage}");
/// }
/// # Ok(()) }
/// ```
///
/// Reads every byte once, values in blob files twice. [`crate::Database::verify`] does the same for tables
/// and blob files of an open database.
///
/// # Errors
/// `NotFound` if there is nothing of a database, `Locked` if a process has it open for writing, `Unsupported`
/// if a newer version wrote part of it, `Io` if a directory cannot be listed. Damage is no error.
#[doc(alias = "VerifyChecksum")]
pub fn verify_directory(dir: impl AsRef<Path>, options: &VerifyOptions) -> Result<DirectoryReport> {
    verify_directory_with(dir, options, |_| {})
}

/// As [`verify_directory`]; `told` gets the report so far after each table and each blob file.
///
/// # Errors
/// Those of [`verify_directory`].
pub fn verify_directory_with(
    dir: impl AsRef<Path>,
    options: &VerifyOptions,
    mut told: impl FnMut(&DirectoryReport),
) -> Result<DirectoryReport> {
    let survey = Survey::of(&options.env, dir.as_ref())?;
    let mut verification = Verification {
        survey: &survey,
        told: &mut told,
        report: DirectoryReport {
            damage: survey.findings.clone(),
            notes: survey.notes.clone(),
            ..DirectoryReport::default()
        },
    };
    match survey.state() {
        Some(state) => verification.check_state(state)?,
        None => verification.check_files()?,
    }
    verification.check_log()?;
    verification.note_leftovers();
    let mut report = verification.report;
    if let Some(against) = &options.against {
        report.comparison = Some(compare(&survey, &options.env, against)?);
    }
    Ok(report)
}

struct Verification<'a> {
    survey: &'a Survey,
    told: &'a mut dyn FnMut(&DirectoryReport),
    report: DirectoryReport,
}

impl Verification<'_> {
    fn count_whole(&mut self, whole: &WholeTable) {
        self.report.blocks += whole.blocks;
        self.report.entries += whole.entries;
        self.report.range_deletes += whole.properties.range_tombstones;
    }

    /// Without a manifest every file is checked by what it says of itself.
    fn check_files(&mut self) -> Result<()> {
        for file in self.survey.data.values() {
            (self.told)(&self.report);
            self.report.bytes += file.bytes;
            if file.kind == FileKind::Blob {
                self.report.blob_files += 1;
                let scanned = scan_blob(&self.survey.env, &file.path, None, &mut self.report.blob_values);
                if let Err(error) = scanned {
                    let (offset, what) = detail_of(&error);
                    let meaning = "the large values there are lost";
                    self.report.damage.push(Finding::new(&file.path, offset, what, meaning));
                }
                continue;
            }
            self.report.tables += 1;
            let head = TableHead::read(&self.survey.env, &file.path);
            let properties = head.as_ref().and_then(|head| head.end.properties.as_ref());
            let expected = Expectation {
                bytes: file.bytes,
                uid: head.as_ref().map(|head| head.uid).unwrap_or_default(),
                keyspace: properties.map(|properties| properties.keyspace).unwrap_or_default(),
                global_seqno: None,
                entries: None,
            };
            match check_table(&self.survey.env, &file.path, &expected)? {
                TableState::Whole(whole) => self.count_whole(&whole),
                TableState::Damaged(damaged) => {
                    self.report.entries += damaged.seen;
                    let found = findings_of(&file.path, &damaged, &KeySpan::everything(), true);
                    self.report.damage.extend(found);
                }
                TableState::Foreign(what) => {
                    let finding = Finding::new(&file.path, 0, what, "whatever it held is lost");
                    self.report.damage.push(finding);
                }
                TableState::Missing => {}
            }
        }
        Ok(())
    }

    fn check_log(&mut self) -> Result<()> {
        let verdict = super::log::judge(self.survey)?;
        self.report.log_records = verdict.records;
        self.report.damage.extend(verdict.findings);
        self.report.notes.extend(verdict.notes);
        Ok(())
    }

    /// Files that nothing refers to: an interrupted job leaves them, and the next open deletes them.
    fn note_leftovers(&mut self) {
        if self.survey.state().is_none() {
            return;
        }
        let others = self.survey.unreferenced();
        let is_certain = matches!(self.survey.basis, Basis::Manifest(_));
        for (_, file) in others.iter().take(NAMED_LEFTOVERS) {
            let why = if is_certain {
                "an interrupted job left it, and the next open deletes it"
            } else {
                "it may be needed, since the manifest lost its last edits"
            };
            self.report.notes.push(format!("nothing refers to {}: {why}", file.path.display()));
        }
        if let Some(more) = others.len().checked_sub(NAMED_LEFTOVERS + 1) {
            self.report.notes.push(format!("nothing refers to {} more files", more + 1));
        }
    }
}
