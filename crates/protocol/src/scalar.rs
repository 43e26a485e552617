//! Keys and values of the DSL, and their bytes in the database.
//!
//! Integers and strings have keyspaces of their own, because their orders do not mix; the key of a command
//! selects one. A value of the same kind as its key, as nearly all are, is stored as its bare bytes, so that
//! other tools can read it (`--key int --value int` on the keyspace `dsl.int`). A value of the other kind has
//! a prefix that names it:
//!
//! | keyspace | integer value | string value |
//! |---|---|---|
//! | `dsl.int` | 8 bytes | `dsl.text:` and the bytes: at least nine, so never taken for an integer |
//! | `dsl.text` | `dsl.int:` and 8 bytes | the bytes; behind `dsl.text:` if they begin with either prefix |
//!
//! Decoding never fails: bytes that were stored by other means and fit no row are shown as a string.

/// The keyspace of pairs whose key is an integer.
pub const INTEGER_KEYSPACE: &str = "dsl.int";

/// The keyspace of pairs whose key is a string.
pub const TEXT_KEYSPACE: &str = "dsl.text";

const INTEGER_PREFIX: &[u8] = b"dsl.int:";
const TEXT_PREFIX: &[u8] = b"dsl.text:";

/// Bytes of a stored integer.
pub const INTEGER_LEN: usize = 8;

/// Integer or string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A signed 64-bit integer.
    Integer,
    /// A string of any bytes.
    Text,
}

impl Kind {
    /// Both kinds, in the order in which `s` shows them.
    pub const ALL: [Kind; 2] = [Kind::Integer, Kind::Text];

    /// The keyspace that holds the pairs with keys of this kind.
    pub const fn keyspace(self) -> &'static str {
        match self {
            Kind::Integer => INTEGER_KEYSPACE,
            Kind::Text => TEXT_KEYSPACE,
        }
    }
}

/// A key or a value that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// A signed 64-bit integer.
    Integer(i64),
    /// A string of any bytes.
    Text(Vec<u8>),
}

/// A key or a value that borrows its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalarRef<'a> {
    /// A signed 64-bit integer.
    Integer(i64),
    /// A string of any bytes.
    Text(&'a [u8]),
}

impl Scalar {
    /// The kind.
    pub fn kind(&self) -> Kind {
        self.borrowed().kind()
    }

    /// The same, borrowed.
    pub fn borrowed(&self) -> ScalarRef<'_> {
        match self {
            Scalar::Integer(number) => ScalarRef::Integer(*number),
            Scalar::Text(bytes) => ScalarRef::Text(bytes),
        }
    }
}

impl<'a> ScalarRef<'a> {
    /// The kind.
    pub fn kind(self) -> Kind {
        match self {
            ScalarRef::Integer(_) => Kind::Integer,
            ScalarRef::Text(_) => Kind::Text,
        }
    }

    /// Its bytes as a key of the keyspace of its own kind.
    pub fn key_bytes(self) -> Vec<u8> {
        match self {
            ScalarRef::Integer(number) => encode_integer(number).to_vec(),
            ScalarRef::Text(bytes) => bytes.to_vec(),
        }
    }

    /// Its bytes as a value in the keyspace of `keys`.
    pub fn value_bytes(self, keys: Kind) -> Vec<u8> {
        match (keys, self) {
            (Kind::Integer, ScalarRef::Integer(number)) => encode_integer(number).to_vec(),
            (Kind::Text, ScalarRef::Integer(number)) => [INTEGER_PREFIX, &encode_integer(number)].concat(),
            (Kind::Text, ScalarRef::Text(bytes)) if !has_prefix(bytes) => bytes.to_vec(),
            (_, ScalarRef::Text(bytes)) => [TEXT_PREFIX, bytes].concat(),
        }
    }

    /// The key stored as `bytes` in the keyspace of `keys`.
    #[inline]
    pub fn from_key(keys: Kind, bytes: &'a [u8]) -> ScalarRef<'a> {
        match keys {
            Kind::Integer => decode_integer(bytes).map_or(ScalarRef::Text(bytes), ScalarRef::Integer),
            Kind::Text => ScalarRef::Text(bytes),
        }
    }

    /// The value stored as `bytes` in the keyspace of `keys`.
    #[inline]
    pub fn from_value(keys: Kind, bytes: &'a [u8]) -> ScalarRef<'a> {
        let plain = match keys {
            Kind::Integer => decode_integer(bytes),
            Kind::Text => bytes.strip_prefix(INTEGER_PREFIX).and_then(decode_integer),
        };
        match plain {
            Some(number) => ScalarRef::Integer(number),
            None => ScalarRef::Text(bytes.strip_prefix(TEXT_PREFIX).unwrap_or(bytes)),
        }
    }
}

fn has_prefix(bytes: &[u8]) -> bool {
    bytes.starts_with(INTEGER_PREFIX) || bytes.starts_with(TEXT_PREFIX)
}

/// Eight bytes that sort as the numbers do: big-endian with the sign flipped.
#[inline]
pub fn encode_integer(number: i64) -> [u8; INTEGER_LEN] {
    (number as u64 ^ (1 << 63)).to_be_bytes()
}

/// The number in eight bytes of [`encode_integer`]; `None` for any other length.
#[inline]
pub fn decode_integer(bytes: &[u8]) -> Option<i64> {
    let bytes: [u8; INTEGER_LEN] = bytes.try_into().ok()?;
    Some((u64::from_be_bytes(bytes) ^ (1 << 63)) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_integers_sort_as_numbers() {
        let numbers = [i64::MIN, i64::MIN + 1, -4_294_967_296, -256, -1, 0, 1, 255, 256, i64::MAX];
        for pair in numbers.windows(2) {
            assert!(encode_integer(pair[0]) < encode_integer(pair[1]), "{pair:?}");
        }
        for number in numbers {
            assert_eq!(decode_integer(&encode_integer(number)), Some(number));
        }
        assert_eq!(decode_integer(b"1234567"), None);
        assert_eq!(decode_integer(b"123456789"), None);
    }

    #[test]
    fn every_value_comes_back_under_keys_of_either_kind() {
        let texts: [&[u8]; 9] = [
            b"",
            b"a",
            b"12345678",
            b"dsl.int:",
            b"dsl.int:12345678",
            b"dsl.text:",
            b"dsl.text:dsl.int:12345678",
            b"dsl.tex",
            b"\xff\0 \"",
        ];
        for keys in Kind::ALL {
            for text in texts {
                let value = ScalarRef::Text(text);
                assert_eq!(ScalarRef::from_value(keys, &value.value_bytes(keys)), value, "{keys:?}");
            }
            for number in [i64::MIN, -1, 0, i64::MAX] {
                let value = ScalarRef::Integer(number);
                assert_eq!(ScalarRef::from_value(keys, &value.value_bytes(keys)), value, "{keys:?}");
            }
        }
    }

    #[test]
    fn values_of_their_keys_kind_are_stored_bare() {
        assert_eq!(ScalarRef::Integer(7).value_bytes(Kind::Integer), encode_integer(7));
        assert_eq!(ScalarRef::Text(b"seven").value_bytes(Kind::Text), b"seven");
    }

    #[test]
    fn foreign_bytes_are_shown_as_a_string() {
        assert_eq!(ScalarRef::from_key(Kind::Integer, b"abc"), ScalarRef::Text(b"abc"));
        assert_eq!(ScalarRef::from_value(Kind::Integer, b"abc"), ScalarRef::Text(b"abc"));
        assert_eq!(ScalarRef::from_value(Kind::Text, b"dsl.int:abc"), ScalarRef::Text(b"dsl.int:abc"));
    }
}
