//! Insertion of a committed batch into the memtables, under the commit lock. It cannot fail: room was made
//! before (CP5).

use crate::state::commit_state::{ActiveKeyspace, CommitState};
use crate::write::batch::EncodedBatch;
use esker_base::{KeyspaceId, SeqNo, Tag, ValueKind};
use esker_iter::RangeTombstone;
use esker_memtable::{Operation, PreparedInsert};
use esker_wal::EntryIter;

/// Entries inserted into a memtable at once; it descends for sixteen of them in lockstep.
const INSERT_CHUNK: usize = 64;

impl CommitState {
    /// Begins the insertion of a batch with a single entry, and prefetches the memory it will write. Larger
    /// batches overlap their misses by descending in lockstep.
    #[inline]
    pub(super) fn begin_insert(&mut self, batch: &EncodedBatch<'_>) -> Option<PreparedInsert> {
        let ((_, key, _), [share]) = (batch.single?, batch.shares) else { return None };
        self.log.prefetch();
        let active = self.keyspaces.get_mut(share.keyspace.get() as usize)?.as_mut()?;
        Some(active.inserter.begin_insert(key))
    }

    /// Copies a batch into the memtables. Infallible: room was made before.
    #[inline]
    pub(super) fn insert(
        &mut self,
        batch: &EncodedBatch<'_>,
        prepared: Option<PreparedInsert>,
        first: SeqNo,
        log_id: u64,
    ) {
        self.batches += 1;
        self.entries += u64::from(batch.count);
        for share in batch.shares {
            let active = self.keyspaces[share.keyspace.get() as usize].as_mut().expect("room was made in it");
            active.bytes += share.bytes;
            active.entries += u64::from(share.entries);
            active.user_bytes += share.bytes;
            active.memtable.note_write(log_id, first.get());
            self.active_bytes += share.bytes;
            if let Some((kind_byte, key, value)) = batch.single {
                active.invalidate_spans(key, kind_byte, first);
                let tag = Tag::from_parts(first, kind_byte);
                match prepared {
                    Some(prepared) => active.inserter.finish_insert(prepared, key, tag, value),
                    None => active.inserter.insert(key, tag, value),
                }
                return;
            }
        }
        self.insert_many(batch.payload, first);
    }

    /// Inserts the entries of a batch, as many at once as one memtable takes.
    fn insert_many(&mut self, payload: &[u8], first: SeqNo) {
        let mut chunk = [Operation { key: &[], tag: Tag::OLDEST, value: &[] }; INSERT_CHUNK];
        let mut filled = 0;
        let mut of = KeyspaceId::default();
        for (offset, entry) in EntryIter::new(payload).enumerate() {
            let entry = entry.expect("the batch was encoded by this process");
            if filled == INSERT_CHUNK || (filled > 0 && entry.keyspace != of) {
                self.insert_chunk(of, &chunk[..filled]);
                filled = 0;
            }
            of = entry.keyspace;
            if entry.kind_byte == ValueKind::RangeDelete as u8 {
                // In its order among the entries: later operations of the batch survive it.
                self.insert_chunk(of, &chunk[..filled]);
                filled = 0;
                let delete = RangeTombstone::stored(entry.key, entry.value, first.plus(offset as u64));
                let active = self.keyspaces[of.get() as usize].as_mut().expect("room was made in it");
                active.inserter.insert_range_delete(delete);
                continue;
            }
            let tag = Tag::from_parts(first.plus(offset as u64), entry.kind_byte);
            chunk[filled] = Operation { key: entry.key, tag, value: entry.value };
            filled += 1;
        }
        self.insert_chunk(of, &chunk[..filled]);
    }

    fn insert_chunk(&mut self, keyspace: KeyspaceId, chunk: &[Operation<'_>]) {
        let active = self.keyspaces[keyspace.get() as usize].as_mut().expect("room was made in it");
        if active.tombstone_spans.is_watching() {
            for operation in chunk {
                active.invalidate_spans(operation.key, operation.tag.kind_byte(), operation.tag.seqno());
            }
        }
        active.inserter.insert_batch(chunk);
    }
}

impl ActiveKeyspace {
    /// Invalidates tombstone spans for an entry about to be inserted, unless it is a tombstone.
    #[inline(always)]
    fn invalidate_spans(&self, key: &[u8], kind_byte: u8, seqno: SeqNo) {
        if self.tombstone_spans.is_watching() && !is_tombstone(kind_byte) {
            self.tombstone_spans.note_put(key, SeqNo::new(seqno.get() - 1));
        }
    }
}

fn is_tombstone(kind_byte: u8) -> bool {
    kind_byte == ValueKind::Delete as u8 || kind_byte == ValueKind::SingleDelete as u8
}
