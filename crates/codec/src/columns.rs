//! Codecs of integers: a block's rows are divided into columns, and each column is stored in few bits.
//!
//! The techniques are those of column stores: a frame of reference and as many bits as the greatest distance
//! from it needs (Goldstein, Ramakrishnan and Shaft, *Compressing relations and indexes*, ICDE 1998),
//! differences of neighbours, and a list of the distinct values (Abadi, Madden and Ferreira, *Integrating
//! compression and execution in column-oriented database systems*, SIGMOD 2006). Particular here is that the
//! integers have to be found: a block of a table is bytes.
//!
//! # Model
//! A block is a sequence of plain bytes and of [`Rows`], and rows are divided into columns of one to eight
//! bytes, each an unsigned integer of either byte order. A column is stored plain or by the cheapest of the
//! codings that the codec permits. The stored bytes describe all of it, so that reading guesses nothing.
//!
//! The writer of a block may know where rows lie: the directory of a flat block consists of such arrays, and
//! its entries are rows if all have the same length. Otherwise one distance is guessed for each
//! [`PIECE_BYTES`], the least at which bytes repeat well ([`stride`]). Where columns begin and end, and their
//! byte order, is found by dynamic programming over estimates from a few rows ([`plan`]); codings are then
//! chosen by exact sizes ([`encode`]).
//!
//! # Stored form
//! ```text
//! segment: head varint | ...
//!          2 len        | bytes, at least 1
//!          2 stride + 1 | rows varint, at least 1 | columns
//! column:  width - 1 (3 bits), big-endian (1 bit), coding (2 bits), b (2 bits)
//!   0 plain       rows x width bytes; b = 0
//!   1 packed      size | least value (B bytes, LE) | distances from it, packed
//!   2 delta       size | first value (B) | least difference, zigzag varint | distances from it, packed
//!   3 dictionary  values varint, 1 to 256 | the values (width each) | places among them, packed; b = 0
//! size:    bits (6 bits), b' (2 bits); B = b + 4 b'
//! ```
//!
//! Packed distances that all are below a radix may be written in groups, as digits of one number
//! ([`groups`]): then the size's bits are 55 and the digits of a group, and the radix, a varint, stands in
//! front of the groups, packed. Only bit-packing writes them: they save up to a quarter of numbers with few
//! values and a fiftieth of those of 50,000, and take a sixth longer to read, as much as the device would
//! take for what they save. The stride is 1 to 256, and widths of columns add up to it. Packed numbers have 0
//! to 56 bits each, low bits first; of places, as many as the last of them needs. Segments follow each other
//! to the end and give exactly the block.
//!
//! Descriptions are small because blocks are: 512 values of 64 bits that span 2^16 are 1,024 bytes, and each
//! 10 bytes around them are a hundredth. Such a block takes 5 bytes more than its least value and its values.
//! The number of rows could be left out where they fill the block, but then equal steps would go on to any
//! length that a damaged header states.
//!
//! # Costs
//! Writing 150 to 600 MB/s, mostly for finding the columns; reading 1 to 4 GB/s, by the width of columns.
//! Reading allocates nothing; a thread keeps up to 600 KiB to write.

mod decode;
mod encode;
mod groups;
mod plan;
mod stride;

pub(crate) use decode::decompress;
pub(crate) use encode::compress;
pub(crate) use stride::repeats;

/// Rows of equal length in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Where the first row starts.
    pub start: usize,
    /// Bytes of a row: 1 to [`MAX_STRIDE`].
    pub stride: usize,
    /// Number of rows.
    pub count: usize,
}

impl Rows {
    /// Where the last row ends; `None` if it overflows.
    fn end(&self) -> Option<usize> {
        self.stride.checked_mul(self.count)?.checked_add(self.start)
    }
}

/// Longest row that is divided into columns: entries of a few integers. The work of planning grows with it.
pub const MAX_STRIDE: usize = 256;

/// Bytes of a piece of rows with columns of its own: bounds memory, and the harm of outliers.
pub const PIECE_BYTES: usize = 64 << 10;

/// Most distinct values of a column with a dictionary, so that a place has at most a byte.
const MAX_DISTINCT: usize = 256;

/// Most bits of a packed number: with up to seven bits in front of it, it lies within eight bytes.
const MAX_BITS: u32 = 56;

mod segment {
    /// Set: rows, whose stride is in the bits above. Otherwise those are a number of plain bytes.
    pub(super) const ROWS: usize = 1;
    pub(super) const SHIFT: u32 = 1;
}

/// Codings of columns, as stored in bits 4 and 5 of a column's first byte.
mod coding {
    pub(super) const PLAIN: u8 = 0;
    pub(super) const PACKED: u8 = 1;
    pub(super) const DELTA: u8 = 2;
    pub(super) const DICTIONARY: u8 = 3;
}

/// The codings that a writer chooses from, besides plain and packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Codings {
    delta: bool,
    dictionary: bool,
    /// Packed numbers in groups, where those are smaller.
    groups: bool,
}

impl Codings {
    pub(crate) const PACKED: Codings = Codings { delta: false, dictionary: false, groups: true };
    pub(crate) const DELTA: Codings = Codings { delta: true, dictionary: false, groups: false };
    pub(crate) const DICTIONARY: Codings = Codings { delta: false, dictionary: true, groups: false };
}

fn value_bytes(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()).div_ceil(8) as usize
}

/// Maps numbers near 0 on either side to small ones.
fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Bytes of so many numbers of so many bits.
fn packed_bytes(count: usize, bits: u32) -> usize {
    (count * bits as usize).div_ceil(8)
}

/// Bits of the places among so many values.
fn place_bits(distinct: usize) -> u32 {
    usize::BITS - distinct.saturating_sub(1).leading_zeros()
}

/// Calls a function that is generic over width and byte order with those of a column.
macro_rules! with_shape {
    ($width:expr, $big_endian:expr, $function:ident ( $($argument:expr),* )) => {
        match ($width, $big_endian) {
            (1, _) => $function::<1, false>($($argument),*),
            (2, false) => $function::<2, false>($($argument),*),
            (3, false) => $function::<3, false>($($argument),*),
            (4, false) => $function::<4, false>($($argument),*),
            (5, false) => $function::<5, false>($($argument),*),
            (6, false) => $function::<6, false>($($argument),*),
            (7, false) => $function::<7, false>($($argument),*),
            (2, true) => $function::<2, true>($($argument),*),
            (3, true) => $function::<3, true>($($argument),*),
            (4, true) => $function::<4, true>($($argument),*),
            (5, true) => $function::<5, true>($($argument),*),
            (6, true) => $function::<6, true>($($argument),*),
            (7, true) => $function::<7, true>($($argument),*),
            (_, false) => $function::<8, false>($($argument),*),
            (_, true) => $function::<8, true>($($argument),*),
        }
    };
}
use with_shape;
