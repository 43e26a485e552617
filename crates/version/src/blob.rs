//! Blob files of a version, and the bytes of each that parts still point to.
//!
//! A part states how many bytes of which blob files its entries point to ([`crate::BlobReference`]). The live
//! bytes follow from the parts of a version, without a stored count, so an edit cannot leave a wrong one
//! (BF1). A file is in the version as long as some part points to it, and leaves with the edit that removes
//! the last one (BF2).

use crate::part::PartMeta;
use esker_base::{FileNumber, TableUid};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobFileMeta {
    /// Its number.
    pub number: FileNumber,
    /// Its length in bytes.
    pub file_bytes: u64,
    /// Random identity, so that a swapped file is noticed.
    pub uid: TableUid,
    /// Values in it.
    pub records: u64,
    /// Bytes of their records: the file without header and footer.
    pub record_bytes: u64,
    /// Bytes of the values before compression.
    pub value_bytes: u64,
    /// When it was written, in milliseconds since 1970; 0 if unknown.
    pub created_ms: u64,
}

impl fmt::Display for BlobFileMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blob file {} of {} bytes, {} values", self.number, self.file_bytes, self.records)
    }
}

/// A blob file of a version, and what points to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveBlob {
    /// The file.
    pub meta: BlobFileMeta,
    /// Bytes of records that parts point to.
    pub referenced_bytes: u64,
    /// Pointers to it.
    pub referenced_count: u64,
    /// Parts that point to it.
    pub parts: u64,
}

impl LiveBlob {
    /// Bytes of records that nothing points to.
    pub fn garbage_bytes(&self) -> u64 {
        self.meta.record_bytes.saturating_sub(self.referenced_bytes)
    }
}

/// The blob files of a version, by number. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobFiles {
    files: Arc<BTreeMap<FileNumber, LiveBlob>>,
}

impl BlobFiles {
    /// All of them, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &LiveBlob> {
        self.files.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// One of them.
    pub fn get(&self, file: FileNumber) -> Option<&LiveBlob> {
        self.files.get(&file)
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        self.iter().fold(0, |sum, blob| sum.saturating_add(blob.meta.file_bytes))
    }

    /// Bytes of all of them that nothing points to.
    pub fn garbage_bytes(&self) -> u64 {
        self.iter().fold(0, |sum, blob| sum.saturating_add(blob.garbage_bytes()))
    }

    /// Adds a file that nothing points to yet; `false` if there is one with this number.
    pub(crate) fn add(&mut self, meta: BlobFileMeta) -> bool {
        let blob = LiveBlob { meta, referenced_bytes: 0, referenced_count: 0, parts: 0 };
        Arc::make_mut(&mut self.files).insert(meta.number, blob).is_none()
    }

    /// Counts what a part points to.
    ///
    /// # Errors
    /// The number of a file that is not there.
    pub(crate) fn count(&mut self, part: &PartMeta) -> Result<(), FileNumber> {
        for reference in &*part.blobs {
            let blob = Arc::make_mut(&mut self.files).get_mut(&reference.file).ok_or(reference.file)?;
            blob.referenced_bytes = blob.referenced_bytes.saturating_add(reference.bytes);
            blob.referenced_count = blob.referenced_count.saturating_add(reference.count);
            blob.parts += 1;
        }
        Ok(())
    }

    /// Takes back what a counted part points to.
    pub(crate) fn discount(&mut self, part: &PartMeta) {
        for reference in &*part.blobs {
            if let Some(blob) = Arc::make_mut(&mut self.files).get_mut(&reference.file) {
                blob.referenced_bytes = blob.referenced_bytes.saturating_sub(reference.bytes);
                blob.referenced_count = blob.referenced_count.saturating_sub(reference.count);
                blob.parts = blob.parts.saturating_sub(1);
            }
        }
    }

    /// Removes and returns the files that nothing points to.
    pub(crate) fn take_unreferenced(&mut self) -> Vec<FileNumber> {
        let is_unreferenced = |blob: &&LiveBlob| blob.parts == 0;
        let unreferenced: Vec<FileNumber> =
            self.files.values().filter(is_unreferenced).map(|blob| blob.meta.number).collect();
        if !unreferenced.is_empty() {
            let files = Arc::make_mut(&mut self.files);
            for number in &unreferenced {
                files.remove(number);
            }
        }
        unreferenced
    }
}
