//! Compaction strategies: pure functions from shape to plan.
