//! Monkey: divides filter memory over the runs of a tree so that a lookup reads the fewest blocks in vain.
//!
//! After Dayan, Athanassoulis and Idreos, "Monkey: Optimal Navigable Key-Value Store" (SIGMOD 2017), for runs
//! of any size. A run with `n` keys that `weight` lookups of absent keys probe is given `x` bits a key.
//! Minimized is the sum of `weight * p(x)`, the reads in vain, while the sum of `n * x` stays within the
//! budget; or the memory, while the reads in vain stay within a bound. At the optimum all runs gain the same
//! by one more bit: `weight * -p'(x) / n` is equal for all of them, or less for those that are not worth a
//! filter. With the ideal curve `p = exp(-x ln² 2)`, rates are in proportion to sizes: small runs, which are
//! probed as often as large ones, get more bits a key.
//!
//! Real filters differ from ideal ones: below a bit or two they are not worth their lookup,
//! cache-line-blocked ones stop gaining beyond sixteen bits, and each kind has limits. So the optimum is
//! found on the curve of the kind itself ([`RateCurve`]), by its lower convex hull. The hull is piecewise
//! linear, and its pieces are taken one by one from the steepest for all runs together, which is the exact
//! optimum on the hull.
//!
//! [`closed`] has the published formulas for trees of exact shape; tests hold one against the other.
//!
//! Everything here is a pure function. The bits of a table are stored in the table, so a tree that grows
//! changes the bits of its next tables and never the reading of old ones. (An implementation that recomputes
//! bits at lookup gets false negatives as the tree deepens.)

pub mod closed;

use crate::kind::FilterKind;
use parking_lot::Mutex;
use std::cmp::Ordering;
use std::sync::Arc;

/// A run of a tree for the division of filter memory. All its tables get the same bits a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FilteredRun {
    /// Its keys.
    pub keys: u64,
    /// How often lookups of absent keys probe it, in any unit; 1 for every run if unknown.
    pub weight: f64,
}

impl FilteredRun {
    /// A run of weight 1.
    pub const fn of_keys(keys: u64) -> FilteredRun {
        FilteredRun { keys, weight: 1.0 }
    }
}

/// The constraint of a division.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FilterGoal {
    /// Average bits a key over the tree.
    BitsPerKey(f64),
    /// A bound on the weighted sum of false-positive rates: wasted block reads of an absent key.
    ReadsInVain(f64),
}

/// False-positive rate by bits a key: the corners of the lower convex hull, from no filter on.
#[derive(Clone, Debug)]
pub struct RateCurve {
    /// Ascending bits, descending rates, and slopes that only get flatter. The first is (0, 1).
    corners: Vec<(f64, f64)>,
}

impl RateCurve {
    /// The curve of a kind, over its sizes. Takes a millisecond the first time.
    pub fn of(kind: FilterKind) -> Arc<RateCurve> {
        static CURVES: Mutex<Vec<(FilterKind, Arc<RateCurve>)>> = Mutex::new(Vec::new());
        let mut curves = CURVES.lock();
        if let Some((_, curve)) = curves.iter().find(|(known, _)| *known == kind) {
            return Arc::clone(curve);
        }
        let (least, most) = kind.sizes().unwrap_or((1, 0));
        let curve = Arc::new(RateCurve::through((least..=most).map(|size| {
            let policy = kind.policy_of_size(size);
            (policy.bits_per_key(), policy.false_positive_rate())
        })));
        curves.push((kind, Arc::clone(&curve)));
        curve
    }

    /// The curve of an ideal Bloom filter up to `max_bits`, in steps of a hundredth of a bit.
    pub fn ideal(max_bits: f64) -> RateCurve {
        let steps = (max_bits * 100.0) as u32;
        RateCurve::through((1..=steps).map(|step| {
            let bits = f64::from(step) / 100.0;
            (bits, closed::ideal_rate(bits))
        }))
    }

    /// The lower hull of (0, 1) and these points, which ascend in bits.
    fn through(points: impl IntoIterator<Item = (f64, f64)>) -> RateCurve {
        let mut corners = vec![(0.0, 1.0)];
        for point in points {
            while let [.., before, last] = corners[..]
                && slope(before, last) >= slope(last, point)
            {
                corners.pop();
            }
            // Drops filters with more bits and no fewer false positives.
            if corners.last().is_some_and(|last| point.1 < last.1) {
                corners.push(point);
            }
        }
        RateCurve { corners }
    }

    /// The rate at `bits`, on the hull.
    pub fn rate(&self, bits: f64) -> f64 {
        let above = self.corners.partition_point(|corner| corner.0 <= bits);
        match (self.corners.get(above.wrapping_sub(1)), self.corners.get(above)) {
            (Some(&below), Some(&above)) => below.1 + slope(below, above) * (bits - below.0),
            (Some(&last), None) => last.1,
            _ => 1.0,
        }
    }

    /// From corner to corner, the flattest last.
    fn pieces(&self) -> impl Iterator<Item = ((f64, f64), (f64, f64))> + '_ {
        self.corners.windows(2).map(|pair| (pair[0], pair[1]))
    }
}

/// Slope of the line between two points.
fn slope(from: (f64, f64), to: (f64, f64)) -> f64 {
    (to.1 - from.1) / (to.0 - from.0)
}

struct Piece {
    run: usize,
    bits: f64,
    /// Bits of memory, for all keys of the run.
    cost: f64,
    /// Reads in vain that it saves.
    gain: f64,
    /// The one over the other.
    slope: f64,
}

/// Bits a key for each of `runs`, in their order, 0 where no filter is worth its memory: the least reads in
/// vain within a budget, or the least memory within a bound on reads in vain. A bound that the curve cannot
/// reach gives every run the most bits it may have.
///
/// Takes time in the number of runs times the corners of the curve, about 200; 20 us for ten runs.
pub fn allocate(runs: &[FilteredRun], goal: FilterGoal, curve: &RateCurve) -> Vec<f64> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (run, of) in runs.iter().enumerate().filter(|(_, of)| of.keys > 0 && of.weight > 0.0) {
        // A property of the curve alone, and never rising: a run's pieces keep their order despite rounding.
        let mut steepest = f64::INFINITY;
        pieces.extend(curve.pieces().map(|(from, to)| {
            steepest = steepest.min((from.1 - to.1) / (to.0 - from.0));
            Piece {
                run,
                bits: to.0,
                cost: (to.0 - from.0) * of.keys as f64,
                gain: (from.1 - to.1) * of.weight,
                slope: steepest * (of.weight / of.keys as f64),
            }
        }));
    }
    // Steepest first. One number per piece: products of rounded numbers may leave no total order.
    pieces.sort_by(|one, other| other.slope.total_cmp(&one.slope));
    let mut left = match goal {
        FilterGoal::BitsPerKey(bits) => bits * runs.iter().map(|run| run.keys as f64).sum::<f64>(),
        FilterGoal::ReadsInVain(most) => {
            let unfiltered: f64 = runs.iter().filter(|run| run.keys > 0).map(|run| run.weight).sum();
            unfiltered - most
        }
    };
    let mut bits = vec![0.0; runs.len()];
    for piece in pieces {
        let needed = match goal {
            FilterGoal::BitsPerKey(_) => piece.cost,
            FilterGoal::ReadsInVain(_) => piece.gain,
        };
        // Also if it is NaN.
        if left.partial_cmp(&0.0) != Some(Ordering::Greater) {
            break;
        }
        if needed <= left {
            bits[piece.run] = piece.bits;
        } else {
            // The last piece is taken in part.
            bits[piece.run] += (piece.bits - bits[piece.run]) * (left / needed);
        }
        left -= needed;
    }
    bits
}

/// Reads in vain of a lookup of an absent key under a division: the sum of rates times weights.
pub fn reads_in_vain(runs: &[FilteredRun], bits: &[f64], curve: &RateCurve) -> f64 {
    let asked = runs.iter().zip(bits).filter(|(run, _)| run.keys > 0);
    asked.map(|(run, &bits)| run.weight * curve.rate(bits)).sum()
}

#[cfg(test)]
mod tests;
