//! Value of a key of any Redis type, independent of how Redis encodes it.

use crate::stream::Stream;
use crate::strings::Strings;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string; HyperLogLogs and bitmaps are strings.
    String(Vec<u8>),
    /// A list, from head to tail.
    List(Strings),
    /// A set, in no order.
    Set(Strings),
    /// A sorted set, in no order.
    SortedSet(SortedSet),
    /// Fields and values of a hash, alternating, in no order.
    Hash(Strings),
    /// A stream.
    Stream(Box<Stream>),
}

/// Members of a sorted set, each with its score.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SortedSet {
    /// Members, all different.
    pub members: Strings,
    /// The score of each member; never NaN.
    pub scores: Vec<f64>,
}

impl SortedSet {
    /// Appends a member.
    pub fn push(&mut self, member: &[u8], score: f64) {
        self.members.push(member);
        self.scores.push(score);
    }

    /// Members and scores.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], f64)> {
        self.members.iter().zip(self.scores.iter().copied())
    }
}

impl Value {
    /// The word of `TYPE` for it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::List(_) => "list",
            Self::Set(_) => "set",
            Self::SortedSet(_) => "zset",
            Self::Hash(_) => "hash",
            Self::Stream(_) => "stream",
        }
    }

    /// Bytes of memory that the value has reserved.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::String(string) => string.capacity(),
            Self::List(strings) | Self::Set(strings) | Self::Hash(strings) => strings.memory_bytes(),
            Self::SortedSet(set) => set.members.memory_bytes() + set.scores.capacity() * size_of::<f64>(),
            Self::Stream(stream) => size_of::<Stream>() + stream.memory_bytes(),
        }
    }
}
