//! Layout: how the pairs of a keyspace are written as bytes.
//!
//! The two keyspaces of the text protocol keep integers apart from strings ([`scalar`](crate::scalar)). Every
//! other keyspace holds bytes that other interfaces wrote and read. There a string is its bytes, and an
//! integer is its decimal digits, as the `text` format of the command `esker` has it.
//!
//! TK1. In keyspaces that are not its own the text protocol stores what was written and nothing beside it.

use crate::scalar::{Kind, ScalarRef};

/// How keys and values are written in a keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A keyspace of the text protocol, with keys of this kind.
    Own(Kind),
    /// Any other keyspace: what is stored is a string.
    Text,
}

impl Layout {
    /// The bytes of a key.
    pub fn key_bytes(self, key: ScalarRef<'_>) -> Vec<u8> {
        match self {
            Layout::Own(_) => key.key_bytes(),
            Layout::Text => text_bytes(key),
        }
    }

    /// The bytes of a value.
    pub fn value_bytes(self, value: ScalarRef<'_>) -> Vec<u8> {
        match self {
            Layout::Own(keys) => value.value_bytes(keys),
            Layout::Text => text_bytes(value),
        }
    }

    /// The key stored as `bytes`.
    #[inline]
    pub fn key(self, bytes: &[u8]) -> ScalarRef<'_> {
        match self {
            Layout::Own(keys) => ScalarRef::from_key(keys, bytes),
            Layout::Text => ScalarRef::Text(bytes),
        }
    }

    /// The value stored as `bytes`.
    #[inline]
    pub fn value(self, bytes: &[u8]) -> ScalarRef<'_> {
        match self {
            Layout::Own(keys) => ScalarRef::from_value(keys, bytes),
            Layout::Text => ScalarRef::Text(bytes),
        }
    }
}

fn text_bytes(scalar: ScalarRef<'_>) -> Vec<u8> {
    match scalar {
        ScalarRef::Integer(number) => number.to_string().into_bytes(),
        ScalarRef::Text(bytes) => bytes.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_stored_as_it_is_and_integers_as_their_digits() {
        for bytes in [&b""[..], b"a b", b"dsl.int:12345678", b"dsl.text:", b"12345678", b"\xff\0"] {
            let text = ScalarRef::Text(bytes);
            assert_eq!(Layout::Text.key_bytes(text), bytes);
            assert_eq!(Layout::Text.value_bytes(text), bytes);
            assert_eq!(Layout::Text.key(bytes), text);
            assert_eq!(Layout::Text.value(bytes), text);
        }
        for (number, digits) in [(i64::MIN, "-9223372036854775808"), (0, "0"), (17, "17")] {
            assert_eq!(Layout::Text.key_bytes(ScalarRef::Integer(number)), digits.as_bytes());
            assert_eq!(Layout::Text.value_bytes(ScalarRef::Integer(number)), digits.as_bytes());
        }
    }

    #[test]
    fn own_keyspaces_give_back_the_kind() {
        for keys in Kind::ALL {
            let layout = Layout::Own(keys);
            for value in [ScalarRef::Integer(-7), ScalarRef::Text(b"dsl.int:12345678")] {
                assert_eq!(layout.value(&layout.value_bytes(value)), value, "{keys:?}");
            }
        }
        let (integers, texts) = (Layout::Own(Kind::Integer), Layout::Own(Kind::Text));
        assert_eq!(integers.key(&integers.key_bytes(ScalarRef::Integer(5))), ScalarRef::Integer(5));
        assert_eq!(texts.key(&texts.key_bytes(ScalarRef::Text(b"12345678"))), ScalarRef::Text(b"12345678"));
    }
}
