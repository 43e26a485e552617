//! RESTORE of streams: listpacks of entries, consumer groups, consumers and what each was given.
//!
//! ```text
//! listpacks | (id of the listpack's head (a string of 16 bytes), listpack) ...
//! entries | last id | [first id | largest deleted id | entries ever added]
//! groups | (name, last id, [entries read], pending, consumers) ...
//! pending = count | (id (16), delivery time (8), deliveries) ...
//! consumers = count | (name, seen time (8), count | id (16) ...) ...
//! ```
//!
//! Type 15 lacks what is in brackets. A listpack holds a head and entries; ids count from its head's:
//!
//! ```text
//! entries not deleted | entries deleted | fields | field ... | 0
//! flags | milliseconds | sequence | value ... | elements of this entry before this one
//! flags | milliseconds | sequence | fields | field | value | ... | elements of this entry before this one
//! ```
//!
//! The first form is of entries with the fields of the head.

use super::decoder::Decoder;
use super::restore_error::RestoreError;
use super::types;
use crate::corrupt::Corrupt;
use crate::listpack::ListpackReader;
use crate::packed::Packed;
use crate::stream::{Stream, StreamConsumer, StreamEntries, StreamGroup, StreamId, StreamPending};
use crate::strings::Strings;

/// The stream that the decoder stands at. `counted`: it is of the type that stores counts.
pub(super) fn restore_stream(decoder: &mut Decoder<'_>, counted: bool) -> Result<Stream, RestoreError> {
    let mut stream = Stream::default();
    for _ in 0..decoder.number()? {
        let head = decoder.string()?;
        let head =
            <[u8; 16]>::try_from(&*head).map_err(|_| decoder.corrupt("a stream id is not 16 bytes"))?;
        let listpack = decoder.string()?;
        restore_entries(decoder, &listpack, StreamId::from_be_bytes(head), &mut stream.entries)?;
    }
    let len = decoder.number()?;
    if len != stream.entries.len() as u64 {
        return Err(decoder.corrupt("a stream has not as many entries as it says"));
    }
    stream.last_id = decoder.id()?;
    if stream.entries.ids().last().is_some_and(|&last| last > stream.last_id) {
        return Err(decoder.corrupt("an entry of a stream is above its last id"));
    }
    if counted {
        // The first id follows from the entries.
        decoder.id()?;
        stream.max_deleted_id = decoder.id()?;
        stream.entries_added = decoder.number()?;
    } else {
        stream.entries_added = len;
    }
    for _ in 0..decoder.number()? {
        let group = restore_group(decoder, &stream, counted)?;
        stream.groups.push(group);
    }
    stream.groups.sort_by(|a, b| a.name.cmp(&b.name));
    if stream.groups.windows(2).any(|pair| pair[0].name == pair[1].name) {
        return Err(decoder.corrupt("the name of a consumer group is repeated"));
    }
    Ok(stream)
}

/// Appends the entries of a listpack.
fn restore_entries(
    decoder: &mut Decoder<'_>,
    bytes: &[u8],
    head: StreamId,
    entries: &mut StreamEntries,
) -> Result<(), RestoreError> {
    let mut reader = EntriesReader { reader: ListpackReader::new(bytes)? };
    let live = reader.integer()?;
    let deleted = reader.integer()?;
    let total = live.checked_add(deleted).filter(|_| live >= 0 && deleted >= 0);
    let total = total.ok_or(Corrupt::new("a stream listpack counts less than no entries", 0))?;
    let field_count = reader.integer()?;
    let mut fields = Strings::new();
    for _ in 0..field_count {
        reader.element()?.push_to(&mut fields);
    }
    if reader.integer()? != 0 {
        return Err(Corrupt::new("the head of a stream listpack does not end in zero", 0).into());
    }
    let before = entries.len() as u64;
    for _ in 0..total {
        if reader.entry(&fields, head, entries)? {
            // A long field in the head, shared by a million entries of some bytes each, would take a million
            // times its length.
            decoder.expand(fields.payload_bytes())?;
        }
    }
    if reader.reader.next()?.is_some() || entries.len() as u64 - before != live as u64 {
        return Err(Corrupt::new("a stream listpack has not as many entries as it says", 0).into());
    }
    Ok(())
}

/// Reads entries from a listpack, which may not end within one.
struct EntriesReader<'a> {
    reader: ListpackReader<'a>,
}

impl<'a> EntriesReader<'a> {
    fn element(&mut self) -> Result<Packed<'a>, Corrupt> {
        self.reader.next()?.ok_or(Corrupt::new("a stream listpack ends too early", 0))
    }

    fn integer(&mut self) -> Result<i64, Corrupt> {
        self.element()?.integer().ok_or(Corrupt::new("a stream listpack has a string for a number", 0))
    }

    /// Appends the next entry unless it was deleted. Says whether it took a copy of the shared fields.
    fn entry(
        &mut self,
        shared: &Strings,
        head: StreamId,
        entries: &mut StreamEntries,
    ) -> Result<bool, Corrupt> {
        let flags = self.integer()?;
        let id = StreamId {
            milliseconds: head.milliseconds.wrapping_add(self.integer()? as u64),
            sequence: head.sequence.wrapping_add(self.integer()? as u64),
        };
        let is_deleted = flags & types::ENTRY_DELETED != 0;
        if !is_deleted && entries.ids().last().is_some_and(|&last| last >= id) {
            return Err(Corrupt::new("the entries of a stream are out of order", 0));
        }
        let mut deleted = Strings::new();
        let strings = if is_deleted { &mut deleted } else { entries.strings_mut() };
        let has_own_fields = flags & types::ENTRY_SAME_FIELDS == 0;
        let elements = if has_own_fields {
            let fields = self.integer()?;
            for _ in 0..fields {
                self.element()?.push_to(strings);
                self.element()?.push_to(strings);
            }
            fields.checked_mul(2).and_then(|strings| strings.checked_add(4)).filter(|_| fields >= 0)
        } else {
            for field in shared.iter() {
                let value = self.element()?;
                if !is_deleted {
                    strings.push(field);
                    value.push_to(strings);
                }
            }
            Some(3 + shared.len() as i64)
        };
        if !is_deleted {
            entries.end_entry(id);
        }
        if Some(self.integer()?) != elements {
            return Err(Corrupt::new("an entry of a stream has a wrong number of elements", 0));
        }
        Ok(!is_deleted && !has_own_fields)
    }
}

fn restore_group(
    decoder: &mut Decoder<'_>,
    stream: &Stream,
    counted: bool,
) -> Result<StreamGroup, RestoreError> {
    let name = decoder.string()?.into_owned();
    let last_id = decoder.id()?;
    let entries_read = if counted {
        Some(decoder.number()?).filter(|&count| count != types::UNKNOWN_COUNT)
    } else {
        stream.entries_read_up_to(last_id)
    };
    let mut pending = restore_pending(decoder)?;
    let consumers = restore_consumers(decoder, &mut pending)?;
    if pending.iter().any(|entry| entry.consumer == NO_CONSUMER) {
        return Err(decoder.corrupt("a pending entry of a group is of no consumer"));
    }
    Ok(StreamGroup { name, last_id, entries_read, consumers, pending })
}

/// The consumer of a pending entry whose consumer was not read yet.
const NO_CONSUMER: usize = usize::MAX;

fn restore_pending(decoder: &mut Decoder<'_>) -> Result<Vec<StreamPending>, RestoreError> {
    let mut pending = Vec::new();
    for _ in 0..decoder.number()? {
        pending.push(StreamPending {
            id: decoder.raw_id()?,
            delivery_time_ms: decoder.milliseconds()?,
            delivery_count: decoder.number()?,
            consumer: NO_CONSUMER,
        });
    }
    pending.sort_by_key(|entry| entry.id);
    if pending.windows(2).any(|pair| pair[0].id == pair[1].id) {
        return Err(decoder.corrupt("a pending entry of a group is repeated"));
    }
    Ok(pending)
}

fn restore_consumers(
    decoder: &mut Decoder<'_>,
    pending: &mut [StreamPending],
) -> Result<Vec<StreamConsumer>, RestoreError> {
    let mut consumers = Vec::new();
    for consumer in 0..decoder.number()? {
        let name = decoder.string()?.into_owned();
        let seen_time_ms = decoder.milliseconds()?;
        for _ in 0..decoder.number()? {
            let id = decoder.raw_id()?;
            let place = pending.binary_search_by_key(&id, |entry| entry.id).ok();
            let entry = place.map(|place| &mut pending[place]).filter(|entry| entry.consumer == NO_CONSUMER);
            let entry =
                entry.ok_or_else(|| decoder.corrupt("a consumer's entry is not pending, or another's"))?;
            entry.consumer = consumer as usize;
        }
        consumers.push(StreamConsumer { name, seen_time_ms });
    }
    let mut names: Vec<&[u8]> = consumers.iter().map(|consumer| &*consumer.name).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(decoder.corrupt("the name of a consumer is repeated"));
    }
    Ok(consumers)
}
