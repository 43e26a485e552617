//! Block bounds: stored parts of each block's first and last key, so that a key between two blocks costs no
//! read.
//!
//! The index separates adjacent blocks by one separator, the shortest prefix of the later block's first key
//! that does so. A key between the last key before it and the separator, or between the separator and the
//! first key after it, is searched in a block that cannot have it. A *key gap* of six bytes narrows both
//! sides:
//!
//! ```text
//! last key of block b        user:04|1738     kept: 173
//! separator of block b + 1   user:042
//! first key of block b + 1   user:042|519     kept: 51
//! ```
//! Both keys start with the separator except for its last byte. Of the last key three bytes from there on are
//! kept, of the first key the two bytes after the separator. Where the two differ, their distance is at least
//! one value of that byte; the uncertain part is two in 65,536 of it for evenly spread bytes, two in a
//! hundred for decimal digits.
//!
//! # Invariant
//! * **BB1** No version of a key that [`excludes`](crate::Table::excludes) from a block is in the block. Key
//!   gaps keep prefixes, so they err on the side of reading.
//!
//! # When they are checked
//! Only when a block would have to be read: a block in memory is searched faster than two more places in
//! memory are read. So lookups of cached blocks have no cost, not even a branch. Seeks check before they
//! enter an uncached block.
//!
//! # Rejected
//! * Last keys in the index section: every form of the index would carry and decode them.
//! * Whole keys: exact, and half as long again as the index.
//! * Eight-byte heads of both keys: they decide without the separator, but take 16 bytes of memory a block.

use crate::decode_error::{DecodeError, damaged};
use crate::footer::SectionKind;
use crate::section_reader::SectionReader;
use esker_base::key::common_prefix_len;
use esker_base::{Error, Result};
use esker_env::File;
use std::fmt;
use std::str::FromStr;

pub(crate) const GAP_BYTES: usize = 1 + LAST_BYTES + FIRST_BYTES;
/// Bytes kept of a last key, from where it differs from the separator.
const LAST_BYTES: usize = 3;
/// Bytes kept of a first key, from behind the separator.
const FIRST_BYTES: usize = 2;

/// Bits of a gap's first byte: the number of bytes kept of the last key and of the first key, and whether
/// those of the last key are all it has.
const LAST_LEN: u8 = 0b0_0011;
const FIRST_LEN: u8 = 0b0_1100;
const FIRST_SHIFT: u32 = 2;
const LAST_IS_WHOLE: u8 = 0b1_0000;
/// Alone in that byte: the later block continues the key of the earlier.
const NO_GAP: u8 = 0b10_0000;

/// Which tables store block bounds, so that lookups and seeks of keys between two blocks read neither
/// (REQUIREMENTS T4). It costs six bytes a block, in the file and in memory.
///
/// ```
/// use esker_sst::BlockBounds;
///
/// assert_eq!("always".parse::<BlockBounds>()?, BlockBounds::Always);
/// assert_eq!(BlockBounds::default().to_string(), "unfiltered");
/// # Ok::<(), esker_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BlockBounds {
    /// No table.
    Never,
    /// Tables without a filter. Of absent keys 3 % fall between blocks of 4 KiB with entries of 116 bytes, a
    /// third where entries have a kilobyte, and all where each block has one; behind a filter of 10 bits a
    /// key it is the same share of one key in a hundred.
    #[default]
    Unfiltered,
    /// All tables.
    Always,
}

impl BlockBounds {
    /// All choices.
    pub const ALL: [BlockBounds; 3] = [BlockBounds::Never, BlockBounds::Unfiltered, BlockBounds::Always];

    /// The name in options. Names are stored with keyspaces and never change.
    pub const fn name(self) -> &'static str {
        match self {
            BlockBounds::Never => "never",
            BlockBounds::Unfiltered => "unfiltered",
            BlockBounds::Always => "always",
        }
    }

    /// Whether a table stores them.
    pub(crate) fn applies(self, has_filter: bool) -> bool {
        match self {
            BlockBounds::Never => false,
            BlockBounds::Unfiltered => !has_filter,
            BlockBounds::Always => true,
        }
    }
}

impl fmt::Display for BlockBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for BlockBounds {
    type Err = Error;

    fn from_str(text: &str) -> Result<BlockBounds> {
        BlockBounds::ALL.into_iter().find(|bounds| bounds.name() == text).ok_or_else(|| {
            let names = BlockBounds::ALL.map(BlockBounds::name).join(", ");
            Error::invalid(format!("unknown choice of block bounds {text:?}: one of {names}"))
        })
    }
}

#[derive(Debug, Default)]
pub(crate) struct BoundsEncoder {
    out: Vec<u8>,
}

impl BoundsEncoder {
    /// Adds the gap between a block that ends with `last` and one that starts with `first`, not less.
    pub(crate) fn add(&mut self, last: &[u8], first: &[u8]) {
        let shared = common_prefix_len(last, first);
        let mut gap = [0; GAP_BYTES];
        match first.get(shared + 1..) {
            Some(behind) => {
                let last = &last[shared..];
                let (kept, of_first) = (last.len().min(LAST_BYTES), behind.len().min(FIRST_BYTES));
                gap[0] = kept as u8 | (of_first as u8) << FIRST_SHIFT;
                gap[0] |= if kept == last.len() { LAST_IS_WHOLE } else { 0 };
                gap[1..1 + kept].copy_from_slice(&last[..kept]);
                gap[1 + LAST_BYTES..][..of_first].copy_from_slice(&behind[..of_first]);
            }
            // The later block continues the key.
            None => gap[0] = NO_GAP,
        }
        self.out.extend_from_slice(&gap);
    }

    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    /// The section; `None` if there is no gap.
    pub(crate) fn finish(self) -> Option<Vec<u8>> {
        Some(self.out).filter(|section| !section.is_empty())
    }
}

#[derive(Debug)]
pub(crate) struct BoundsSection {
    gaps: Box<[[u8; GAP_BYTES]]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyGap<'a> {
    /// Continuation of the earlier block's last key, behind what it shares with the separator.
    last: &'a [u8],
    last_is_whole: bool,
    /// Continuation of the later block's first key, behind the separator.
    first: &'a [u8],
}

impl BoundsSection {
    /// The bounds of a table with this many blocks, if undamaged; else sets `damage`, unless it is set.
    pub(crate) fn open(
        reader: &SectionReader,
        file: &dyn File,
        blocks: u64,
        damage: &mut Option<Error>,
    ) -> Option<BoundsSection> {
        let at = reader.section(SectionKind::BOUNDS)?;
        match reader.decode(file, at, |section| BoundsSection::decode(section, blocks)) {
            Ok(bounds) => Some(bounds),
            Err(error) => {
                damage.get_or_insert(error);
                None
            }
        }
    }

    pub(crate) fn decode(section: &[u8], blocks: u64) -> Result<BoundsSection, DecodeError> {
        let (gaps, rest) = section.as_chunks::<GAP_BYTES>();
        if !rest.is_empty() || gaps.len() as u64 != blocks.saturating_sub(1) {
            return damaged(format!("{} bytes of bounds cannot be those of {blocks} blocks", section.len()));
        }
        if let Some(at) = gaps.iter().position(|gap| !is_canonical(*gap)) {
            return damaged(format!("the bounds between blocks {at} and {} are not valid", at + 1));
        }
        Ok(BoundsSection { gaps: gaps.into() })
    }

    /// Bytes of memory, which are those in the file.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.gaps)
    }

    /// The gap between block `number` and the next one.
    pub(crate) fn gap(&self, number: usize) -> Option<KeyGap<'_>> {
        let [flags, kept @ ..] = self.gaps.get(number).filter(|gap| gap[0] != NO_GAP)?;
        let (last, first) = kept.split_at(LAST_BYTES);
        Some(KeyGap {
            last: last.get(..usize::from(flags & LAST_LEN))?,
            last_is_whole: flags & LAST_IS_WHOLE != 0,
            first: first.get(..usize::from((flags & FIRST_LEN) >> FIRST_SHIFT))?,
        })
    }
}

/// Whether a writer may have written it: lengths fit, unused bytes are 0, a longer last key has all bytes.
fn is_canonical(gap: [u8; GAP_BYTES]) -> bool {
    let [flags, kept @ ..] = gap;
    if flags == NO_GAP {
        return kept.iter().all(|&byte| byte == 0);
    }
    let (last, first) = kept.split_at(LAST_BYTES);
    let (last_len, first_len) =
        (usize::from(flags & LAST_LEN), usize::from((flags & FIRST_LEN) >> FIRST_SHIFT));
    let rest =
        |bytes: &[u8], len: usize| bytes.get(len..).is_some_and(|rest| rest.iter().all(|&byte| byte == 0));
    flags & !(LAST_LEN | FIRST_LEN | LAST_IS_WHOLE) == 0
        && (last_len == LAST_BYTES || flags & LAST_IS_WHOLE != 0)
        && rest(last, last_len)
        && rest(first, first_len)
}

impl KeyGap<'_> {
    /// Whether `key` is greater than all keys of the block before the gap; `separator` is that of the block
    /// behind it.
    pub(crate) fn is_behind_last(&self, separator: &[u8], key: &[u8]) -> bool {
        let Some((_, shared)) = separator.split_last() else { return false };
        match key.strip_prefix(shared) {
            Some(rest) => rest > self.last && (self.last_is_whole || !rest.starts_with(self.last)),
            None => key > shared,
        }
    }

    /// Whether `key` is less than all keys of the block behind the gap, whose separator is given.
    pub(crate) fn is_before_first(&self, separator: &[u8], key: &[u8]) -> bool {
        match key.strip_prefix(separator) {
            Some(rest) => rest < self.first,
            None => key < separator,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::section::separator;
    use crate::testing::{SHAPES, key_of};
    use esker_env::{Random, SeededRandom};

    fn bounds_of(last: &[u8], first: &[u8]) -> BoundsSection {
        let mut encoder = BoundsEncoder::default();
        encoder.add(last, first);
        BoundsSection::decode(&encoder.finish().unwrap(), 2).unwrap()
    }

    /// Whether the gap between two keys excludes a key from the block before it and from the block behind it.
    fn refused(last: &str, first: &str, key: &str) -> (bool, bool) {
        let (last, first, key) = (last.as_bytes(), first.as_bytes(), key.as_bytes());
        let (bounds, separator) = (bounds_of(last, first), separator(last, first));
        let gap = bounds.gap(0).unwrap();
        (gap.is_behind_last(separator, key), gap.is_before_first(separator, key))
    }

    #[test]
    fn keys_between_two_blocks_are_refused() {
        let between = |key| refused("user:041738", "user:042519", key);
        for key in
            ["user:04174", "user:0418", "user:041999", "user:042", "user:0424", "user:0425", "user:042509"]
        {
            assert_eq!(between(key), (true, true), "{key}");
        }
        for key in ["user:0417389", "user:0417", "user:041", "user:041738", "user:0", "", "user:03"] {
            assert_eq!(between(key), (false, true), "{key}");
        }
        for key in ["user:04251", "user:042519", "user:042510", "user:0426", "v", "user:05"] {
            assert_eq!(between(key), (true, false), "{key}");
        }
        // A last key that is stored whole is told from keys that continue it.
        assert_eq!(refused("ab", "b", "ab0"), (true, true));
        assert_eq!(refused("abcd", "b", "abcd0"), (false, true));
        assert_eq!(refused("abcd", "b", "abd"), (true, true));
        assert_eq!((refused("a", "a0", "a/"), refused("a", "a00", "a0")), ((true, true), (true, true)));
        assert_eq!(refused("", "b", "a"), (true, true));
    }

    /// BB1; and keys well inside of the gap are excluded.
    #[test]
    fn key_gaps_exclude_no_key_of_their_blocks() {
        for (seed, shape) in SHAPES.into_iter().enumerate() {
            let random = SeededRandom::new(seed as u64);
            for _ in 0..2_000 {
                let mut keys: Vec<Vec<u8>> = (0..4).map(|_| key_of(shape, 300, &random)).collect();
                keys.sort();
                let (last, first) = (&keys[1][..], &keys[2][..]);
                let bounds = bounds_of(last, first);
                let Some(gap) = bounds.gap(0) else {
                    assert_eq!(last, first);
                    continue;
                };
                let separator = separator(last, first);
                for key in &keys[..2] {
                    assert!(
                        !gap.is_behind_last(separator, key),
                        "{} {}",
                        last.escape_ascii(),
                        key.escape_ascii()
                    );
                    assert!(gap.is_before_first(separator, key));
                }
                for key in &keys[2..] {
                    assert!(
                        !gap.is_before_first(separator, key),
                        "{} {}",
                        first.escape_ascii(),
                        key.escape_ascii()
                    );
                    assert!(gap.is_behind_last(separator, key));
                }
            }
        }
    }

    #[test]
    fn damaged_sections_never_panic() {
        let mut encoder = BoundsEncoder::default();
        let keys: [(&[u8], &[u8]); 5] =
            [(b"a", b"b"), (b"b12", b"b2"), (b"c", b"c"), (b"c", b"cde"), (b"", b"\0")];
        for (last, first) in keys {
            encoder.add(last, first);
        }
        let good = encoder.finish().unwrap();
        for at in 0..good.len() {
            for byte in 0..=255 {
                let mut bytes = good.clone();
                bytes[at] = byte;
                let Ok(bounds) = BoundsSection::decode(&bytes, 6) else { continue };
                for number in 0..6 {
                    for (key, separator) in [(&b"b1"[..], &b"b2"[..]), (b"", b""), (b"c", b""), (b"", b"c")] {
                        let Some(gap) = bounds.gap(number) else { continue };
                        let _ = gap.is_behind_last(separator, key) | gap.is_before_first(separator, key);
                    }
                }
            }
            assert!(BoundsSection::decode(&good[..at], 6).is_err());
        }
        assert!(BoundsSection::decode(&good, 5).is_err() && BoundsSection::decode(&good, 0).is_err());
        let random = SeededRandom::new(1);
        for _ in 0..1_000 {
            let bytes: Vec<u8> = (0..8).map(|_| random.next_u64() as u8).collect();
            let _ = BoundsSection::decode(&bytes, 3);
        }
    }
}
