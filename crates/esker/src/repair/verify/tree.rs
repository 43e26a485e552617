//! Files of the tree: every table and blob file of the manifest, compared with what the manifest says.

use super::Verification;
use super::files::{findings_of, scan_blob};
use crate::damage::contradiction;
use crate::repair::blob_shelf::BlobShelf;
use crate::repair::finding::{Finding, KeySpan, detail_of};
use crate::repair::survey::Basis;
use crate::repair::table_file::{Expectation, TableState, check_table};
use esker_base::{Error, FileNumber, Result};
use esker_blob::ExpectedBlob;
use esker_options::KeyspaceOptions;
use esker_version::{DatabaseState, FileKind, KeyspaceState, LiveBlob, PartMeta, manifest_name};
use esker_view::paths;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Verification<'_> {
    pub(super) fn check_state(&mut self, state: &DatabaseState) -> Result<()> {
        for keyspace in state.keyspaces.values() {
            self.check_metadata(keyspace);
            let mut shelf = BlobShelf::default();
            for blob in keyspace.version.blob_files().iter() {
                self.check_blob_file(keyspace, blob, &mut shelf)?;
                (self.told)(&self.report);
            }
            let mut files: BTreeMap<FileNumber, Vec<&Arc<PartMeta>>> = BTreeMap::new();
            for (_, _, part) in keyspace.version.parts() {
                files.entry(part.file).or_default().push(part);
            }
            for parts in files.values() {
                self.check_table(keyspace, parts, &shelf)?;
                (self.told)(&self.report);
            }
        }
        Ok(())
    }

    /// Options, and the structure of the tree.
    fn check_metadata(&mut self, keyspace: &KeyspaceState) {
        let number = match &self.survey.basis {
            Basis::Manifest(manifest) | Basis::Prefix(manifest) => manifest.number,
            Basis::Files => return,
        };
        let path = self.survey.dir.join(manifest_name(number));
        if let Err(error) = KeyspaceOptions::decode(&keyspace.options) {
            let what = format!("the options of the keyspace cannot be read: {error}");
            let meaning = "the database does not open";
            self.report.damage.push(Finding::new(&path, None, what, meaning).of(&keyspace.name));
        }
        for problem in keyspace.version.problems() {
            let meaning = "reads may return older values than they should";
            self.report.damage.push(Finding::new(&path, None, problem, meaning).of(&keyspace.name));
        }
    }

    fn check_blob_file(
        &mut self,
        keyspace: &KeyspaceState,
        blob: &LiveBlob,
        shelf: &mut BlobShelf,
    ) -> Result<()> {
        let number = blob.meta.number;
        let path = paths::blob(&self.survey.dir, number);
        let pointers = Some(blob.referenced_count);
        let Some(file) = self.survey.file(FileKind::Blob, number) else {
            let what = "the blob file is missing";
            let meaning = "the database does not open; the large values in it are lost, and the keys are listed \
                           with the tables that point to it";
            let finding = Finding::new(&path, None, what, meaning).of(&keyspace.name);
            self.report.damage.push(finding.over(KeySpan::everything(), pointers));
            return Ok(());
        };
        self.report.blob_files += 1;
        self.report.bytes += file.bytes;
        let expected =
            ExpectedBlob { file_bytes: blob.meta.file_bytes, uid: blob.meta.uid, keyspace: keyspace.id };
        let scanned = scan_blob(&self.survey.env, &path, Some(expected), &mut self.report.blob_values);
        let scanned = scanned.and_then(|records| match records == blob.meta.records {
            true => Ok(()),
            false => {
                let told = blob.meta.records;
                let detail = format!("the manifest says {told} values, the blob file has {records}");
                Err(Error::corruption(&path, None, detail))
            }
        });
        shelf.add(&self.survey.env, number, &path, scanned.is_ok().then_some(keyspace.id))?;
        if let Err(error) = scanned {
            if let Error::Unsupported(_) = error {
                return Err(error);
            }
            let (offset, what) = detail_of(&error);
            let meaning = "reads of the large values there fail; the keys are listed with the tables that point \
                           to it";
            let finding = Finding::new(&path, offset, what, meaning).of(&keyspace.name);
            self.report.damage.push(finding.over(KeySpan::everything(), pointers));
        }
        Ok(())
    }

    /// One table file, of which these are the parts.
    fn check_table(
        &mut self,
        keyspace: &KeyspaceState,
        parts: &[&Arc<PartMeta>],
        shelf: &BlobShelf,
    ) -> Result<()> {
        let Some(part) = parts.first() else { return Ok(()) };
        let path = paths::table(&self.survey.dir, part.file);
        let expected = Expectation::of(keyspace.id, part);
        let state = check_table(&self.survey.env, &path, &expected)?;
        let hull = parts.iter().map(|part| part.range.clone()).reduce(|hull, next| hull.hull(&next));
        let hull = hull.as_ref().map_or_else(KeySpan::everything, KeySpan::of);
        let entries: u64 = parts.iter().map(|part| part.entries).sum();
        if !matches!(state, TableState::Missing) {
            self.report.tables += 1;
            self.report.bytes += part.file_bytes;
        }
        match state {
            TableState::Missing => {
                let meaning = "the database does not open; without the file these keys have no value or an \
                               older one, and deleted keys may come back";
                let finding = Finding::new(&path, None, "the table is missing", meaning).of(&keyspace.name);
                self.report.damage.push(finding.over(hull, Some(entries)));
            }
            TableState::Foreign(what) => {
                let meaning = "reads of these keys fail; nothing of the table that belongs here is left";
                let finding = Finding::new(&path, 0, what, meaning).of(&keyspace.name);
                self.report.damage.push(finding.over(hull, Some(entries)));
            }
            TableState::Whole(whole) => {
                self.count_whole(&whole);
                let detail = contradiction(part, whole.entries, &whole.properties, whole.deleted.as_ref());
                if let Some(what) = detail {
                    let meaning = "reads may return older values than they should";
                    let finding = Finding::new(&path, None, what, meaning).of(&keyspace.name);
                    self.report.damage.push(finding.over(hull, Some(entries)));
                }
            }
            TableState::Damaged(damaged) => {
                self.report.entries += damaged.seen;
                let has_deletes = parts.iter().any(|part| part.range_tombstones > 0);
                let found = findings_of(&path, &damaged, &hull, has_deletes);
                self.report.damage.extend(found.into_iter().map(|finding| finding.of(&keyspace.name)));
            }
        }
        if parts.iter().any(|part| !part.blobs.is_empty()) {
            self.follow_pointers(keyspace, &path, &expected, shelf)?;
        }
        Ok(())
    }
}
