//! Closed formulas for write amplification, runs and space.

use super::form::Form;
use super::reads::ideal_reads_in_vain;
use esker_strategy::RunsPerLevel;

/// The share of distinct keys among uniform draws, when there are `x` times as many draws as keys.
pub fn dedup(x: f64) -> f64 {
    if x < 1e-9 { 1.0 } else { -(-x).exp_m1() / x }
}

/// Runs of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunClass {
    /// Entries of one run, in flushes.
    pub size: f64,
    /// The average number of runs.
    pub count: f64,
}

/// The cost of a form at a size.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Bytes written to tables, without the log, over bytes of keys and values.
    pub write_amplification: f64,
    /// Runs that may hold a key, on average.
    pub runs: f64,
    /// The maximum number of runs.
    pub runs_worst: f64,
    /// Bytes of tables over live bytes, just before a merge.
    pub space_worst: f64,
    /// The same on average.
    pub space: f64,
    /// The additional space of a running merge, in sizes of the tree, if it is not divided into windows.
    pub transient: f64,
    /// Passes over all keys from one complete rewrite of the last level to the next.
    pub cycle: f64,
    /// The average runs of the tree, smallest first.
    pub shape: Vec<RunClass>,
}

impl Costs {
    /// The costs of a form for a tree of `size` flushes. O(levels), about a microsecond.
    pub fn of(form: &Form, size: f64) -> Costs {
        let size = size.max(1.0);
        match *form {
            Form::Fluid { ratio, upper_runs, last_runs, level0_runs } => {
                Fluid { ratio, upper_runs, last_runs, level0_runs, size, between: form.levels_between(size) }
                    .costs()
            }
            Form::Partial { ratio, level0_runs, least_level } => {
                partial(ratio, level0_runs, least_level, size, form.levels_between(size))
            }
            Form::Partitioned { tier_runs, garbage } => {
                partitioned(tier_runs, garbage, size, form.levels_between(size))
            }
        }
    }

    /// False-positive block reads of an absent key, with the best division of this many filter bits per
    /// entry.
    pub fn reads_in_vain(&self, bits_per_key: f64) -> f64 {
        ideal_reads_in_vain(&self.shape, bits_per_key)
    }

    /// Block reads of a present key with cold caches: its own, and the false positives of the runs above.
    pub fn reads_found(&self, bits_per_key: f64) -> f64 {
        // There are no false positives in the last run, where most keys are found.
        let rate = super::reads::ideal_rate_of_largest(&self.shape, bits_per_key);
        1.0 + (self.reads_in_vain(bits_per_key) - rate).max(0.0)
    }

    /// Blocks that a short scan reads: one of each run.
    pub fn short_scan(&self) -> f64 {
        self.runs
    }

    /// Bytes that a long scan reads, over those that it returns.
    pub fn long_scan(&self) -> f64 {
        self.space
    }
}

/// A fluid tree of some size, in flushes, with the symbols of the documentation; `arriving` counts draws.
struct Fluid {
    ratio: f64,
    upper_runs: RunsPerLevel,
    last_runs: f64,
    level0_runs: f64,
    size: f64,
    between: u32,
}

struct Sum {
    /// Draws that one merge brings to the next level.
    arriving: f64,
    writes: f64,
    runs_worst: f64,
    /// In sizes of the tree.
    above_worst: f64,
    above: f64,
    shape: Vec<RunClass>,
}

impl Fluid {
    fn costs(&self) -> Costs {
        let sum = self.above_last();
        let Sum { arriving, mut writes, mut runs_worst, mut above_worst, mut above, mut shape } = sum;
        // Runs of the last level beside the large one: each of some arrivals, and one more exceeds the limit.
        let beside = self.last_runs - 1.0;
        let joined = self.joined(self.last_runs, self.size, arriving);
        let cycle = beside * joined + 1.0;
        if beside > 0.0 {
            writes += self.tiering(beside, joined, arriving);
            let held = self.distinct(joined * arriving);
            shape.push(RunClass { size: held * self.size, count: beside / 2.0 });
            above_worst += beside * held;
            above += beside / 2.0 * held;
        }
        writes += self.size / (cycle * arriving);
        runs_worst += self.last_runs;
        shape.push(RunClass { size: self.size, count: 1.0 });
        Costs {
            write_amplification: writes,
            runs: shape.iter().map(|class| class.count).sum(),
            runs_worst,
            space_worst: 1.0 + above_worst,
            space: 1.0 + above,
            transient: 1.0,
            cycle: cycle * arriving / self.size,
            shape,
        }
    }

    /// Level 0 and the levels between it and the last.
    fn above_last(&self) -> Sum {
        let (b, k0) = (self.size, self.level0_runs);
        let flush = self.distinct(1.0);
        let mut sum = Sum {
            arriving: k0,
            writes: dedup(1.0 / b),
            runs_worst: k0,
            above_worst: k0 * flush,
            above: (k0 - 1.0) / 2.0 * flush,
            shape: vec![RunClass { size: 1.0, count: (k0 - 1.0) / 2.0 }],
        };
        for level in 1..=self.between {
            let capacity = b / self.ratio.powi((self.between + 1 - level) as i32);
            let k = f64::from(self.upper_runs.of(level as u8));
            if k > 1.0 {
                let joined = self.joined(k, capacity, sum.arriving);
                let arrivals = k * joined + 1.0;
                let held = self.distinct(joined * sum.arriving);
                sum.writes += self.tiering(k, joined, sum.arriving);
                sum.shape.push(RunClass { size: held * b, count: k / 2.0 });
                sum.runs_worst += k;
                sum.above_worst += k * held;
                sum.above += k / 2.0 * held;
                sum.arriving *= arrivals;
            } else {
                // Arrivals until the single run exceeds its capacity; the excess is the last arrival.
                let filling = -b * (1.0 - capacity / b).ln();
                let arrivals = (filling / sum.arriving).floor() + 1.0;
                let held = self.distinct((arrivals - 1.0) * sum.arriving);
                sum.writes += self.growing(arrivals, sum.arriving);
                sum.shape.push(RunClass { size: held * b / 2.0, count: 1.0 - 1.0 / arrivals });
                sum.runs_worst += 1.0;
                sum.above_worst += held;
                sum.above += held / 2.0;
                sum.arriving *= arrivals;
            }
        }
        sum
    }

    /// Arrivals that join one run of a level which may have `runs`: until its share is used up.
    fn joined(&self, runs: f64, capacity: f64, arriving: f64) -> f64 {
        let share = ((self.ratio - 1.0) / runs).ceil();
        if share < 2.0 {
            return 1.0;
        }
        (share * capacity / self.ratio / arriving).floor().max(1.0)
    }

    /// Writes for a byte of a run that takes this many arrivals and is rewritten with each.
    fn growing(&self, arrivals: f64, arriving: f64) -> f64 {
        let sizes = (1..=arrivals as u32).map(|nth| self.distinct(f64::from(nth) * arriving));
        sizes.sum::<f64>() * self.size / (arrivals * arriving)
    }

    /// Writes for a byte of a level that takes `runs` runs of some arrivals each, and one more arrival.
    fn tiering(&self, runs: f64, joined: f64, arriving: f64) -> f64 {
        let alone = dedup(arriving / self.size);
        (runs * joined * self.growing(joined, arriving) + alone) / (runs * joined + 1.0)
    }

    /// Distinct keys among this many draws, as a share of all.
    fn distinct(&self, draws: f64) -> f64 {
        -(-draws / self.size).exp_m1()
    }
}

fn partial(t: f64, k0: f64, least_level: f64, b: f64, m: u32) -> Costs {
    let first = b / t.powi(m as i32);
    let mut writes = dedup(1.0 / b);
    if m == 0 {
        writes += b / k0;
    } else {
        // A shed table overlaps T/2 of the next level on average, because the least overlap is chosen.
        writes += first_level(t, k0, first) + f64::from(m - 1) * t / 2.0;
    }
    let mut shape = vec![RunClass { size: 1.0, count: (k0 - 1.0) / 2.0 }];
    shape.extend((0..m).rev().map(|up| RunClass { size: b / t.powi(up as i32 + 1), count: 1.0 }));
    shape.push(RunClass { size: b, count: 1.0 });
    let above = if m == 0 { 0.0 } else { 1.0 / (t - 1.0) } + (k0 - 1.0) / b;
    Costs {
        write_amplification: writes,
        runs: shape.iter().map(|class| class.count).sum(),
        runs_worst: k0 + f64::from(m) + 1.0,
        space_worst: 1.0 + above,
        // Levels stay full; only level 0 fluctuates.
        space: 1.0 + above - (k0 - 1.0) / b / 2.0,
        transient: ((first + k0).max(least_level) / b).min(1.0),
        cycle: 1.0 / t,
        shape,
    }
}

/// Writes for a byte into level 1 and the next, where a batch of `k0` flushes arrives at once.
fn first_level(t: f64, k0: f64, first: f64) -> f64 {
    if 2.0 * first < k0 {
        // A batch passes this much through to the next level with the contents of level 1; the rest fills
        // level 1.
        let through = k0 / (k0 + first);
        return (through * t * first + first) / k0;
    }
    // A batch rewrites all of level 1.
    (first + k0) / k0 + t * first / (2.0 * first + k0)
}

fn partitioned(k: f64, g: f64, b: f64, m: u32) -> Costs {
    let mut writes = dedup(1.0 / b) + 1.0 / (2.0 * g);
    let mut shape = Vec::new();
    let mut run = 1.0;
    for _ in 0..m {
        shape.push(RunClass { size: run, count: (k - 1.0) / 2.0 });
        run *= k;
        writes += dedup(run / b);
    }
    // The rest of the garbage is in runs of the largest tier, half of which has been merged already.
    let largest = (2.0 * g * b / run).max(1.0);
    shape.push(RunClass { size: run / 2.0, count: largest / 2.0 });
    shape.push(RunClass { size: b, count: 1.0 });
    Costs {
        write_amplification: writes,
        runs: shape.iter().map(|class| class.count).sum(),
        runs_worst: (k - 1.0) * f64::from(m) + largest + 1.0,
        space_worst: 1.0 + g,
        space: 1.0 + g,
        transient: 0.0,
        cycle: 2.0 * g,
        shape,
    }
}
