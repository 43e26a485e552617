//! Reads that are answered from memory or not at all.

use esker_base::{ResidentOnly, Result};

/// What [`resident_only`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resident<R> {
    /// The answer, from memory alone.
    Answer(R),
    /// A file would have to be read.
    NotResident,
}

/// Calls `read`, in which the read calls of this thread use memory alone: memtables, open tables and cached
/// blocks. What such calls answer is complete; where that needs a block that is not cached, a table that is
/// not open or a large value, they fail at once, and the result is [`Resident::NotResident`]. So a thread
/// that must not wait for a device answers what it can and hands the rest to a thread that may.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("esker-doc-resident-{}", std::process::id()));
/// use esker::Resident;
///
/// let db = esker::Database::open(&dir)?;
/// let users = db.keyspace("users")?;
/// users.put("ada", "1815")?;
/// match esker::resident_only(|| users.get("ada"))? {
///     Resident::Answer(year) => assert_eq!(year.as_deref(), Some(b"1815".as_slice())),
///     Resident::NotResident => { /* a thread that may wait calls users.get("ada") */ }
/// }
/// # db.close()?;
/// # std::fs::remove_dir_all(dir).ok();
/// # Ok(()) }
/// ```
///
/// Any reads will do, also ranges, snapshots and transactions. What `read` returns must not be read on
/// outside of it: a range is lazy. It is for reads alone: flushes and compactions that are asked for in it
/// are refused. Costs nothing where the answer is resident. Files that are read through memory maps
/// ([`ReadMode`](crate::options::ReadMode)) count as resident once they are open: the kernel does not tell.
///
/// # Errors
/// Those of `read`, unless a read of a file was refused before.
#[doc(alias = "kBlockCacheTier")]
#[doc(alias = "read_tier")]
#[doc(alias = "KeyMayExist")]
pub fn resident_only<R>(read: impl FnOnce() -> Result<R>) -> Result<Resident<R>> {
    let section = ResidentOnly::enter();
    match read() {
        Ok(answer) => Ok(Resident::Answer(answer)),
        Err(_) if section.has_refused() => Ok(Resident::NotResident),
        Err(error) => Err(error),
    }
}
