//! Keyspaces of the store, and the keys of entries in them.
//!
//! `P` is the physical number of a database: two bytes, big-endian, as all numbers in keys. `I` is an
//! object's number: eight bytes, whose first two are the `P` of its database.
//!
//! | keyspace | key | value |
//! |---|---|---|
//! | `redis/keys` | `P` key | the record, see [`record`](crate::record) |
//! | `redis/elements` | `I` and the element's place, see the type | the element |
//! | `redis/orders` | `I` and the element's place in an order | see the type |
//! | `redis/expiries` | `P`, milliseconds since 1970 in eight bytes, key | nothing |
//! | `redis/system` | one byte, and more | see [`system`] |
//! | `redis/counts` | one byte, `P` | a number in decimal text, by the merge operator `counter` |
//!
//! All databases share the keyspaces: sixteen times six memtables would take the whole memory budget.

use esker::Value;

/// A keyspace of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Records of keys.
    Keys,
    /// Elements, read one by one.
    Elements,
    /// Elements in orders, read by ranges alone.
    Orders,
    /// Keys by their expiry.
    Expiries,
    /// What the store knows of itself.
    System,
    /// Numbers of keys.
    Counts,
}

impl Space {
    /// All keyspaces.
    pub const ALL: [Self; 6] =
        [Self::Keys, Self::Elements, Self::Orders, Self::Expiries, Self::System, Self::Counts];

    /// The name of the keyspace in the database.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keys => "redis/keys",
            Self::Elements => "redis/elements",
            Self::Orders => "redis/orders",
            Self::Expiries => "redis/expiries",
            Self::System => "redis/system",
            Self::Counts => "redis/counts",
        }
    }
}

/// Keys of `redis/system`.
pub mod system {
    /// The version of this layout, in decimal text.
    pub const FORMAT: &[u8] = &[0];
    /// With a logical number in two bytes: the physical number of that database, in two bytes.
    pub const DATABASE: u8 = 1;
    /// The seed of the hashes of fields and members, eight bytes.
    pub const HASH_SEED: &[u8] = &[2];
    /// The first object counter that no process has taken yet, eight bytes.
    pub const NEXT_COUNTER: &[u8] = &[3];
    /// With an object's number: its entries are to be deleted.
    pub const GARBAGE: u8 = 4;
    /// With a name: the code of a function library.
    pub const LIBRARY: u8 = 5;
    /// The users, as lines of an ACL file.
    pub const USERS: &[u8] = &[6];
    /// With a name: a value that CONFIG REWRITE stored.
    pub const SETTING: u8 = 7;
}

/// The physical number of a database: where its entries lie. SWAPDB changes which logical number means it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalDb(pub u16);

/// Bytes of a key of Redis beyond which the entry for its expiry would not fit the engine's 65,535.
pub const MAX_KEY_BYTES: usize = 65_535 - 10;

/// Bytes of a field or member beyond which its entries would not fit: object, kind of order, score.
pub const MAX_MEMBER_BYTES: usize = 65_535 - 17;

/// The key of a record.
pub fn record_key(db: PhysicalDb, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 + key.len());
    bytes.extend_from_slice(&db.0.to_be_bytes());
    bytes.extend_from_slice(key);
    bytes
}

/// The key of Redis in a record's key.
pub fn user_key(record_key: &[u8]) -> &[u8] {
    record_key.get(2..).unwrap_or_default()
}

/// The key of the entry for a key's expiry.
pub fn expiry_key(db: PhysicalDb, expiry_ms: u64, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(10 + key.len());
    bytes.extend_from_slice(&db.0.to_be_bytes());
    bytes.extend_from_slice(&expiry_ms.to_be_bytes());
    bytes.extend_from_slice(key);
    bytes
}

/// An object's number and `place` behind it: the key of an element or of its place in an order.
pub fn object_key(object: u64, place: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + place.len());
    bytes.extend_from_slice(&object.to_be_bytes());
    bytes.extend_from_slice(place);
    bytes
}

/// All keys that begin with an object's number, as a range from the first bytes to below the second.
pub fn object_range(object: u64) -> (Vec<u8>, Vec<u8>) {
    objects_range(object, object)
}

/// The same for neighbouring numbers, `last` included. No number is the greatest of 64 bits.
pub fn objects_range(first: u64, last: u64) -> (Vec<u8>, Vec<u8>) {
    (first.to_be_bytes().to_vec(), last.saturating_add(1).to_be_bytes().to_vec())
}

/// Eight bytes of a value as a number, little-endian; `None` if it has another length.
pub fn number(value: &Value) -> Option<u64> {
    Some(u64::from_le_bytes(value[..].try_into().ok()?))
}
