//! Marks in a crash test's trace: what had been acknowledged at a cut.

/// A mark in a crash test's trace, with the number of a commit or keyspace in its low half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The commit is about to be written.
    Begun,
    /// It was acknowledged.
    Acknowledged,
    /// It, and everything before it, was promised to survive a power cut.
    Powered,
    /// It, and every unlogged commit before it, was promised to survive any crash.
    Flushed,
    /// The keyspace was created, or renamed to this.
    Created,
    /// A keyspace is about to be created, dropped or renamed: either state is right.
    Changing,
    /// There is no such keyspace any more.
    Gone,
    /// The follower's acknowledgement of this number was acknowledged.
    Followed,
}

impl Mark {
    const ALL: [Mark; 8] = [
        Mark::Begun,
        Mark::Acknowledged,
        Mark::Powered,
        Mark::Flushed,
        Mark::Created,
        Mark::Changing,
        Mark::Gone,
        Mark::Followed,
    ];

    pub(super) fn number(self, of: usize) -> u64 {
        (self as u64) << 32 | of as u64
    }

    /// Reads the number of a mark.
    pub fn parse(number: u64) -> (Mark, usize) {
        (Mark::ALL[(number >> 32) as usize], number as u32 as usize)
    }
}
