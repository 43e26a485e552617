//! Trees drawn as text.
//!
//! A picture has one line for each level, runs newest first and separated by `|`, parts separated by blanks:
//!
//! ```text
//! L0: a-z:64 | 3*a-z:64
//! L1: a-f:64 g-l:64;t=0.3
//! Z: split(69,16)
//! ```
//!
//! `a-f:64` is a part from key `a` to key `f` of 64 MiB; `3*` repeats a run; `split(n,size)` is n parts of
//! `size` MiB over the keys `aa` to `zz`; `Z` is the last level. Attributes follow after `;`: `t` share of
//! tombstones, `seq=5..9` sequence numbers (else older runs get smaller ones), `pinned` a sequence number,
//! `deleted`, `expires` and `created` times in seconds, `heat` how often it was read, `replaces` its
//! overwrite ratio in 1/1000, `id` an identity (else parts are numbered in
//! reading order), `new` that it was written after a change of strategy.

use esker_base::{FileNumber, PartId, RunId, SeqNo, TableUid};
use esker_strategy::*;
use esker_version::*;
use std::sync::Arc;

pub(crate) const MIB: u64 = 1 << 20;
/// Bytes of an entry, as in the design's examples.
const ENTRY_BYTES: u64 = 116;

/// A tree drawn from text.
#[derive(Debug, Default)]
pub(crate) struct Picture {
    parts: Vec<(Place, Drawn)>,
}

#[derive(Debug)]
struct Drawn {
    part: PartMeta,
    seqnos_given: bool,
    heat: u64,
    replaced: Option<u32>,
    is_new: bool,
}

/// The first file written after a change of strategy.
pub(crate) const FIRST_NEW: FileNumber = FileNumber(100_000);

impl Picture {
    /// Adds a line, oldest levels last.
    pub(crate) fn line(&mut self, line: &str) {
        let (level, runs) = line.split_once(':').unwrap_or_else(|| panic!("no level in {line:?}"));
        let level = parse_level(level.trim());
        let mut texts = Vec::new();
        for run in runs.split('|').map(str::trim).filter(|run| !run.is_empty()) {
            match run.split_once('*') {
                Some((count, run)) => texts.extend(vec![run; count.parse().unwrap()]),
                None => texts.push(run),
            }
        }
        let count = texts.len() as u64;
        for (at, text) in texts.into_iter().enumerate() {
            let order = count - at as u64;
            let place = Place { level, run: RunId(1000 * u64::from(level.get()) + order), order };
            for part in text.split_whitespace().flat_map(parse_parts) {
                self.parts.push((place, part));
            }
        }
        for (at, (_, drawn)) in self.parts.iter_mut().enumerate() {
            // Given ones are beyond those that follow from the order.
            if drawn.part.id.0 < 1000 {
                drawn.part.id = PartId(at as u64 + 1);
            }
        }
    }

    /// How often parts were read, as shapes take it.
    pub(crate) fn heat(&self) -> Vec<(PartId, u64)> {
        let mut heat: Vec<(PartId, u64)> =
            self.parts.iter().map(|(_, drawn)| (drawn.part.id, drawn.heat)).collect();
        heat.sort_unstable();
        heat
    }

    /// The overwrite ratios of parts, as shapes take them.
    pub(crate) fn overwrite_ratios(&self) -> Vec<(PartId, u32)> {
        let known = self.parts.iter().filter_map(|(_, drawn)| Some((drawn.part.id, drawn.replaced?)));
        let mut replaced: Vec<(PartId, u32)> = known.collect();
        replaced.sort_unstable();
        replaced
    }

    /// The tree: parts are numbered in reading order, sequence numbers grow from the oldest run to the
    /// newest.
    pub(crate) fn version(mut self) -> Version {
        let mut runs: Vec<RunPosition> = self
            .parts
            .iter()
            .map(|(place, ..)| RunPosition { level: place.level, order: place.order })
            .collect();
        runs.sort_unstable();
        runs.dedup();
        for (at, (place, Drawn { part, seqnos_given, is_new, .. })) in self.parts.iter_mut().enumerate() {
            part.file = FileNumber(at as u64 + 1 + if *is_new { FIRST_NEW.get() } else { 0 });
            let position = RunPosition { level: place.level, order: place.order };
            let age = runs.len() - runs.binary_search(&position).unwrap();
            if !*seqnos_given {
                part.min_seqno = SeqNo::new(age as u64 * 100 + 1);
                part.max_seqno = SeqNo::new(age as u64 * 100 + 100);
            }
        }
        Version::from_parts(self.parts.into_iter().map(|(place, drawn)| (place, Arc::new(drawn.part))))
            .unwrap_or_else(|error| panic!("{error}"))
    }
}

pub(crate) fn parse_level(text: &str) -> LevelIndex {
    match text {
        "Z" => LevelIndex::LAST,
        _ => LevelIndex::new(text.strip_prefix('L').and_then(|n| n.parse().ok()).unwrap()).unwrap(),
    }
}

pub(crate) fn parse_range(text: &str) -> KeyRange {
    let (first, last) = text.split_once('-').unwrap_or_else(|| panic!("no range in {text:?}"));
    KeyRange::inclusive(first.as_bytes(), last.as_bytes())
}

fn parse_parts(text: &str) -> Vec<Drawn> {
    let plain = |part| Drawn { part, seqnos_given: false, heat: 0, replaced: None, is_new: false };
    if let Some(arguments) = text.strip_prefix("split(").and_then(|rest| rest.strip_suffix(')')) {
        let (count, size) = arguments.split_once(',').unwrap();
        let count: u64 = count.parse().unwrap();
        return (0..count).map(|at| plain(new_part(split_range(at, count), size))).collect();
    }
    let mut fields = text.split(';');
    let (range, size) =
        fields.next().unwrap().rsplit_once(':').unwrap_or_else(|| panic!("no size in {text:?}"));
    let mut part = new_part(parse_range(range), size);
    let (mut seqnos_given, mut heat, mut replaced, mut is_new) = (false, 0, None, false);
    for field in fields {
        let (name, value) = field.split_once('=').unwrap_or((field, ""));
        let number = || value.parse::<u64>().unwrap();
        match name {
            "t" => part.tombstones = (part.entries as f64 * value.parse::<f64>().unwrap()).round() as u64,
            "seq" => {
                let (min, max) = value.split_once("..").unwrap();
                part.min_seqno = SeqNo::new(min.parse().unwrap());
                part.max_seqno = SeqNo::new(max.parse().unwrap());
                seqnos_given = true;
            }
            "pinned" => part.pinned_by = Some(SeqNo::new(number())),
            "created" => part.created_ms = number() * 1000,
            "new" => is_new = true,
            "heat" => heat = number(),
            "replaces" => replaced = Some(number() as u32),
            "id" => part.id = PartId(number()),
            "deleted" => part.oldest_delete_ms = Some(number() * 1000),
            "expires" => {
                part.max_expiry_ms = Some(number() * 1000);
                part.min_expiry_ms = part.max_expiry_ms;
            }
            _ => panic!("no attribute {name:?}"),
        }
    }
    vec![Drawn { part, seqnos_given, heat, replaced, is_new }]
}

/// The `at`th of `count` equal pieces of the keys `aa` to `zz`.
fn split_range(at: u64, count: u64) -> KeyRange {
    let key = |number: u64| vec![b'a' + (number / 26) as u8, b'a' + (number % 26) as u8];
    KeyRange::inclusive(key(at * 676 / count), key((at + 1) * 676 / count - 1))
}

fn new_part(range: KeyRange, mebibytes: &str) -> PartMeta {
    let bytes = (mebibytes.parse::<f64>().unwrap() * MIB as f64) as u64;
    let mut part = PartMeta::new(PartId(0), FileNumber(0), bytes, TableUid(0), range);
    part.entries = bytes / ENTRY_BYTES;
    part
}
