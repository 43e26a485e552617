//! LCS: the longest common subsequence of two strings, by dynamic programming with one bit a cell.
//!
//! Which of several longest ones is answered is as in Redis: from the end, a common byte is taken, else the
//! first string gives way where that alone loses nothing.

use std::fmt;
use std::ops::Range;

/// Most cells of the table, the product of the lengths: more than two strings of 8 KiB. Redis bounds the
/// table at 512 MiB, twice as many cells; here they take 8 MiB and some tenths of a second.
pub const MAX_CELLS: u64 = 64 << 20;

/// The strings are too long to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LcsTooLong {
    /// The product of the lengths.
    pub cells: u64,
}

impl fmt::Display for LcsTooLong {
    /// What Redis answers.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len")
    }
}

impl std::error::Error for LcsTooLong {}

/// The longest common subsequence and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lcs {
    /// The subsequence.
    pub subsequence: Vec<u8>,
    /// Stretches that both strings have, from the last to the first.
    pub matches: Vec<LcsMatch>,
}

/// A stretch that both strings have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LcsMatch {
    /// Where it is in the first string.
    pub first: Range<usize>,
    /// Where it is in the second.
    pub second: Range<usize>,
}

/// `LCS ... LEN`: the length. O(product of the lengths) time, memory for the shorter string.
///
/// # Errors
///
/// If the product of the lengths is above [`MAX_CELLS`].
pub fn length(first: &[u8], second: &[u8]) -> Result<usize, LcsTooLong> {
    check(first, second)?;
    Ok(fill(first, second, |_, _| {}) as usize)
}

/// The longest common subsequence. O(product of the lengths) time and as many bits.
///
/// ```
/// use esker_redis_data::lcs;
/// let found = lcs::find(b"ohmytext", b"mynewtext")?;
/// assert_eq!(found.subsequence, b"mytext");
/// assert_eq!(found.matches[0].first, 4..8);
/// # Ok::<(), lcs::LcsTooLong>(())
/// ```
///
/// # Errors
///
/// If the product of the lengths is above [`MAX_CELLS`].
pub fn find(first: &[u8], second: &[u8]) -> Result<Lcs, LcsTooLong> {
    let cells = check(first, second)?;
    let mut shorten_first = vec![0u64; cells.div_ceil(64)];
    let cell = |i: usize, j: usize| (i - 1) * second.len() + j - 1;
    fill(first, second, |i, j| shorten_first[cell(i, j) / 64] |= 1 << (cell(i, j) % 64));

    let mut found = Lcs { subsequence: Vec::new(), matches: Vec::new() };
    let mut is_adjacent = false;
    let (mut i, mut j) = (first.len(), second.len());
    while i > 0 && j > 0 {
        if first[i - 1] == second[j - 1] {
            i -= 1;
            j -= 1;
            found.subsequence.push(first[i]);
            match found.matches.last_mut().filter(|_| is_adjacent) {
                Some(stretch) => {
                    stretch.first.start = i;
                    stretch.second.start = j;
                }
                None => found.matches.push(LcsMatch { first: i..i + 1, second: j..j + 1 }),
            }
            is_adjacent = true;
            continue;
        }
        is_adjacent = false;
        if shorten_first[cell(i, j) / 64] >> (cell(i, j) % 64) & 1 == 1 {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    found.subsequence.reverse();
    Ok(found)
}

fn check(first: &[u8], second: &[u8]) -> Result<usize, LcsTooLong> {
    let cells = (first.len() as u64).saturating_mul(second.len() as u64);
    if cells <= MAX_CELLS { Ok(cells as usize) } else { Err(LcsTooLong { cells }) }
}

/// Computes L(i, j), the length for the first i and j bytes, row by row over the longer string, and gives
/// that of both whole. Calls `shorten_first` where bytes i and j differ and L(i - 1, j) > L(i, j - 1).
fn fill(first: &[u8], second: &[u8], mut shorten_first: impl FnMut(usize, usize)) -> u32 {
    let second_is_shorter = second.len() <= first.len();
    let (long, short) = if second_is_shorter { (first, second) } else { (second, first) };
    let mut row = vec![0u32; short.len() + 1];
    for (outer, long_byte) in long.iter().enumerate() {
        let mut diagonal = 0;
        for (inner, short_byte) in short.iter().enumerate() {
            let (above, left) = (row[inner + 1], row[inner]);
            row[inner + 1] = if long_byte == short_byte {
                diagonal + 1
            } else {
                if second_is_shorter && above > left {
                    shorten_first(outer + 1, inner + 1);
                } else if !second_is_shorter && left > above {
                    shorten_first(inner + 1, outer + 1);
                }
                above.max(left)
            };
            diagonal = above;
        }
    }
    row[short.len()]
}
