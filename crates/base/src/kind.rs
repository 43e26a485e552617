//! Value kinds: the meaning of an entry's kind byte. The numbers are persisted in the log and in tables and
//! never change.

/// The kind of an entry. Numbers are part of every file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ValueKind {
    /// The key has no value.
    Delete = 0,
    /// The key has this value.
    Put = 1,
    /// The key has no value, and it was put at most once since its last delete.
    SingleDelete = 2,
    /// All keys from this one to the value, exclusive, are deleted; to the end if the value is empty.
    RangeDelete = 3,
    /// The value is an operand for the keyspace's merge operator.
    Merge = 4,
}

/// Flag bit beside the kind: the value is a pointer into a blob file.
pub const FLAG_BLOB: u8 = 0x40;
/// Flag bit beside the kind: the value is preceded by its expiry time, 8 bytes little-endian, in milliseconds
/// since 1970. Code below the engine treats those bytes as part of the value.
pub const FLAG_EXPIRY: u8 = 0x80;
/// The bits of a kind byte that hold the [`ValueKind`].
pub const KIND_MASK: u8 = 0x0f;

impl ValueKind {
    /// The kind in a kind byte, flags ignored; `None` if no format version assigned that number or if one of
    /// the unassigned bits (0x30) is set.
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<ValueKind> {
        match byte & !(FLAG_BLOB | FLAG_EXPIRY) {
            0 => Some(ValueKind::Delete),
            1 => Some(ValueKind::Put),
            2 => Some(ValueKind::SingleDelete),
            3 => Some(ValueKind::RangeDelete),
            4 => Some(ValueKind::Merge),
            _ => None,
        }
    }

    /// Whether entries of this kind have a value in the log and in tables.
    #[inline]
    pub const fn has_value(self) -> bool {
        matches!(self, ValueKind::Put | ValueKind::RangeDelete | ValueKind::Merge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_fixed() {
        let all = [
            ValueKind::Delete,
            ValueKind::Put,
            ValueKind::SingleDelete,
            ValueKind::RangeDelete,
            ValueKind::Merge,
        ];
        for (number, kind) in all.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            assert_eq!(ValueKind::from_byte(number as u8 | FLAG_BLOB | FLAG_EXPIRY), Some(kind));
        }
        assert_eq!(ValueKind::from_byte(5), None);
        assert_eq!(ValueKind::from_byte(0x11), None);
    }
}
