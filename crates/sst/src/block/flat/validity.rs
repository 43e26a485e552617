//! Validation of flat payloads: establishes F1 to F5 at the head of [`super`].

use super::Flat;
use crate::block::flat_encode::{FINGERPRINT_AND_HEAD_BYTES, PAYLOAD_HEADER_BYTES};
use crate::block::header::{BlockHeader, FLAG_EQUAL_ENTRIES};
use crate::block::tags::{TAG_CODING_BYTES, TagCoding};
use crate::decode_error::{DecodeError, damaged};
use esker_base::coding;
use esker_base::limits::MAX_KEY_LEN;

impl Flat {
    /// Establishes F1 to F5 for the payload, `header.raw_len` bytes.
    pub(crate) fn validate(header: &BlockHeader, payload: &[u8]) -> Result<(), DecodeError> {
        let Some(front) = payload.first_chunk::<PAYLOAD_HEADER_BYTES>() else {
            return damaged(format!("a flat block of {} bytes is too short", payload.len()));
        };
        let tags: [u8; TAG_CODING_BYTES] = front[..TAG_CODING_BYTES].try_into().expect("ten bytes");
        TagCoding::decode(&tags)?;
        let flat = Flat::new(header, payload);
        let entries_at = flat.entries_at();
        if payload.len() != flat.len || entries_at.is_none_or(|at| at > flat.len) {
            return damaged(format!("{} entries do not fit a flat block of {} bytes", flat.count, flat.len));
        }
        let entries_at = entries_at.unwrap_or_default();
        if (flat.stride != 0) != (header.flags & FLAG_EQUAL_ENTRIES != 0) {
            return damaged(format!(
                "a flat block with flags {:#04x} says that entries have {} bytes",
                header.flags, flat.stride
            ));
        }
        if flat.stride != 0 {
            return flat.validate_uniform(entries_at);
        }
        if flat.is_uniform_valid(payload, entries_at) {
            return Ok(());
        }
        flat.validate_entries(payload, entries_at)
    }

    /// End of the directory, where entries may start; `None` if it overflows.
    fn entries_at(&self) -> Option<usize> {
        let directory_bytes = self.count.checked_mul(FINGERPRINT_AND_HEAD_BYTES + self.offset_bytes())?;
        (PAYLOAD_HEADER_BYTES + self.prefix_len).checked_add(directory_bytes)
    }

    /// F2 to F4, and the rest of F5, where entries have one length: one check holds for all.
    fn validate_uniform(&self, entries_at: usize) -> Result<(), DecodeError> {
        if self.wide {
            return damaged("a flat block has entries of one length, and wide offsets as well");
        }
        let entries_bytes = self.count.checked_mul(self.stride);
        if entries_bytes != Some(self.len - entries_at) {
            return damaged(format!(
                "{} entries of {} bytes do not fill a flat block from {entries_at} to {}",
                self.count, self.stride, self.len
            ));
        }
        let Some(suffix_len) = self.suffix_len else {
            return damaged("a flat block has entries of one length, but no length of their keys");
        };
        if self.tags.width() + suffix_len > self.stride || self.prefix_len + suffix_len > MAX_KEY_LEN {
            return damaged(format!(
                "keys of {} and {suffix_len} bytes do not fit the entries of {} bytes of a flat block",
                self.prefix_len, self.stride
            ));
        }
        Ok(())
    }

    fn validate_entries(&self, payload: &[u8], entries_at: usize) -> Result<(), DecodeError> {
        let mut start = entries_at;
        for i in 0..self.count {
            // SAFETY: F1 was established, so all offsets lie within the payload.
            let (at, end) = unsafe {
                let at = self.offset(i);
                (at, self.end(i, at))
            };
            if at < start || end < at || end > self.len {
                return damaged(format!("entry {i} of a flat block lies at {at}..{end} of {}", self.len));
            }
            let body = &payload[at..end];
            let (suffix_len, length_bytes) = match self.suffix_len {
                Some(len) => (len, 0),
                None => match coding::get_varint(body.get(self.tags.width()..).unwrap_or_default()) {
                    Some((len, bytes)) if len <= MAX_KEY_LEN as u64 => (len as usize, bytes),
                    _ => return damaged(format!("entry {i} of a flat block has no key length")),
                },
            };
            let in_entry = self.tags.width() + length_bytes + suffix_len <= body.len();
            if !in_entry || self.prefix_len + suffix_len > MAX_KEY_LEN {
                return damaged(format!("the key of entry {i} of a flat block does not fit"));
            }
            start = at;
        }
        Ok(())
    }

    /// F2 to F4 at once, for narrow offsets and suffixes of one length: it is enough that no entry is shorter
    /// than what precedes its value. `false` is not final: the caller then validates entry by entry, which
    /// finds the damage.
    fn is_uniform_valid(&self, payload: &[u8], entries_at: usize) -> bool {
        let Some(suffix_len) = self.suffix_len.filter(|_| !self.wide) else { return false };
        let least = self.tags.width() + suffix_len;
        let at = self.fingerprints_at() + self.count;
        let Some(offsets) = payload.get(at..at + 2 * self.count) else { return false };
        let offsets = offsets.as_chunks::<2>().0;
        let offset = |bytes: &[u8; 2]| usize::from(u16::from_le_bytes(*bytes));
        let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return false };
        // At least one byte, because decreasing offsets must be refused even if entries need none.
        let Ok(least_bytes) = u16::try_from(least.max(1)) else { return false };
        // No early exit, and nothing wider than an offset, so that the comparison is vectorised.
        let lacks = |pair: &[[u8; 2]; 2]| {
            let len = u16::from_le_bytes(pair[1]).saturating_sub(u16::from_le_bytes(pair[0]));
            least_bytes.saturating_sub(len)
        };
        offsets.array_windows().fold(0, |any, pair| any | lacks(pair)) == 0
            && entries_at <= offset(first)
            && offset(last) + least <= self.len
            && self.prefix_len + suffix_len <= MAX_KEY_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::header::{FLAG_FIXED_SUFFIX, HEADER_BYTES};
    use crate::block::staged::{LayoutOptions, Staged};
    use crate::block::{BlockLayout, Compression, Scratch, append_image};
    use crate::testing::{SHAPES, Shape, entries};
    use esker_base::{SeqNo, Tag};
    use esker_codec::Codec;
    use esker_env::SeededRandom;

    /// Bulk validation accepts nothing that single validation refuses, and covers whole uniform blocks.
    #[test]
    fn bulk_validation_is_no_weaker_than_entry_by_entry() {
        let random = SeededRandom::new(11);
        let (mut accepted, mut refused) = (0, 0);
        for shape in SHAPES {
            let mut staged = Staged::new(LayoutOptions::Flat);
            for entry in entries(shape, 40, 100, &random).iter().filter(|entry| entry.key.len() < 300) {
                staged.add(&entry.key, 0, entry.tag, &entry.value, 0);
            }
            let raw = Compression { codec: Codec::None, dictionary: None };
            let mut image = Vec::new();
            let header =
                append_image(&mut staged, BlockLayout::Flat, 0, &raw, &mut Scratch::default(), &mut image);
            let payload = &image[HEADER_BYTES..];
            let flat = Flat::new(&header, payload);
            let entries_at = flat.entries_at().unwrap();
            if header.flags & FLAG_EQUAL_ENTRIES != 0 {
                assert_eq!(shape, Shape::Records, "others have values of several lengths");
                continue;
            }
            let is_even = header.flags & FLAG_FIXED_SUFFIX != 0 && !header.wide_offsets();
            assert_eq!(flat.is_uniform_valid(payload, entries_at), is_even, "{shape:?}");
            for _ in 0..20_000 {
                let mut damaged = payload.to_vec();
                // One or two bytes of the directory, mostly in an offset that then stays close to its value.
                for _ in 0..1 + random.below(2) {
                    let at = flat.fingerprints_at() + random.below(5 * flat.count as u64) as usize;
                    damaged[at] = damaged[at].wrapping_add((random.below(9) as u8).wrapping_sub(4));
                }
                let flat = Flat::new(&header, &damaged);
                let is_valid = flat.validate_entries(&damaged, entries_at).is_ok();
                assert!(is_valid || !flat.is_uniform_valid(&damaged, entries_at), "{shape:?}");
                (accepted, refused) = (accepted + u32::from(is_valid), refused + u32::from(!is_valid));
            }
        }
        assert!(accepted > 1_000 && refused > 1_000, "{accepted} accepted, {refused} refused");
    }

    /// Entries without bytes before their value are never too short, but offsets must not decrease (F2).
    #[test]
    fn offsets_that_decrease_are_refused_though_entries_may_be_empty() {
        let mut staged = Staged::new(LayoutOptions::Flat);
        let tag = Tag::visible_at(SeqNo::new(7));
        // One value has another length, so there are offsets.
        staged.add(b"a", 0, tag, b"value", 0);
        staged.add(b"b", 0, tag, b"value", 0);
        staged.add(b"c", 0, tag, b"values", 0);
        let raw = Compression { codec: Codec::None, dictionary: None };
        let mut image = Vec::new();
        let header =
            append_image(&mut staged, BlockLayout::Flat, 0, &raw, &mut Scratch::default(), &mut image);
        let mut payload = image[HEADER_BYTES..].to_vec();
        let flat = Flat { suffix_len: Some(0), ..Flat::new(&header, &payload) };
        assert_eq!(flat.tags.width(), 0);
        let entries_at = flat.entries_at().unwrap();
        let offsets_at = flat.fingerprints_at() + flat.count;
        for (i, offset) in [entries_at + 6, entries_at, entries_at + 6].into_iter().enumerate() {
            payload[offsets_at + 2 * i..][..2].copy_from_slice(&(offset as u16).to_le_bytes());
        }
        assert!(!flat.is_uniform_valid(&payload, entries_at));
        assert!(flat.validate_entries(&payload, entries_at).is_err());
    }
}
