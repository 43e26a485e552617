//! Change notifications: keyspace events and changed keys, which a transaction collects for the observers of
//! its commit.

/// The class of a keyspace event, as a bit; the letters are those of `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventClass(pub u32);

impl EventClass {
    /// `g`: commands on keys of any type.
    pub const GENERIC: Self = Self(1 << 2);
    /// `$`
    pub const STRING: Self = Self(1 << 3);
    /// `l`
    pub const LIST: Self = Self(1 << 4);
    /// `s`
    pub const SET: Self = Self(1 << 5);
    /// `h`
    pub const HASH: Self = Self(1 << 6);
    /// `z`
    pub const SORTED_SET: Self = Self(1 << 7);
    /// `x`
    pub const EXPIRED: Self = Self(1 << 8);
    /// `e`
    pub const EVICTED: Self = Self(1 << 9);
    /// `t`
    pub const STREAM: Self = Self(1 << 10);
    /// `m`
    pub const MISS: Self = Self(1 << 11);
    /// `n`
    pub const NEW: Self = Self(1 << 14);
}

/// A keyspace event that is published after the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its class.
    pub class: EventClass,
    /// Its name, such as `lpush`.
    pub name: &'static str,
    /// The logical database.
    pub db: u16,
    /// The key.
    pub key: Box<[u8]>,
}

/// Expired keys that a transaction lists at most: a scan over many leaves the rest to the background.
pub const EXPIRED_LISTED: usize = 1024;

/// What an observer of a transaction wants to be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Whether changed keys are listed.
    pub changed_keys: bool,
    /// Bits of the classes whose events are listed.
    pub event_classes: u32,
}

/// What happened to all keys of a database at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WholeChange {
    /// They were deleted.
    Flushed,
    /// They were exchanged with those of another database.
    Swapped,
}

/// What a transaction tells beside its results.
#[derive(Debug, Default)]
pub struct Told {
    /// Changed keys by logical database, in order, perhaps several times.
    pub changed: Vec<(u16, Box<[u8]>)>,
    /// For each time a key is listed above because its record was removed after it had expired: the key.
    pub removed_as_expired: Vec<(u16, Box<[u8]>)>,
    /// Logical databases that changed as a whole, whose keys are not listed, in order.
    pub databases: Vec<(u16, WholeChange)>,
    /// Events in order.
    pub events: Vec<Event>,
    /// Keys that a read found expired; they are still to be deleted. At most [`EXPIRED_LISTED`].
    pub expired: Vec<(u16, Box<[u8]>)>,
    /// Changes, as `rdb_changes_since_last_save` counts them.
    pub dirty: u64,
}

impl Told {
    /// Whether all changes of a key are the removal of what had expired: for a client that knew it as expired
    /// there is no change.
    pub fn was_only_removed_as_expired(&self, key: &(u16, Box<[u8]>)) -> bool {
        let count = |list: &[(u16, Box<[u8]>)]| list.iter().filter(|listed| *listed == key).count();
        count(&self.changed) == count(&self.removed_as_expired)
    }
}
