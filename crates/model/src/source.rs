//! The source of entries: how many distinct keys an interval of time wrote to a range of the key space.

use crate::content::{Ages, SPAN, Segment};
use crate::workload::{Input, Workload};

/// Keys that are written equally often.
#[derive(Clone, Copy, Debug)]
struct Popularity {
    /// Their share of all keys.
    keys: f64,
    /// Writes of one of them, relative to the average of all keys.
    writes_of_a_key: f64,
}

/// A range of the key space with a write rate of its own.
#[derive(Clone, Copy, Debug)]
struct Zone {
    end: u64,
    /// Writes per key, relative to the average.
    rate: f64,
}

/// Entries, as shares of all keys or as counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Held {
    pub(crate) values: f64,
    pub(crate) tombstones: f64,
}

impl Held {
    pub(crate) fn entries(&self) -> f64 {
        self.values + self.tombstones
    }

    pub(crate) fn times(self, factor: f64) -> Held {
        Held { values: self.values * factor, tombstones: self.tombstones * factor }
    }

    pub(crate) fn plus(self, other: Held) -> Held {
        Held { values: self.values + other.values, tombstones: self.tombstones + other.tombstones }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) workload: Workload,
    keys: f64,
    deletes: f64,
    /// The lifetime of an entry, in operations.
    lifetime: Option<f64>,
    popularities: Vec<Popularity>,
    zones: Vec<Zone>,
}

impl Source {
    pub(crate) fn new(workload: Workload) -> Source {
        let zones = match workload.input {
            Input::HotRange => vec![Zone { end: SPAN / 5, rate: 4.0 }, Zone { end: SPAN, rate: 0.25 }],
            _ => vec![Zone { end: SPAN, rate: 1.0 }],
        };
        Source {
            workload,
            keys: workload.keys.max(1) as f64,
            deletes: workload.deletes(),
            lifetime: workload.lifetime(),
            popularities: popularities(&workload),
            zones,
        }
    }

    /// The contents when overwrites begin.
    pub(crate) fn loaded(&self) -> Segment {
        Segment { start: 0, end: SPAN, ages: Ages::new(-self.keys, 0.0) }
    }

    /// The writes of an interval, as segments of equal rate, ascending.
    pub(crate) fn written(&self, ages: Ages) -> Vec<Segment> {
        if self.workload.input == Input::Sequential {
            return self.swept(ages);
        }
        let mut start = 0;
        let zones = self.zones.iter().map(|zone| {
            let segment = Segment { start, end: zone.end, ages };
            start = zone.end;
            segment
        });
        zones.collect()
    }

    /// The positions that a repeated ascending sweep passes in an interval.
    fn swept(&self, ages: Ages) -> Vec<Segment> {
        let position = |time: f64| ((time + self.keys) / self.keys).fract();
        let at = |part: f64| ((part * SPAN as f64) as u64).min(SPAN);
        if ages.to - ages.from >= self.keys {
            return vec![Segment { start: 0, end: SPAN, ages }];
        }
        let (from, to) = (at(position(ages.from)), at(position(ages.to)));
        let segments = if from < to {
            vec![Segment { start: from, end: to, ages }]
        } else {
            vec![Segment { start: 0, end: to, ages }, Segment { start: from, end: SPAN, ages }]
        };
        segments.into_iter().filter(|segment| segment.start < segment.end).collect()
    }

    /// The interval in a normal form with the same contents: an interval with all of the load and without
    /// deletes has every key, whatever came later. It makes adjacent segments equal.
    pub(crate) fn normal(&self, segment: Segment) -> Segment {
        let nothing_goes = self.deletes == 0.0 && self.lifetime.is_none();
        if nothing_goes && segment.ages.from <= -self.keys && segment.ages.to >= 0.0 {
            return Segment { ages: Ages::new(-self.keys, 0.0), ..segment };
        }
        segment
    }

    /// The write time before which everything has expired at `now`.
    pub(crate) fn alive_from(&self, now: f64) -> f64 {
        self.lifetime.map_or(f64::NEG_INFINITY, |lifetime| now - lifetime)
    }

    /// The interval extended back to the beginning, for merges with nothing older.
    pub(crate) fn back_to_the_beginning(&self, ages: Ages) -> Ages {
        Ages { from: ages.from.min(-self.keys), ..ages }
    }

    /// When the first entry of an interval was written.
    pub(crate) fn first_write(&self, ages: Ages) -> f64 {
        if ages.from <= -self.keys { ages.alive_from } else { ages.from }
    }

    /// The entries of a segment within one zone; a segment that crosses zones counts by the first zone's
    /// rate. Intervals back to the beginning have no tombstones, because nothing is older.
    pub(crate) fn held(&self, segment: &Segment) -> Held {
        let keys = (segment.end - segment.start) as f64 / SPAN as f64 * self.keys;
        self.parts_held(segment).times(keys)
    }

    /// [`Source::held`] for a segment of any extent.
    pub(crate) fn held_across(&self, segment: &Segment) -> Held {
        self.zoned(segment).fold(Held::default(), |sum, piece| sum.plus(self.held(&piece)))
    }

    /// The overwrite ratio of some segments in 1/1000: everything except the load. `None` where entries
    /// expire, because it is not used there.
    pub(crate) fn overwrite_permille(&self, segments: &[Segment]) -> Option<u32> {
        if self.lifetime.is_some() {
            return None;
        }
        let of_load = |segment: &Segment| {
            let Ages { from, to, .. } = segment.ages;
            let is_in_it = from < 0.0;
            let ages = Ages::new(from, to.min(0.0));
            if is_in_it { self.held_across(&Segment { ages, ..*segment }).entries() } else { 0.0 }
        };
        let all: f64 = segments.iter().map(|segment| self.held_across(segment).entries()).sum();
        let new: f64 = segments.iter().map(of_load).sum();
        Some(((1.0 - (new / all.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)) * 1000.0).round() as u32)
    }

    pub(crate) fn zoned<'s>(&'s self, segment: &'s Segment) -> impl Iterator<Item = Segment> + 's {
        let mut start = 0;
        self.zones.iter().filter_map(move |zone| {
            let piece =
                Segment { start: segment.start.max(start), end: segment.end.min(zone.end), ..*segment };
            start = zone.end;
            (piece.start < piece.end).then_some(piece)
        })
    }

    fn parts_held(&self, segment: &Segment) -> Held {
        if self.workload.input == Input::Sequential {
            let values = self.alive_of_a_sweep(segment);
            let tombstones = if segment.ages.from <= -self.keys { 0.0 } else { 1.0 - values };
            return Held { values, tombstones };
        }
        let Ages { from, to, alive_from } = segment.ages;
        // The load's share of the keys that are alive in the long run.
        let loaded = |from: f64| (to.min(0.0) - from.min(0.0)) / self.keys * (1.0 - self.deletes);
        let zone = self.zones.iter().find(|zone| segment.start < zone.end);
        let rate = zone.map_or(1.0, |zone| zone.rate);
        let writes = |from: f64| rate * (to.max(0.0) - from.max(0.0)) / self.keys;
        let (mut values, mut all) = (0.0, 0.0);
        for class in &self.popularities {
            let untouched = |from: f64| (-writes(from) * class.writes_of_a_key).exp();
            let touched = 1.0 - untouched(alive_from);
            values += class.keys * (touched * (1.0 - self.deletes) + untouched(from) * loaded(alive_from));
            all += class.keys * (1.0 - untouched(from) * (1.0 - loaded(from)));
        }
        // All other entries hide older ones.
        let nothing_is_older = from <= -self.keys;
        Held { values, tombstones: if nothing_is_older { 0.0 } else { (all - values).max(0.0) } }
    }

    /// The share of a segment whose last sweep is recent enough that it has not expired.
    fn alive_of_a_sweep(&self, segment: &Segment) -> f64 {
        let Ages { from, to, alive_from } = segment.ages;
        if alive_from <= from {
            return 1.0;
        }
        let phase = |position: u64| position as f64 / SPAN as f64 * self.keys;
        let (first, end) = (phase(segment.start), phase(segment.end));
        let middle = (first + end) / 2.0;
        let sweeps = ((to + self.keys - middle) / self.keys).floor().max(0.0);
        let began = (sweeps - 1.0) * self.keys;
        ((began + end - alive_from) / (end - first).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
    }
}

impl Workload {
    /// Bytes of all keys and values that are alive in the long run.
    pub fn live_bytes(&self) -> f64 {
        self.keys as f64 * self.entry_bytes() * (1.0 - self.deletes()) * alive_share(self)
    }
}

/// The share of all keys whose last write has not expired, in the long run.
pub(crate) fn alive_share(workload: &Workload) -> f64 {
    let Some(ttl_passes) = workload.ttl_passes else { return 1.0 };
    if workload.input.starts_empty() {
        return ttl_passes.min(1.0);
    }
    let forever = Source::new(Workload { deleted_share: 0.0, ttl_passes: None, ..*workload });
    let lifetime = ttl_passes * forever.keys;
    let written = Segment { start: 0, end: SPAN, ages: Ages::new(0.0, lifetime) };
    forever.held_across(&written).values / forever.keys
}

fn popularities(workload: &Workload) -> Vec<Popularity> {
    match workload.input {
        Input::EightyTwenty => vec![
            Popularity { keys: 0.2, writes_of_a_key: 4.0 },
            Popularity { keys: 0.8, writes_of_a_key: 0.25 },
        ],
        Input::Zipf { theta } => zipf(workload.keys.max(1) as f64, theta),
        _ => vec![Popularity { keys: 1.0, writes_of_a_key: 1.0 }],
    }
}

/// A class for each power of two of the rank: within one the keys differ by less than a factor of two.
fn zipf(keys: f64, theta: f64) -> Vec<Popularity> {
    // The sum over ranks as an integral, from half a rank before the first to half a rank behind the last.
    let weight = |from: f64, to: f64| {
        if (theta - 1.0).abs() < 1e-9 {
            (to / from).ln()
        } else {
            (to.powf(1.0 - theta) - from.powf(1.0 - theta)) / (1.0 - theta)
        }
    };
    let total = weight(0.5, keys + 0.5);
    let mut classes = Vec::new();
    let mut first = 1.0;
    while first <= keys {
        let behind = (first * 2.0).min(keys + 1.0);
        let part = (behind - first) / keys;
        let writes = weight(first - 0.5, behind - 0.5) / total;
        classes.push(Popularity { keys: part, writes_of_a_key: writes / part });
        first = behind;
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(input: Input, deleted_share: f64) -> Source {
        Source::new(Workload { keys: 1000, input, deleted_share, ..Workload::default() })
    }

    fn everywhere(from: f64, to: f64) -> Segment {
        Segment { start: 0, end: SPAN, ages: Ages::new(from, to) }
    }

    #[test]
    fn classes_share_all_keys_and_all_writes() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.3] {
            for keys in [1.0, 7.0, 1e6, 1e12] {
                let classes = zipf(keys, theta);
                let (all, writes) = classes.iter().fold((0.0, 0.0), |(keys, writes), class| {
                    (keys + class.keys, writes + class.keys * class.writes_of_a_key)
                });
                assert!((all - 1.0).abs() < 1e-9 && (writes - 1.0).abs() < 1e-9, "{theta} {keys}");
                assert!(classes.len() <= 41);
            }
        }
    }

    #[test]
    fn repeated_draws_meet_the_same_keys() {
        let uniform = source(Input::Uniform, 0.0);
        let held = uniform.held(&everywhere(0.0, 1000.0)).values;
        assert!((held - 1000.0 * (1.0 - (-1.0f64).exp())).abs() < 1e-6, "{held}");
        assert!((uniform.held(&everywhere(-1000.0, 5.0)).values - 1000.0).abs() < 1e-6);
        // Half of the load, and a draw for each key: a key is absent with 1/2 times 1/e.
        let held = uniform.held(&everywhere(-500.0, 1000.0)).values;
        assert!((held - 1000.0 * (1.0 - 0.5 * (-1.0f64).exp())).abs() < 1e-6, "{held}");
        let skewed = source(Input::Zipf { theta: 0.99 }, 0.0).held(&everywhere(0.0, 1000.0)).values;
        assert!(skewed < 400.0, "{skewed}");
    }

    #[test]
    fn deletes_are_tombstones_until_nothing_is_older() {
        let source = source(Input::Uniform, 0.25);
        let above = source.held(&everywhere(0.0, 100.0));
        assert!((above.tombstones / above.entries() - 0.25).abs() < 1e-9);
        let bottom = source.held(&everywhere(-1000.0, 100.0));
        assert_eq!(bottom.tombstones, 0.0);
        assert!((bottom.values - 750.0).abs() < 1e-6, "{bottom:?}");
    }

    #[test]
    fn expired_entries_are_tombstones_until_nothing_is_older() {
        let workload = Workload { keys: 1000, ttl_passes: Some(0.5), ..Workload::default() };
        let source = Source::new(workload);
        let held = |from: f64, to: f64, before: f64| {
            let segment = everywhere(from, to);
            source.held(&Segment { ages: segment.ages.without_expired(before), ..segment })
        };
        // Of 1000 draws the keys of the last 500 are alive; those that only the first 500 drew are not.
        let alive = 1000.0 * (1.0 - (-0.5f64).exp());
        let found = held(0.0, 1000.0, 500.0);
        assert!((found.values - alive).abs() < 1e-6, "{found:?}");
        assert!((found.entries() - 1000.0 * (1.0 - (-1.0f64).exp())).abs() < 1e-6, "{found:?}");
        let bottom = held(-1000.0, 1000.0, 500.0);
        assert!((bottom.values - alive).abs() < 1e-6 && bottom.tombstones == 0.0, "{bottom:?}");
        assert!((workload.live_bytes() - alive * 116.0).abs() < 1e-3);
        // The time of a merge decides: before the expiry nothing is dropped, after it everything.
        assert_eq!(held(0.0, 1000.0, -1.0), source.held(&everywhere(0.0, 1000.0)));
        assert_eq!(held(0.0, 1000.0, 2000.0).values, 0.0);
    }

    #[test]
    fn a_sweep_expires_from_its_beginning() {
        let workload =
            Workload { keys: 1000, input: Input::Sequential, ttl_passes: Some(0.5), ..Workload::default() };
        let source = Source::new(workload);
        let values = |part: (u64, u64), ages: Ages| {
            source.held(&Segment { start: SPAN / 10 * part.0, end: SPAN / 10 * part.1, ages }).values
        };
        let ages = Ages::new(-1000.0, 500.0).without_expired(-100.0);
        // The second sweep has passed the first half; the last tenth of the first was written after -100.
        assert!((values((0, 5), ages) - 500.0).abs() < 1e-3);
        assert!(values((5, 9), ages) < 1e-3 && (values((9, 10), ages) - 100.0).abs() < 1e-3);
    }

    #[test]
    fn a_load_overwrites_nothing_and_later_writes_do() {
        let source = source(Input::Uniform, 0.0);
        let permille = |from, to| source.overwrite_permille(&[everywhere(from, to)]);
        assert_eq!([permille(-1000.0, 0.0), permille(-500.0, -100.0)], [Some(0); 2]);
        assert_eq!([permille(0.0, 100.0), permille(500.0, 5000.0)], [Some(1000); 2]);
        let both = permille(-100.0, 100.0).unwrap();
        assert!((400..600).contains(&both), "{both}");
        let expiring = Workload { keys: 1000, ttl_passes: Some(0.5), ..Workload::default() };
        assert_eq!(Source::new(expiring).overwrite_permille(&[everywhere(-1000.0, 0.0)]), None);
    }

    #[test]
    fn zones_have_their_own_rates() {
        let source = source(Input::HotRange, 0.0);
        let written = source.written(Ages::new(0.0, 10.0));
        let held: Vec<f64> = written.iter().map(|segment| source.held(segment).values).collect();
        assert!((held[0] - 8.0).abs() < 0.3 && (held[1] - 2.0).abs() < 0.1, "{held:?}");
        let across = source.held_across(&everywhere(0.0, 10.0)).values;
        assert!((across - held[0] - held[1]).abs() < 1e-9);
    }

    #[test]
    fn a_sweep_passes_every_position_once() {
        let source = source(Input::Sequential, 0.0);
        let positions = |from, to| -> Vec<(u64, u64)> {
            let tenths = |at: u64| (at * 10 + SPAN / 2) / SPAN;
            let swept = source.written(Ages::new(from, to));
            swept.iter().map(|segment| (tenths(segment.start), tenths(segment.end))).collect()
        };
        assert_eq!(positions(-1000.0, -900.0), [(0, 1)]);
        assert_eq!(positions(-100.0, 0.0), [(9, 10)]);
        assert_eq!(positions(-100.0, 100.0), [(0, 1), (9, 10)]);
        assert_eq!(positions(300.0, 400.0), [(3, 4)]);
    }
}
