//! DUMP of streams. `restore_stream` draws the bytes.

use super::encoder::Encoder;
use super::encoding_limits::EncodingLimits;
use super::types;
use crate::listpack::{ListpackBuilder, MAX_OVERHEAD_BYTES};
use crate::packed::Packed;
use crate::stream::{Stream, StreamEntries, StreamGroup, StreamId};
use std::ops::Range;

/// Appends the type and the stream.
pub(super) fn dump_stream(encoder: &mut Encoder, stream: &Stream, limits: &EncodingLimits) {
    encoder.byte(types::STREAM_2);
    let nodes = nodes(&stream.entries, limits);
    encoder.count(nodes.len());
    for node in nodes {
        encoder.string(&stream.entries.ids()[node.start].to_be_bytes());
        encoder.string(&listpack(&stream.entries, node));
    }
    encoder.count(stream.entries.len());
    encoder.id(stream.last_id);
    encoder.id(stream.first_id());
    encoder.id(stream.max_deleted_id);
    encoder.number(stream.entries_added);
    encoder.count(stream.groups.len());
    stream.groups.iter().for_each(|group| dump_group(encoder, group));
}

/// Which entries share a listpack.
fn nodes(entries: &StreamEntries, limits: &EncodingLimits) -> Vec<Range<usize>> {
    let mut nodes: Vec<Range<usize>> = Vec::new();
    let mut node_bytes = 0usize;
    for index in 0..entries.len() {
        let entry_bytes: usize = entries.strings(index).map(|string| string.len() + MAX_OVERHEAD_BYTES).sum();
        let full = |node: &Range<usize>| {
            node.len() >= limits.stream_node_max_entries
                || node_bytes.saturating_add(entry_bytes) > limits.stream_node_max_bytes
        };
        match nodes.last_mut().filter(|node| !full(node)) {
            Some(node) => {
                node.end += 1;
                node_bytes += entry_bytes;
            }
            None => {
                nodes.push(index..index + 1);
                node_bytes = entry_bytes;
            }
        }
    }
    nodes
}

/// The listpack of some entries. Its head has the fields of the first.
fn listpack(entries: &StreamEntries, node: Range<usize>) -> Vec<u8> {
    let mut listpack = ListpackBuilder::new();
    let head = entries.ids()[node.start];
    let fields = |index: usize| entries.strings(index).step_by(2);
    let field_count = |index: usize| entries.strings(index).len() as i64 / 2;
    for number in [node.len() as i64, 0, field_count(node.start)] {
        listpack.push(Packed::Integer(number));
    }
    fields(node.start).for_each(|field| listpack.push(Packed::of(field)));
    listpack.push(Packed::Integer(0));
    for index in node.clone() {
        let same_fields = fields(index).eq(fields(node.start));
        let id = entries.ids()[index];
        listpack.push(Packed::Integer(if same_fields { types::ENTRY_SAME_FIELDS } else { 0 }));
        listpack.push(Packed::Integer(difference(id, head, |id| id.milliseconds)));
        listpack.push(Packed::Integer(difference(id, head, |id| id.sequence)));
        let mut elements = 3 + field_count(index);
        if same_fields {
            entries.strings(index).skip(1).step_by(2).for_each(|value| listpack.push(Packed::of(value)));
        } else {
            listpack.push(Packed::Integer(field_count(index)));
            entries.strings(index).for_each(|string| listpack.push(Packed::of(string)));
            elements += 1 + field_count(index);
        }
        listpack.push(Packed::Integer(elements));
    }
    listpack.finish()
}

/// A part of an id less that of the head, modulo 2^64.
fn difference(id: StreamId, head: StreamId, part: fn(StreamId) -> u64) -> i64 {
    part(id).wrapping_sub(part(head)) as i64
}

fn dump_group(encoder: &mut Encoder, group: &StreamGroup) {
    encoder.string(&group.name);
    encoder.id(group.last_id);
    encoder.number(group.entries_read.unwrap_or(types::UNKNOWN_COUNT));
    encoder.count(group.pending.len());
    for entry in &group.pending {
        encoder.raw(&entry.id.to_be_bytes());
        encoder.raw(&entry.delivery_time_ms.to_le_bytes());
        encoder.number(entry.delivery_count);
    }
    // By consumer, and by id within: the sort is stable.
    let mut by_consumer: Vec<_> = group.pending.iter().collect();
    by_consumer.sort_by_key(|entry| entry.consumer);
    let mut rest = by_consumer.as_slice();
    encoder.count(group.consumers.len());
    for (at, consumer) in group.consumers.iter().enumerate() {
        let (own, others) = rest.split_at(rest.partition_point(|entry| entry.consumer <= at));
        rest = others;
        encoder.string(&consumer.name);
        encoder.raw(&consumer.seen_time_ms.to_le_bytes());
        encoder.count(own.len());
        own.iter().for_each(|entry| encoder.raw(&entry.id.to_be_bytes()));
    }
}
