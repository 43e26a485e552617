//! DUMP by type: small collections packed, as Redis keeps them, larger ones element by element.

use super::encoder::Encoder;
use super::encoding_limits::EncodingLimits;
use super::{dump_stream, types};
use crate::intset;
use crate::listpack::{ListpackBuilder, MAX_OVERHEAD_BYTES, SAFE_BYTES};
use crate::packed::Packed;
use crate::strings::Strings;
use crate::value::{SortedSet, Value};
use esker_resp::integer::parse_integer;
use std::cmp::Ordering;

/// Appends the type and the value.
pub(super) fn dump_value(encoder: &mut Encoder, value: &Value, limits: &EncodingLimits) {
    match value {
        Value::String(string) => {
            encoder.byte(types::STRING);
            encoder.string(string);
        }
        Value::List(elements) => dump_list(encoder, elements, limits.list_node_bytes),
        Value::Set(members) => dump_set(encoder, members, limits.set_max_intset_entries),
        Value::SortedSet(set) => dump_sorted_set(encoder, set, limits),
        Value::Hash(pairs) => dump_hash(encoder, pairs, limits),
        Value::Stream(stream) => dump_stream::dump_stream(encoder, stream, limits),
    }
}

/// Nodes of up to `node_bytes`; an element that no listpack takes is a node by itself.
fn dump_list(encoder: &mut Encoder, elements: &Strings, node_bytes: usize) {
    encoder.byte(types::LIST_QUICKLIST_2);
    let mut nodes = Encoder::new();
    let mut count = 0;
    let mut node = ListpackBuilder::new();
    let mut end_node = |node: &mut ListpackBuilder, nodes: &mut Encoder| {
        if !node.is_empty() {
            nodes.number(types::PACKED_NODE);
            nodes.string(&std::mem::replace(node, ListpackBuilder::new()).finish());
            count += 1;
        }
    };
    let mut plain_count = 0;
    for element in elements.iter() {
        let packed_bytes = element.len().saturating_add(MAX_OVERHEAD_BYTES);
        if packed_bytes > SAFE_BYTES {
            end_node(&mut node, &mut nodes);
            nodes.number(types::PLAIN_NODE);
            nodes.string(element);
            plain_count += 1;
            continue;
        }
        if node.len_bytes().saturating_add(packed_bytes) > node_bytes.min(SAFE_BYTES) {
            end_node(&mut node, &mut nodes);
        }
        node.push(Packed::of(element));
    }
    end_node(&mut node, &mut nodes);
    encoder.count(count + plain_count);
    encoder.raw(&nodes.into_bytes());
}

fn dump_set(encoder: &mut Encoder, members: &Strings, max_intset_entries: usize) {
    if members.len() <= max_intset_entries
        && let Some(mut integers) = members.iter().map(parse_integer).collect::<Option<Vec<_>>>()
    {
        integers.sort_unstable();
        encoder.byte(types::SET_INTSET);
        encoder.string(&intset::encode(&integers));
        return;
    }
    encoder.byte(types::SET);
    encoder.count(members.len());
    members.iter().for_each(|member| encoder.string(member));
}

fn dump_sorted_set(encoder: &mut Encoder, set: &SortedSet, limits: &EncodingLimits) {
    // A packed set must ascend by score and member; a set of elements is read fastest from its end.
    let mut sorted: Vec<(&[u8], f64)> = set.iter().collect();
    sorted.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap_or(Ordering::Equal).then_with(|| a.0.cmp(b.0)));
    let is_small = sorted.len() <= limits.zset_max_listpack_entries
        && sorted.iter().all(|(member, _)| member.len() <= limits.zset_max_listpack_value);
    if is_small && fits_a_listpack(&set.members, set.members.len()) {
        let mut listpack = ListpackBuilder::new();
        for (member, score) in sorted {
            listpack.push(Packed::of(member));
            push_score(&mut listpack, score);
        }
        encoder.byte(types::SORTED_SET_LISTPACK);
        encoder.string(&listpack.finish());
        return;
    }
    encoder.byte(types::SORTED_SET);
    encoder.count(sorted.len());
    for (member, score) in sorted.into_iter().rev() {
        encoder.string(member);
        encoder.raw(&score.to_le_bytes());
    }
}

/// Integers that a double holds exactly, as integers; other scores as the shortest text that gives them
/// again.
fn push_score(listpack: &mut ListpackBuilder, score: f64) {
    const EXACT: f64 = (1u64 << 53) as f64;
    let is_negative_zero = score == 0.0 && score.is_sign_negative();
    if score.fract() == 0.0 && score.abs() <= EXACT && !is_negative_zero {
        listpack.push(Packed::Integer(score as i64));
    } else {
        listpack.push(Packed::String(format!("{score:?}").as_bytes()));
    }
}

fn dump_hash(encoder: &mut Encoder, pairs: &Strings, limits: &EncodingLimits) {
    let count = pairs.len() / 2;
    let is_small = count <= limits.hash_max_listpack_entries
        && pairs.iter().all(|string| string.len() <= limits.hash_max_listpack_value);
    if is_small && fits_a_listpack(pairs, 0) {
        let mut listpack = ListpackBuilder::new();
        pairs.iter().for_each(|string| listpack.push(Packed::of(string)));
        encoder.byte(types::HASH_LISTPACK);
        encoder.string(&listpack.finish());
        return;
    }
    encoder.byte(types::HASH);
    encoder.count(count);
    pairs.iter().for_each(|string| encoder.string(string));
}

/// Bytes of the longest text of a score, and room for more.
const SCORE_BYTES: usize = 32;

/// Whether a listpack takes the strings and some scores, whatever the limits are set to.
fn fits_a_listpack(strings: &Strings, scores: usize) -> bool {
    let overhead = (strings.len() + scores).saturating_mul(MAX_OVERHEAD_BYTES + SCORE_BYTES);
    strings.payload_bytes().saturating_add(overhead) <= SAFE_BYTES
}
