//! Blob shelf: the blob files of a database by number, and the values that pointers lead to.
//!
//! A record is read by its pointer alone, so a blob file whose header or footer is damaged still gives the
//! values that are whole.

use esker_base::{Error, FileNumber, KeyspaceId, Result};
use esker_blob::{BlobPointer, DecodeError, HEADER_BYTES, Record};
use esker_env::{Env, File, OpenMode};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Blob files, some of them damaged.
#[derive(Debug, Default)]
pub(crate) struct BlobShelf {
    files: BTreeMap<FileNumber, ShelvedBlob>,
}

#[derive(Debug)]
struct ShelvedBlob {
    file: Arc<dyn File>,
    bytes: u64,
    /// If every record was verified: the keyspace of the file, whose pointers may stay as they are.
    whole_in: Option<KeyspaceId>,
}

impl BlobShelf {
    /// Adds a file; if it is whole, with the keyspace that it belongs to.
    pub(crate) fn add(
        &mut self,
        env: &Env,
        number: FileNumber,
        path: &Path,
        whole_in: Option<KeyspaceId>,
    ) -> Result<()> {
        let file = env.fs.open(path, OpenMode::Read)?;
        let bytes = file.len()?;
        self.files.insert(number, ShelvedBlob { file, bytes, whole_in });
        Ok(())
    }

    /// Whether the file is there, belongs to this keyspace, and every record in it was verified.
    pub(crate) fn is_whole(&self, number: FileNumber, keyspace: KeyspaceId) -> bool {
        self.files.get(&number).is_some_and(|blob| blob.whole_in == Some(keyspace))
    }

    /// Replaces the content of `out` by the value that a stored pointer leads to, which was put under `key`.
    ///
    /// # Errors
    /// [`Error::Corruption`] with file and offset, if the value cannot be read.
    pub(crate) fn read(&self, key: &[u8], stored: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let no_pointer = || Error::corruption("", None, "the entry has a malformed pointer to a blob file");
        let pointer = BlobPointer::decode(stored).ok_or_else(no_pointer)?;
        let no_file = || Error::corruption("", None, format!("blob file {} is missing", pointer.file));
        let blob = self.files.get(&pointer.file).ok_or_else(no_file)?;
        let damaged = |detail: String| Error::corruption(blob.file.path(), pointer.offset, detail);
        let end = pointer.offset.checked_add(pointer.record_bytes.into());
        if pointer.offset < HEADER_BYTES as u64 || end.is_none_or(|end| end > blob.bytes) {
            return Err(damaged(format!(
                "a pointer leads to {} bytes there, the file has {}",
                pointer.record_bytes, blob.bytes
            )));
        }
        let mut bytes = vec![0; pointer.record_bytes as usize];
        blob.file.read_exact_at(&mut bytes, pointer.offset)?;
        let record = Record::decode(&bytes).map_err(|error| damaged(detail(error)))?;
        let is_meant = record.checksum as u32 == pointer.check
            && record.value_len == pointer.value_bytes as usize
            && record.key == key;
        if !is_meant {
            return Err(damaged("the record there is not the one that the pointer was made for".to_owned()));
        }
        record.read_value(out).map_err(|error| damaged(detail(error)))
    }

    /// The blob file of a stored pointer.
    pub(crate) fn file_of(stored: &[u8]) -> Option<FileNumber> {
        BlobPointer::decode(stored).map(|pointer| pointer.file)
    }
}

fn detail(error: DecodeError) -> String {
    match error {
        DecodeError::Damaged(detail) | DecodeError::Unsupported(detail) => detail,
    }
}
