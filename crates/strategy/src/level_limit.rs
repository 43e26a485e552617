//! Level limits: how many runs and bytes a level holds before its strategy compacts it.

/// What a level may hold before a compaction of it begins. Running jobs, migrations and targets of space or
/// deletes may begin one earlier. A compaction that waits for a thread lets the level grow beyond it, and so
/// does [`Strategy::Partitioned`](crate::Strategy::Partitioned) while a merge would write more than it cleans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelLimit {
    /// The most runs; `None` if the strategy does not bound them.
    pub runs: Option<u32>,
    /// The most bytes of tables; `None` if the strategy does not bound them, as in the last level, whose size
    /// follows from the data.
    pub bytes: Option<u64>,
}
