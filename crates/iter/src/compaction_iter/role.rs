//! Role of an entry: what its kind means for the versions below it.

use esker_base::kind::{FLAG_BLOB, FLAG_EXPIRY};
use esker_base::{Tag, ValueKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A Put, with or without expiry time or blob: hides older versions.
    Value,
    /// A Delete or SingleDelete: hides older versions and has no value.
    Tombstone,
    /// A merge operand, with or without expiry time: hides nothing.
    Operand,
    /// Any other kind: kept unchanged.
    Untouchable,
}

impl Role {
    #[inline]
    pub(super) fn of(tag: Tag) -> Role {
        const PUT: u8 = ValueKind::Put as u8;
        const DELETE: u8 = ValueKind::Delete as u8;
        const SINGLE_DELETE: u8 = ValueKind::SingleDelete as u8;
        const MERGE: u8 = ValueKind::Merge as u8;
        const EXPIRING_MERGE: u8 = MERGE | FLAG_EXPIRY;
        match tag.kind_byte() {
            DELETE | SINGLE_DELETE => Role::Tombstone,
            MERGE | EXPIRING_MERGE => Role::Operand,
            byte if byte & !(FLAG_BLOB | FLAG_EXPIRY) == PUT => Role::Value,
            _ => Role::Untouchable,
        }
    }
}
