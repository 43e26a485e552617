//! The record of a key: its type, how its value is laid out, its expiry, and the value or where it lies.
//!
//! ```text
//! 1 byte   bit 7: the record has an expiry; bits 4 to 6: the type; bits 0 to 3: the layout, by the type
//! 8 bytes  the expiry in milliseconds since 1970, little-endian; only with bit 7
//! ...      the payload, by type and layout
//! ```
//!
//! A layout below [`FIRST_OBJECT_LAYOUT`] has its whole value in the payload; from there on the payload
//! begins with the number of an object, little-endian, whose entries hold the elements.

use esker::{Error, Result, Value};

/// The first layout with an object.
pub const FIRST_OBJECT_LAYOUT: u8 = 8;

const HAS_EXPIRY: u8 = 0x80;

/// The type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Bytes; also bitmaps and HyperLogLogs.
    String = 1,
    /// Elements by position.
    List = 2,
    /// Different members.
    Set = 3,
    /// Different members, ordered by score.
    SortedSet = 4,
    /// Values by field.
    Hash = 5,
    /// Entries by time, with groups of consumers.
    Stream = 6,
}

impl Kind {
    /// The word that TYPE answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "zset",
            Self::Hash => "hash",
            Self::Stream => "stream",
        }
    }

    fn of(number: u8) -> Option<Self> {
        [Self::String, Self::List, Self::Set, Self::SortedSet, Self::Hash, Self::Stream]
            .into_iter()
            .find(|kind| *kind as u8 == number)
    }
}

/// A record as it is stored.
#[derive(Clone, Debug)]
pub struct Record {
    kind: Kind,
    layout: u8,
    expiry_ms: Option<u64>,
    value: Value,
    payload_at: usize,
}

impl Record {
    /// Takes a stored value apart.
    ///
    /// # Errors
    /// `Internal` if it is no record: the engine's checksums have passed, so this build wrote it wrongly, or
    /// another program writes to this keyspace.
    pub fn decode(value: Value) -> Result<Self> {
        let wrong = || Error::Internal("a value in redis/keys is no record".into());
        let first = *value.first().ok_or_else(wrong)?;
        let kind = Kind::of((first & !HAS_EXPIRY) >> 4).ok_or_else(wrong)?;
        let (expiry_ms, payload_at) = if first & HAS_EXPIRY == 0 {
            (None, 1)
        } else {
            let bytes = value.get(1..9).and_then(|bytes| bytes.try_into().ok()).ok_or_else(wrong)?;
            (Some(u64::from_le_bytes(bytes)), 9)
        };
        Ok(Self { kind, layout: first & 0xf, expiry_ms, value, payload_at })
    }

    /// A record's bytes.
    pub fn encode(kind: Kind, layout: u8, expiry_ms: Option<u64>, payload: &[u8]) -> Vec<u8> {
        // Exactly: what owns the bytes would move them otherwise.
        let mut bytes = Vec::with_capacity(1 + if expiry_ms.is_some() { 8 } else { 0 } + payload.len());
        let first = (kind as u8) << 4 | layout & 0xf;
        match expiry_ms {
            None => bytes.push(first),
            Some(expiry_ms) => {
                bytes.push(first | HAS_EXPIRY);
                bytes.extend_from_slice(&expiry_ms.to_le_bytes());
            }
        }
        bytes.extend_from_slice(payload);
        bytes
    }

    /// The type.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The layout, a number below 16 by the type.
    pub fn layout(&self) -> u8 {
        self.layout
    }

    /// When the key expires, in milliseconds since 1970.
    pub fn expiry_ms(&self) -> Option<u64> {
        self.expiry_ms
    }

    /// Whether the key is still there at `now_ms`.
    pub fn is_alive(&self, now_ms: u64) -> bool {
        self.expiry_ms.is_none_or(|expiry_ms| expiry_ms > now_ms)
    }

    /// What lies behind type and expiry.
    pub fn payload(&self) -> &[u8] {
        &self.value[self.payload_at..]
    }

    /// The number of the record's object, if its layout has one.
    pub fn object(&self) -> Option<u64> {
        if self.layout < FIRST_OBJECT_LAYOUT {
            return None;
        }
        Some(u64::from_le_bytes(self.payload().get(..8)?.try_into().ok()?))
    }
}
