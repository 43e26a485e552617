//! Linking and copying files, with verification of what was copied, checksums and progress.
//!
//! * **CO4** A copied file counts once its own checksums were verified in the copy: damage of the original,
//!   and a bit that changed while it was read or written, are noticed while the original is still there.
//!
//! Rejected: a checksum of each file in the manifest, taken when it is written. It would save reading the
//! copy once more from the page cache, at the price of hashing every table that is ever written, of a new
//! field in the manifest, and of a second way for the tables that have none.

use esker_base::checksum::StreamHash;
use esker_base::planted;
use esker_base::{Error, Result, TableUid};
use esker_blob::BlobReader;
use esker_env::{File, FileSystem, OpenMode};
use esker_sst::verify_stored_checksums;
use esker_version::FileKind;
use std::path::Path;

/// Bytes read and written at a time.
const PIECE_BYTES: usize = 1 << 20;

/// The progress of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyProgress {
    /// Bytes done: copied, linked, verified or already present.
    pub done_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
}

/// Reports progress to a callback.
pub struct Progress<'a> {
    so_far: CopyProgress,
    told: &'a mut dyn FnMut(CopyProgress),
}

impl<'a> Progress<'a> {
    /// Progress of nothing yet, reported to `told`.
    pub fn new(total_bytes: u64, told: &'a mut dyn FnMut(CopyProgress)) -> Progress<'a> {
        Progress { so_far: CopyProgress { done_bytes: 0, total_bytes }, told }
    }

    /// Counts these bytes as done.
    pub fn advance(&mut self, bytes: u64) {
        self.so_far.done_bytes += bytes;
        (self.told)(self.so_far);
    }
}

/// The table or blob file that a file must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredData {
    /// Whether it is a table or a blob file.
    pub kind: FileKind,
    /// Its random number, which all checksums of a table are bound to.
    pub uid: TableUid,
    /// Its length.
    pub bytes: u64,
}

impl StoredData {
    /// Verifies all checksums of a file; takes the time of reading it once.
    ///
    /// # Errors
    /// `Corruption` with the first damage found, also if it is another file, and errors of reading.
    pub fn verify(&self, fs: &dyn FileSystem, path: &Path) -> Result<()> {
        let file = fs.open(path, OpenMode::Read)?;
        check_len(&*file, self.bytes)?;
        match self.kind {
            FileKind::Table => verify_stored_checksums(&*file, self.bytes, self.uid),
            FileKind::Blob => {
                let reader = BlobReader::open_any(file, self.bytes)?;
                if reader.header().uid != self.uid {
                    let (expected, found) = (self.uid.get(), reader.header().uid.get());
                    let detail = format!("blob file {expected:016x} expected, {found:016x} found");
                    return Err(Error::corruption(path, 0, detail));
                }
                reader.verify_checksums().map(drop)
            }
        }
    }
}

/// From one file system to another, which may be the same.
#[derive(Clone, Copy, Debug)]
pub struct Transfer<'a> {
    /// Has the original files.
    pub from: &'a dyn FileSystem,
    /// Gets the copies.
    pub to: &'a dyn FileSystem,
}

impl Transfer<'_> {
    /// Copies a file of known length and makes the copy's bytes durable; returns the checksum of the copied
    /// bytes. A failed copy is deleted.
    pub fn copy(&self, from: &Path, to: &Path, bytes: u64, progress: &mut Progress<'_>) -> Result<u64> {
        let target = self.to.open(to, OpenMode::CreateNew)?;
        let copied = read_through(self.from, from, bytes, |piece, at| {
            target.write_at(piece, at)?;
            progress.advance(piece.len() as u64);
            Ok(())
        });
        let copied = copied.and_then(|checksum| target.sync_all().map(|()| checksum));
        if copied.is_err() {
            let _ = self.to.remove_file(to);
        }
        copied
    }

    /// As [`Transfer::copy`], and verifies the checksums inside of the copy, which is read once more for it,
    /// mostly from the page cache. A copy that does not verify though the original does, because a read or a
    /// write went wrong, is made once more.
    ///
    /// # Errors
    /// `Corruption` naming the original if that is damaged, and the copy if it was damaged twice.
    pub fn copy_verified(
        &self,
        from: &Path,
        to: &Path,
        data: StoredData,
        progress: &mut Progress<'_>,
    ) -> Result<u64> {
        let checksum = self.copy(from, to, data.bytes, progress)?;
        if planted!(CopiesUnverified) {
            return Ok(checksum);
        }
        let Err(damage) = data.verify(self.to, to) else { return Ok(checksum) };
        self.to.remove_file(to)?;
        data.verify(self.from, from)?;
        tracing::warn!(%damage, original = %from.display(), "a copy was damaged while it was made; copying again");
        let checksum = self.copy(from, to, data.bytes, &mut Progress::new(0, &mut |_| {}))?;
        data.verify(self.to, to).inspect_err(|_| {
            let _ = self.to.remove_file(to);
        })?;
        Ok(checksum)
    }

    /// Hard-links a file, or copies it where that is not possible (another device, a file system without
    /// links). Returns whether it was linked. The bytes are durable either way: the original's are, a copy's
    /// are synced. The name is not. A copy is verified; of a linked file only the length is, because it is
    /// the original.
    pub fn link_or_copy(
        &self,
        from: &Path,
        to: &Path,
        data: StoredData,
        progress: &mut Progress<'_>,
    ) -> Result<bool> {
        match self.to.hard_link(from, to) {
            Ok(()) => {
                let linked = self.to.open(to, OpenMode::Read).and_then(|file| check_len(&*file, data.bytes));
                linked.inspect_err(|_| {
                    let _ = self.to.remove_file(to);
                })?;
                progress.advance(data.bytes);
                Ok(true)
            }
            // Systems report a refused link in many ways; if the copy fails as well, its error is returned.
            Err(_) => self.copy_verified(from, to, data, progress).map(|_| false),
        }
    }
}

/// The checksum of a file of known length.
pub fn checksum_of(fs: &dyn FileSystem, path: &Path, bytes: u64, progress: &mut Progress<'_>) -> Result<u64> {
    read_through(fs, path, bytes, |piece, _| {
        progress.advance(piece.len() as u64);
        Ok(())
    })
}

fn check_len(file: &dyn File, bytes: u64) -> Result<()> {
    let len = file.len()?;
    if len == bytes {
        return Ok(());
    }
    Err(Error::corruption(file.path(), None, format!("the file has {len} bytes, {bytes} were expected")))
}

/// Reads a file of known length in pieces; returns its checksum.
fn read_through(
    fs: &dyn FileSystem,
    path: &Path,
    bytes: u64,
    mut each: impl FnMut(&[u8], u64) -> Result<()>,
) -> Result<u64> {
    let file = fs.open(path, OpenMode::Read)?;
    check_len(&*file, bytes)?;
    let mut hash = StreamHash::new();
    let mut piece = vec![0u8; PIECE_BYTES.min(usize::try_from(bytes).unwrap_or(PIECE_BYTES))];
    let mut at = 0;
    while at < bytes {
        let wanted = piece.len().min(usize::try_from(bytes - at).unwrap_or(usize::MAX));
        file.read_exact_at(&mut piece[..wanted], at)?;
        hash.add(&piece[..wanted]);
        each(&piece[..wanted], at)?;
        at += wanted as u64;
    }
    Ok(hash.finish())
}
