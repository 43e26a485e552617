//! Fork detection: what a process inherits from its parent is told from its own.
//!
//! A child after `fork` has copies of all handles, but none of the threads, and it shares files, locks and
//! maps with its parent. Using them would write into the parent's database, wait for locks that no thread
//! will release, or release the lock of the directory. So values that write or wait remember the process in
//! which they were made, and refuse in any other.
//!
//! A child of a process that had a database open refuses to open any. Another thread may have held a lock of
//! this library, or of a library that it uses, at the moment of the fork: in the child no thread releases it.
//! Memory that such a child inherited is not freed, because freeing takes such locks. Rejected: taking all
//! locks before each fork (those of other libraries cannot be taken, nor threads be removed from their
//! queues), and locks without queues in the process, which leaves those of other libraries.
//!
//! A handler of `pthread_atfork` counts a number up in each child, so that a check is a load and a
//! comparison. Rejected: comparing process ids, a system call for each check; a page that the kernel empties
//! in children (`MADV_WIPEONFORK`), which only Linux has. Not noticed are children made by a bare `clone`,
//! which runs no handlers; nothing of the C library works in those either.

use esker_base::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Forks between the first process of the line and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Threads and directory locks of this library.
static IN_USE: AtomicUsize = AtomicUsize::new(0);
/// Whether there were any when this process, or one that it descends from, was forked.
static FORKED_IN_USE: AtomicBool = AtomicBool::new(false);

/// A thread or a directory lock of this library, counted while the value lives.
#[derive(Debug)]
pub(crate) struct InUse(());

impl InUse {
    pub(crate) fn count() -> InUse {
        watch();
        IN_USE.fetch_add(1, Ordering::Relaxed);
        InUse(())
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        IN_USE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether locks of the process may be held by threads that it does not have.
#[inline(always)]
pub(crate) fn was_forked_in_use() -> bool {
    FORKED_IN_USE.load(Ordering::Relaxed)
}

/// # Errors
/// [`Error::InvalidArgument`] in a child of a process that had a database open.
pub(crate) fn check_may_open() -> Result<()> {
    if was_forked_in_use() {
        return Err(Error::invalid(
            "this process was forked while its parent had a database open, and may have inherited locks that no \
             thread releases: fork while no database is open, or start a program (exec) in the child",
        ));
    }
    Ok(())
}

/// The process in which a value was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessMark(u64);

impl ProcessMark {
    /// This process.
    pub fn here() -> ProcessMark {
        watch();
        ProcessMark(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this process is a child of the marked one, and the value a copy that it inherited.
    #[inline(always)]
    pub fn is_inherited(self) -> bool {
        FORKS.load(Ordering::Relaxed) != self.0
    }
}

/// Has the C library call [`in_child`] after each fork.
#[cfg(unix)]
fn watch() {
    use std::ffi::c_int;
    use std::sync::Once;
    type Handler = Option<extern "C" fn()>;
    // SAFETY: as POSIX declares it; handlers are plain functions, and they stay for the life of the process.
    unsafe extern "C" {
        safe fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }
    static WATCHED: Once = Once::new();
    // It fails only for lack of memory for a list of a few entries; then forks stay unnoticed.
    WATCHED.call_once(|| {
        let _ = pthread_atfork(None, None, Some(in_child));
    });
}

/// There are no forks.
#[cfg(not(unix))]
fn watch() {}

/// Runs in a child right after the fork, when it has one thread.
#[cfg(unix)]
extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    if IN_USE.load(Ordering::Relaxed) > 0 {
        FORKED_IN_USE.store(true, Ordering::Relaxed);
    }
}
