//! Key heads: eight bytes of a key as one big-endian number, so that most comparisons are one instruction.

/// Up to eight bytes of `key` from `skip`, big-endian, zero-padded.
///
/// For keys that agree in their first `skip` bytes, `head(a) < head(b)` implies `a < b`; equal heads imply
/// nothing (zero padding makes `"a"` and `"a\0"` tie).
#[inline]
pub fn head(key: &[u8], skip: usize) -> u64 {
    if let Some(bytes) = key.get(skip..skip + 8) {
        // A slice of length eight always converts.
        return u64::from_be_bytes([
            bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
        ]);
    }
    head_of_short(key, skip)
}

/// The first sixteen bytes, big-endian, zero-padded: `leading(a) < leading(b)` implies `a < b`.
#[inline]
pub fn leading(key: &[u8]) -> u128 {
    match key.first_chunk() {
        Some(first) => u128::from_be_bytes(*first),
        None => u128::from(head(key, 0)) << 64 | u128::from(head(key, 8)),
    }
}

fn head_of_short(key: &[u8], skip: usize) -> u64 {
    let left = key.get(skip..).unwrap_or_default();
    if let Some(last) = key.last_chunk::<8>()
        && !left.is_empty()
    {
        // Load the last eight bytes and shift out those before `skip`; a byte loop is slower.
        return u64::from_be_bytes(*last) << (8 * (8 - left.len()));
    }
    let mut bytes = [0u8; 8];
    bytes[..left.len()].copy_from_slice(left);
    u64::from_be_bytes(bytes)
}

/// Length of the longest common prefix.
#[inline]
pub fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    let max = a.len().min(b.len());
    let (a, b) = (&a[..max], &b[..max]);
    let mut at = 0;
    for (x, y) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        let difference = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if difference != 0 {
            return at + (difference.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    if let (Some(x), Some(y)) = (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        // The last eight bytes overlap bytes already found equal, which spares a loop over single bytes.
        let difference = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        return if difference == 0 { max } else { max - 8 + (difference.trailing_zeros() / 8) as usize };
    }
    while at < max && a[at] == b[at] {
        at += 1;
    }
    at
}

/// The smallest key greater than every key with this prefix; `None` if there is none (all bytes 0xff).
pub fn prefix_successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut successor = prefix[..=last].to_vec();
    successor[last] += 1;
    Some(successor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_bytes_are_those_of_the_padded_key() {
        for len in 0..40 {
            let key: Vec<u8> = (1..=len).collect();
            let mut padded = [0u8; 16];
            padded.iter_mut().zip(&key).for_each(|(to, from)| *to = *from);
            assert_eq!(leading(&key), u128::from_be_bytes(padded), "{len} bytes");
        }
    }

    #[test]
    fn heads_respect_order() {
        let keys: [&[u8]; 7] = [b"", b"a", b"a\0", b"aaaaaaaa", b"aaaaaaaab", b"ab", b"b"];
        for pair in keys.windows(2) {
            assert!(head(pair[0], 0) <= head(pair[1], 0), "{pair:?}");
        }
        for skip in 0..12 {
            for len in 0..20 {
                let key: Vec<u8> = (1..=len).collect();
                let mut expected = [0u8; 8];
                for (to, from) in expected.iter_mut().zip(key.iter().skip(skip)) {
                    *to = *from;
                }
                assert_eq!(head(&key, skip), u64::from_be_bytes(expected), "skip {skip} len {len}");
            }
        }
    }

    #[test]
    fn common_prefixes() {
        let long: Vec<u8> = (0..40).collect();
        for len in 0..=40 {
            let key = &long[..len];
            assert_eq!((common_prefix_len(key, key), common_prefix_len(&long, key)), (len, len));
            for at in 0..len {
                let mut other = key.to_vec();
                other[at..].iter_mut().for_each(|byte| *byte ^= 0x40);
                assert_eq!(common_prefix_len(key, &other), at, "length {len}");
                other[at + 1..].copy_from_slice(&key[at + 1..]);
                assert_eq!(common_prefix_len(&other, &long), at, "length {len}");
            }
        }
    }

    #[test]
    fn successors() {
        assert_eq!(prefix_successor(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_successor(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_successor(b"\xff"), None);
        assert_eq!(prefix_successor(b""), None);
    }
}
