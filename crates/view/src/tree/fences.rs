//! Fences: the bounds of a run's parts as integers.
//!
//! Every lookup and seek searches every run for the part that may hold a key. The keys at which parts begin
//! and end are at arbitrary addresses, behind two pointers each, so they are compared only if the integers do
//! not decide.
//!
//! # Invariants
//! * FE1. Parts begin and end with keys that begin with `prefix`; their numbers are made of the eight bytes
//!   behind it. A key without this prefix lies before or behind all of them, and its number is the least or
//!   the greatest there is.
//! * FE2. If the number of one key is less than that of another, so is the key. On equal numbers whole keys
//!   are compared.
//!
//! Without the prefix, keys such as `user0000001234`, whose first eight bytes are all the same, would be
//! compared with every part before their own.

use super::TreePart;
use esker_base::key::{common_prefix_len, head};
use esker_version::KeyRange;

/// An item with a range of keys.
pub(super) trait Ranged {
    fn range(&self) -> &KeyRange;
}

impl Ranged for TreePart {
    fn range(&self) -> &KeyRange {
        &self.meta.range
    }
}

/// The numbers of a run's parts, and the prefix they are derived with.
#[derive(Clone, Debug)]
pub(super) struct Fences {
    prefix: Box<[u8]>,
    /// The number of each part's first key.
    starts: Box<[u64]>,
    /// The number of each part's end; without one, the greatest number.
    ends: Box<[u64]>,
}

impl Fences {
    /// The fences of disjoint parts in key order.
    pub(super) fn of(parts: &[impl Ranged]) -> Fences {
        let first = parts.first().map_or(&[][..], |part| &part.range().start);
        let last = parts.last().map(Ranged::range);
        let last = last.map_or(&[][..], |range| range.end.key().unwrap_or(&range.start));
        // The keys in between share the common prefix of the first and the last.
        let skip = common_prefix_len(first, last);
        let end = |part: &KeyRange| part.end.key().map_or(u64::MAX, |end| head(end, skip));
        Fences {
            prefix: first[..skip].into(),
            starts: parts.iter().map(|part| head(&part.range().start, skip)).collect(),
            ends: parts.iter().map(|part| end(part.range())).collect(),
        }
    }

    #[inline(always)]
    fn number_of(&self, key: &[u8]) -> u64 {
        if self.prefix.is_empty() || key.starts_with(&self.prefix) {
            return head(key, self.prefix.len());
        }
        if *key < *self.prefix { 0 } else { u64::MAX }
    }

    /// Index of the first part that does not end before `key`; the number of parts if there is none.
    #[inline]
    pub(super) fn lower_bound(&self, parts: &[impl Ranged], key: &[u8]) -> usize {
        self.first_from(parts, key, self.number_of(key))
    }

    #[inline(always)]
    fn first_from(&self, parts: &[impl Ranged], key: &[u8], number: u64) -> usize {
        let at = self.ends.partition_point(|&end| end < number);
        if self.ends.get(at) == Some(&number) { self.first_of_equals(parts, key, at) } else { at }
    }

    /// The same among parts whose end number equals the key's, from this one on.
    #[cold]
    #[inline(never)]
    fn first_of_equals(&self, parts: &[impl Ranged], key: &[u8], from: usize) -> usize {
        let number = self.ends[from];
        let equals = self.ends[from..].partition_point(|&end| end == number);
        from + parts[from..from + equals].partition_point(|part| !part.range().end.covers(key))
    }

    /// The only part that can hold `key`: the key is not outside of its range.
    #[inline(always)]
    pub(super) fn part_for<'p, P: Ranged>(&self, parts: &'p [P], key: &[u8]) -> Option<&'p P> {
        let number = self.number_of(key);
        let at = self.first_from(parts, key, number);
        let start = *self.starts.get(at)?;
        let part = parts.get(at)?;
        (start < number || (start == number && *part.range().start <= *key)).then_some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_env::SeededRandom;
    use esker_version::KeyEnd;

    impl Ranged for KeyRange {
        fn range(&self) -> &KeyRange {
            self
        }
    }

    /// Few letters and lengths around eight bytes, so that keys have long common prefixes, equal numbers, and
    /// each other as prefixes.
    fn some_key(random: &SeededRandom, prefix: &[u8]) -> Vec<u8> {
        let len = random.below(12) as usize;
        let letters = [0u8, b'a', 0xff];
        prefix.iter().copied().chain((0..len).map(|_| letters[random.below(3) as usize])).collect()
    }

    /// Disjoint ranges in order between some keys; some begin where the one before ends.
    fn some_ranges(random: &SeededRandom, prefix: &[u8]) -> Vec<KeyRange> {
        let mut keys: Vec<Vec<u8>> = (0..random.below(12)).map(|_| some_key(random, prefix)).collect();
        keys.sort();
        keys.dedup();
        let mut ranges: Vec<KeyRange> = Vec::new();
        for pair in keys.windows(2) {
            let is_free = ranges.last().is_none_or(|last| !last.contains(&pair[0]));
            match random.below(4) {
                0 if is_free => ranges.push(KeyRange::inclusive(&*pair[0], &*pair[1])),
                1 if is_free => ranges.push(KeyRange::half_open(&*pair[0], &*pair[1])),
                2 if is_free => ranges.push(KeyRange::inclusive(&*pair[0], &*pair[0])),
                _ => {}
            }
        }
        if let Some(last) = keys.last()
            && random.below(4) == 0
            && ranges.last().is_none_or(|range| !range.contains(last))
        {
            ranges.push(KeyRange { start: last.as_slice().into(), end: KeyEnd::Unbounded });
        }
        ranges
    }

    #[test]
    fn numbers_tell_what_whole_keys_tell() {
        let random = SeededRandom::new(17);
        let prefixes: [&[u8]; 5] = [b"", b"a", b"user0000", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\0"];
        let (mut found, mut equals) = (0, 0);
        for round in 0..20_000 {
            let prefix = prefixes[round % prefixes.len()];
            let ranges = some_ranges(&random, prefix);
            let fences = Fences::of(&ranges);
            equals += usize::from(fences.ends.windows(2).any(|pair| pair[0] == pair[1]));
            for _ in 0..8 {
                let with = prefixes[random.below(5) as usize];
                let key = some_key(&random, if random.below(3) > 0 { prefix } else { with });
                let bound = ranges.iter().position(|range| range.end.covers(&key)).unwrap_or(ranges.len());
                assert_eq!(fences.lower_bound(&ranges, &key), bound, "{key:?} in {ranges:?}");
                let part = ranges.iter().find(|range| range.contains(&key));
                assert_eq!(fences.part_for(&ranges, &key), part, "{key:?} in {ranges:?}");
                found += usize::from(part.is_some());
            }
        }
        assert!(found > 10_000 && equals > 1_000, "{found} were in a range, {equals} runs had equal numbers");
    }
}
