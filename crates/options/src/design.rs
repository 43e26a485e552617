//! The design of a tree that options stand for, and the options that a design stands for.

use crate::KeyspaceOptions;
use esker_filter::FilterKind;
use esker_model::advice::Design;

impl KeyspaceOptions {
    /// These options with strategy, write buffer and filters of a design. The kind of filter stays; a
    /// keyspace without filters gets blocked Bloom filters.
    pub fn with_design(self, design: &Design) -> KeyspaceOptions {
        let kind = match self.filter.kind() {
            FilterKind::None => FilterKind::BlockedBloom,
            kind => kind,
        };
        let filter = kind.policy(design.filter_bits_per_key);
        self.strategy(design.strategy).write_buffer_size(design.write_buffer_bytes as u64).filter(filter)
    }

    /// The design of a keyspace with these options; `default_write_buffer_bytes` applies if the options set
    /// no write buffer.
    pub fn design(&self, default_write_buffer_bytes: u64) -> Design {
        Design {
            strategy: self.strategy,
            write_buffer_bytes: self.write_buffer_bytes.unwrap_or(default_write_buffer_bytes) as f64,
            filter_bits_per_key: self.filter.bits_per_key(),
        }
    }
}
