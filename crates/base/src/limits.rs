//! Limits of the data model, each with its reason.

/// Longest key, in bytes. Offsets inside a block and key lengths inside memtable nodes are 16 bits wide.
pub const MAX_KEY_LEN: usize = 65_535;

/// Longest value: 512 MiB, half of [`MAX_RECORD_LEN`], to leave space for the rest of its batch.
pub const MAX_VALUE_LEN: usize = 512 << 20;

/// Longest payload of one log record, hence of one batch: 1 GiB.
pub const MAX_RECORD_LEN: usize = 1 << 30;

/// Longest name of a keyspace, in bytes.
pub const MAX_KEYSPACE_NAME_LEN: usize = 255;
