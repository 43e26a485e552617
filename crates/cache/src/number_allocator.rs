//! The allocator of table numbers ([`crate::numbers`]).

#[derive(Debug)]
pub(crate) struct TableNumbers {
    /// Least number that was never allocated. `u32::MAX` itself is never allocated.
    pub(crate) next: u32,
    /// Allocated before, and no block of them is left.
    pub(crate) free: Vec<u32>,
    /// Their owners are dropped; blocks may be left.
    pub(crate) dropped: Vec<u32>,
    /// Estimate of the bytes of their blocks.
    pub(crate) dropped_bytes: u64,
}

impl TableNumbers {
    pub(crate) fn starting_at(next: u32) -> TableNumbers {
        TableNumbers { next, free: Vec::new(), dropped: Vec::new(), dropped_bytes: 0 }
    }

    pub(crate) fn allocate(&mut self) -> Option<u32> {
        // The most recently freed one first: numbers stay small, and reuse is exercised from the start.
        self.free.pop().or_else(|| {
            let after = self.next.checked_add(1)?;
            Some(std::mem::replace(&mut self.next, after))
        })
    }
}
