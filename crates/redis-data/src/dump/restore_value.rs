//! RESTORE by type: every encoding of strings, lists, sets, sorted sets and hashes.

use super::decoder::Decoder;
use super::restore_error::RestoreError;
use super::{restore_stream, types};
use crate::listpack::ListpackReader;
use crate::strings::Strings;
use crate::value::{SortedSet, Value};
use crate::ziplist::ZiplistReader;
use crate::{intset, zipmap};

type Restored<T> = Result<T, RestoreError>;

/// The type and value that the decoder stands at.
pub(super) fn restore_value(decoder: &mut Decoder<'_>) -> Restored<Value> {
    Ok(match decoder.byte()? {
        types::STRING => Value::String(decoder.string()?.into_owned()),
        types::LIST => {
            let count = decoder.count()?;
            Value::List(strings(decoder, count)?)
        }
        types::LIST_ZIPLIST => list(decoder, |decoder, list| append_ziplist(&decoder.string()?, list))?,
        types::LIST_QUICKLIST => {
            quicklist(decoder, |decoder, list| append_ziplist(&decoder.string()?, list))?
        }
        types::LIST_QUICKLIST_2 => quicklist(decoder, quicklist_node)?,
        types::SET => {
            let count = decoder.count()?;
            let members = strings(decoder, count)?;
            Value::Set(distinct(decoder, members, 1)?)
        }
        types::SET_INTSET => {
            let mut members = Strings::new();
            intset::decode(&decoder.string()?)?.into_iter().for_each(|member| members.push_decimal(member));
            Value::Set(members)
        }
        types::SORTED_SET => sorted_set(decoder, |decoder| Ok(decoder.double()?))?,
        types::SORTED_SET_TEXT => sorted_set(decoder, text_score)?,
        types::SORTED_SET_LISTPACK => scored(decoder, append_listpack)?,
        types::SORTED_SET_ZIPLIST => scored(decoder, append_ziplist)?,
        types::HASH => {
            let count = decoder.count()?;
            let doubled =
                count.checked_mul(2).ok_or_else(|| decoder.corrupt("a count is beyond all memory"))?;
            let pairs = strings(decoder, doubled)?;
            Value::Hash(distinct(decoder, pairs, 2)?)
        }
        types::HASH_LISTPACK => hash(decoder, append_listpack)?,
        types::HASH_ZIPLIST => hash(decoder, append_ziplist)?,
        types::HASH_ZIPMAP => {
            let pairs = zipmap::decode(&decoder.string()?)?;
            Value::Hash(distinct(decoder, pairs, 2)?)
        }
        types::STREAM => Value::Stream(Box::new(restore_stream::restore_stream(decoder, false)?)),
        types::STREAM_2 => Value::Stream(Box::new(restore_stream::restore_stream(decoder, true)?)),
        _ => return Err(decoder.corrupt("the type of the value is unknown")),
    })
}

/// `count` strings one behind the other. Each takes a byte or more, so a count that lies ends the bytes.
fn strings(decoder: &mut Decoder<'_>, count: u64) -> Restored<Strings> {
    let mut strings = Strings::new();
    for _ in 0..count {
        strings.push(&decoder.string()?);
    }
    Ok(strings)
}

fn append_listpack(bytes: &[u8], strings: &mut Strings) -> Restored<()> {
    let mut reader = ListpackReader::new(bytes)?;
    while let Some(element) = reader.next()? {
        element.push_to(strings);
    }
    Ok(())
}

fn append_ziplist(bytes: &[u8], strings: &mut Strings) -> Restored<()> {
    let mut reader = ZiplistReader::new(bytes)?;
    while let Some(element) = reader.next()? {
        element.push_to(strings);
    }
    Ok(())
}

type AppendNode = fn(&mut Decoder<'_>, &mut Strings) -> Restored<()>;

fn list(decoder: &mut Decoder<'_>, append: AppendNode) -> Restored<Value> {
    let mut elements = Strings::new();
    append(decoder, &mut elements)?;
    not_empty(decoder, elements).map(Value::List)
}

/// Nodes may be empty, but not all.
fn quicklist(decoder: &mut Decoder<'_>, append: AppendNode) -> Restored<Value> {
    let mut elements = Strings::new();
    for _ in 0..decoder.count()? {
        append(decoder, &mut elements)?;
    }
    not_empty(decoder, elements).map(Value::List)
}

fn quicklist_node(decoder: &mut Decoder<'_>, elements: &mut Strings) -> Restored<()> {
    let container = decoder.number()?;
    let node = decoder.string()?;
    match container {
        types::PACKED_NODE => append_listpack(&node, elements),
        types::PLAIN_NODE if !node.is_empty() => {
            elements.push(&node);
            Ok(())
        }
        _ => Err(decoder.corrupt("a node of a list is neither packed nor plain")),
    }
}

fn sorted_set(decoder: &mut Decoder<'_>, score: fn(&mut Decoder<'_>) -> Restored<f64>) -> Restored<Value> {
    let mut set = SortedSet::default();
    for _ in 0..decoder.count()? {
        let member = decoder.string()?;
        let score = score(decoder)?;
        if score.is_nan() {
            return Err(decoder.corrupt("a score is not a number"));
        }
        set.push(&member, score);
    }
    set.members = distinct(decoder, set.members, 1)?;
    Ok(Value::SortedSet(set))
}

/// A score of old servers: a length of one byte and text, or one byte for what is no finite number.
fn text_score(decoder: &mut Decoder<'_>) -> Restored<f64> {
    match decoder.byte()? {
        255 => Ok(f64::NEG_INFINITY),
        254 => Ok(f64::INFINITY),
        253 => Ok(f64::NAN),
        len => {
            let text = decoder.take(usize::from(len))?;
            parse_score(text).ok_or_else(|| decoder.corrupt("a score is not a number"))
        }
    }
}

fn parse_score(text: &[u8]) -> Option<f64> {
    let score: f64 = str::from_utf8(text).ok()?.parse().ok()?;
    (!score.is_nan()).then_some(score)
}

type AppendPacked = fn(&[u8], &mut Strings) -> Restored<()>;

/// A packed sorted set: members and scores alternate.
fn scored(decoder: &mut Decoder<'_>, append: AppendPacked) -> Restored<Value> {
    let pairs = pairs(decoder, append)?;
    let mut set = SortedSet::default();
    for (at, string) in pairs.iter().enumerate() {
        if at % 2 == 0 {
            set.members.push(string);
        } else {
            let score = parse_score(string).ok_or_else(|| decoder.corrupt("a score is not a number"))?;
            set.scores.push(score);
        }
    }
    Ok(Value::SortedSet(set))
}

fn hash(decoder: &mut Decoder<'_>, append: AppendPacked) -> Restored<Value> {
    pairs(decoder, append).map(Value::Hash)
}

/// Strings of a packed structure that come in pairs, the first ones distinct.
fn pairs(decoder: &mut Decoder<'_>, append: AppendPacked) -> Restored<Strings> {
    let mut strings = Strings::new();
    append(&decoder.string()?, &mut strings)?;
    if strings.len() % 2 == 1 {
        return Err(decoder.corrupt("a field or member is without its value or score"));
    }
    let strings = not_empty(decoder, strings)?;
    distinct(decoder, strings, 2)
}

fn not_empty(decoder: &Decoder<'_>, strings: Strings) -> Restored<Strings> {
    if strings.is_empty() { Err(decoder.corrupt("a collection is empty")) } else { Ok(strings) }
}

fn distinct(decoder: &Decoder<'_>, strings: Strings, step: usize) -> Restored<Strings> {
    if strings.repeats(step) { Err(decoder.corrupt("a member or field is repeated")) } else { Ok(strings) }
}
