//! Automatic tuning: its rules as properties, over artificial observations.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

use esker_env::SeededRandom;
use esker_model::advice::{
    AdaptiveRules, Decision, Design, History, Observation, Operations, Question, Usage, decide,
};

const WINDOW_MS: u64 = 600_000;

fn writing() -> Operations {
    Operations { puts: 100_000.0, present_reads: 1_000.0, ..Operations::default() }
}

fn scanning() -> Operations {
    Operations { puts: 500.0, short_scans: 100_000.0, short_scan_entries: 1e6, ..Operations::default() }
}

/// A keyspace under the rules, without an engine.
struct AdaptiveKeyspace {
    question: Question,
    history: History,
    rules: AdaptiveRules,
    now_ms: u64,
    migration_bytes: f64,
    changes: Vec<(u64, Design)>,
}

impl AdaptiveKeyspace {
    fn new(strategy: &str) -> AdaptiveKeyspace {
        let mut question = Question::new(Usage::new(1e6, 16.0, 116.0, 256e6));
        let strategy = strategy.parse().unwrap();
        question.present = Some(Design { strategy, write_buffer_bytes: 4e6, filter_bits_per_key: 10.0 });
        AdaptiveKeyspace {
            question,
            history: History::default(),
            rules: AdaptiveRules::for_window(WINDOW_MS),
            now_ms: 0,
            migration_bytes: 1e6,
            changes: Vec::new(),
        }
    }

    fn window(&mut self, operations: Operations) -> Decision {
        self.now_ms += WINDOW_MS;
        self.question.usage.operations = operations;
        let bytes = self.migration_bytes;
        let seen = Observation { question: &self.question, now_ms: self.now_ms, migration_bytes: &|_| bytes };
        let (decision, history) = decide(&seen, &self.history, &self.rules);
        assert_eq!((decision, history), decide(&seen, &self.history, &self.rules), "equal gives equal");
        assert!(!decision.to_string().is_empty());
        self.history = history;
        if let Decision::Change(to, gain) = decision {
            assert!(gain >= self.rules.least_gain);
            self.question.present = Some(to);
            self.changes.push((self.now_ms, to));
        }
        decision
    }

    fn write_amplification(&self) -> f64 {
        self.question.predict(&self.question.present.unwrap()).unwrap().figures.write_amplification
    }
}

/// AD1.
#[test]
fn a_change_needs_consecutive_windows() {
    let mut keyspace = AdaptiveKeyspace::new("leveled:4");
    let before = keyspace.write_amplification();
    assert!(matches!(keyspace.window(writing()), Decision::Waiting(_, _, 1)));
    assert!(matches!(keyspace.window(writing()), Decision::Waiting(_, _, 2)));
    assert!(matches!(keyspace.window(writing()), Decision::Change(..)));
    assert!(keyspace.write_amplification() < before);
    assert_eq!(keyspace.changes[0].1.write_buffer_bytes, 4e6, "the buffer stays");
    // The next window finds no better design, and so do the following.
    for _ in 0..50 {
        assert!(matches!(keyspace.window(writing()), Decision::Good(gain) if gain < 0.15));
    }
    assert_eq!(keyspace.changes.len(), 1);
}

#[test]
fn windows_without_operations_decide_nothing() {
    let mut keyspace = AdaptiveKeyspace::new("leveled:4");
    keyspace.window(writing());
    keyspace.window(writing());
    let few = Operations { short_scans: 900.0, ..Operations::default() };
    for _ in 0..5 {
        assert_eq!(keyspace.window(few), Decision::Silent);
    }
    assert!(matches!(keyspace.window(writing()), Decision::Change(..)), "neither for nor against");
}

#[test]
fn strategies_without_formula_stay() {
    for strategy in ["none", "fifo:1GiB,7d"] {
        let mut keyspace = AdaptiveKeyspace::new(strategy);
        (0..10).for_each(|_| assert_eq!(keyspace.window(writing()), Decision::Unknown));
    }
}

/// AD2.
#[test]
fn a_change_pays_for_its_migration() {
    let mut keyspace = AdaptiveKeyspace::new("leveled:4");
    keyspace.migration_bytes = 1e12;
    for _ in 0..2 {
        keyspace.window(writing());
    }
    for _ in 0..10 {
        assert!(matches!(keyspace.window(writing()), Decision::TooDear(_)));
    }
    keyspace.migration_bytes = 0.0;
    assert!(matches!(keyspace.window(writing()), Decision::Change(..)));
}

/// AD3: pauses, and longer ones for alternating workloads.
#[test]
fn after_a_change_there_is_a_pause_and_a_longer_one_for_oscillation() {
    let mut keyspace = AdaptiveKeyspace::new("leveled:4");
    let mut turns = Vec::new();
    for turn in 0..6 {
        let operations = if turn % 2 == 0 { writing() } else { scanning() };
        let mut windows = 0;
        while keyspace.changes.len() == turn {
            keyspace.window(operations);
            windows += 1;
            assert!(windows < 200, "turn {turn}");
        }
        turns.push(windows);
    }
    assert_eq!(turns[0], 3);
    assert_eq!(turns[1], 6, "as long as the rest");
    assert!(turns[3] > turns[1] && turns[5] > turns[3], "{turns:?}");
    assert!(turns[5] <= 6 * 16, "{turns:?}");
    // After a long time in one workload the pause is the usual one again.
    (0..300).for_each(|_| {
        keyspace.window(scanning());
    });
    let changes = keyspace.changes.len();
    (0..3).for_each(|_| {
        keyspace.window(writing());
    });
    assert_eq!(keyspace.changes.len(), changes + 1);
    assert_eq!(keyspace.history.rest_left_ms(keyspace.now_ms, &keyspace.rules), 6 * WINDOW_MS);
}

/// For any workload: no change before enough windows, none during a pause, and none while workloads alternate
/// faster than windows agree.
#[test]
fn random_workloads_never_break_the_rules() {
    for seed in 0..12 {
        let random = SeededRandom::new(seed);
        let mut keyspace = AdaptiveKeyspace::new(
            ["leveled:10", "tiered:4", "partitioned", "golden-ratio"][seed as usize % 4],
        );
        let mut since_change = 0;
        let mut last_ms: Option<u64> = None;
        for _ in 0..120 {
            let share = |most: u64| random.below(most) as f64;
            let operations = match random.below(4) {
                0 => writing(),
                1 => scanning(),
                2 => Operations { puts: share(900), ..Operations::default() },
                _ => Operations {
                    puts: share(50_000),
                    present_reads: share(50_000),
                    absent_reads: share(50_000),
                    short_scans: share(10_000),
                    short_scan_entries: share(100_000),
                    ..Operations::default()
                },
            };
            since_change += 1;
            if let Decision::Change(..) = keyspace.window(operations) {
                assert!(since_change >= 3, "seed {seed}");
                if let Some(last_ms) = last_ms {
                    assert!(keyspace.now_ms - last_ms >= 6 * WINDOW_MS, "seed {seed}");
                }
                (since_change, last_ms) = (0, Some(keyspace.now_ms));
            }
        }
    }
    let mut keyspace = AdaptiveKeyspace::new("leveled:4");
    keyspace.question.present = None;
    assert_eq!(keyspace.window(writing()), Decision::Unknown);
    let mut keyspace = AdaptiveKeyspace::new("leveled:4");
    (0..3).for_each(|_| {
        keyspace.window(scanning());
    });
    let changes = keyspace.changes.len();
    for turn in 0..100 {
        keyspace.window(if turn % 3 == 2 { scanning() } else { writing() });
    }
    assert_eq!(keyspace.changes.len(), changes, "two windows in a row are not three");
}
