//! Stream value: entries in order of their ids, and consumer groups with what each consumer was given.

use crate::strings::Strings;

/// Id of a stream entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId {
    /// Milliseconds since 1970.
    pub milliseconds: u64,
    /// Counts entries of one millisecond.
    pub sequence: u64,
}

impl StreamId {
    /// The sixteen bytes that sort as ids do.
    pub fn to_be_bytes(self) -> [u8; 16] {
        (u128::from(self.milliseconds) << 64 | u128::from(self.sequence)).to_be_bytes()
    }

    /// The id of sixteen bytes.
    pub fn from_be_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_be_bytes(bytes);
        Self { milliseconds: (both >> 64) as u64, sequence: both as u64 }
    }
}

/// A stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// What was added and not deleted.
    pub entries: StreamEntries,
    /// The largest id ever added.
    pub last_id: StreamId,
    /// The largest id that was deleted; zero if none was.
    pub max_deleted_id: StreamId,
    /// Entries ever added.
    pub entries_added: u64,
    /// Consumer groups, in order of their names.
    pub groups: Vec<StreamGroup>,
}

/// Entries of a stream, ascending by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamEntries {
    ids: Vec<StreamId>,
    /// Fields and values of all entries, alternating.
    strings: Strings,
    /// For each entry the number of `strings` up to its end.
    ends: Vec<usize>,
}

/// A consumer group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamGroup {
    /// Its name.
    pub name: Vec<u8>,
    /// The last id delivered to the group.
    pub last_id: StreamId,
    /// How many entries the group has read, if that is known.
    pub entries_read: Option<u64>,
    /// Consumers.
    pub consumers: Vec<StreamConsumer>,
    /// What was delivered and not acknowledged, ascending by id.
    pub pending: Vec<StreamPending>,
}

/// A consumer of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamConsumer {
    /// Its name.
    pub name: Vec<u8>,
    /// When it last asked, in milliseconds since 1970.
    pub seen_time_ms: i64,
}

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamPending {
    /// The entry; it may have been deleted.
    pub id: StreamId,
    /// When it was last delivered, in milliseconds since 1970.
    pub delivery_time_ms: i64,
    /// How often it was delivered.
    pub delivery_count: u64,
    /// Position of its consumer among the group's consumers.
    pub consumer: usize,
}

impl StreamEntries {
    /// Appends an entry. `strings` are its fields and values, alternating.
    pub fn push<'a>(&mut self, id: StreamId, strings: impl IntoIterator<Item = &'a [u8]>) {
        strings.into_iter().for_each(|string| self.strings.push(string));
        self.end_entry(id);
    }

    /// Where the strings of the next entry go; [`Self::end_entry`] ends it.
    pub(crate) fn strings_mut(&mut self) -> &mut Strings {
        &mut self.strings
    }

    pub(crate) fn end_entry(&mut self, id: StreamId) {
        self.ids.push(id);
        self.ends.push(self.strings.len());
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Ids, ascending.
    pub fn ids(&self) -> &[StreamId] {
        &self.ids
    }

    /// Fields and values, alternating, of the entry at a position, which must exist.
    pub fn strings(&self, index: usize) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        self.strings.range(start..self.ends[index])
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.ids.capacity() * size_of::<StreamId>()
            + self.strings.memory_bytes()
            + self.ends.capacity() * size_of::<usize>()
    }
}

impl Stream {
    /// The smallest id; zero if there is no entry.
    pub fn first_id(&self) -> StreamId {
        self.entries.ids().first().copied().unwrap_or_default()
    }

    /// How many entries a group has read whose last id is `id`; `None` if deleted entries make that unknown.
    pub fn entries_read_up_to(&self, id: StreamId) -> Option<u64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        let len = self.entries.len() as u64;
        if id == self.last_id || (len == 0 && id < self.last_id) {
            return Some(self.entries_added);
        }
        let no_gaps = self.max_deleted_id == StreamId::default() || self.max_deleted_id < self.first_id();
        if id > self.last_id || !no_gaps {
            return None;
        }
        let before_first = self.entries_added.checked_sub(len)?;
        match id.cmp(&self.first_id()) {
            std::cmp::Ordering::Less => Some(before_first),
            std::cmp::Ordering::Equal => Some(before_first + 1),
            std::cmp::Ordering::Greater => None,
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let group_bytes = |group: &StreamGroup| {
            let names: usize = group.consumers.iter().map(|consumer| consumer.name.capacity()).sum();
            names
                + group.name.capacity()
                + group.consumers.capacity() * size_of::<StreamConsumer>()
                + group.pending.capacity() * size_of::<StreamPending>()
        };
        self.entries.memory_bytes()
            + self.groups.capacity() * size_of::<StreamGroup>()
            + self.groups.iter().map(group_bytes).sum::<usize>()
    }
}
