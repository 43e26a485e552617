//! Decoder of the codecs of integers: columns back into rows. [`super`] describes the bytes.
//!
//! Lengths are compared with the rest of the stored bytes and of the block before they are used. Values go
//! through a buffer of [`BATCH`] numbers on the stack, so nothing is allocated. Numbers that no writer would
//! store (a least value and a distance beyond the width) wrap around within the width.

use super::groups::Groups;
use super::{
    MAX_BITS, MAX_DISTINCT, MAX_STRIDE, coding, packed_bytes, place_bits, segment, unzigzag, with_shape,
};
use crate::decompress::DecodeError;
use esker_base::coding::Reader;

/// Numbers unpacked at once.
const BATCH: usize = 64;

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

/// Decodes one segment to the start of `out`; returns its length.
fn decode_segment(reader: &mut Reader<'_>, out: &mut [u8]) -> Option<usize> {
    // A segment is not empty, so that no meaningless bytes can be added to a block.
    let head = usize::try_from(reader.varint()?).ok().filter(|&head| head > 0)?;
    if head & segment::ROWS == 0 {
        let bytes = reader.take(head >> segment::SHIFT)?;
        out.get_mut(..bytes.len())?.copy_from_slice(bytes);
        return Some(bytes.len());
    }
    let stride = head >> segment::SHIFT;
    let count = usize::try_from(reader.varint()?).ok()?;
    if stride == 0 || stride > MAX_STRIDE || count == 0 {
        return None;
    }
    let out = out.get_mut(..stride.checked_mul(count)?)?;
    let mut start = 0;
    while start < stride {
        let shape = reader.u8()?;
        let column = ColumnDecoder {
            start,
            stride,
            count,
            width: usize::from(shape & 7) + 1,
            big_endian: shape & 8 != 0,
            base_low: usize::from(shape >> 6),
        };
        if start + column.width > stride {
            return None;
        }
        column.decode(shape >> 4 & 3, reader, out)?;
        start += column.width;
    }
    Some(out.len())
}

/// The position of a column in its rows, and its coding.
#[derive(Clone, Copy)]
struct ColumnDecoder {
    start: usize,
    stride: usize,
    count: usize,
    width: usize,
    big_endian: bool,
    /// The low two bits of the first number's length in bytes.
    base_low: usize,
}

impl ColumnDecoder {
    fn decode(self, coded: u8, reader: &mut Reader<'_>, out: &mut [u8]) -> Option<()> {
        if matches!(coded, coding::PLAIN | coding::DICTIONARY) && self.base_low != 0 {
            return None;
        }
        match coded {
            coding::PLAIN => self.plain(reader.take(self.count.checked_mul(self.width)?)?, out),
            coding::PACKED => {
                let (bits, base) = self.size_and_base(reader)?;
                if bits > MAX_BITS {
                    let groups = Groups::of_size(bits, reader.varint()?)?;
                    self.each_in_groups(groups, reader.take(groups.packed_bytes(self.count))?, base, out);
                    return Some(());
                }
                let packed = reader.take(packed_bytes(self.count, bits))?;
                self.each(0, self.count, packed, bits, out, |values| {
                    for value in values {
                        *value = value.wrapping_add(base);
                    }
                });
            }
            coding::DELTA => {
                let (bits, mut last) = self.size_and_base(reader).filter(|&(bits, _)| bits <= MAX_BITS)?;
                let least = unzigzag(reader.varint()?) as u64;
                let packed = reader.take(packed_bytes(self.count - 1, bits))?;
                self.each(0, 1, &[], 0, out, |values| values.fill(last));
                self.each(1, self.count - 1, packed, bits, out, |values| {
                    for value in values {
                        // In this order each value waits for one addition only.
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
                    *value = value_of(reader.take(self.width)?);
                }
                let bits = place_bits(distinct);
                let packed = reader.take(packed_bytes(self.count, bits))?;
                let mut greatest = 0;
                self.each(0, self.count, packed, bits, out, |values| {
                    for value in values {
                        greatest = greatest.max(*value);
                        // Places have at most eight bits, so they are in the array; those beyond the values
                        // are refused below.
                        *value = dictionary[*value as usize & (MAX_DISTINCT - 1)];
                    }
                });
                return (greatest < distinct as u64).then_some(());
            }
        }
        Some(())
    }

    /// The bits of each packed number, or more than [`MAX_BITS`] for groups; and the number in front of them.
    fn size_and_base(self, reader: &mut Reader<'_>) -> Option<(u32, u64)> {
        let size = reader.u8()?;
        let (bits, base_len) = (u32::from(size & 0x3f), self.base_low | usize::from(size >> 6) << 2);
        if base_len > self.width {
            return None;
        }
        Some((bits, value_of(reader.take(base_len)?)))
    }

    /// Unpacks numbers in groups, and writes them plus `base` to the rows.
    fn each_in_groups(self, groups: Groups, packed: &[u8], base: u64, out: &mut [u8]) {
        /// Groups split at once: of up to eight digits each.
        const GROUPS: usize = BATCH / 2;
        let (mut batch, mut values) = ([0; GROUPS], [0; 8 * GROUPS]);
        let digits = groups.digits();
        for from in (0..groups.count(self.count)).step_by(GROUPS) {
            let batch = &mut batch[..GROUPS.min(groups.count(self.count) - from)];
            unpack(packed, groups.bits, from, batch);
            let values = &mut values[..batch.len() * digits];
            groups.split(batch, values);
            // The last group may be partly filled.
            let len = values.len().min(self.count - from * digits);
            for value in &mut values[..len] {
                *value = value.wrapping_add(base);
            }
            let at = from * digits * self.stride;
            with_shape!(
                self.width,
                self.big_endian,
                scatter(&values[..len], &mut out[at..], self.stride, self.start)
            );
        }
    }

    fn plain(self, bytes: &[u8], out: &mut [u8]) {
        for (row, value) in out.chunks_exact_mut(self.stride).zip(bytes.chunks_exact(self.width)) {
            row[self.start..self.start + self.width].copy_from_slice(value);
        }
    }

    /// Unpacks `count` numbers, converts them to values, and writes those to the rows from `first` on.
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

fn value_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
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

/// The last bytes, fewer than eight, as a number.
#[cold]
fn short_word(bytes: &[u8]) -> u64 {
    value_of(bytes)
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
        // An array of integers: rows without other columns.
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
