//! Esker, a log-structured merge-tree key-value store.
