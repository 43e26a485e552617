//! Integer encoding: fixed-width little-endian and LEB128 varints, with a reader that cannot run past its
//! end.

/// Longest varint of a `u64`: ten groups of seven bits.
pub const VARINT_MAX_LEN: usize = 10;

/// Appends `value` as a varint: seven bits a byte, low group first, top bit set on all but the last byte.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The bytes [`put_varint`] would append.
#[inline]
pub const fn varint_len(value: u64) -> usize {
    // ceil(significant bits / 7), and one byte for zero.
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Decodes a varint at the start of `bytes`: the value and the bytes it took.
///
/// `None` if the bytes end inside it, if it is longer than ten bytes or overflows 64 bits.
#[inline]
pub fn get_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((u64::from(first), 1));
    }
    let mut value = u64::from(first & 0x7f);
    for (at, &byte) in bytes.iter().enumerate().take(VARINT_MAX_LEN).skip(1) {
        let group = u64::from(byte & 0x7f);
        if at == VARINT_MAX_LEN - 1 && byte > 1 {
            return None;
        }
        value |= group << (7 * at);
        if byte < 0x80 {
            return Some((value, at + 1));
        }
    }
    None
}

/// Reads fields front to back; every call returns `None` past the end instead of panicking.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// Bytes consumed so far.
    #[inline]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes not yet consumed.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Whether everything is consumed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// The next `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    /// All bytes that are left.
    #[inline]
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    /// The next byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// A fixed-width little-endian `u16`.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    /// A fixed-width little-endian `u32`.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// A fixed-width little-endian `u64`.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// A varint.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        let (value, len) = get_varint(&self.bytes[self.at..])?;
        self.at += len;
        Some(value)
    }

    /// A varint that must fit 32 bits.
    #[inline]
    pub fn varint_u32(&mut self) -> Option<u32> {
        u32::try_from(self.varint()?).ok()
    }

    /// A varint length and that many bytes.
    #[inline]
    pub fn prefixed(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        self.take(len)
    }
}

/// Appends a varint length and the bytes.
#[inline]
pub fn put_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_width() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, (1u64 << shift) + 1] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(out.len(), varint_len(value));
                assert_eq!(get_varint(&out), Some((value, out.len())));
                assert_eq!(get_varint(&out[..out.len() - 1]), None);
            }
        }
    }

    #[test]
    fn varints_that_overflow_are_refused() {
        assert_eq!(get_varint(&[0xff; 10]), None);
        assert_eq!(get_varint(&[0x80; 11]), None);
        let max = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(get_varint(&max), Some((u64::MAX, 10)));
    }

    #[test]
    fn reader_stops_at_the_end() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.u16(), Some(0x0201));
        assert_eq!(reader.u16(), None);
        assert_eq!(reader.u8(), Some(3));
        assert!(reader.is_empty() && reader.u8().is_none());
    }

    /// What a field takes is exactly its own length: each is followed by another one.
    #[test]
    fn fields_of_every_kind_follow_each_other() {
        let mut bytes = vec![7, 1, 2, 1, 2, 3, 4];
        bytes.extend_from_slice(&0x0807_0605_0403_0201_u64.to_le_bytes());
        put_varint(&mut bytes, 300);
        put_varint(&mut bytes, u64::from(u32::MAX));
        put_prefixed(&mut bytes, b"name");
        put_prefixed(&mut bytes, b"");
        bytes.extend_from_slice(b"taken and the rest");
        let mut reader = Reader::new(&bytes);
        assert_eq!((reader.position(), reader.remaining()), (0, bytes.len()));
        assert_eq!((reader.u8(), reader.u16(), reader.u32()), (Some(7), Some(0x0201), Some(0x0403_0201)));
        assert_eq!((reader.u64(), reader.position()), (Some(0x0807_0605_0403_0201), 15));
        assert_eq!((reader.varint(), reader.varint_u32()), (Some(300), Some(u32::MAX)));
        assert_eq!((reader.position(), reader.remaining()), (22, bytes.len() - 22));
        assert_eq!(reader.prefixed(), Some(b"name".as_slice()));
        assert_eq!(reader.prefixed(), Some(b"".as_slice()));
        assert_eq!(reader.take(5), Some(b"taken".as_slice()));
        assert!(!reader.is_empty());
        assert_eq!(reader.rest(), b" and the rest");
        assert_eq!((reader.position(), reader.remaining()), (bytes.len(), 0));
        assert!(reader.is_empty() && reader.rest().is_empty());
    }

    #[test]
    fn fields_that_are_too_long_are_refused() {
        let mut wide = Vec::new();
        put_varint(&mut wide, u64::from(u32::MAX) + 1);
        assert_eq!(Reader::new(&wide).varint_u32(), None);
        assert_eq!(Reader::new(&wide).varint(), Some(1 << 32));
        assert_eq!(Reader::new(&[3, 1, 2]).prefixed(), None, "a length beyond the end");
        assert_eq!(Reader::new(&[0x80]).prefixed(), None, "a length that is cut off");
        let mut reader = Reader::new(&[1]);
        assert_eq!(reader.take(usize::MAX), None);
        assert_eq!((reader.u16(), reader.u32(), reader.u64()), (None, None, None));
        assert_eq!((reader.u8(), reader.take(usize::MAX)), (Some(1), None));
    }
}
