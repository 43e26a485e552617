//! The kinds of memtables, their names, and the room they need.

use crate::reference::sharded::ShardPlan;
use crate::reference::{locked, skiplist};
use crate::{art, btree, entry, table};
use esker_base::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// The structures of memtables. A closed set: readers dispatch on it without a virtual call.
///
/// Options store its text, which parses to the same kind:
///
/// ```
/// use esker_memtable::MemtableKind;
///
/// let kind: MemtableKind = "skiplist".parse().unwrap();
/// assert_eq!((kind, kind.to_string()), (MemtableKind::Skiplist, "skiplist".to_owned()));
/// assert_eq!("sharded:4".parse::<MemtableKind>().unwrap().to_string(), "sharded:4:64");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemtableKind {
    /// The adaptive radix tree, the default: fastest at inserting among ordered structures, and the smallest.
    #[default]
    Art,
    /// For comparison: the skiplist.
    Skiplist,
    /// For comparison: skiplists over which consistent hashing spreads the keys.
    Sharded(ShardPlan),
    /// For comparison: a balanced tree under one lock, whose reads are not wait-free.
    LockedTree,
    /// Entries in the order of their insertion, sorted by the first ordered read. Inserts fastest.
    Vector,
    /// A hash table, sorted by the first ordered read. Fastest lookups by key.
    Hash,
    /// For comparison: the radix tree with a hash table in front.
    HashedArt,
    /// The B+-tree: faster to walk than the radix tree, and less sensitive to the shape of keys.
    BTree,
}

impl MemtableKind {
    /// All kinds, with default parameters; those for comparison last ([`MemtableKind::is_reference`]).
    pub const ALL: [MemtableKind; 8] = [
        MemtableKind::Art,
        MemtableKind::BTree,
        MemtableKind::Hash,
        MemtableKind::Vector,
        MemtableKind::Skiplist,
        MemtableKind::Sharded(ShardPlan::DEFAULT),
        MemtableKind::LockedTree,
        MemtableKind::HashedArt,
    ];

    /// Whether the kind exists for comparison only: an ordinary kind is faster, or as fast and smaller.
    pub const fn is_reference(self) -> bool {
        matches!(
            self,
            MemtableKind::Skiplist
                | MemtableKind::Sharded(_)
                | MemtableKind::LockedTree
                | MemtableKind::HashedArt
        )
    }

    /// The kind's name, without its parameters. The whole text is what `Display` gives.
    pub const fn name(self) -> &'static str {
        match self {
            MemtableKind::Art => "art",
            MemtableKind::Skiplist => "skiplist",
            MemtableKind::Sharded(_) => "sharded",
            MemtableKind::LockedTree => "locked-tree",
            MemtableKind::Vector => "vector",
            MemtableKind::Hash => "hash",
            MemtableKind::HashedArt => "hashed-art",
            MemtableKind::BTree => "b-tree",
        }
    }

    /// The kind of this text; `None` where [`FromStr`] returns an error.
    pub fn parse(text: &str) -> Option<MemtableKind> {
        text.parse().ok()
    }

    /// Address space that surely suffices for `entries` entries whose keys and values together have
    /// `payload_bytes` bytes, whatever they look like: a memtable created with it has room for them. Reserve
    /// this for a batch that exceeds the usual limit.
    pub const fn needed_bytes(self, payload_bytes: u64, entries: u64) -> u64 {
        let per_entry = (entry::MAX_OVERHEAD_BYTES + self.max_node_bytes_per_key()) as u64;
        (2 * FIXED_BYTES + self.fixed_bytes())
            .saturating_add(self.table_bytes(entries))
            .saturating_add(payload_bytes)
            .saturating_add(entries.saturating_mul(per_entry))
    }

    /// Address space to reserve for a memtable that is sealed at `limit_bytes` of payload: enough for entries
    /// with 32 bytes of key and value in the middle, and rather more in practice. Smaller entries than that
    /// may find the memtable without room before it reaches the limit.
    pub const fn reserve_bytes(self, limit_bytes: u64) -> u64 {
        self.needed_bytes(limit_bytes, limit_bytes / 32)
    }

    /// More than an empty memtable of this kind takes of its arena at either end, unless it is a stub.
    pub(crate) const fn fixed_bytes(self) -> u64 {
        match self {
            MemtableKind::Sharded(plan) => FIXED_BYTES + plan.head_bytes(),
            _ => FIXED_BYTES,
        }
    }

    const fn max_node_bytes_per_key(self) -> usize {
        match self {
            MemtableKind::Art | MemtableKind::HashedArt => art::MAX_BYTES_PER_KEY,
            MemtableKind::Skiplist | MemtableKind::Sharded(_) => skiplist::MAX_BYTES_PER_KEY,
            MemtableKind::LockedTree => locked::MAX_BYTES_PER_KEY,
            MemtableKind::Vector | MemtableKind::Hash => 0,
            MemtableKind::BTree => btree::MAX_BYTES_PER_KEY,
        }
    }

    const fn max_node_bytes_per_insert(self) -> usize {
        match self {
            MemtableKind::Art | MemtableKind::HashedArt => art::MAX_BYTES_PER_INSERT,
            MemtableKind::Skiplist | MemtableKind::Sharded(_) => skiplist::MAX_BYTES_PER_KEY,
            MemtableKind::LockedTree => locked::MAX_BYTES_PER_KEY,
            MemtableKind::Vector | MemtableKind::Hash => 0,
            MemtableKind::BTree => btree::MAX_BYTES_PER_INSERT,
        }
    }

    /// Most arena bytes of an insertion beyond key and value; unreachable where a table may double.
    pub(crate) const fn most_bytes_per_entry(self) -> u64 {
        match self {
            MemtableKind::Hash | MemtableKind::HashedArt => u64::MAX,
            _ => (entry::MAX_OVERHEAD_BYTES + self.max_node_bytes_per_insert()) as u64,
        }
    }

    /// Bytes of the hash tables that so many keys make.
    const fn table_bytes(self, keys: u64) -> u64 {
        match self {
            MemtableKind::Hash | MemtableKind::HashedArt => table::table_bytes(keys),
            _ => 0,
        }
    }

    /// Most node bytes of `entries` more, with `keys` keys inserted and `used_bytes` in use.
    #[inline]
    pub(crate) fn most_new_node_bytes(self, keys: u64, entries: u64, used_bytes: u64) -> u64 {
        let all_keys = keys.saturating_add(entries);
        // Hash tables grow at known numbers of keys.
        let tables = self.table_bytes(keys);
        let new_tables = self.table_bytes(all_keys).saturating_sub(tables);
        // Nodes never exceed a bound per key ever inserted; for little use, single bounds may be tighter.
        let all_nodes = all_keys.saturating_mul(self.max_node_bytes_per_key() as u64);
        all_nodes
            .saturating_sub(used_bytes.saturating_sub(tables))
            .saturating_add(self.fixed_bytes())
            .min(entries.saturating_mul(self.max_node_bytes_per_insert() as u64))
            .saturating_add(new_tables)
    }
}

/// The name, and the parameters behind a colon.
impl fmt::Display for MemtableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemtableKind::Sharded(plan) => f.pad(&format!("{}:{plan}", self.name())),
            _ => f.pad(self.name()),
        }
    }
}

impl FromStr for MemtableKind {
    type Err = Error;

    /// Parses what `Display` writes. Parameters may be left out; then they have their defaults.
    fn from_str(text: &str) -> Result<MemtableKind> {
        let (name, parameters) = match text.split_once(':') {
            Some((name, parameters)) => (name, Some(parameters)),
            None => (text, None),
        };
        let known = MemtableKind::ALL.into_iter().find(|kind| kind.name() == name);
        match (known, parameters) {
            (Some(MemtableKind::Sharded(_)), Some(plan)) => Ok(MemtableKind::Sharded(plan.parse()?)),
            (Some(kind), None) => Ok(kind),
            (Some(_), Some(_)) => {
                Err(Error::invalid(format!("{text:?}: a memtable of kind {name} has no parameters")))
            }
            (None, _) => {
                let names = MemtableKind::ALL.map(MemtableKind::name).join(", ");
                Err(Error::invalid(format!("unknown memtable {text:?}: there are {names}")))
            }
        }
    }
}

/// More than an empty memtable takes of its arena at either end, but for shards.
pub(crate) const FIXED_BYTES: u64 = 256;
