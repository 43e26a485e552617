//! DSL workload generator: seeded files of commands for the text protocol, with the options of CS265's own
//! generator.
//!
//! The course's generator mixes all gets into the first puts, ignores its seed, and misses the share of
//! misses that it was told by a fifth. This one draws the kind of each operation from the quotas that are
//! left, so kinds are mixed evenly over the whole file and each count is exact.
//!
//! # Invariants
//! * Operations depend on the settings alone: equal settings give equal files.
//! * A get that counts as a hit names a key that the operations before it stored and did not delete; one that
//!   counts as a miss names any other key. [`Counts::hits`] and [`Counts::misses`] say how many were drawn of
//!   each.

mod external;
mod operation;
mod stored_keys;

pub use external::{ExternalFiles, PAIRS_PER_FILE};
pub use operation::Operation;

use crate::data::Rng;
use crate::error::BenchError;
use stored_keys::StoredKeys;

/// Earlier gets that a repeated one is drawn from before a fresh key is taken instead: a key may have been
/// deleted or stored since.
const REPEAT_TRIES: usize = 8;

/// Share of the key range that one standard deviation of a Gaussian range covers: 99.7 % of the ranges begin
/// inside of it.
const GAUSSIAN_DEVIATIONS: f64 = 6.0;

/// How the beginnings of ranges are distributed over the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RangeStarts {
    /// Every key alike.
    #[default]
    Uniform,
    /// Around the middle of the keys, a sixth of their range wide.
    Gaussian,
}

/// What a workload consists of.
#[derive(Clone, Debug, PartialEq)]
pub struct DslWorkload {
    /// Number of puts.
    pub puts: u64,
    /// Number of gets.
    pub gets: u64,
    /// Number of range queries.
    pub ranges: u64,
    /// Number of deletes, each of a stored key if there is one.
    pub deletes: u64,
    /// Share of the gets whose key is not stored, 0 to 1.
    pub gets_misses_ratio: f64,
    /// Share of the gets that repeat an earlier one, 0 to 1.
    pub gets_skewness: f64,
    /// All puts come before everything else, instead of being mixed with it.
    pub puts_first: bool,
    /// Where ranges begin.
    pub range_starts: RangeStarts,
    /// Greatest difference of the two ends of a range; lengths are uniform up to it.
    pub max_range_size: i64,
    /// Keys and values lie between minus this number and this number.
    pub max_number: i64,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Default for DslWorkload {
    fn default() -> DslWorkload {
        DslWorkload {
            puts: 0,
            gets: 0,
            ranges: 0,
            deletes: 0,
            gets_misses_ratio: 0.5,
            gets_skewness: 0.0,
            puts_first: false,
            range_starts: RangeStarts::Uniform,
            max_range_size: 1_000_000,
            max_number: i32::MAX.into(),
            seed: 1,
        }
    }
}

/// What was drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Puts.
    pub puts: u64,
    /// Gets of a stored key.
    pub hits: u64,
    /// Gets of a key that is not stored.
    pub misses: u64,
    /// Gets, of the two above, that repeat an earlier one.
    pub repeated: u64,
    /// Range queries.
    pub ranges: u64,
    /// Deletes.
    pub deletes: u64,
}

impl DslWorkload {
    /// The operations, in order, made while they are taken. Memory: about 50 bytes a put and 8 a get.
    ///
    /// # Errors
    /// [`BenchError::Settings`] names the setting that is out of its range, or the two that contradict each
    /// other.
    pub fn operations(&self) -> Result<Operations, BenchError> {
        self.check()?;
        let misses = (self.gets as f64 * self.gets_misses_ratio).round() as u64;
        let left = Counts {
            puts: self.puts,
            hits: self.gets - misses,
            misses,
            repeated: (self.gets as f64 * self.gets_skewness).round() as u64,
            ranges: self.ranges,
            deletes: self.deletes,
        };
        Ok(Operations {
            settings: self.clone(),
            rng: Rng::new(self.seed, 0),
            left,
            drawn: Counts::default(),
            stored: StoredKeys::default(),
            earlier_gets: Vec::new(),
        })
    }

    fn check(&self) -> Result<(), BenchError> {
        let refuse = |reason: String| Err(BenchError::Settings(reason));
        for (name, share) in
            [("gets-misses-ratio", self.gets_misses_ratio), ("gets-skewness", self.gets_skewness)]
        {
            if !(0.0..=1.0).contains(&share) {
                return refuse(format!("{name} is {share}; it is a share from 0 to 1"));
            }
        }
        for (name, number) in [("max-number", self.max_number), ("max-range-size", self.max_range_size)] {
            if number < 1 || number == i64::MAX {
                return refuse(format!("{name} is {number}; it must be from 1 to {}", i64::MAX - 1));
            }
        }
        let hits = self.gets as f64 * (1.0 - self.gets_misses_ratio);
        if self.puts == 0 && hits >= 0.5 {
            return refuse(format!(
                "{hits:.0} gets are to find their key, but there are no puts; set gets-misses-ratio to 1 or add puts"
            ));
        }
        // Absent keys are found by drawing again; with half of the numbers free, two draws are enough on
        // average.
        let numbers = 2 * i128::from(self.max_number) + 1;
        if self.gets_misses_ratio > 0.0 && self.gets > 0 && i128::from(self.puts) * 2 > numbers {
            return refuse(format!(
                "{} puts may take more than half of the {numbers} keys that max-number allows, and gets that miss need the rest; \
                 raise max-number or set gets-misses-ratio to 0",
                self.puts
            ));
        }
        Ok(())
    }
}

/// Iterator over the operations of a [`DslWorkload`].
#[derive(Clone, Debug)]
pub struct Operations {
    settings: DslWorkload,
    rng: Rng,
    /// Of `repeated`, the gets that are still to repeat an earlier one.
    left: Counts,
    drawn: Counts,
    stored: StoredKeys,
    earlier_gets: Vec<i64>,
}

impl Iterator for Operations {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        let Counts { puts, hits, misses, ranges, deletes, .. } = self.left;
        let total = puts + hits + misses + ranges + deletes;
        if total == 0 {
            return None;
        }
        // What reads or deletes a stored key waits for the first one.
        let is_put = puts > 0 && (self.settings.puts_first || self.stored.is_empty());
        let draw = if is_put { 0 } else { self.rng.below(total) };
        Some(if draw < puts {
            self.put()
        } else if draw < puts + hits {
            self.get(true)
        } else if draw < puts + hits + misses {
            self.get(false)
        } else if draw < total - deletes {
            self.range()
        } else {
            self.delete()
        })
    }
}

impl Operations {
    /// What was drawn until now.
    pub fn counts(&self) -> Counts {
        self.drawn
    }

    fn put(&mut self) -> Operation {
        self.left.puts -= 1;
        self.drawn.puts += 1;
        let (key, value) = (self.number(), self.number());
        self.stored.insert(key);
        Operation::Put { key, value }
    }

    /// A get that finds its key or misses. If all stored keys were deleted, a hit becomes a miss.
    fn get(&mut self, is_hit: bool) -> Operation {
        let gets_left = self.left.hits + self.left.misses;
        if is_hit {
            self.left.hits -= 1;
        } else {
            self.left.misses -= 1;
        }
        let is_hit = is_hit && !self.stored.is_empty();
        let may_repeat = !self.earlier_gets.is_empty() && self.rng.below(gets_left) < self.left.repeated;
        let key = match if may_repeat { self.earlier_get(is_hit) } else { None } {
            Some(key) => {
                self.left.repeated -= 1;
                self.drawn.repeated += 1;
                key
            }
            None if is_hit => self.stored.any(&mut self.rng),
            None => self.absent_key(),
        };
        if is_hit {
            self.drawn.hits += 1;
        } else {
            self.drawn.misses += 1;
        }
        self.earlier_gets.push(key);
        Operation::Get { key }
    }

    /// The key of an earlier get that still has the wanted answer.
    fn earlier_get(&mut self, is_hit: bool) -> Option<i64> {
        (0..REPEAT_TRIES).find_map(|_| {
            let place = self.rng.below(self.earlier_gets.len() as u64) as usize;
            self.earlier_gets.get(place).copied().filter(|&key| self.stored.contains(key) == is_hit)
        })
    }

    fn range(&mut self) -> Operation {
        self.left.ranges -= 1;
        self.drawn.ranges += 1;
        let max = self.settings.max_number;
        let start = match self.settings.range_starts {
            RangeStarts::Uniform => self.number(),
            RangeStarts::Gaussian => {
                let deviation = 2.0 * max as f64 / GAUSSIAN_DEVIATIONS;
                ((self.rng.gaussian() * deviation) as i64).clamp(-max, max)
            }
        };
        let size = 1 + self.rng.below(self.settings.max_range_size as u64) as i64;
        Operation::Range { start, end: start.saturating_add(size).min(max + 1) }
    }

    fn delete(&mut self) -> Operation {
        self.left.deletes -= 1;
        self.drawn.deletes += 1;
        if self.stored.is_empty() {
            return Operation::Delete { key: self.number() };
        }
        let key = self.stored.any(&mut self.rng);
        self.stored.remove(key);
        Operation::Delete { key }
    }

    fn absent_key(&mut self) -> i64 {
        loop {
            let key = self.number();
            if !self.stored.contains(key) {
                return key;
            }
        }
    }

    fn number(&mut self) -> i64 {
        let max = self.settings.max_number;
        (self.rng.below(2 * max as u64 + 1) as i64).wrapping_sub(max)
    }
}

#[cfg(test)]
mod tests;
