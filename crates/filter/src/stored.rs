//! The stored form: the number of each kind, and the layout of the kinds made of lines.
//! `docs/format/filter.md` has all of it to the byte.

use crate::lines::{LINE_BYTES, Line};
use esker_base::coding::Reader;
use esker_env::OffHeapSlice;

/// The layout version that this build writes and reads, of each kind.
pub(crate) const VERSION: u8 = 1;

/// The blocked Bloom filter. This number and those that follow are stored and never used for anything else.
pub(crate) const BLOCKED_BLOOM: u8 = 1;
pub(crate) const BLOOM: u8 = 2;
pub(crate) const LOCAL_BLOOM: u8 = 3;
pub(crate) const DOUBLE_PROBE_BLOOM: u8 = 4;

pub(crate) const RIBBON: u8 = 5;
pub(crate) const BINARY_FUSE: u8 = 6;

/// Bytes in front of the lines.
pub(crate) const LINES_HEADER_BYTES: usize = 8;

/// The bytes of a filter made of lines: `number` is that of its kind.
pub(crate) fn encode_lines(number: u8, probes: u8, lines: &[Line]) -> OffHeapSlice<u8> {
    let mut bytes = OffHeapSlice::filled(0, LINES_HEADER_BYTES + lines.len() * LINE_BYTES);
    let (header, rest) = bytes.split_at_mut(LINES_HEADER_BYTES);
    // A filter has at most 2^32 - 1 lines.
    let count = (lines.len() as u32).to_le_bytes();
    header.copy_from_slice(&[number, VERSION, probes, 0, count[0], count[1], count[2], count[3]]);
    let words = lines.iter().flat_map(|line| line.0);
    rest.chunks_exact_mut(4).zip(words).for_each(|(place, word)| place.copy_from_slice(&word.to_le_bytes()));
    bytes
}

/// Decodes lines and number of probes from the bytes behind kind and version. The kind has up to
/// `most_probes`. Long-lived filters lie in huge pages.
pub(crate) fn decode_lines(
    reader: &mut Reader<'_>,
    most_probes: u8,
    stays: bool,
) -> Result<(OffHeapSlice<Line>, u8), String> {
    let cut = || "a filter made of lines has no whole header".to_owned();
    let (probes, padding) = (reader.u8().ok_or_else(cut)?, reader.u8().ok_or_else(cut)?);
    let count = reader.u32().ok_or_else(cut)?;
    if !(1..=most_probes).contains(&probes) || padding != 0 {
        return Err(format!(
            "a filter of this kind has 1 to {most_probes} probes and padding 0, not {probes} and {padding}"
        ));
    }
    let data = reader.rest();
    if count == 0 || data.len() as u64 != u64::from(count) * LINE_BYTES as u64 {
        return Err(format!("a filter of {count} lines of 64 bytes expected, {} bytes found", data.len()));
    }
    let lines = data.chunks_exact(LINE_BYTES).map(Line::decode);
    Ok((if stays { OffHeapSlice::lasting(lines) } else { OffHeapSlice::collect(lines) }, probes))
}
