//! Fork detection: what a process inherits from its parent is told from its own.
//!
//! A child after `fork` has copies of all handles, but none of the threads, and it shares files, locks and
//! maps with its parent. Using them would write into the parent's database, wait for locks that no thread
//! will release, or release the lock of the directory. So values that write or wait remember the process in
//! which they were made, and refuse in any other.
//!
//! A handler of `pthread_atfork` counts a number up in each child, so that a check is a load and a
//! comparison. Rejected: comparing process ids, a system call for each check; a page that the kernel empties
//! in children (`MADV_WIPEONFORK`), which only Linux has. Not noticed are children made by a bare `clone`,
//! which runs no handlers; nothing of the C library works in those either.

use std::sync::atomic::{AtomicU64, Ordering};

/// Forks between the first process of the line and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

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
}
