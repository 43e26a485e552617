//! Memtables: the sorted structures that take writes first.
