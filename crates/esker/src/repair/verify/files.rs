//! Damage of single files, as findings.

use crate::repair::finding::{Finding, KeySpan, detail_of};
use crate::repair::table_file::DamagedTable;
use esker_base::{Error, Result};
use esker_blob::{BlobReader, ExpectedBlob};
use esker_env::{Env, OpenMode};
use std::path::Path;

/// The findings of a damaged table: each gap, lost sections, lost range tombstones.
pub(super) fn findings_of(
    path: &Path,
    damaged: &DamagedTable,
    table: &KeySpan,
    may_have_deletes: bool,
) -> Vec<Finding> {
    let (offset, detail) = detail_of(&damaged.error);
    let mut findings = Vec::new();
    for gap in &damaged.gaps {
        let blocks = match gap.blocks {
            Some(1) => "1 block cannot be read".to_owned(),
            Some(blocks) => format!("{blocks} blocks cannot be read"),
            None => "blocks cannot be read".to_owned(),
        };
        let meaning = "reads of these keys fail; without the blocks they have no value or an older one";
        let finding = Finding::new(path, gap.offset, format!("{blocks} ({detail})"), meaning);
        findings.push(finding.over(gap.keys(table), damaged.missing_at_most));
    }
    if may_have_deletes && !damaged.has_range_tombstones {
        let meaning = "keys that range deletes of this table have removed may come back";
        let what = format!("its range deletes cannot be read ({detail})");
        findings.push(Finding::new(path, offset, what, meaning).over(table.clone(), None));
    }
    if findings.is_empty() {
        let meaning = "every entry can be read by its block, so a repair loses nothing; until then reads of \
                       these keys may fail or be slower";
        findings.push(Finding::new(path, offset, detail, meaning).over(table.clone(), Some(0)));
    }
    findings
}

/// Reads all of a blob file; returns the number of its records. Adds those that can be read to `values`.
pub(crate) fn scan_blob(
    env: &Env,
    path: &Path,
    expected: Option<ExpectedBlob>,
    values: &mut u64,
) -> Result<u64> {
    let file = env.fs.open(path, OpenMode::Read)?;
    let bytes = file.len()?;
    if let Some(expected) = expected
        && bytes != expected.file_bytes
    {
        let detail = format!("the file has {bytes} bytes, the manifest says {}", expected.file_bytes);
        return Err(Error::corruption(path, None, detail));
    }
    let reader = match expected {
        Some(expected) => BlobReader::open(file, expected)?,
        None => BlobReader::open_any(file, bytes)?,
    };
    let scanned = reader.scan(|_, _, _| {
        *values += 1;
        Ok(())
    })?;
    Ok(scanned.records)
}
