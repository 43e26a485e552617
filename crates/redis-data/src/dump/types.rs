//! Numbers of the value types in a payload.

pub(super) const STRING: u8 = 0;
pub(super) const LIST: u8 = 1;
pub(super) const SET: u8 = 2;
/// Scores as text.
pub(super) const SORTED_SET_TEXT: u8 = 3;
pub(super) const HASH: u8 = 4;
/// Scores as eight bytes.
pub(super) const SORTED_SET: u8 = 5;
pub(super) const HASH_ZIPMAP: u8 = 9;
pub(super) const LIST_ZIPLIST: u8 = 10;
pub(super) const SET_INTSET: u8 = 11;
pub(super) const SORTED_SET_ZIPLIST: u8 = 12;
pub(super) const HASH_ZIPLIST: u8 = 13;
/// Ziplists.
pub(super) const LIST_QUICKLIST: u8 = 14;
/// Without first id, largest deleted id and counts of what was added and read.
pub(super) const STREAM: u8 = 15;
pub(super) const HASH_LISTPACK: u8 = 16;
pub(super) const SORTED_SET_LISTPACK: u8 = 17;
/// Listpacks and plain elements.
pub(super) const LIST_QUICKLIST_2: u8 = 18;
pub(super) const STREAM_2: u8 = 19;

/// A node of a quicklist that is one element.
pub(super) const PLAIN_NODE: u64 = 1;
/// A node of a quicklist that is a listpack.
pub(super) const PACKED_NODE: u64 = 2;

/// An entry of a stream's listpack that was deleted.
pub(super) const ENTRY_DELETED: i64 = 1;
/// An entry of a stream's listpack whose fields are those of the listpack's head.
pub(super) const ENTRY_SAME_FIELDS: i64 = 2;
/// A stored count that means "unknown": -1.
pub(super) const UNKNOWN_COUNT: u64 = u64::MAX;
