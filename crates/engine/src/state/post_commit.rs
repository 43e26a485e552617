//! Post-commit flags: work that the next writer does after its commit (PC1 in
//! [`crate::write::write_control`]).

/// Post-commit work of the next writer, one bit each; see PC1.
#[derive(Clone, Copy, Debug, Default)]
pub struct PostCommit(u8);

impl PostCommit {
    /// A thread waits for the next batch.
    pub const NOTIFY: PostCommit = PostCommit(1);
    /// Writers of some keyspace are throttled.
    pub const THROTTLE: PostCommit = PostCommit(2);
    /// A memtable was sealed: the pressure is to be updated.
    pub const UPDATE_PRESSURE: PostCommit = PostCommit(4);

    /// Whether there is no such work.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether this work is due.
    pub fn has(self, duty: PostCommit) -> bool {
        self.0 & duty.0 != 0
    }

    /// Marks this work as due, or as done.
    pub fn set(&mut self, duty: PostCommit, is_set: bool) {
        self.0 = if is_set { self.0 | duty.0 } else { self.0 & !duty.0 };
    }

    /// Clears a flag; whether it was set.
    pub fn take(&mut self, duty: PostCommit) -> bool {
        let had = self.has(duty);
        self.set(duty, false);
        had
    }
}
