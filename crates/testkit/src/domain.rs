//! The keys, values and keyspaces that scripts use: named by small numbers, so that scripts stay readable.

use std::fmt;

/// Keyspaces of a scripted database; the first is the default keyspace.
pub const SPACES: [&str; 3] = [esker::DEFAULT_KEYSPACE, "one", "two"];

/// Number of different keys.
pub const KEYS: u16 = 640;

const LONGEST_KEY_BYTES: usize = 65_535;

/// A key by its number, below [`KEYS`]. Awkward ones come first: the empty key, zero bytes, 0xff bytes, keys
/// that are prefixes of each other, long ones; then three groups of plain ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u16);

impl Key {
    /// The bytes of the key.
    pub fn bytes(self) -> Vec<u8> {
        let number = self.0;
        match number {
            0..=7 => vec![0; usize::from(number)],
            8..=15 => vec![0xff; usize::from(number - 7)],
            16..=23 => vec![b'a'; usize::from(number - 15)],
            24..=29 => [b"long:".as_slice(), &vec![b'x'; 300 * usize::from(number - 23)]].concat(),
            30 => [vec![b'u'; 6_000], b"1".to_vec()].concat(),
            31 => vec![b'v'; LONGEST_KEY_BYTES],
            _ => match number % 3 {
                0 => format!("user:{number:04}").into_bytes(),
                1 => u64::from(number).to_be_bytes().to_vec(),
                _ => vec![b'k', (number >> 6) as u8, 0, (number & 63) as u8],
            },
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.0)
    }
}

/// Prefixes to scan: the empty one, some that many keys have, some that few have, some that no key has.
pub const PREFIXES: [&[u8]; 9] =
    [b"", b"\0", b"\xff", b"\xff\xff\xff", b"aa", b"user:0", b"user:01", b"k\x03", b"nothing"];

/// A value by its number and length.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Filler {
    /// Distinguishes values.
    pub number: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Filler {
    /// The bytes of the value: repetitive for even numbers, hardly compressible for odd ones.
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = format!("{}|", self.number).into_bytes();
        let mut state = self.number | 1;
        while bytes.len() < self.len as usize {
            if self.number.is_multiple_of(2) {
                bytes.extend_from_slice(b"esker ");
            } else {
                state = state.wrapping_mul(0x9e37_79b1).rotate_left(13) ^ 0x55;
                bytes.extend_from_slice(&state.to_le_bytes());
            }
        }
        bytes.truncate(self.len as usize);
        bytes
    }
}

impl fmt::Debug for Filler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filler {{ number: {}, len: {} }}", self.number, self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_are_distinct() {
        let keys: BTreeSet<Vec<u8>> = (0..KEYS).map(|number| Key(number).bytes()).collect();
        assert_eq!(keys.len(), usize::from(KEYS));
    }

    #[test]
    fn values_have_their_length() {
        for len in [0, 1, 5, 1000] {
            assert_eq!(Filler { number: 77, len }.bytes().len(), len as usize);
        }
    }
}
