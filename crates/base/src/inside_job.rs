//! Tells calls from inside of a flush or compaction: of a merge operator or compaction filter that it runs.
//!
//! Such a call must not wait for the job, which waits for the call. So what waits for jobs is refused there,
//! and so are writes that would wait for room.

use std::cell::Cell;

/// A job that runs code of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobSection {
    /// Memtables are written to tables.
    Flush,
    /// Tables are merged.
    Compaction,
}

thread_local! {
    /// The innermost section that this thread is in.
    static SECTION: Cell<Option<JobSection>> = const { Cell::new(None) };
}

/// Marks a section of a job on this thread; ends when dropped.
#[derive(Debug)]
pub struct InsideJob {
    before: Option<JobSection>,
}

impl InsideJob {
    /// Begins a section.
    pub fn enter(section: JobSection) -> InsideJob {
        // In the destructor of another thread-local this one may be gone; then calls are not told apart.
        InsideJob { before: SECTION.try_with(|here| here.replace(Some(section))).unwrap_or(None) }
    }

    /// The section that this thread is in.
    pub fn here() -> Option<JobSection> {
        SECTION.try_with(Cell::get).unwrap_or(None)
    }
}

impl Drop for InsideJob {
    fn drop(&mut self) {
        let _ = SECTION.try_with(|here| here.set(self.before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_nest_and_end() {
        assert_eq!(InsideJob::here(), None);
        let outer = InsideJob::enter(JobSection::Compaction);
        let inner = InsideJob::enter(JobSection::Flush);
        assert_eq!(InsideJob::here(), Some(JobSection::Flush));
        drop(inner);
        assert_eq!(InsideJob::here(), Some(JobSection::Compaction));
        drop(outer);
        assert_eq!(InsideJob::here(), None);
    }
}
