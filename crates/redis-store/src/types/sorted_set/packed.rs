//! Small sorted sets in the record of their key: members by score, one behind the other.

use super::place::{self, Span};
use crate::types::malformed;
use esker::Result;
use std::cmp::Ordering;
use std::ops::Range;

/// Members of a packed set. More are entries of their own, as most reads would search in vain.
pub(super) const MAX_MEMBERS: usize = 128;

/// Bytes of a packed set: a change writes all of them.
pub(super) const MAX_BYTES: usize = 1024;

/// Bytes of a member beside its name: its score and the length of the name.
const MEMBER_BYTES: usize = 10;

/// The members of a packed set.
#[derive(Clone, Debug, Default)]
pub(super) struct Packed {
    bytes: Vec<u8>,
    count: usize,
}

/// A member of a packed set.
#[derive(Clone, Debug)]
pub(super) struct PackedMember<'p> {
    pub(super) score: f64,
    pub(super) member: &'p [u8],
    /// Its bytes in the packed set.
    pub(super) at: Range<usize>,
}

impl Packed {
    /// Takes members from a record, and checks that they are whole.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut packed = Self { bytes: bytes.to_vec(), count: 0 };
        let (count, end) = packed.iter().fold((0, 0), |(count, _), member| (count + 1, member.at.end));
        if end != bytes.len() {
            return Err(malformed("packed sorted set"));
        }
        packed.count = count;
        Ok(packed)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The members by score; ends early where bytes are no member.
    pub(super) fn iter(&self) -> impl Iterator<Item = PackedMember<'_>> {
        let mut start = 0;
        std::iter::from_fn(move || {
            let (score, rest) = self.bytes.get(start..)?.split_first_chunk::<8>()?;
            let (length, rest) = rest.split_first_chunk::<2>()?;
            let member = rest.get(..usize::from(u16::from_le_bytes(*length)))?;
            let at = start..start + MEMBER_BYTES + member.len();
            start = at.end;
            Some(PackedMember { score: f64::from_le_bytes(*score), member, at })
        })
    }

    pub(super) fn find(&self, member: &[u8]) -> Option<PackedMember<'_>> {
        self.iter().find(|other| other.member == member)
    }

    /// Whether a further member fits.
    pub(super) fn has_room(&self, member: &[u8]) -> bool {
        self.count < MAX_MEMBERS && self.bytes.len() + MEMBER_BYTES + member.len() <= MAX_BYTES
    }

    /// Puts a member that is not there; it has room.
    pub(super) fn insert(&mut self, score: f64, member: &[u8]) {
        let new = place::place(score, member);
        let is_behind =
            |other: &PackedMember<'_>| place::compare(other.score, other.member, &new) == Ordering::Greater;
        let start = self.iter().find(is_behind).map_or(self.bytes.len(), |other| other.at.start);
        let length = (member.len() as u16).to_le_bytes();
        let bytes = score.to_le_bytes().into_iter().chain(length).chain(member.iter().copied());
        self.bytes.splice(start..start, bytes);
        self.count += 1;
    }

    /// Removes a member by its bytes.
    pub(super) fn remove(&mut self, at: Range<usize>) {
        self.bytes.drain(at);
        self.count -= 1;
    }

    /// Removes the members of a span; returns how many they were.
    pub(super) fn remove_within(&mut self, span: &Span) -> u64 {
        let within = || self.iter().filter(|member| span.contains(member.score, member.member));
        // They lie one behind the other.
        let start = within().next().map_or(0, |first| first.at.start);
        let (removed, end) = within().fold((0, start), |(count, _), member| (count + 1, member.at.end));
        self.bytes.drain(start..end);
        self.count -= removed;
        removed as u64
    }
}
