//! Post-commit flags: work that the next writer does after its commit (PC1 in [`crate::write::pressure`]).

/// Post-commit work of the next writer, one bit each; see PC1.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Duties(u8);

impl Duties {
    /// A thread waits for the next batch.
    pub(crate) const RING: Duties = Duties(1);
    /// Writers of some keyspace are throttled.
    pub(crate) const PACE: Duties = Duties(2);
    /// A memtable was sealed: the pressure is to be updated.
    pub(crate) const LOOK: Duties = Duties(4);

    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn has(self, duty: Duties) -> bool {
        self.0 & duty.0 != 0
    }

    pub(crate) fn set(&mut self, duty: Duties, is_set: bool) {
        self.0 = if is_set { self.0 | duty.0 } else { self.0 & !duty.0 };
    }

    /// Clears a flag; whether it was set.
    pub(crate) fn take(&mut self, duty: Duties) -> bool {
        let had = self.has(duty);
        self.set(duty, false);
        had
    }
}
