//! Encoder of the codecs of integers: rows into columns. [`super`] describes the bytes.

use super::groups::Groups;
use super::plan::{Plan, QUICK, Shape, THOROUGH, bits_of, difference, plan};
use super::{
    Codings, MAX_BITS, MAX_DISTINCT, MAX_STRIDE, PIECE_BYTES, Rows, coding, packed_bytes, place_bits,
    segment, value_bytes, with_shape, zigzag,
};
use esker_base::coding::{put_varint, varint_len};
use esker_base::with_thread_buffer;
use std::cell::RefCell;

/// Fewer rows than this are stored plain: the columns' descriptions would cost what they save.
const MIN_ROWS: usize = 8;

/// Columns an eighth larger than estimated, beyond their descriptions: the sample was misleading.
const SURPRISE: usize = 8;
const AROUND_BYTES: usize = 16;

/// Slots of the table that finds the place of a value: twice as many as there may be values.
const SLOTS: usize = 2 * MAX_DISTINCT;

thread_local! {
    static COLUMN: RefCell<ColumnEncoder> = RefCell::default();
}

/// The block in `out`, in at most `limit` bytes; `None` if it does not fit.
pub(crate) fn compress(
    codings: Codings,
    raw: &[u8],
    rows: &[Rows],
    limit: usize,
    out: &mut Vec<u8>,
) -> Option<usize> {
    out.clear();
    if raw.is_empty() {
        return None;
    }
    let mut writer = Writer { codings, raw, limit, plain_from: 0, out };
    with_thread_buffer(&COLUMN, ColumnEncoder::default, |column| {
        if rows.is_empty() {
            for (piece, bytes) in raw.chunks(PIECE_BYTES).enumerate() {
                let stride = super::stride::find(bytes);
                let start = piece * PIECE_BYTES;
                writer.rows(Rows { start, stride, count: bytes.len() / stride }, column)?;
            }
        }
        for &rows in rows {
            let is_usable = rows.start >= writer.plain_from && (1..=MAX_STRIDE).contains(&rows.stride);
            if is_usable && rows.end().is_some_and(|end| end <= raw.len()) {
                writer.rows(rows, column)?;
            }
        }
        writer.plain_to(raw.len())
    })
}

struct Writer<'a> {
    codings: Codings,
    raw: &'a [u8],
    limit: usize,
    /// End of what is written.
    plain_from: usize,
    out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    /// Writes rows, in pieces; pieces that would not shrink are left to be written as plain bytes.
    fn rows(&mut self, rows: Rows, column: &mut ColumnEncoder) -> Option<()> {
        let most = (PIECE_BYTES / rows.stride).max(1);
        let mut done = 0;
        while rows.count - done >= MIN_ROWS {
            let count = most.min(rows.count - done);
            let start = rows.start + done * rows.stride;
            self.piece(Rows { start, stride: rows.stride, count }, column)?;
            done += count;
        }
        Some(())
    }

    fn piece(&mut self, rows: Rows, column: &mut ColumnEncoder) -> Option<()> {
        let len = rows.stride * rows.count;
        let bytes = &self.raw[rows.start..rows.start + len];
        let mut plan = plan::<QUICK>(bytes, rows.stride, self.codings);
        let behind = self.raw.len() - rows.start - len;
        // Too long even if nothing follows: not worth packing. Estimates from a sample are mostly low.
        if behind == 0 && self.out.len() + plan.estimated_bytes > self.limit {
            return None;
        }
        if plan.estimated_bytes >= len {
            return Some(());
        }
        let (mark, plain_from) = (self.out.len(), self.plain_from);
        self.plain_to(rows.start)?;
        let before = self.out.len();
        put_varint(self.out, (rows.stride << segment::SHIFT | segment::ROWS) as u64);
        put_varint(self.out, rows.count as u64);
        let columns_at = self.out.len();
        self.columns(bytes, rows.stride, &plan, column);
        let found_bytes = self.out.len() - columns_at;
        if found_bytes > plan.estimated_bytes + plan.estimated_bytes / SURPRISE + AROUND_BYTES {
            plan = super::plan::plan::<THOROUGH>(bytes, rows.stride, self.codings);
            if plan.estimated_bytes < found_bytes {
                self.out.truncate(columns_at);
                self.columns(bytes, rows.stride, &plan, column);
            }
        }
        if self.out.len() - before >= len {
            self.out.truncate(mark);
            self.plain_from = plain_from;
            return Some(());
        }
        self.plain_from = rows.start + len;
        (self.out.len() <= self.limit).then_some(())
    }

    fn columns(&mut self, bytes: &[u8], stride: usize, plan: &Plan, column: &mut ColumnEncoder) {
        for (start, shape) in plan.columns() {
            column.gather(bytes, stride, start, shape);
            column.write(shape, self.codings, self.out);
        }
    }

    /// Writes what is left up to `end` as plain bytes; returns the length of the block so far.
    fn plain_to(&mut self, end: usize) -> Option<usize> {
        let bytes = &self.raw[self.plain_from..end];
        if self.out.len() + bytes.len() > self.limit {
            return None;
        }
        if !bytes.is_empty() {
            put_varint(self.out, (bytes.len() << segment::SHIFT) as u64);
            self.out.extend_from_slice(bytes);
        }
        self.plain_from = end;
        Some(self.out.len())
    }
}

struct ColumnEncoder {
    values: Vec<u64>,
    /// Distinct values, in the order of their first use.
    distinct: Vec<u64>,
    /// Place of each value among them.
    places: Vec<u8>,
    /// Place plus one of the value with this hash.
    slots: [u16; SLOTS],
}

impl Default for ColumnEncoder {
    fn default() -> ColumnEncoder {
        ColumnEncoder { values: Vec::new(), distinct: Vec::new(), places: Vec::new(), slots: [0; SLOTS] }
    }
}

impl ColumnEncoder {
    fn gather(&mut self, bytes: &[u8], stride: usize, start: usize, shape: Shape) {
        self.values.clear();
        with_shape!(shape.width, shape.big_endian, gather(bytes, stride, start, &mut self.values));
    }

    fn write(&mut self, shape: Shape, codings: Codings, out: &mut Vec<u8>) {
        let (width, count) = (usize::from(shape.width), self.values.len());
        let (mut chosen, mut len) = (coding::PLAIN, count * width);
        let mut consider = |coded: u8, bits: u32, fixed: usize, count: usize| {
            if bits <= MAX_BITS && fixed + packed_bytes(count, bits) < len {
                (chosen, len) = (coded, fixed + packed_bytes(count, bits));
            }
        };
        let (least, greatest) = range(&self.values);
        let bits = bits_of(greatest - least);
        let base_bytes = value_bytes(least);
        consider(coding::PACKED, bits, 1 + base_bytes, count);
        let groups = if codings.groups { smaller_groups(greatest - least, bits, count) } else { None };
        let (mut step, mut step_bits) = (0, 0);
        if codings.delta && bits > 0 {
            (step, step_bits) = steps(&self.values, width);
            let fixed = 1 + value_bytes(self.values[0]) + varint_len(zigzag(step));
            consider(coding::DELTA, step_bits, fixed, count - 1);
        }
        if codings.dictionary && bits > 1 && self.find_distinct() {
            let distinct = self.distinct.len();
            consider(coding::DICTIONARY, place_bits(distinct), 2 + distinct * width, count);
        }
        // A plain column keeps the byte order of its shape, so values are written as they were read.
        let base = match chosen {
            coding::PACKED => Some((least, groups.map_or(bits, Groups::size))),
            coding::DELTA => Some((self.values[0], step_bits)),
            _ => None,
        };
        let base_len = base.map_or(0, |(base, _)| value_bytes(base));
        let base_low = (base_len as u8 & 3) << 6;
        out.push((shape.width - 1) | u8::from(shape.big_endian) << 3 | chosen << 4 | base_low);
        if let Some((base, bits)) = base {
            out.push(bits as u8 | (base_len as u8 >> 2) << 6);
            out.extend_from_slice(&base.to_le_bytes()[..base_len]);
        }
        match chosen {
            coding::PLAIN => {
                for value in &self.values {
                    let bytes = value.to_le_bytes();
                    let start = out.len();
                    out.extend_from_slice(&bytes[..width]);
                    if shape.big_endian {
                        out[start..].reverse();
                    }
                }
            }
            coding::PACKED => pack_distances(&self.values, least, bits, groups, out),
            coding::DELTA => {
                put_varint(out, zigzag(step));
                let distances = self
                    .values
                    .windows(2)
                    .map(|pair| difference(pair[0], pair[1], width).wrapping_sub(step) as u64);
                pack(distances, step_bits, count - 1, out);
            }
            _ => {
                put_varint(out, self.distinct.len() as u64);
                for value in &self.distinct {
                    out.extend_from_slice(&value.to_le_bytes()[..width]);
                }
                let places = self.places.iter().map(|&place| u64::from(place));
                pack(places, place_bits(self.distinct.len()), count, out);
            }
        }
    }

    /// Finds the distinct values and the place of each; `false` if there are too many.
    fn find_distinct(&mut self) -> bool {
        self.distinct.clear();
        self.places.clear();
        self.slots.fill(0);
        for &value in &self.values {
            let mut slot = (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % SLOTS;
            // Half of the slots stay empty, so this ends.
            let place = loop {
                match usize::from(self.slots[slot]).checked_sub(1) {
                    Some(place) if self.distinct[place] == value => break place,
                    Some(_) => slot = (slot + 1) % SLOTS,
                    None if self.distinct.len() == MAX_DISTINCT => return false,
                    None => {
                        self.distinct.push(value);
                        self.slots[slot] = self.distinct.len() as u16;
                        break self.distinct.len() - 1;
                    }
                }
            };
            // Less than 256.
            self.places.push(place as u8);
        }
        true
    }
}

fn gather<const WIDTH: usize, const BIG_ENDIAN: bool>(
    bytes: &[u8],
    stride: usize,
    start: usize,
    values: &mut Vec<u64>,
) {
    values.extend(bytes.chunks_exact(stride).map(|row| {
        let mut word = [0; 8];
        if BIG_ENDIAN {
            word[8 - WIDTH..].copy_from_slice(&row[start..start + WIDTH]);
            u64::from_be_bytes(word)
        } else {
            word[..WIDTH].copy_from_slice(&row[start..start + WIDTH]);
            u64::from_le_bytes(word)
        }
    }));
}

fn range(values: &[u64]) -> (u64, u64) {
    values.iter().fold((u64::MAX, 0), |(least, greatest), &value| (least.min(value), greatest.max(value)))
}

/// Appends the distances of values from the least, of so many bits each or in groups.
fn pack_distances(values: &[u64], least: u64, bits: u32, groups: Option<Groups>, out: &mut Vec<u8>) {
    let count = values.len();
    let Some(groups) = groups else {
        return pack(values.iter().map(|value| value - least), bits, count, out);
    };
    put_varint(out, groups.radix);
    pack(groups.of_values(values, least), groups.bits, groups.count(count), out);
}

/// Groups for these numbers if a hundredth smaller at least: they are slower to read.
fn smaller_groups(greatest: u64, bits: u32, count: usize) -> Option<Groups> {
    let groups = Groups::best(greatest.checked_add(1)?)?;
    let len = groups.packed_bytes(count) + varint_len(groups.radix);
    (len * 100 <= packed_bytes(count, bits) * 99).then_some(groups)
}

/// The least difference of neighbours, and the bits of the others' distance from it.
fn steps(values: &[u64], width: usize) -> (i64, u32) {
    let (mut least, mut greatest) = (i64::MAX, i64::MIN);
    for pair in values.windows(2) {
        let step = difference(pair[0], pair[1], width);
        least = least.min(step);
        greatest = greatest.max(step);
    }
    // Modulo 2^64 the distance is right even if it exceeds an `i64`.
    (least, bits_of(greatest.wrapping_sub(least) as u64))
}

/// Appends `count` numbers of `bits` bits each, at most [`MAX_BITS`], low bits first.
fn pack(numbers: impl Iterator<Item = u64>, bits: u32, count: usize, out: &mut Vec<u8>) {
    if bits == 0 {
        return;
    }
    let mut at = out.len();
    let end = at + packed_bytes(count, bits);
    // Whole words are written, the last of which may extend beyond the end.
    out.resize(end + size_of::<u64>(), 0);
    let (mut word, mut held) = (0u64, 0);
    for number in numbers {
        // At most seven bits are left from before.
        word |= number << held;
        held += bits;
        out[at..at + 8].copy_from_slice(&word.to_le_bytes());
        let whole = held / 8;
        at += whole as usize;
        word >>= 8 * whole;
        held %= 8;
    }
    out.truncate(end);
}
