//! Textbook leveling, tiering and lazy leveling, each implemented on its own and compared with the fluid tree
//! that generalises them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use esker_base::{FileNumber, PartId, RunId, SeqNo, TableUid};
use esker_env::SeededRandom;
use esker_strategy::*;
use esker_version::*;
use std::sync::Arc;

const MEMTABLE: u128 = 64 << 20;
/// Enough for the smallest ratio and the largest tree below.
const LEVELS: usize = 12;

/// Sizes of the runs of each level, newest first; every run covers all keys. The last entry is the last
/// level.
type Sizes = Vec<Vec<u64>>;

/// Inputs as (level, run), and the output: a level, and whether it is a new run.
#[derive(Debug, PartialEq)]
struct Answer {
    inputs: Vec<(usize, usize)>,
    to: usize,
    is_new_run: bool,
}

struct Textbook<'a> {
    sizes: &'a Sizes,
    permille: u128,
    trigger: usize,
}

impl Textbook<'_> {
    fn last(&self) -> usize {
        self.sizes.len() - 1
    }

    /// Levels in use between the first and the last: until a level would be smaller than a batch of level 0.
    fn depth(&self) -> usize {
        let largest = self.largest();
        let batch = self.trigger as u128 * MEMTABLE;
        let fits = |depth: u32| largest * 1000u128.pow(depth) >= batch * self.permille.pow(depth);
        let by_size = (1..LEVELS as u32).take_while(|depth| fits(*depth)).count();
        let by_use = (1..self.last()).rev().find(|level| !self.sizes[*level].is_empty());
        by_size.max(by_use.unwrap_or(0))
    }

    fn largest(&self) -> u128 {
        self.sizes[self.last()].iter().copied().max().unwrap_or(0).into()
    }

    fn next(&self, level: usize) -> usize {
        if level < self.depth() { level + 1 } else { self.last() }
    }

    fn oldest(&self, level: usize, most: usize) -> Vec<(usize, usize)> {
        let count = self.sizes[level].len();
        (count.saturating_sub(most)..count).map(|run| (level, run)).collect()
    }

    /// Output is merged with the run of `to`, or becomes a new run if there is none.
    fn as_one_run(&self, mut inputs: Vec<(usize, usize)>, to: usize) -> Answer {
        let is_new_run = self.sizes[to].is_empty();
        if !is_new_run && !inputs.contains(&(to, 0)) {
            inputs.push((to, 0));
        }
        Answer { inputs, to, is_new_run }
    }

    /// The highest score, on a tie the older level.
    fn best(&self, candidates: Vec<(u128, u128, usize, Answer)>) -> Option<Answer> {
        let is_better = |a: &(u128, u128, usize, Answer), b: &(u128, u128, usize, Answer)| {
            (a.0 * b.1, a.2) > (b.0 * a.1, b.2)
        };
        candidates
            .into_iter()
            .reduce(|best, other| if is_better(&other, &best) { other } else { best })
            .map(|best| best.3)
    }

    /// Level 0 merges into level 1 when it has enough runs; a level merges into the next when it exceeds its
    /// capacity.
    fn leveled(&self) -> Option<Answer> {
        let first = self.as_one_run(self.oldest(0, 2 * self.trigger), self.next(0));
        let runs = self.sizes[0].len();
        if runs >= self.trigger + 24usize.saturating_sub(self.trigger) / 2 {
            return Some(first);
        }
        let mut candidates = Vec::new();
        if runs >= self.trigger {
            candidates.push((runs as u128, self.trigger as u128, 0, first));
        }
        for level in (1..=self.last()).filter(|level| !self.sizes[*level].is_empty()) {
            let runs = self.sizes[level].len();
            let bytes: u128 = self.sizes[level].iter().map(|bytes| u128::from(*bytes)).sum();
            let steps = if level == self.last() { 0 } else { self.depth() + 1 - level };
            let capacity = (0..steps).fold(self.largest(), |bytes, _| bytes * 1000 / self.permille);
            if runs > 1 {
                let answer = Answer { inputs: self.oldest(level, runs), to: level, is_new_run: false };
                candidates.push((runs as u128, 2, level, answer));
            } else if level < self.last() && bytes > capacity {
                candidates.push((
                    bytes,
                    capacity,
                    level,
                    self.as_one_run(self.oldest(level, 1), self.next(level)),
                ));
            }
        }
        self.best(candidates)
    }

    /// T runs of a level become one run of the next; if `lazy`, the last level is one run.
    fn tiered(&self, lazy: bool) -> Option<Answer> {
        let down = |inputs| {
            let to = |level| self.next(level);
            let inputs: Vec<(usize, usize)> = inputs;
            let to = to(inputs[0].0);
            match lazy && to == self.last() {
                true => self.as_one_run(inputs, to),
                false => Answer { inputs, to, is_new_run: true },
            }
        };
        let runs = self.sizes[0].len();
        if runs >= self.trigger + 24usize.saturating_sub(self.trigger) / 2 {
            return Some(down(self.oldest(0, 2 * self.trigger)));
        }
        let mut candidates = Vec::new();
        for level in 0..=self.last() {
            let runs = self.sizes[level].len();
            let limit = if lazy && level == self.last() { 2 } else { self.trigger };
            if runs < limit {
                continue;
            }
            let answer = match level {
                0 => down(self.oldest(0, 2 * self.trigger)),
                _ if level == self.last() => {
                    Answer { inputs: self.oldest(level, runs), to: level, is_new_run: false }
                }
                _ => down(self.oldest(level, runs)),
            };
            candidates.push((runs as u128, limit as u128, level, answer));
        }
        self.best(candidates)
    }
}

fn level_index(level: usize, last: usize) -> LevelIndex {
    if level == last { LevelIndex::LAST } else { LevelIndex::new(level as u8).unwrap() }
}

fn version_of(sizes: &Sizes) -> Version {
    let mut parts = Vec::new();
    for (level, runs) in sizes.iter().enumerate() {
        for (at, bytes) in runs.iter().enumerate() {
            let id = parts.len() as u64 + 1;
            let range = KeyRange::inclusive(&b"a"[..], &b"z"[..]);
            let mut part = PartMeta::new(PartId(id), FileNumber(id), *bytes, TableUid(id), range);
            part.max_seqno = SeqNo::new(1);
            let order = (runs.len() - at) as u64;
            let place = Place { level: level_index(level, sizes.len() - 1), run: RunId(id), order };
            parts.push((place, Arc::new(part)));
        }
    }
    Version::from_parts(parts).unwrap()
}

fn answer_of(version: &Version, plan: &CompactionPlan, last: usize) -> Answer {
    let level_at = |level: LevelIndex| if level.is_last() { last } else { level.get().into() };
    let run_at =
        |input: &PlanInput| version.runs_of(input.level).iter().position(|run| run.id == input.run).unwrap();
    let inputs = plan.inputs.iter().map(|input| (level_at(input.level), run_at(input))).collect();
    let is_new_run = matches!(plan.to, Position::Front(_));
    Answer { inputs, to: level_at(plan.to.level()), is_new_run }
}

fn some_sizes(random: &SeededRandom) -> Sizes {
    let used = 2 + random.below(4) as usize;
    let mut sizes: Sizes = vec![Vec::new(); LEVELS];
    for level in (0..used - 1).chain([LEVELS - 1]) {
        let most = (64u64 << 20) << (2 * level.min(2) as u64 + random.below(4));
        let runs = random.below(if random.below(8) == 0 { 20 } else { 6 });
        sizes[level] = (0..runs).map(|_| 1 + random.below(most)).collect();
    }
    // A tree with an empty last level merges as if its capacity were zero; the textbooks do not cover it.
    let last = sizes.len() - 1;
    sizes[last].push((64 << 20) + random.below(1 << 33));
    sizes
}

#[test]
fn the_fluid_tree_contains_the_textbook_ones() {
    let random = SeededRandom::new(16);
    let options =
        StrategyOptions { table_bytes: Some(1 << 40), max_job_bytes: None, ..StrategyOptions::default() };
    let options = StrategyOptions { table_bytes: Some(1), ..options };
    let mut plans = 0;
    for round in 0..100_000 {
        let sizes = some_sizes(&random);
        let permille = [1500u32, 1618, 2000, 3000, 4000, 10_000][random.below(6) as usize];
        let size_ratio = SizeRatio::from_permille(permille).unwrap();
        let (version, last) = (version_of(&sizes), sizes.len() - 1);
        let shape = Shape::new(&version);
        // Tiered levels hold T-1 runs; the T-th starts a merge. With at most one run, level 0 has its own
        // trigger.
        let tier = size_ratio.tier_runs() as usize;
        let textbook = |trigger| Textbook { sizes: &sizes, permille: permille.into(), trigger };
        let mut expected = vec![(Strategy::Leveled { size_ratio }, textbook(4).leveled())];
        if tier > 1 {
            expected.push((Strategy::Tiered { size_ratio }, textbook(tier + 1).tiered(false)));
            expected.push((Strategy::LazyLeveled { size_ratio }, textbook(tier + 1).tiered(true)));
        }
        for (strategy, expected) in expected {
            let plan = strategy.plan(&shape, &Busy::new(), &options);
            let answer = plan.map(|plan| answer_of(&version, &plan, last));
            assert_eq!(answer, expected, "round {round}: {strategy} over {sizes:?}");
            plans += u32::from(answer.is_some());
        }
    }
    assert!(plans > 100_000, "most trees need something: {plans}");
}

/// The tree after an answer was carried out and a tenth of the bytes were dropped as old versions.
fn apply(sizes: &mut Sizes, answer: &Answer) {
    let inputs = answer.inputs.iter();
    let bytes: u64 = inputs.clone().map(|(level, run)| sizes[*level][*run]).sum();
    let is_gone = |level: usize, run: usize| answer.inputs.contains(&(level, run));
    for (level, runs) in sizes.iter_mut().enumerate() {
        let mut at = 0..;
        runs.retain(|_| !at.next().is_some_and(|run| is_gone(level, run)));
    }
    let to = &mut sizes[answer.to];
    // Into a run: the position of the oldest input of that level.
    let at = if answer.is_new_run { 0 } else { to.len() };
    to.insert(at, (bytes - bytes / 10).max(1));
}

#[test]
fn whole_histories_follow_the_textbooks() {
    let options = StrategyOptions { table_bytes: Some(1), ..StrategyOptions::default() };
    let random = SeededRandom::new(17);
    let mut plans = 0;
    for permille in [1500u32, 1618, 2000, 3000, 4000, 10_000, 32_000] {
        let size_ratio = SizeRatio::from_permille(permille).unwrap();
        let tier = size_ratio.tier_runs() as usize;
        let strategies = [
            Strategy::Leveled { size_ratio },
            Strategy::Tiered { size_ratio },
            Strategy::LazyLeveled { size_ratio },
        ];
        let count = if tier > 1 { 3 } else { 1 };
        for strategy in &strategies[..count] {
            let mut sizes: Sizes = vec![Vec::new(); LEVELS];
            sizes[LEVELS - 1].push(64 << 20);
            for flush in 0..800 {
                sizes[0].insert(0, (48 << 20) + random.below(16 << 20));
                for step in 0.. {
                    let trigger = if matches!(strategy, Strategy::Leveled { .. }) { 4 } else { tier + 1 };
                    let textbook = Textbook { sizes: &sizes, permille: permille.into(), trigger };
                    let expected = match strategy {
                        Strategy::Leveled { .. } => textbook.leveled(),
                        Strategy::Tiered { .. } => textbook.tiered(false),
                        _ => textbook.tiered(true),
                    };
                    let version = version_of(&sizes);
                    let plan = strategy.plan(&Shape::new(&version), &Busy::new(), &options);
                    let answer = plan.map(|plan| answer_of(&version, &plan, LEVELS - 1));
                    assert_eq!(answer, expected, "{strategy}, flush {flush}: {sizes:?}");
                    let Some(answer) = answer else { break };
                    apply(&mut sizes, &answer);
                    plans += 1;
                    assert!(step < 100, "{strategy} does not come to rest: {sizes:?}");
                }
            }
        }
    }
    assert!(plans > 3000, "histories are busy: {plans}");
}

#[test]
fn equal_trees_have_equal_plans_whatever_order_they_were_built_in() {
    let random = SeededRandom::new(48);
    for _ in 0..200 {
        let sizes = some_sizes(&random);
        let version = version_of(&sizes);
        let mut parts: Vec<_> = version
            .parts()
            .map(|(level, run, part)| (Place { level, run: run.id, order: run.order }, part.clone()))
            .collect();
        for at in (1..parts.len()).rev() {
            parts.swap(at, random.below(at as u64 + 1) as usize);
        }
        let shuffled = Version::from_parts(parts).unwrap();
        assert_eq!(shuffled, version);
        for name in [
            "leveled:10",
            "tiered:4",
            "lazy-leveled:4",
            "fluid:4,4/2,2",
            "partial:4,oldest",
            "golden-ratio",
            "fifo:1GiB,merge",
            "partitioned",
        ] {
            let strategy: Strategy = name.parse().unwrap();
            let plan =
                |version| strategy.plan(&Shape::new(version), &Busy::new(), &StrategyOptions::default());
            assert_eq!(plan(&version), plan(&shuffled));
        }
    }
}
