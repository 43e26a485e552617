//! Sorted sets: different members, each with a score, in the order of scores and then of names.
//!
//! A small set lies in the record of its key; a larger one has two entries for each member, one to find its
//! score by its name and one in the order. Sets of some thousand members count their members in blocks, so
//! that a rank needs no walk. A set that became large stays so.
//!
//! | layout | payload of the record, with numbers of bytes |
//! |---|---|
//! | 0, packed | flags 1, then each member by score: score 8, length 2, name |
//! | 8, split | object 8, flags 1, members 8, levels 1, top nodes 4, length of `low` 2, `low`, `high` |
//!
//! | keyspace | key | value |
//! |---|---|---|
//! | `redis/elements` | object, hash of the name in 8 bytes, name | the score in 8 bytes |
//! | `redis/orders` | object, 0, place | nothing; one byte if the score is the negative zero |
//! | `redis/orders` | object, level from 1, place | members in 8 bytes, children in 4; see `ranks.rs` |
//!
//! Numbers are little-endian but in keys. A place is the score in 8 bytes that sort as it does, and the name.
//! Bit 7 of the flags: Redis would no longer keep the set as a listpack.
//!
//! No place of a member lies before `low` or behind `high`, if they are not empty. Walks begin there: what is
//! popped leaves deleted entries at the ends of the order, and a queue would walk over more and more of them.

mod ahead;
mod convert;
mod packed;
mod place;
mod ranks;
mod sample;
mod split;
#[cfg(test)]
mod tests;
mod walk;

pub use ahead::look_at_scores;
pub use convert::{encoding, load, memory_bytes, save};
pub use place::{MemberBound, ScoreBound, Span};
pub use sample::Chance;

use crate::entry::Entry;
use crate::layout::{MAX_MEMBER_BYTES, PhysicalDb};
use crate::record::{FIRST_OBJECT_LAYOUT, Kind};
use crate::txn::Txn;
use crate::types::{delete_key, malformed};
use esker::{Error, Result};
use esker_redis_data::EncodingLimits;
use packed::Packed;
use split::Split;

/// The members are in the record.
pub const PACKED: u8 = 0;

/// The members are entries.
pub const SPLIT: u8 = FIRST_OBJECT_LAYOUT;

/// Redis would keep the set as a skip list.
const IS_SKIPLIST: u8 = 0x80;

/// A sorted set, taken from the record of its key. Changes of members reach the store through
/// [`SortedSet::write`] alone; until then the record is the old one.
#[derive(Clone, Debug)]
pub struct SortedSet {
    form: Form,
    is_skiplist: bool,
}

#[derive(Clone, Debug)]
enum Form {
    Packed(Packed),
    Split(Split),
}

impl Default for SortedSet {
    fn default() -> Self {
        Self { form: Form::Packed(Packed::default()), is_skiplist: false }
    }
}

impl SortedSet {
    /// The set of a key; `None` if the key is not there.
    ///
    /// # Errors
    /// `Internal` if the record is that of another type or malformed.
    pub fn of(entry: &Entry) -> Result<Option<Self>> {
        let Some(record) = entry.record() else { return Ok(None) };
        let wrong = || malformed("sorted set");
        let payload = record.payload();
        let (flags, form) = match (record.kind(), record.layout()) {
            (Kind::SortedSet, PACKED) => {
                let (flags, members) = payload.split_first().ok_or_else(wrong)?;
                (*flags, Form::Packed(Packed::decode(members)?))
            }
            (Kind::SortedSet, SPLIT) => {
                let (flags, split) = Split::decode(payload).ok_or_else(wrong)?;
                (flags, Form::Split(split))
            }
            _ => return Err(wrong()),
        };
        Ok(Some(Self { form, is_skiplist: flags & IS_SKIPLIST != 0 }))
    }

    /// The number of members.
    pub fn len(&self) -> u64 {
        match &self.form {
            Form::Packed(packed) => packed.len() as u64,
            Form::Split(split) => split.len,
        }
    }

    /// Whether there is no member; such a set is not stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether Redis would keep it as a listpack.
    pub fn is_listpack(&self) -> bool {
        !self.is_skiplist
    }

    /// The score of a member.
    ///
    /// # Errors
    /// Those of the engine, here and below.
    pub fn score(&self, txn: &Txn<'_>, member: &[u8]) -> Result<Option<f64>> {
        match &self.form {
            Form::Packed(packed) => Ok(packed.find(member).map(|found| found.score)),
            Form::Split(split) => split.score(txn, member),
        }
    }

    /// The same for a member whose score is to be set, from memory if it was looked up ahead.
    ///
    /// # Errors
    /// As [`SortedSet::score`].
    pub fn score_ahead(&self, txn: &mut Txn<'_>, member: &[u8]) -> Result<Option<f64>> {
        match &self.form {
            Form::Packed(_) => self.score(txn, member),
            Form::Split(split) => split.score_ahead(txn, member),
        }
    }

    /// The scores of several members.
    ///
    /// # Errors
    /// As [`SortedSet::score`].
    pub fn scores(&self, txn: &Txn<'_>, members: &[&[u8]]) -> Result<Vec<Option<f64>>> {
        match &self.form {
            Form::Packed(_) => members.iter().map(|member| self.score(txn, member)).collect(),
            Form::Split(split) => split.scores(txn, members),
        }
    }

    /// Sets the score of a member, new or not; `before` is what [`SortedSet::score`] says.
    ///
    /// # Errors
    /// As [`SortedSet::score`]; `InvalidArgument` for a member over [`MAX_MEMBER_BYTES`].
    pub fn set(
        &mut self,
        txn: &mut Txn<'_>,
        db: PhysicalDb,
        member: &[u8],
        before: Option<f64>,
        score: f64,
        limits: &EncodingLimits,
    ) -> Result<()> {
        check_member(member)?;
        if before.is_none() {
            self.is_skiplist |= self.len() >= limits.zset_max_listpack_entries as u64
                || member.len() > limits.zset_max_listpack_value;
        }
        // A listpack keeps integers as such, which have one zero.
        let score = if self.is_skiplist { score } else { score + 0.0 };
        if let Form::Packed(packed) = &mut self.form {
            if let Some(at) = packed.find(member).map(|found| found.at) {
                packed.remove(at);
            }
            if packed.has_room(member) {
                packed.insert(score, member);
                return Ok(());
            }
            let object = txn.store().new_object(db)?;
            let mut split = Split::new(object);
            for member in packed.iter() {
                split.set(txn, member.member, None, member.score)?;
            }
            split.set(txn, member, None, score)?;
            self.form = Form::Split(split);
            return Ok(());
        }
        match &mut self.form {
            Form::Packed(_) => Ok(()),
            Form::Split(split) => split.set(txn, member, before, score),
        }
    }

    /// Removes a member; returns its score, if it was there.
    ///
    /// # Errors
    /// As [`SortedSet::score`].
    pub fn remove(&mut self, txn: &mut Txn<'_>, member: &[u8]) -> Result<Option<f64>> {
        match &mut self.form {
            Form::Packed(packed) => {
                let Some(found) = packed.find(member) else { return Ok(None) };
                let (score, at) = (found.score, found.at);
                packed.remove(at);
                Ok(Some(score))
            }
            Form::Split(split) => {
                let Some(score) = split.score(txn, member)? else { return Ok(None) };
                split.remove(txn, member, score)?;
                Ok(Some(score))
            }
        }
    }

    /// Removes and returns up to `count` members of the set of `entry` from an end, in order from there.
    ///
    /// # Errors
    /// As [`SortedSet::score`].
    pub fn pop(
        &mut self,
        txn: &mut Txn<'_>,
        entry: &Entry,
        from_end: bool,
        count: u64,
    ) -> Result<Vec<(Vec<u8>, f64)>> {
        if let Form::Split(split) = &mut self.form {
            let commands_behind = txn.times_ahead(entry.record_key());
            return split.pop(txn, from_end, count, commands_behind);
        }
        let mut popped = Vec::new();
        if count == 0 {
            return Ok(popped);
        }
        self.walk(txn, &Span::all(), from_end, |member, score| {
            popped.push((member.to_vec(), score));
            (popped.len() as u64) < count
        })?;
        if let Form::Packed(packed) = &mut self.form {
            for (member, _) in &popped {
                if let Some(at) = packed.find(member).map(|found| found.at) {
                    packed.remove(at);
                }
            }
        }
        Ok(popped)
    }

    /// Removes the members of a span; returns how many they were.
    ///
    /// # Errors
    /// As [`SortedSet::score`].
    pub fn remove_span(&mut self, txn: &mut Txn<'_>, span: &Span) -> Result<u64> {
        match &mut self.form {
            Form::Packed(packed) => Ok(packed.remove_within(span)),
            Form::Split(split) => split.remove_span(txn, span),
        }
    }

    /// Makes this the set of a key that had it before or was not there, with the same expiry. A set without
    /// members deletes its key: then `true` is returned.
    ///
    /// # Errors
    /// Those of [`Txn::set_record`].
    pub fn write(&self, txn: &mut Txn<'_>, entry: &mut Entry) -> Result<bool> {
        if self.is_empty() {
            return delete_key(txn, entry);
        }
        let expiry_ms = entry.expiry_ms();
        self.put(txn, entry, expiry_ms)?;
        Ok(false)
    }

    fn put(&self, txn: &mut Txn<'_>, entry: &mut Entry, expiry_ms: Option<u64>) -> Result<()> {
        let flags = if self.is_skiplist { IS_SKIPLIST } else { 0 };
        let (layout, payload) = match &self.form {
            Form::Packed(packed) => (PACKED, [&[flags], packed.bytes()].concat()),
            Form::Split(split) => (SPLIT, split.encode(flags)),
        };
        txn.set_record(entry, Kind::SortedSet, layout, expiry_ms, &payload)
    }
}

/// Fails for a member that has no place in a key of the engine.
///
/// # Errors
/// `InvalidArgument`.
pub fn check_member(member: &[u8]) -> Result<()> {
    if member.len() <= MAX_MEMBER_BYTES {
        return Ok(());
    }
    let length = member.len();
    let text = format!("the member has {length} bytes; the longest of a sorted set has {MAX_MEMBER_BYTES}");
    Err(Error::InvalidArgument(text.into()))
}
