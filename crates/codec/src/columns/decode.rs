//! Columns back into rows. [`super`] describes the bytes.
//!
//! Nothing is trusted: lengths are compared with what is left before they are used, in the stored bytes and in the block. Values
//! go through a buffer of [`BATCH`] numbers on the stack, so nothing is allocated. Numbers that no writer would store (a least
//! value and a distance beyond the width) wrap around within the width.

use super::{MAX_BITS, MAX_DISTINCT, MAX_STRIDE, coding, packed_bytes, place_bits, segment, with_shape};
use crate::decompress::DecodeError;
use esker_base::coding::Reader;

/// Numbers unpacked at once.
const BATCH: usize = 64;

/// Decodes a block into `out`, all of it.
pub(crate) fn decompress(stored: &[u8], out: &mut [u8]) -> Result<(), DecodeError> {
    let mut reader = Reader::new(stored);
    let mut at = 0;
    while !reader.is_empty() {
        let part = decode_segment(&mut reader, &mut out[at..]).ok_or_else(|| {
            let position = reader.position();
            DecodeError::Damaged(format!("columns of integers are malformed at byte {position}"))
        })?;
        at += part;
    }
    if at == out.len() {
        return Ok(());
    }
    Err(DecodeError::Damaged(format!("a block of {} bytes expected, columns give {at}", out.len())))
}

/// Decodes one segment to the start of `out`; answers how long it is.
fn decode_segment(reader: &mut Reader<'_>, out: &mut [u8]) -> Option<usize> {
    match reader.u8()? {
        segment::PLAIN => {
            let bytes = reader.prefixed()?;
            out.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Some(bytes.len())
        }
        segment::ROWS => {
            let stride = usize::try_from(reader.varint()?).ok()?;
            let count = usize::try_from(reader.varint()?).ok()?;
            if stride == 0 || stride > MAX_STRIDE || count == 0 {
                return None;
            }
            let out = out.get_mut(..stride.checked_mul(count)?)?;
            let mut start = 0;
            while start < stride {
                let shape = reader.u8()?;
                let column = Column {
                    start,
                    stride,
                    count,
                    width: usize::from(shape & 7) + 1,
                    big_endian: shape & 8 != 0,
                };
                if shape >> 6 != 0 || start + column.width > stride {
                    return None;
                }
                column.decode(shape >> 4, reader, out)?;
                start += column.width;
            }
            Some(out.len())
        }
        _ => None,
    }
}

/// Where a column lies in its rows, and what its values are.
#[derive(Clone, Copy)]
struct Column {
    start: usize,
    stride: usize,
    count: usize,
    width: usize,
    big_endian: bool,
}

impl Column {
    fn decode(self, coded: u8, reader: &mut Reader<'_>, out: &mut [u8]) -> Option<()> {
        match coded {
            coding::PLAIN => self.plain(reader.take(self.count.checked_mul(self.width)?)?, out),
            coding::PACKED => {
                let base = self.value(reader)?;
                let (packed, bits) = packed(reader, self.count)?;
                self.each(0, self.count, packed, bits, out, |values| {
                    for value in values {
                        *value = value.wrapping_add(base);
                    }
                });
            }
            coding::DELTA => {
                let (mut last, least) = (self.value(reader)?, self.value(reader)?);
                let (packed, bits) = packed(reader, self.count - 1)?;
                self.each(0, 1, &[], 0, out, |values| values.fill(last));
                self.each(1, self.count - 1, packed, bits, out, |values| {
                    for value in values {
                        // In this order each value waits for one addition of the one before.
                        last = last.wrapping_add(value.wrapping_add(least));
                        *value = last;
                    }
                });
            }
            _ => {
                let distinct = usize::try_from(reader.varint()?).ok()?;
                if distinct == 0 || distinct > MAX_DISTINCT {
                    return None;
                }
                let mut dictionary = [0; MAX_DISTINCT];
                for value in &mut dictionary[..distinct] {
                    *value = self.value(reader)?;
                }
                let bits = place_bits(distinct);
                let packed = reader.take(packed_bytes(self.count, bits))?;
                let mut greatest = 0;
                self.each(0, self.count, packed, bits, out, |values| {
                    for value in values {
                        greatest = greatest.max(*value);
                        // Places have at most eight bits, so they lie within the array; those beyond what is there
                        // are refused below.
                        *value = dictionary[*value as usize & (MAX_DISTINCT - 1)];
                    }
                });
                return (greatest < distinct as u64).then_some(());
            }
        }
        Some(())
    }

    /// A value of the column's width in front of the packed ones.
    fn value(self, reader: &mut Reader<'_>) -> Option<u64> {
        let mut bytes = [0; 8];
        bytes[..self.width].copy_from_slice(reader.take(self.width)?);
        Some(u64::from_le_bytes(bytes))
    }

    fn plain(self, bytes: &[u8], out: &mut [u8]) {
        for (row, value) in out.chunks_exact_mut(self.stride).zip(bytes.chunks_exact(self.width)) {
            row[self.start..self.start + self.width].copy_from_slice(value);
        }
    }

    /// Unpacks `count` numbers, makes values of them, and writes those to the rows from `first` on.
    fn each(
        self,
        first: usize,
        count: usize,
        packed: &[u8],
        bits: u32,
        out: &mut [u8],
        mut values_of: impl FnMut(&mut [u64]),
    ) {
        let mut batch = [0; BATCH];
        for from in (0..count).step_by(BATCH) {
            let values = &mut batch[..BATCH.min(count - from)];
            unpack(packed, bits, from, values);
            values_of(values);
            let at = (first + from) * self.stride;
            with_shape!(
                self.width,
                self.big_endian,
                scatter(values, &mut out[at..], self.stride, self.start)
            );
        }
    }
}

/// The packed bytes of `count` numbers, and how many bits each has.
fn packed<'a>(reader: &mut Reader<'a>, count: usize) -> Option<(&'a [u8], u32)> {
    let bits = u32::from(reader.u8()?);
    if bits > MAX_BITS {
        return None;
    }
    Some((reader.take(packed_bytes(count, bits))?, bits))
}

/// The numbers from place `first` on.
fn unpack(packed: &[u8], bits: u32, first: usize, values: &mut [u64]) {
    if bits == 0 {
        values.fill(0);
        return;
    }
    let (bits, mask) = (bits as usize, (1u64 << bits) - 1);
    let packed = &packed[first * bits / 8..];
    let mut bit = first * bits % 8;
    for value in values {
        let rest = packed.get(bit / 8..).unwrap_or_default();
        let word = match rest.first_chunk() {
            Some(word) => u64::from_le_bytes(*word),
            None => short_word(rest),
        };
        *value = (word >> (bit % 8)) & mask;
        bit += bits;
    }
}

/// The last, less than eight, bytes as a number.
#[cold]
fn short_word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Writes one value to each row; `rows` starts with the first.
fn scatter<const WIDTH: usize, const BIG_ENDIAN: bool>(
    values: &[u64],
    rows: &mut [u8],
    stride: usize,
    start: usize,
) {
    let put = |value: &u64, to: &mut [u8]| {
        if BIG_ENDIAN {
            to.copy_from_slice(&value.to_be_bytes()[8 - WIDTH..]);
        } else {
            to.copy_from_slice(&value.to_le_bytes()[..WIDTH]);
        }
    };
    if stride == WIDTH {
        // An array of integers: no row to step over.
        for (to, value) in rows.chunks_exact_mut(WIDTH).zip(values) {
            put(value, to);
        }
        return;
    }
    for (i, value) in values.iter().enumerate() {
        let at = i * stride + start;
        put(value, &mut rows[at..at + WIDTH]);
    }
}
