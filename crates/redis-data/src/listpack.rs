//! Listpack: elements one behind the other, each followed by its length, so that it can be read from both
//! ends.
//!
//! ```text
//! total bytes (4, little-endian) | elements (2; 65,535: count them) | element ... | 0xff
//! element = encoding and bytes | back length: the bytes before it, 7 bits a byte, most significant first
//! ```
//!
//! | first byte | then | element |
//! |---|---|---|
//! | `0xxxxxxx` | | 0 to 127 |
//! | `10xxxxxx` | bytes | a string of up to 63 bytes |
//! | `110xxxxx` | 1 byte | 13 bits, signed |
//! | `1110xxxx` | 1 byte, bytes | a string of up to 4,095 bytes |
//! | `0xf0` | 4 bytes of length, bytes | a string |
//! | `0xf1` `0xf2` `0xf3` `0xf4` | 2, 3, 4, 8 bytes | a signed integer, little-endian |

use crate::corrupt::Corrupt;
use crate::packed::Packed;
use crate::reader::Reader;

/// Bytes before the first element.
const HEADER_BYTES: usize = 6;
/// The last byte.
const END: u8 = 0xff;
/// The header's count that means "count them".
const UNKNOWN_COUNT: u16 = u16::MAX;
/// Bytes that a listpack should not exceed: Redis keeps to the same 1 GiB, so that no length overflows 32
/// bits.
pub const SAFE_BYTES: usize = 1 << 30;
/// Most bytes of an element beside its string: a byte, four of length, five of back length.
pub const MAX_OVERHEAD_BYTES: usize = 10;

/// Reads the elements of a listpack, each checked before it is handed out.
///
/// ```
/// use esker_redis_data::{ListpackBuilder, ListpackReader, Packed};
/// let mut builder = ListpackBuilder::new();
/// builder.push(Packed::of(b"12"));
/// builder.push(Packed::of(b"twelve"));
/// let bytes = builder.finish();
/// let mut elements = ListpackReader::new(&bytes)?;
/// assert_eq!(elements.next()?, Some(Packed::Integer(12)));
/// assert_eq!(elements.next()?, Some(Packed::String(b"twelve")));
/// assert_eq!(elements.next()?, None);
/// # Ok::<(), esker_redis_data::Corrupt>(())
/// ```
#[derive(Clone, Debug)]
pub struct ListpackReader<'a> {
    reader: Reader<'a>,
    header_count: u16,
    count: usize,
}

impl<'a> ListpackReader<'a> {
    /// Checks the header and the last byte.
    ///
    /// # Errors
    ///
    /// If the bytes are no whole listpack.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Corrupt> {
        let mut reader = Reader::new(bytes);
        let total = reader.u32_le()?;
        let header_count = reader.u16_le()?;
        if total as usize != bytes.len() || bytes.len() == HEADER_BYTES {
            return Err(Corrupt::new("a listpack has not the length of its header", 0));
        }
        if bytes.last() != Some(&END) {
            return Err(Corrupt::new("a listpack has no end", bytes.len()));
        }
        Ok(Self { reader, header_count, count: 0 })
    }

    /// The next element; `None` behind the last.
    ///
    /// # Errors
    ///
    /// If an element reaches past the end, has a wrong back length, or the header counts other than there
    /// are.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot fail, this can")]
    pub fn next(&mut self) -> Result<Option<Packed<'a>>, Corrupt> {
        let start = self.reader.position();
        let first = self.reader.peek()?;
        if first == END {
            return self.check_end();
        }
        self.reader.byte()?;
        let element = self.element(first)?;
        let len = self.reader.position() - start;
        let mut back = [0; MAX_BACK_BYTES];
        let back = encode_back_length(&mut back, len);
        if self.reader.take(back.len())? != back {
            return Err(self.reader.corrupt("the back length of a listpack element is wrong"));
        }
        self.count += 1;
        Ok(Some(element))
    }

    fn element(&mut self, first: u8) -> Result<Packed<'a>, Corrupt> {
        let reader = &mut self.reader;
        let low = usize::from(first);
        Ok(match first {
            0..=0x7f => Packed::Integer(i64::from(first)),
            0x80..=0xbf => Packed::String(reader.take(low & 0x3f)?),
            0xc0..=0xdf => {
                let bits = u16::from(first & 0x1f) << 8 | u16::from(reader.byte()?);
                // Shifting the 13 bits to the top and back extends their sign.
                Packed::Integer(i64::from((bits << 3) as i16 >> 3))
            }
            0xe0..=0xef => {
                let len = (low & 0xf) << 8 | usize::from(reader.byte()?);
                Packed::String(reader.take(len)?)
            }
            0xf0 => {
                let len = reader.u32_le()? as usize;
                Packed::String(reader.take(len)?)
            }
            0xf1 => Packed::Integer(i64::from(reader.u16_le()? as i16)),
            0xf2 => Packed::Integer(reader.i24_le()?),
            0xf3 => Packed::Integer(i64::from(reader.u32_le()? as i32)),
            0xf4 => Packed::Integer(reader.i64_le()?),
            _ => return Err(reader.corrupt("an encoding of a listpack is unknown")),
        })
    }

    fn check_end(&mut self) -> Result<Option<Packed<'a>>, Corrupt> {
        let mut rest = self.reader.clone();
        rest.byte()?;
        if !rest.is_at_end() {
            return Err(rest.corrupt("a listpack ends before its last byte"));
        }
        if self.header_count != UNKNOWN_COUNT && usize::from(self.header_count) != self.count {
            return Err(Corrupt::new("a listpack has not as many elements as its header says", 4));
        }
        Ok(None)
    }
}

/// Writes a listpack.
#[derive(Clone, Debug)]
pub struct ListpackBuilder {
    bytes: Vec<u8>,
    count: usize,
}

impl ListpackBuilder {
    /// An empty listpack.
    #[expect(clippy::new_without_default, reason = "a builder is made on purpose")]
    pub fn new() -> Self {
        Self { bytes: vec![0; HEADER_BYTES], count: 0 }
    }

    /// Appends an element.
    pub fn push(&mut self, element: Packed<'_>) {
        let start = self.bytes.len();
        match element {
            Packed::Integer(number) => self.integer(number),
            Packed::String(string) => self.string(string),
        }
        let mut back = [0; MAX_BACK_BYTES];
        let back = encode_back_length(&mut back, self.bytes.len() - start);
        self.bytes.extend_from_slice(back);
        self.count += 1;
    }

    fn integer(&mut self, number: i64) {
        let little_endian = number.to_le_bytes();
        let (encoding, len) = match number {
            0..=127 => return self.bytes.push(number as u8),
            -4096..=4095 => {
                let bits = number as u16 & 0x1fff;
                return self.bytes.extend_from_slice(&(0xc000 | bits).to_be_bytes());
            }
            -0x8000..=0x7fff => (0xf1, 2),
            -0x80_0000..=0x7f_ffff => (0xf2, 3),
            -0x8000_0000..=0x7fff_ffff => (0xf3, 4),
            _ => (0xf4, 8),
        };
        self.bytes.push(encoding);
        self.bytes.extend_from_slice(&little_endian[..len]);
    }

    fn string(&mut self, string: &[u8]) {
        match string.len() {
            len @ 0..=63 => self.bytes.push(0x80 | len as u8),
            len @ 64..=4095 => self.bytes.extend_from_slice(&(0xe000 | len as u16).to_be_bytes()),
            len => {
                self.bytes.push(0xf0);
                self.bytes.extend_from_slice(&(len as u32).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(string);
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the finished listpack.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len() + 1
    }

    /// The listpack. Its bytes must not exceed [`SAFE_BYTES`].
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        debug_assert!(self.bytes.len() <= SAFE_BYTES + MAX_OVERHEAD_BYTES);
        let total = (self.bytes.len() as u32).to_le_bytes();
        let count = u16::try_from(self.count).unwrap_or(UNKNOWN_COUNT).to_le_bytes();
        self.bytes[..4].copy_from_slice(&total);
        self.bytes[4..HEADER_BYTES].copy_from_slice(&count);
        self.bytes
    }
}

/// Bytes that an element takes in a listpack.
pub fn element_bytes(element: Packed<'_>) -> usize {
    let encoded = match element {
        Packed::Integer(0..=127) => 1,
        Packed::Integer(-4096..=4095) => 2,
        Packed::Integer(-0x8000..=0x7fff) => 3,
        Packed::Integer(-0x80_0000..=0x7f_ffff) => 4,
        Packed::Integer(-0x8000_0000..=0x7fff_ffff) => 5,
        Packed::Integer(_) => 9,
        Packed::String(string) => {
            let length = string.len();
            length
                + match length {
                    0..64 => 1,
                    64..4096 => 2,
                    _ => 5,
                }
        }
    };
    encoded + encode_back_length(&mut [0; MAX_BACK_BYTES], encoded).len()
}

/// Bytes of the longest back length.
const MAX_BACK_BYTES: usize = 5;

/// The back length of `len` bytes. Redis needs one byte more from 16,383, 2,097,151 and 268,435,455 on, one
/// less than would fit; readers depend on it.
fn encode_back_length(buffer: &mut [u8; MAX_BACK_BYTES], len: usize) -> &[u8] {
    let used = match len {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    };
    for (at, byte) in buffer[..used].iter_mut().rev().enumerate() {
        *byte = (len >> (7 * at)) as u8 & 0x7f | 0x80;
    }
    buffer[0] &= 0x7f;
    &buffer[..used]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(bytes: &[u8]) -> Result<Vec<Packed<'_>>, Corrupt> {
        let mut reader = ListpackReader::new(bytes)?;
        let mut elements = Vec::new();
        while let Some(element) = reader.next()? {
            elements.push(element);
        }
        Ok(elements)
    }

    #[test]
    fn elements_of_every_encoding_come_back() {
        let long: Vec<Vec<u8>> = [0, 1, 63, 64, 125, 126, 4095, 4096, 16_377, 16_378, 16_379, 70_000]
            .iter()
            .map(|&len| vec![b'x'; len])
            .collect();
        let mut expected: Vec<Packed<'_>> = long.iter().map(|string| Packed::String(string)).collect();
        for bits in 0..64 {
            let power = 1i64 << bits;
            for number in
                [power, power.wrapping_sub(1), power.wrapping_neg(), power.wrapping_neg().wrapping_sub(1)]
            {
                expected.push(Packed::Integer(number));
            }
        }
        let mut builder = ListpackBuilder::new();
        for &element in &expected {
            let before = builder.len_bytes();
            builder.push(element);
            assert_eq!(builder.len_bytes() - before, element_bytes(element), "{element:?}");
        }
        let len_bytes = builder.len_bytes();
        let bytes = builder.finish();
        assert_eq!(bytes.len(), len_bytes);
        assert_eq!(elements(&bytes).as_ref(), Ok(&expected));
        for cut in 0..bytes.len() {
            assert!(elements(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn more_elements_than_the_header_can_count_are_counted() {
        let mut builder = ListpackBuilder::new();
        (0..70_000).for_each(|_| builder.push(Packed::Integer(1)));
        let bytes = builder.finish();
        assert_eq!(&bytes[4..6], [0xff, 0xff]);
        assert_eq!(elements(&bytes).map(|elements| elements.len()), Ok(70_000));
    }

    #[test]
    fn a_header_or_back_length_that_lies_is_refused() {
        let mut builder = ListpackBuilder::new();
        builder.push(Packed::String(b"abc"));
        let bytes = builder.finish();
        for (at, wrong) in [(0, 13), (4, 2), (6, 0x82), (6, 0xf5), (10, 5), (11, 0)] {
            let mut damaged = bytes.clone();
            damaged[at] = wrong;
            assert!(elements(&damaged).is_err(), "byte {at}");
        }
    }
}
