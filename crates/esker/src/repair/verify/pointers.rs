//! Pointers of tables to large values: each is followed, and neighbouring keys with lost values are one
//! finding.

use super::Verification;
use crate::repair::blob_shelf::BlobShelf;
use crate::repair::finding::{Finding, KeySpan};
use crate::repair::table_file::{Expectation, TableHead};
use esker_base::kind::{FLAG_BLOB, FLAG_EXPIRY};
use esker_base::{Error, Result, Tag};
use esker_env::OpenMode;
use esker_version::KeyspaceState;
use std::path::Path;

/// Spans of lost large values of one table that are listed one by one.
const LISTED_SPANS: usize = 1000;

impl Verification<'_> {
    /// Reads the value behind every pointer of a table. Neighbouring keys with lost values are one finding.
    pub(super) fn follow_pointers(
        &mut self,
        keyspace: &KeyspaceState,
        path: &Path,
        expected: &Expectation,
        shelf: &BlobShelf,
    ) -> Result<()> {
        let Ok(file) = self.survey.env.fs.open(path, OpenMode::Read) else { return Ok(()) };
        let bytes = file.len()?;
        let head = TableHead::expected(file, bytes, expected.uid);
        let mut stream = head.stream(expected.global_seqno, expected.entries)?;
        let mut lost: Option<Finding> = None;
        let mut spans = 0;
        let mut value = Vec::new();
        while let Some((key, tag, stored)) = stream.entry() {
            if let Some(pointer) = pointer_in(tag, stored) {
                match shelf.read(key, pointer, &mut value) {
                    Ok(()) => {
                        self.report.pointers += 1;
                        // Beyond a number of spans the last one grows, so that the list stays short.
                        if lost.is_some() && spans < LISTED_SPANS {
                            spans += 1;
                            self.report.damage.extend(lost.take());
                        }
                    }
                    Err(error) => note_lost_value(&mut lost, path, key, &error),
                }
            }
            stream.advance()?;
        }
        self.report.damage.extend(lost);
        for finding in self.report.damage.iter_mut().filter(|finding| finding.keyspace.is_none()) {
            if finding.file == path {
                finding.keyspace = Some(keyspace.name.to_string());
            }
        }
        Ok(())
    }
}

/// The stored pointer in a value, if it is one.
pub(crate) fn pointer_in(tag: Tag, stored: &[u8]) -> Option<&[u8]> {
    let kind = tag.kind_byte();
    if kind & FLAG_BLOB == 0 {
        return None;
    }
    if kind & FLAG_EXPIRY == 0 { Some(stored) } else { stored.get(esker_base::expiry::EXPIRY_LEN..) }
}

/// Adds a key whose large value cannot be read to the finding of its neighbours.
fn note_lost_value(lost: &mut Option<Finding>, table: &Path, key: &[u8], error: &Error) {
    let what = format!("a pointer to a large value leads nowhere: {error}");
    let one = KeySpan::only(key);
    match lost {
        Some(finding) => {
            if let Some(keys) = &mut finding.keys {
                keys.end = one.end;
            }
            finding.entries_at_most = finding.entries_at_most.map(|entries| entries + 1);
        }
        None => {
            let meaning = "reads of these keys fail where the value is a large one";
            *lost = Some(Finding::new(table, None, what, meaning).over(one, Some(1)));
        }
    }
}
