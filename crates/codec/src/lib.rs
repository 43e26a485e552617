//! Compression kinds.
