//! Manifest salvage: the edits of a damaged manifest up to the first that cannot be read.
//!
//! Edits depend on those before them, so what follows a lost one is of no use. The sum of a prefix is a state
//! that the database once had; which files it has dropped since then is not known.

use crate::recover::ManifestFile;
use crate::state::DatabaseState;
use esker_base::{Error, FileNumber, Result};
use esker_env::FileSystem;
use std::collections::BTreeSet;
use std::path::Path;

/// The readable prefix of a manifest.
#[derive(Debug)]
pub struct SalvagedManifest {
    /// The sum of the readable edits.
    pub state: DatabaseState,
    /// The number of the manifest.
    pub number: FileNumber,
    /// The number of the last readable edit; 0 in a copy that was never opened.
    pub last_edit: u64,
    /// How many edits were read, the snapshot at the beginning included.
    pub edits: usize,
    /// Table and blob files that some edit removed: they are obsolete, whatever the lost edits say.
    pub removed: BTreeSet<FileNumber>,
    /// Why reading ended before the end of the file; `None` if nothing is known to be missing.
    pub damage: Option<Error>,
    /// Whether its writer recorded that it wrote nothing after these edits.
    pub is_closed: bool,
}

/// Reads as much of a manifest as is readable.
///
/// # Errors
/// If not even the header and the snapshot at the beginning can be read, or a newer version wrote them.
pub fn salvage_manifest(fs: &dyn FileSystem, path: &Path) -> Result<SalvagedManifest> {
    let file = ManifestFile::read(fs, path)?;
    let mut salvaged = replay(&file, path, usize::MAX)?;
    if let Some((misfit, error)) = salvaged.misfit.take() {
        // The edit that does not fit has left its state half changed.
        salvaged = replay(&file, path, misfit)?;
        salvaged.manifest.damage = Some(error);
    }
    if salvaged.manifest.edits == 0 {
        let lost = || Error::corruption(path, None, "the snapshot at its beginning cannot be read");
        return Err(salvaged.manifest.damage.unwrap_or_else(lost));
    }
    Ok(salvaged.manifest)
}

struct Replayed {
    manifest: SalvagedManifest,
    /// The position of the first edit that does not fit those before it.
    misfit: Option<(usize, Error)>,
}

/// Applies at most `most` edits.
fn replay(file: &ManifestFile, path: &Path, most: usize) -> Result<Replayed> {
    let manifest = SalvagedManifest {
        state: DatabaseState { uuid: file.header.uuid, ..DatabaseState::default() },
        number: file.header.number,
        last_edit: 0,
        edits: 0,
        removed: BTreeSet::new(),
        damage: None,
        is_closed: false,
    };
    let mut replayed = Replayed { manifest, misfit: None };
    for record in file.records().take(most) {
        let manifest = &mut replayed.manifest;
        let record = match record {
            Ok(record) => record,
            Err(error @ Error::Unsupported(_)) => return Err(error),
            Err(error) => {
                manifest.damage = Some(error);
                break;
            }
        };
        let is_misplaced = (manifest.edits == 0) != record.edit.is_snapshot();
        let applied = if is_misplaced { None } else { manifest.state.apply(&record.edit).ok() };
        let Some(applied) = applied else {
            let detail = format!("edit {} does not fit those before it", record.edit_no);
            replayed.misfit = Some((manifest.edits, Error::corruption(path, record.offset, detail)));
            break;
        };
        manifest.is_closed = record.edit.is_empty();
        manifest.removed.extend(applied.obsolete_files.into_iter().chain(applied.obsolete_blobs));
        manifest.last_edit = record.edit_no;
        manifest.edits += 1;
    }
    Ok(replayed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EditOp, Manifest, VersionEdit, manifest_name};
    use esker_base::SeqNo;
    use esker_env::fault::StrictFs;
    use esker_env::{Env, OpenMode};
    use std::sync::Arc;

    #[test]
    fn the_edits_before_a_damaged_one_count() {
        let fs = Arc::new(StrictFs::new());
        let env = Env::simulated(fs.clone(), 7);
        let dir = Path::new("/db");
        fs.create_dir_all(dir).unwrap();
        let state = DatabaseState::new([7; 16]);
        let mut manifest = Manifest::create(&env, dir, FileNumber(3), &state, 5).unwrap();
        for seqno in 1..=3 {
            let mut edit = VersionEdit::new();
            edit.push(EditOp::LastSeqno(SeqNo::new(seqno)));
            manifest.append(&edit).unwrap();
        }
        drop(manifest);
        let path = dir.join(manifest_name(FileNumber(3)));
        let whole = salvage_manifest(&*fs, &path).unwrap();
        assert_eq!((whole.state.last_seqno, whole.last_edit), (SeqNo::new(3), 8));
        assert!(whole.damage.is_none());

        let offsets: Vec<u64> =
            ManifestFile::read(&*fs, &path).unwrap().records().map(|record| record.unwrap().offset).collect();
        let file = fs.open(&path, OpenMode::ReadWrite).unwrap();
        file.write_at(&[0xee], offsets[2] + 2).unwrap();
        let rest = salvage_manifest(&*fs, &path).unwrap();
        assert_eq!((rest.state.last_seqno, rest.last_edit), (SeqNo::new(1), 6));
        assert!(rest.damage.unwrap().to_string().contains("the record is damaged"));

        file.write_at(&[0xee], offsets[0] + 2).unwrap();
        assert!(salvage_manifest(&*fs, &path).unwrap_err().is_corruption());
    }
}
