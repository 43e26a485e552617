//! Column planner: finds where the columns of a row begin and end, by dynamic programming.

use super::{Codings, MAX_BITS, MAX_STRIDE, place_bits};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) width: u8,
    pub(super) big_endian: bool,
}

pub(super) struct Plan {
    /// The column that starts at each byte of a row; valid where a column starts.
    shapes: [Shape; MAX_STRIDE],
    stride: usize,
    pub(super) estimated_bytes: usize,
}

impl Plan {
    pub(super) fn columns(&self) -> impl Iterator<Item = (usize, Shape)> {
        let mut start = 0;
        std::iter::from_fn(move || {
            let shape = *self.shapes[..self.stride].get(start)?;
            start += usize::from(shape.width);
            Some((start - usize::from(shape.width), shape))
        })
    }
}

/// Rows of a sample, half of them from the start and half from the end: enough to estimate the range of
/// values within a fraction of a bit, few enough that planning is a small part of a block of 4 KiB.
pub(super) const QUICK: usize = 16;

/// Rows of a sample that shows nearly everything in a block of 4 KiB. A quick sample may miss a byte that
/// overflows now and then, so that the bytes of a counter are joined with their neighbours, or in the wrong
/// order; then a column takes much more than estimated, and a second plan is worth it.
pub(super) const THOROUGH: usize = 256;

/// Costs are in bits, with lower digits for ties: the range's bits of up to 256 columns.
const PER_BIT: u64 = 1 << 16;

/// A column costs one bit more for so many rows: a pass over them, and a value may be cut in two.
const ROWS_PER_COLUMN_BIT: u64 = 4;

/// Divides rows of `stride` bytes, which fill `bytes`, by a sample of `ROWS` rows.
///
/// From the back, for each byte where a column may start, the cheapest one that starts there, by its size and
/// that of the rest of the row. Within a run of bytes that are the same in all rows of the sample, columns
/// start at every eighth only: a column loses nothing by having them as its high bytes, and this makes
/// planning several times faster.
pub(super) fn plan<const ROWS: usize>(bytes: &[u8], stride: usize, codings: Codings) -> Plan {
    let count = bytes.len() / stride;
    let sample = Sample::<ROWS>::of(count);
    let may_start = sample.starts(bytes, stride);
    let mut costs = [0u64; MAX_STRIDE + 1];
    let mut shapes = [Shape::default(); MAX_STRIDE];
    for start in (0..stride).rev().filter(|&start| may_start[start]) {
        let words = sample.words(bytes, stride, start);
        let mut best = u64::MAX;
        for width in (1..=(stride - start).min(8)).filter(|width| may_start[start + width]) {
            let shift = 64 - 8 * width as u32;
            // Of columns of equal cost the wider one: it is faster.
            let mut consider = |cost: u64, big_endian: bool| {
                let cost = cost + costs[start + width];
                if cost <= best {
                    best = cost;
                    shapes[start] = Shape { width: width as u8, big_endian };
                }
            };
            consider(
                sample.cost(&words.map(|word| word.swap_bytes() >> shift), width, count, codings),
                width > 1,
            );
            if width > 1 {
                let mask = u64::MAX >> shift;
                consider(sample.cost(&words.map(|word| word & mask), width, count, codings), false);
            }
        }
        costs[start] = best;
    }
    Plan { shapes, stride, estimated_bytes: (costs[0] / PER_BIT).div_ceil(8) as usize }
}

struct Sample<const ROWS: usize> {
    rows: [usize; ROWS],
}

impl<const ROWS: usize> Sample<ROWS> {
    /// Rows in each half, which are adjacent.
    const NEIGHBOURS: usize = ROWS / 2;

    fn of(count: usize) -> Sample<ROWS> {
        let mut rows = [0; ROWS];
        let (head, tail) = rows.split_at_mut(Self::NEIGHBOURS);
        let last = count - Self::NEIGHBOURS.min(count);
        for (first, rows) in [(0, head), (last, tail)] {
            for (i, row) in rows.iter_mut().enumerate() {
                *row = (first + i).min(count - 1);
            }
        }
        Sample { rows }
    }

    /// Where columns may start; the end of the row counts as a start.
    fn starts(&self, bytes: &[u8], stride: usize) -> [bool; MAX_STRIDE + 1] {
        let row = |row: usize| &bytes[row * stride..(row + 1) * stride];
        let mut changes = [0u8; MAX_STRIDE];
        let first = row(self.rows[0]);
        for &other in &self.rows[1..] {
            for (changes, (a, b)) in changes.iter_mut().zip(first.iter().zip(row(other))) {
                *changes |= a ^ b;
            }
        }
        let mut starts = [false; MAX_STRIDE + 1];
        let mut unchanged = 0;
        for (start, changes) in starts.iter_mut().zip(&changes[..stride]) {
            *start = *changes != 0 || unchanged % 8 == 0;
            unchanged = if *changes == 0 { unchanged + 1 } else { 0 };
        }
        starts[stride] = true;
        starts
    }

    /// The eight bytes from `start` of each row, or as many as there are.
    fn words(&self, bytes: &[u8], stride: usize, start: usize) -> [u64; ROWS] {
        self.rows.map(|row| {
            let rest = &bytes[row * stride + start..];
            match rest.first_chunk() {
                Some(word) => u64::from_le_bytes(*word),
                None => {
                    let mut word = [0; 8];
                    word[..rest.len()].copy_from_slice(rest);
                    u64::from_le_bytes(word)
                }
            }
        })
    }

    /// Cost of a column with these values by the cheapest coding: bits, and in ties the lesser range first.
    fn cost(&self, values: &[u64; ROWS], width: usize, count: usize, codings: Codings) -> u64 {
        let value_bits = 8 * width as u64;
        let count = count as u64;
        let (mut least, mut greatest) = (values[0], values[0]);
        for &value in values {
            least = least.min(value);
            greatest = greatest.max(value);
        }
        let mut cost = count * value_bits;
        let mut consider = |bits: u32, fixed: u64| {
            if bits <= MAX_BITS {
                cost = cost.min(count * u64::from(bits) + fixed);
            }
        };
        let bits = bits_of(greatest - least);
        consider(bits, value_bits + 8);
        // Neither differences nor places take less than nothing.
        if codings.delta && bits > 0 {
            let (mut least, mut greatest) = (i64::MAX, i64::MIN);
            for group in values.chunks_exact(Self::NEIGHBOURS) {
                for pair in group.windows(2) {
                    let difference = difference(pair[0], pair[1], width);
                    least = least.min(difference);
                    greatest = greatest.max(difference);
                }
            }
            consider(bits_of(greatest.wrapping_sub(least) as u64), 2 * value_bits + 8);
        }
        if codings.dictionary && bits > 1 {
            let distinct = distinct(values);
            // Nearly all different in the sample: too many for a dictionary. Otherwise some are unseen.
            if 4 * distinct <= 3 * ROWS {
                let likely = distinct + distinct * (THOROUGH - ROWS) / (5 * ROWS);
                consider(place_bits(likely), likely as u64 * value_bits + 16);
            }
        }
        // Neighbours of a slow counter differ by the same in both byte orders; its range tells the right one.
        (cost + 8 + count / ROWS_PER_COLUMN_BIT) * PER_BIT + u64::from(bits)
    }
}

pub(super) fn bits_of(distance: u64) -> u32 {
    u64::BITS - distance.leading_zeros()
}

/// Difference of two values of a width, modulo 2^(8 width), of the least absolute value.
#[inline]
pub(super) fn difference(from: u64, to: u64, width: usize) -> i64 {
    let shift = 64 - 8 * width as u32;
    ((to.wrapping_sub(from) << shift) as i64) >> shift
}

fn distinct<const ROWS: usize>(values: &[u64; ROWS]) -> usize {
    let mut sorted = *values;
    sorted.sort_unstable();
    1 + sorted.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(bytes: &[u8], stride: usize) -> Vec<(usize, u8, bool)> {
        plan::<QUICK>(bytes, stride, Codings::DELTA)
            .columns()
            .map(|(start, shape)| (start, shape.width, shape.big_endian))
            .collect()
    }

    #[test]
    fn columns_of_both_byte_orders_are_found() {
        let mixed = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let rows: Vec<u8> = (0..200u64)
            .flat_map(|i| {
                let mut row = (7_000_000 + 3 * i).to_be_bytes().to_vec();
                row.extend_from_slice(&(1_000_000_000 + mixed(i) % 50_000).to_le_bytes());
                row.extend_from_slice(&(1_000 + mixed(i) as u32 % 300).to_be_bytes());
                row
            })
            .collect();
        // Columns may begin anywhere in unchanging bytes; changing ones lie in one column each.
        let found = shapes(&rows, 20);
        let holding = |at: usize| {
            found
                .iter()
                .copied()
                .find(|&(start, width, _)| (start..start + usize::from(width)).contains(&at))
                .unwrap()
        };
        assert_eq!(holding(6).0, holding(7).0, "{found:?}");
        assert!(holding(7).2, "{found:?}");
        assert_eq!(holding(8).0, holding(9).0, "{found:?}");
        assert!(!holding(8).2, "{found:?}");
        assert_eq!(holding(18).0, holding(19).0, "{found:?}");
        assert!(holding(19).2, "{found:?}");
        assert!(plan::<QUICK>(&rows, 20, Codings::DELTA).estimated_bytes < rows.len() / 4);
    }

    #[test]
    fn differences_go_the_shorter_way_around() {
        assert_eq!(difference(0xff, 0x01, 1), 2);
        assert_eq!(difference(0x01, 0xff, 1), -2);
        assert_eq!(difference(u64::MAX, 0, 8), 1);
        assert_eq!(difference(0, 0x7fff_ffff, 4), 0x7fff_ffff);
        assert_eq!(bits_of(0), 0);
        assert_eq!(bits_of(u64::MAX), 64);
    }
}
