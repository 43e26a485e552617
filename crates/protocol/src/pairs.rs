//! The course's binary file of pairs: key and value as little-endian 32-bit signed integers, nothing between.

/// Bytes of one pair.
pub const PAIR_LEN: usize = 8;

/// The number of pairs in a file of `len` bytes.
///
/// # Errors
/// The bytes that are left over, if the length is no multiple of a pair.
pub fn count(len: u64) -> Result<u64, u64> {
    let over = len % PAIR_LEN as u64;
    if over == 0 { Ok(len / PAIR_LEN as u64) } else { Err(over) }
}

/// The pairs in `bytes`, in order; bytes after the last whole pair are ignored.
pub fn decode(bytes: &[u8]) -> impl Iterator<Item = (i32, i32)> {
    let (pairs, _) = bytes.as_chunks::<PAIR_LEN>();
    pairs
        .iter()
        .map(|&[a, b, c, d, e, f, g, h]| (i32::from_le_bytes([a, b, c, d]), i32::from_le_bytes([e, f, g, h])))
}

/// The eight bytes of a pair.
pub fn encode(key: i32, value: i32) -> [u8; PAIR_LEN] {
    let [a, b, c, d] = key.to_le_bytes();
    let [e, f, g, h] = value.to_le_bytes();
    [a, b, c, d, e, f, g, h]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back() {
        let pairs = [(0, 0), (1, -1), (i32::MIN, i32::MAX), (256, -256)];
        let bytes = pairs.map(|(key, value)| encode(key, value)).concat();
        assert_eq!(bytes[8..16], [1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(decode(&bytes).collect::<Vec<_>>(), pairs);
        assert_eq!(count(bytes.len() as u64), Ok(4));
        assert_eq!(count(13), Err(5));
        assert_eq!(decode(&bytes[..13]).count(), 1);
    }
}
