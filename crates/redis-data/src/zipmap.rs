//! Zipmap: the packed hash of Redis 2.4 and older. It is only read, never written.
//!
//! ```text
//! pairs (1; 254: count them) | length, field, length, unused bytes (1), value, the unused bytes | ... | 0xff
//! length = 1 byte below 254, or 254 and 4 bytes, little-endian
//! ```

use crate::corrupt::Corrupt;
use crate::reader::Reader;
use crate::strings::Strings;

const END: u8 = 0xff;
/// As a length: four bytes follow. As the number of pairs: count them.
const LONG: u8 = 254;

/// The fields and values of a zipmap, alternating.
///
/// # Errors
///
/// If a length reaches past the end or the header counts other than there are, or nothing is in it.
pub fn decode(bytes: &[u8]) -> Result<Strings, Corrupt> {
    let mut reader = Reader::new(bytes);
    let header_count = reader.byte()?;
    let mut pairs = Strings::new();
    while reader.peek()? != END {
        let len = length(&mut reader)?;
        pairs.push(reader.take(len)?);
        let len = length(&mut reader)?;
        let unused = usize::from(reader.byte()?);
        pairs.push(reader.take(len)?);
        reader.take(unused)?;
    }
    reader.byte()?;
    if !reader.is_at_end() {
        return Err(reader.corrupt("a zipmap ends before its last byte"));
    }
    let count = pairs.len() / 2;
    if count == 0 || (header_count != LONG && usize::from(header_count) != count) {
        return Err(Corrupt::new("a zipmap has not as many pairs as its header says", 0));
    }
    Ok(pairs)
}

fn length(reader: &mut Reader<'_>) -> Result<usize, Corrupt> {
    match reader.byte()? {
        LONG => Ok(reader.u32_le()? as usize),
        END => Err(reader.corrupt("a zipmap ends within a pair")),
        len => Ok(usize::from(len)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_and_lies_refused() {
        let map = b"\x02\x01a\x01\x02b..\xfe\x02\x00\x00\x00cc\x00\x00\xff";
        let pairs = decode(map).expect("the map is whole");
        assert_eq!(pairs, ["a", "b", "cc", ""].into_iter().collect());
        for cut in 0..map.len() {
            assert!(decode(&map[..cut]).is_err(), "cut at {cut}");
        }
        assert!(decode(b"\x03\x01a\x01\x00b\xff").is_err(), "three pairs announced");
        assert!(decode(b"\x00\xff").is_err(), "empty");
    }
}
