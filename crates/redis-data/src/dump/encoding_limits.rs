//! Limits of packed encodings: from which size on a collection is dumped element by element.

/// Up to which size collections are packed: the options of Redis by the same names, and their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodingLimits {
    /// `hash-max-listpack-entries`: fields of a packed hash.
    pub hash_max_listpack_entries: usize,
    /// `hash-max-listpack-value`: bytes of a field or value of a packed hash.
    pub hash_max_listpack_value: usize,
    /// `zset-max-listpack-entries`: members of a packed sorted set.
    pub zset_max_listpack_entries: usize,
    /// `zset-max-listpack-value`: bytes of a member of a packed sorted set.
    pub zset_max_listpack_value: usize,
    /// `set-max-intset-entries`: members of a packed set of integers.
    pub set_max_intset_entries: usize,
    /// Bytes of a node of a list; `list-max-listpack-size -2` is 8 KiB.
    pub list_node_bytes: usize,
    /// `stream-node-max-bytes`: bytes of a node of a stream.
    pub stream_node_max_bytes: usize,
    /// `stream-node-max-entries`: entries of a node of a stream.
    pub stream_node_max_entries: usize,
}

impl Default for EncodingLimits {
    fn default() -> Self {
        Self {
            hash_max_listpack_entries: 128,
            hash_max_listpack_value: 64,
            zset_max_listpack_entries: 128,
            zset_max_listpack_value: 64,
            set_max_intset_entries: 512,
            list_node_bytes: 8192,
            stream_node_max_bytes: 4096,
            stream_node_max_entries: 100,
        }
    }
}
