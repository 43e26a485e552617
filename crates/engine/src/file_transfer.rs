//! Linking and copying files, with checksums and progress.

use esker_base::checksum::StreamHash;
use esker_base::{Error, Result};
use esker_env::{Env, OpenMode};
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

/// Hard-links a file, or copies it where that is not possible (another device, a file system without links).
/// Returns whether it was linked. The bytes are durable either way: the original's are, a copy's are synced.
/// The name is not.
pub fn link_or_copy(
    env: &Env,
    from: &Path,
    to: &Path,
    bytes: u64,
    progress: &mut Progress<'_>,
) -> Result<bool> {
    match env.fs.hard_link(from, to) {
        Ok(()) => {
            progress.advance(bytes);
            Ok(true)
        }
        // Systems report a refused link in many ways; if the copy fails as well, its error is returned.
        Err(_) => copy(env, from, to, bytes, progress).map(|_| false),
    }
}

/// Copies a file of known length and makes the copy's bytes durable; returns the checksum of the copied
/// bytes. A failed copy is deleted.
pub fn copy(env: &Env, from: &Path, to: &Path, bytes: u64, progress: &mut Progress<'_>) -> Result<u64> {
    let target = env.fs.open(to, OpenMode::CreateNew)?;
    let copied = read_through(env, from, bytes, |piece, at| {
        target.write_at(piece, at)?;
        progress.advance(piece.len() as u64);
        Ok(())
    });
    let copied = copied.and_then(|checksum| target.sync_all().map(|()| checksum));
    if copied.is_err() {
        let _ = env.fs.remove_file(to);
    }
    copied
}

/// The checksum of a file of known length.
pub fn checksum_of(env: &Env, path: &Path, bytes: u64, progress: &mut Progress<'_>) -> Result<u64> {
    read_through(env, path, bytes, |piece, _| {
        progress.advance(piece.len() as u64);
        Ok(())
    })
}

/// Reads a file of known length in pieces; returns its checksum.
fn read_through(
    env: &Env,
    path: &Path,
    bytes: u64,
    mut each: impl FnMut(&[u8], u64) -> Result<()>,
) -> Result<u64> {
    let file = env.fs.open(path, OpenMode::Read)?;
    let len = file.len()?;
    if len != bytes {
        let detail = format!("the file has {len} bytes, {bytes} were expected");
        return Err(Error::corruption(path, None, detail));
    }
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
