//! Buffer for the last key, which is compared with the next entry's key to recognise other versions.

/// Longest key that is copied inline.
const SHORT: usize = 32;

/// A copy of one key. Every step of a reader copies one key and compares one, so both take a few instructions
/// for short keys instead of calls into the C library, which cost as much as one comparison of a merge.
#[derive(Debug, Default)]
pub(crate) struct KeyBuffer {
    short: [u8; SHORT],
    len: usize,
    long: Vec<u8>,
}

impl KeyBuffer {
    #[inline]
    pub(crate) fn set(&mut self, key: &[u8]) {
        self.len = key.len();
        // Two chunks that may overlap cover all lengths from one chunk up to two.
        if let (8..=16, Some(first), Some(last)) = (key.len(), key.first_chunk::<8>(), key.last_chunk::<8>())
        {
            self.short[..8].copy_from_slice(first);
            self.short[key.len() - 8..key.len()].copy_from_slice(last);
        } else if let (17..=SHORT, Some(first), Some(last)) =
            (key.len(), key.first_chunk::<16>(), key.last_chunk::<16>())
        {
            self.short[..16].copy_from_slice(first);
            self.short[key.len() - 16..key.len()].copy_from_slice(last);
        } else if key.len() < 8 {
            self.short[..key.len()].copy_from_slice(key);
        } else {
            self.long.clear();
            self.long.extend_from_slice(key);
        }
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        if self.len <= SHORT { &self.short[..self.len] } else { &self.long }
    }

    /// Whether this is the key. Adjacent keys differ mostly in their last bytes, compared first.
    #[inline]
    pub(crate) fn is(&self, key: &[u8]) -> bool {
        let own = self.as_slice();
        own.len() == key.len() && own.last_chunk::<8>() == key.last_chunk::<8>() && own == key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_keys_of_every_length() {
        let mut buffer = KeyBuffer::default();
        assert!(buffer.is(b""));
        for len in (0..80usize).chain((0..80).rev()) {
            let key: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
            buffer.set(&key);
            assert_eq!(buffer.as_slice(), key);
            assert!(buffer.is(&key));
            for at in 0..len {
                let mut other = key.clone();
                other[at] ^= 1;
                assert!(!buffer.is(&other) && !buffer.is(&key[..at]));
            }
        }
    }
}
