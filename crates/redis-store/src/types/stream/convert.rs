//! A stream as a whole value: for DUMP, RESTORE and COPY, and an estimate of its size.

use super::groups::{Group, UNKNOWN_ENTRIES_READ};
use super::{MAX_ID, MIN_ID, NodeLimits, Pending, Stream};
use crate::entry::Entry;
use crate::txn::Txn;
use crate::types::malformed;
use esker::Result;
use esker_redis_data::{Stream as StreamValue, StreamConsumer, StreamGroup, StreamPending, Value};
use std::collections::BTreeMap;

/// What OBJECT ENCODING answers.
pub const ENCODING: &str = "stream";

/// The whole value of a stream.
///
/// # Errors
/// Those of the engine, here and below.
pub fn load(txn: &Txn<'_>, entry: &Entry) -> Result<Value> {
    let stream = Stream::find(entry)?.ok_or_else(|| malformed("stream: its key is not there"))?;
    let mut value = StreamValue {
        last_id: stream.last_id,
        max_deleted_id: stream.max_deleted_id,
        entries_added: stream.entries_added,
        ..StreamValue::default()
    };
    for item in stream.range(txn, MIN_ID, MAX_ID) {
        let (id, strings) = item?;
        value.entries.push(id, strings.iter());
    }
    for group in stream.groups(txn) {
        value.groups.push(load_group(txn, group?)?);
    }
    Ok(Value::Stream(Box::new(value)))
}

fn load_group(txn: &Txn<'_>, mut group: Group) -> Result<StreamGroup> {
    let mut value = StreamGroup {
        name: group.name().to_vec(),
        last_id: group.last_id,
        entries_read: (group.entries_read != UNKNOWN_ENTRIES_READ).then_some(group.entries_read as u64),
        ..StreamGroup::default()
    };
    let numbers: Vec<u32> = group.consumers(txn).collect::<Result<_>>()?;
    let mut positions = BTreeMap::new();
    for number in numbers {
        let consumer = group.consumer(txn, number)?;
        positions.insert(number, value.consumers.len());
        value.consumers.push(StreamConsumer { name: consumer.name.clone(), seen_time_ms: consumer.seen_ms });
    }
    for item in group.pending_range(txn, MIN_ID, MAX_ID) {
        let (id, pending) = item?;
        let consumer = positions.get(&pending.consumer);
        value.pending.push(StreamPending {
            id,
            delivery_time_ms: pending.delivered_ms,
            delivery_count: pending.deliveries,
            consumer: *consumer.ok_or_else(|| malformed("pending entry of a stream"))?,
        });
    }
    Ok(value)
}

/// Bytes of the longest name of a group or consumer, which is part of the key of an element.
pub fn longest_name(value: &StreamValue) -> Option<usize> {
    let consumers =
        value.groups.iter().flat_map(|group| &group.consumers).map(|consumer| consumer.name.len());
    value.groups.iter().map(|group| group.name.len()).chain(consumers).max()
}

/// Sets a key that is not there to a stream.
///
/// # Errors
/// As [`load`].
pub fn save(
    txn: &mut Txn<'_>,
    entry: &mut Entry,
    value: &StreamValue,
    expiry_ms: Option<u64>,
    limits: NodeLimits,
) -> Result<()> {
    let mut stream = Stream::new(txn, entry)?;
    for (index, &id) in value.entries.ids().iter().enumerate() {
        let strings: Vec<&[u8]> = value.entries.strings(index).collect();
        stream.append(txn, id, &strings, limits)?;
    }
    stream.last_id = value.last_id;
    stream.max_deleted_id = value.max_deleted_id;
    stream.entries_added = value.entries_added;
    for group in &value.groups {
        let entries_read = group.entries_read.map_or(UNKNOWN_ENTRIES_READ, |read| read as i64);
        let mut stored = stream.create_group(txn, &group.name, group.last_id, entries_read)?;
        let mut numbers = Vec::with_capacity(group.consumers.len());
        for consumer in &group.consumers {
            numbers.push(stored.create_consumer(txn, &consumer.name, consumer.seen_time_ms)?);
        }
        for pending in &group.pending {
            let consumer = numbers.get(pending.consumer).ok_or_else(|| malformed("stream to restore"))?;
            let now = Pending {
                consumer: *consumer,
                delivered_ms: pending.delivery_time_ms,
                deliveries: pending.delivery_count,
            };
            stored.set_pending(txn, pending.id, None, now)?;
        }
        stored.store(txn)?;
    }
    stream.store_with_expiry(txn, entry, expiry_ms)
}

/// Entries that an estimate of the size looks at.
const SAMPLED_ENTRIES: usize = 16;

/// Bytes that a stream takes, estimated by its first entries, before compression.
///
/// # Errors
/// As [`load`].
pub fn memory_bytes(txn: &Txn<'_>, entry: &Entry) -> Result<u64> {
    /// Object, kind and id of an entry's key.
    const KEY_BYTES: u64 = 25;
    /// Keys and values of a pending entry.
    const PENDING_BYTES: u64 = 29 + 20 + 33;
    let Some(stream) = Stream::find(entry)? else { return Ok(0) };
    let (mut bytes, mut seen) = (0, 0);
    for item in stream.range(txn, MIN_ID, MAX_ID).take(SAMPLED_ENTRIES) {
        bytes += item?.1.iter().map(|string| string.len() as u64 + 1).sum::<u64>() + KEY_BYTES;
        seen += 1;
    }
    let mut total = stream.len().saturating_mul(bytes) / u64::max(seen, 1);
    for group in stream.groups(txn) {
        total = total.saturating_add(group?.pending_count().saturating_mul(PENDING_BYTES));
    }
    Ok(total + entry.record().map_or(0, |record| record.payload().len() as u64))
}
