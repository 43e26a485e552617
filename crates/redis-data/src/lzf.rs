//! LZF compression, the format of LibLZF: literals and back references of up to 8 KiB.
//!
//! A control byte below 32 is followed by that many literals and one more. Otherwise its upper three bits are
//! the length of a match less two, seven of them meaning that one byte more of length follows, and its lower
//! five bits with the next byte the distance less one.

use crate::corrupt::Corrupt;
use crate::reader::Reader;

/// Longest run of literals behind one control byte.
const MAX_LITERALS: usize = 32;
/// Shortest match worth a reference.
const MIN_MATCH: usize = 3;
/// Longest match that one reference encodes: seven, 255 more, and the two that are never written.
const MAX_MATCH: usize = 7 + 255 + 2;
/// Farthest distance of a reference.
const MAX_DISTANCE: usize = 1 << 13;
/// Places of the table that finds matches, a power of two.
const TABLE_LEN: usize = 1 << 13;
/// Most output bytes of one input byte: a reference of three bytes gives `MAX_MATCH`.
pub const MAX_RATIO: usize = MAX_MATCH.div_ceil(MIN_MATCH);

/// Decompresses `input` to exactly `len_bytes` bytes.
///
/// # Errors
///
/// Input that gives another length, or refers to what is before the start. Memory grows with the output,
/// which cannot be longer than [`MAX_RATIO`] times the input.
pub fn decompress(input: &[u8], len_bytes: usize) -> Result<Vec<u8>, Corrupt> {
    if len_bytes.div_ceil(MAX_RATIO) > input.len() {
        return Err(Corrupt::new("compressed bytes are too few for their length", 0));
    }
    let mut reader = Reader::new(input);
    let mut output = Vec::with_capacity(len_bytes);
    while !reader.is_at_end() {
        let control = usize::from(reader.byte()?);
        if control < MAX_LITERALS {
            let literals = reader.take(control + 1)?;
            if literals.len() > len_bytes - output.len() {
                return Err(reader.corrupt("compressed bytes give more than their length"));
            }
            output.extend_from_slice(literals);
            continue;
        }
        let mut len = control >> 5;
        if len == 7 {
            len += usize::from(reader.byte()?);
        }
        let distance = ((control & 0x1f) << 8 | usize::from(reader.byte()?)) + 1;
        copy_match(&mut output, distance, len + 2, len_bytes).map_err(|what| reader.corrupt(what))?;
    }
    if output.len() != len_bytes {
        return Err(reader.corrupt("compressed bytes give less than their length"));
    }
    Ok(output)
}

/// Appends `len` bytes from `distance` bytes ago. A match may overlap what it appends.
fn copy_match(output: &mut Vec<u8>, distance: usize, len: usize, limit: usize) -> Result<(), &'static str> {
    if len > limit - output.len() {
        return Err("compressed bytes give more than their length");
    }
    let from = output.len().checked_sub(distance).ok_or("a match begins before the output")?;
    let end = output.len() + len;
    while output.len() < end {
        // What follows `from` is a whole number of periods, so all of it may be appended once more.
        let step = (output.len() - from).min(end - output.len());
        output.extend_from_within(from..from + step);
    }
    Ok(())
}

/// Compresses `input`, or nothing if the result would be longer than `limit_bytes`.
pub fn compress(input: &[u8], limit_bytes: usize) -> Option<Vec<u8>> {
    let mut output = Vec::with_capacity(limit_bytes.min(input.len()));
    // Position of the last three bytes with a hash, plus one; zero: none.
    let mut table = vec![0u32; TABLE_LEN];
    let mut literals_start = 0;
    let mut at = 0;
    while at + MIN_MATCH <= input.len() {
        let place = &mut table[hash(&input[at..])];
        let candidate = (*place as usize).checked_sub(1);
        *place = u32::try_from(at + 1).ok()?;
        let found = candidate.filter(|&from| {
            at - from <= MAX_DISTANCE && input[from..from + MIN_MATCH] == input[at..at + MIN_MATCH]
        });
        let Some(from) = found else {
            at += 1;
            continue;
        };
        let longest = MAX_MATCH.min(input.len() - at);
        let same = input[from..].iter().zip(&input[at..at + longest]).take_while(|(a, b)| a == b).count();
        append_literals(&mut output, &input[literals_start..at]);
        append_match(&mut output, at - from, same);
        if output.len() > limit_bytes {
            return None;
        }
        at += same;
        literals_start = at;
    }
    append_literals(&mut output, &input[literals_start..]);
    (output.len() <= limit_bytes).then_some(output)
}

fn hash(bytes: &[u8]) -> usize {
    let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
    (word.wrapping_mul(0x9e37_79b1) >> (32 - TABLE_LEN.trailing_zeros())) as usize
}

fn append_literals(output: &mut Vec<u8>, literals: &[u8]) {
    for run in literals.chunks(MAX_LITERALS) {
        output.push((run.len() - 1) as u8);
        output.extend_from_slice(run);
    }
}

fn append_match(output: &mut Vec<u8>, distance: usize, len: usize) {
    let (distance, len) = (distance - 1, len - 2);
    let high = (distance >> 8) as u8;
    if len < 7 {
        output.push((len as u8) << 5 | high);
    } else {
        output.push(7 << 5 | high);
        output.push((len - 7) as u8);
    }
    output.push(distance as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_comes_back() {
        let mut noise = 1u32;
        let random: Vec<u8> = (0..20_000)
            .map(|_| {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (noise >> 24) as u8 & 3
            })
            .collect();
        let mut far = vec![7u8; 20];
        far.extend((0..MAX_DISTANCE as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8));
        far.extend([7u8; 20]);
        for input in
            [vec![b'a'; 100_000], random, b"abcabcabcabcabcabcabcabcx".to_vec(), far, vec![], vec![1, 2]]
        {
            let compressed = compress(&input, input.len() * 2 + 1).expect("there is room");
            assert_eq!(decompress(&compressed, input.len()).as_deref(), Ok(&input[..]));
        }
        assert_eq!(compress(b"no repeats here", 10), None);
    }

    #[test]
    fn matches_overlap_what_they_append() {
        // One literal, then a match of eight at distance one; two literals, then five at distance two.
        assert_eq!(decompress(&[0, b'x', 6 << 5, 0], 9).as_deref(), Ok(&b"xxxxxxxxx"[..]));
        assert_eq!(decompress(&[1, b'a', b'b', 3 << 5, 1], 7).as_deref(), Ok(&b"abababa"[..]));
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let faulty: [(&[u8], usize); 7] = [
            (&[0], 1),
            (&[0, b'x'], 2),
            (&[1, b'x', b'y'], 1),
            (&[1 << 5, 0], 3),
            (&[0, b'x', 1 << 5, 1], 4),
            (&[0, b'x', 7 << 5], 10),
            (&[0, b'x'], usize::MAX),
        ];
        for (input, len) in faulty {
            assert!(decompress(input, len).is_err(), "{input:?} to {len}");
        }
    }
}
