//! Ziplist: the packed list that Redis wrote before listpacks. It is only read, never written.
//!
//! ```text
//! bytes (4, little-endian) | offset of the last (4) | elements (2; 65,535: count them) | element ... | 0xff
//! element = bytes of the one before it (1, or 0xfe and 4) | encoding and bytes
//! ```
//!
//! | first byte of the encoding | then | element |
//! |---|---|---|
//! | `00xxxxxx` | bytes | a string of up to 63 bytes |
//! | `01xxxxxx` | 1 byte, bytes | a string of up to 16,383 bytes |
//! | `10......` | 4 bytes of length, big-endian, bytes | a string |
//! | `0xc0` `0xf0` `0xd0` `0xe0` `0xfe` | 2, 3, 4, 8, 1 bytes | a signed integer, little-endian |
//! | `0xf1` to `0xfd` | | 0 to 12 |

use crate::corrupt::Corrupt;
use crate::packed::Packed;
use crate::reader::Reader;

const END: u8 = 0xff;
/// First byte of a length of five bytes.
const LONG_LENGTH: u8 = 0xfe;
const UNKNOWN_COUNT: u16 = u16::MAX;

/// Reads the elements of a ziplist, each checked before it is handed out.
#[derive(Clone, Debug)]
pub struct ZiplistReader<'a> {
    reader: Reader<'a>,
    tail_offset: usize,
    header_count: u16,
    count: usize,
    last_start: usize,
}

impl<'a> ZiplistReader<'a> {
    /// Checks the header and the last byte.
    ///
    /// # Errors
    ///
    /// If the bytes are no whole ziplist.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Corrupt> {
        let mut reader = Reader::new(bytes);
        let total = reader.u32_le()? as usize;
        let tail_offset = reader.u32_le()? as usize;
        let header_count = reader.u16_le()?;
        if total != bytes.len() || tail_offset >= total {
            return Err(Corrupt::new("a ziplist has not the length of its header", 0));
        }
        if reader.is_at_end() || bytes.last() != Some(&END) {
            return Err(Corrupt::new("a ziplist has no end", bytes.len()));
        }
        let last_start = reader.position();
        Ok(Self { reader, tail_offset, header_count, count: 0, last_start })
    }

    /// The next element; `None` behind the last.
    ///
    /// # Errors
    ///
    /// If an element reaches past the end, or lengths, offsets or the header's count disagree.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot fail, this can")]
    pub fn next(&mut self) -> Result<Option<Packed<'a>>, Corrupt> {
        let start = self.reader.position();
        let previous = match self.reader.peek()? {
            END => return self.check_end(),
            LONG_LENGTH => {
                self.reader.byte()?;
                self.reader.u32_le()? as usize
            }
            _ => usize::from(self.reader.byte()?),
        };
        if previous != start - self.last_start {
            return Err(Corrupt::new("a ziplist element has a wrong length of the one before it", start));
        }
        let element = self.element()?;
        self.last_start = start;
        self.count += 1;
        Ok(Some(element))
    }

    fn element(&mut self) -> Result<Packed<'a>, Corrupt> {
        let reader = &mut self.reader;
        let first = reader.byte()?;
        let low = usize::from(first & 0x3f);
        Ok(match first {
            0..=0x3f => Packed::String(reader.take(low)?),
            0x40..=0x7f => {
                let len = low << 8 | usize::from(reader.byte()?);
                Packed::String(reader.take(len)?)
            }
            0x80..=0xbf => {
                let len = u32::from_be_bytes(reader.array()?) as usize;
                Packed::String(reader.take(len)?)
            }
            0xc0 => Packed::Integer(i64::from(reader.u16_le()? as i16)),
            0xd0 => Packed::Integer(i64::from(reader.u32_le()? as i32)),
            0xe0 => Packed::Integer(reader.i64_le()?),
            0xf0 => Packed::Integer(reader.i24_le()?),
            0xfe => Packed::Integer(i64::from(reader.byte()? as i8)),
            0xf1..=0xfd => Packed::Integer(i64::from(first) - 0xf1),
            _ => return Err(reader.corrupt("an encoding of a ziplist is unknown")),
        })
    }

    fn check_end(&mut self) -> Result<Option<Packed<'a>>, Corrupt> {
        let mut rest = self.reader.clone();
        rest.byte()?;
        if !rest.is_at_end() {
            return Err(rest.corrupt("a ziplist ends before its last byte"));
        }
        if self.count > 0 && self.tail_offset != self.last_start {
            return Err(Corrupt::new("a ziplist does not point to its last element", 4));
        }
        if self.header_count != UNKNOWN_COUNT && usize::from(self.header_count) != self.count {
            return Err(Corrupt::new("a ziplist has not as many elements as its header says", 8));
        }
        Ok(None)
    }
}
