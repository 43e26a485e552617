//! The batches of a change stream.

use esker_base::{Error, KeyspaceId, Result, SeqNo, ValueKind, expiry, kind};
use esker_engine::state::store::Store;
use esker_wal::batch::Ingest;
use esker_wal::{Entry, EntryIter, HistoryRecord, RecordKind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A committed batch: all of its changes, in their order. A single put is a batch of one; a transaction is
/// one batch.
#[derive(Clone, Debug)]
pub struct ChangeBatch {
    first_seqno: SeqNo,
    last_seqno: SeqNo,
    contents: Contents,
    /// Names of its keyspaces; `None` for dropped ones.
    names: BTreeMap<KeyspaceId, Option<Arc<str>>>,
}

#[derive(Clone, Debug)]
enum Contents {
    /// Entries as in the log, validated.
    Entries(Vec<u8>),
    Ingest(Ingest),
}

/// The keyspace of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangedKeyspace<'a> {
    /// Its id, which is never reused.
    pub id: KeyspaceId,
    /// Its name when the batch was returned; `None` if it was dropped before.
    pub name: Option<&'a str>,
}

/// One change of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change<'a> {
    /// A put.
    Put {
        /// The keyspace.
        keyspace: ChangedKeyspace<'a>,
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// When the value expires, in milliseconds since 1970; `None` if it does not.
        expiry_ms: Option<u64>,
    },
    /// A delete.
    Delete {
        /// The keyspace.
        keyspace: ChangedKeyspace<'a>,
        /// The key.
        key: &'a [u8],
    },
    /// A single delete: the key was put at most once since its last removal.
    SingleDelete {
        /// The keyspace.
        keyspace: ChangedKeyspace<'a>,
        /// The key.
        key: &'a [u8],
    },
    /// A range delete.
    DeleteRange {
        /// The keyspace.
        keyspace: ChangedKeyspace<'a>,
        /// The first key of the range.
        start: &'a [u8],
        /// The first key behind it; `None` if it has no end.
        end: Option<&'a [u8]>,
    },
    /// A merge of an operand by the keyspace's merge operator.
    Merge {
        /// The keyspace.
        keyspace: ChangedKeyspace<'a>,
        /// The key.
        key: &'a [u8],
        /// The operand.
        operand: &'a [u8],
        /// When the operand expires, in milliseconds since 1970; `None` if it does not.
        expiry_ms: Option<u64>,
    },
    /// Table files were ingested. Their contents are not in the stream: read them from the keyspace.
    Ingest {
        /// The keyspace.
        keyspace: ChangedKeyspace<'a>,
        /// The number of files.
        tables: usize,
        /// Bytes of the files.
        bytes: u64,
    },
}

impl<'a> Change<'a> {
    /// The keyspace of the change.
    pub fn keyspace(&self) -> ChangedKeyspace<'a> {
        match self {
            Change::Put { keyspace, .. }
            | Change::Delete { keyspace, .. }
            | Change::SingleDelete { keyspace, .. }
            | Change::DeleteRange { keyspace, .. }
            | Change::Merge { keyspace, .. }
            | Change::Ingest { keyspace, .. } => *keyspace,
        }
    }
}

impl ChangeBatch {
    /// Validates a record of the log and resolves the names of its keyspaces.
    pub(super) fn new(store: &Store, record: HistoryRecord) -> Result<ChangeBatch> {
        let HistoryRecord { position, path, kind, first_seqno, last_seqno, payload } = record;
        let damaged = |detail: String| Error::corruption(&*path, position.offset, detail);
        let mut names = BTreeMap::new();
        let contents = match kind {
            RecordKind::Ingest => {
                let ingest = Ingest::decode(&payload).map_err(|damage| damaged(damage.to_string()))?;
                names.insert(ingest.keyspace, None);
                Contents::Ingest(ingest)
            }
            _ => {
                let mut count = 0;
                for entry in EntryIter::new(&payload) {
                    let entry = entry.map_err(|damage| damaged(damage.to_string()))?;
                    names.entry(entry.keyspace).or_insert(None);
                    count += 1;
                }
                let expected = last_seqno.get() + 1 - first_seqno.get();
                if count != expected {
                    return Err(damaged(format!("a batch of {count} entries, {expected} are announced")));
                }
                Contents::Entries(payload)
            }
        };
        let living = store.all_keyspaces();
        for (id, name) in &mut names {
            let found = living.binary_search_by_key(id, |keyspace| keyspace.id);
            *name = found.ok().map(|at| living[at].name());
        }
        Ok(ChangeBatch { first_seqno, last_seqno, contents, names })
    }

    /// The sequence number of its first change.
    pub fn first_seqno(&self) -> SeqNo {
        self.first_seqno
    }

    /// The sequence number of its last change: the position to continue after.
    pub fn last_seqno(&self) -> SeqNo {
        self.last_seqno
    }

    /// The number of changes; at least one.
    #[expect(clippy::len_without_is_empty, reason = "no batch is empty")]
    pub fn len(&self) -> usize {
        usize::try_from(self.last_seqno.get() + 1 - self.first_seqno.get()).unwrap_or(usize::MAX)
    }

    /// The changes in their order; the sequence number grows by one with each.
    pub fn iter(&self) -> ChangeIter<'_> {
        let entries = match &self.contents {
            Contents::Entries(payload) => EntryIter::new(payload),
            Contents::Ingest(_) => EntryIter::new(&[]),
        };
        let ingest = match &self.contents {
            Contents::Ingest(ingest) => Some(ingest),
            Contents::Entries(_) => None,
        };
        ChangeIter { batch: self, entries, ingest }
    }

    fn keyspace(&self, id: KeyspaceId) -> ChangedKeyspace<'_> {
        ChangedKeyspace { id, name: self.names.get(&id).and_then(Option::as_deref) }
    }
}

impl<'a> IntoIterator for &'a ChangeBatch {
    type Item = Change<'a>;
    type IntoIter = ChangeIter<'a>;

    fn into_iter(self) -> ChangeIter<'a> {
        self.iter()
    }
}

/// The changes of a batch; see [`ChangeBatch::iter`].
#[derive(Clone, Debug)]
pub struct ChangeIter<'a> {
    batch: &'a ChangeBatch,
    entries: EntryIter<'a>,
    ingest: Option<&'a Ingest>,
}

impl<'a> Iterator for ChangeIter<'a> {
    type Item = Change<'a>;

    fn next(&mut self) -> Option<Change<'a>> {
        if let Some(ingest) = self.ingest.take() {
            let bytes = ingest.files.iter().map(|file| file.size_bytes).fold(0, u64::saturating_add);
            let keyspace = self.batch.keyspace(ingest.keyspace);
            return Some(Change::Ingest { keyspace, tables: ingest.files.len(), bytes });
        }
        // The batch was validated when it was read.
        let entry = self.entries.next()?.ok()?;
        change_of(self.batch.keyspace(entry.keyspace), &entry)
    }
}

fn change_of<'a>(keyspace: ChangedKeyspace<'a>, entry: &Entry<'a>) -> Option<Change<'a>> {
    let key = entry.key;
    let (expiry_ms, value) = match entry.kind_byte & kind::FLAG_EXPIRY {
        0 => (None, entry.value),
        _ => expiry::split(entry.value).map(|(expiry_ms, value)| (Some(expiry_ms), value))?,
    };
    Some(match entry.kind()? {
        ValueKind::Put => Change::Put { keyspace, key, value, expiry_ms },
        ValueKind::Delete => Change::Delete { keyspace, key },
        ValueKind::SingleDelete => Change::SingleDelete { keyspace, key },
        ValueKind::RangeDelete => {
            Change::DeleteRange { keyspace, start: key, end: (!value.is_empty()).then_some(value) }
        }
        ValueKind::Merge => Change::Merge { keyspace, key, operand: value, expiry_ms },
    })
}
