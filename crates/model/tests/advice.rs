//! Advice compared with the simulator and with necessary properties.

#![expect(clippy::unwrap_used, reason = "what a test cannot set up fails the test")]

use esker_model::advice::{
    Advice, Calibration, Design, Family, Figures, IndexForm, Knob, Operations, Question, Usage, advise,
};
use esker_model::{Scenario, Workload, simulate};
use esker_strategy::{Strategy, StrategyOptions};

const MIB: f64 = (1u64 << 20) as f64;

fn usage(operations: Operations) -> Usage {
    Usage { operations, ..Usage::new(10_000_000.0, 16.0, 116.0, 512.0 * MIB) }
}

fn advised(operations: Operations) -> Advice {
    advise(&Question::new(usage(operations))).unwrap()
}

/// Mixtures from writing alone to scanning alone.
fn mixtures() -> Vec<(&'static str, Operations)> {
    let scans = |short: f64, long: f64| Operations {
        short_scans: short,
        short_scan_entries: 10.0 * short,
        long_scans: long,
        long_scan_entries: 10_000.0 * long,
        ..Operations::default()
    };
    vec![
        ("writes", Operations { puts: 99.0, present_reads: 1.0, ..Operations::default() }),
        (
            "mixed",
            Operations { puts: 50.0, present_reads: 40.0, absent_reads: 10.0, ..Operations::default() },
        ),
        ("reads", Operations { puts: 5.0, present_reads: 60.0, absent_reads: 35.0, ..Operations::default() }),
        ("absent", Operations { puts: 30.0, absent_reads: 70.0, ..Operations::default() }),
        ("short scans", Operations { puts: 50.0, ..scans(50.0, 0.0) }),
        ("few short scans", Operations { puts: 97.0, ..scans(3.0, 0.0) }),
        ("long scans", Operations { puts: 90.0, ..scans(0.0, 10.0) }),
        ("deletes", Operations { puts: 40.0, deletes: 40.0, present_reads: 20.0, ..Operations::default() }),
    ]
}

/// The ranking of designs agrees with the simulator where it matters: the strategy preferred by the formulas
/// costs at most 15 % more, simulated, than the best of all when simulated. From small caches to all in
/// memory.
#[test]
fn the_choice_is_as_good_as_the_simulators() {
    let strategies = [
        "leveled:4",
        "leveled:10",
        "partial:10",
        "tiered:4",
        "tiered:8",
        "lazy-leveled:4",
        "lazy-leveled:8",
        "tiered-leveled:6",
        "fluid:8,3,1",
        "golden-ratio",
        "partitioned",
    ];
    let (mut compared, mut chosen) = (0, std::collections::BTreeSet::new());
    for (keys, write_buffer_bytes) in [(2_000_000, 8.0 * MIB), (10_000_000, 4.0 * MIB)] {
        let workload = Workload { keys, ..Workload::default() };
        let options =
            StrategyOptions { memtable_bytes: write_buffer_bytes as u64, ..StrategyOptions::default() };
        let simulated: Vec<(Strategy, Figures)> = strategies
            .iter()
            .map(|text| {
                let strategy: Strategy = text.parse().unwrap();
                let seen = simulate(&Scenario::with_options(strategy, workload, options.clone())).unwrap();
                let figures = Figures {
                    write_amplification: seen.write_amplification,
                    runs: seen.runs.mean,
                    space: seen.space.mean,
                    space_worst: seen.space.max,
                    absent_blocks: seen.reads_in_vain,
                    present_blocks: seen.reads_found,
                };
                (strategy, figures)
            })
            .collect();
        for (name, operations) in mixtures() {
            for memory in [0.15, 0.6, 3.0] {
                let mut usage = usage(operations);
                usage.entries = keys as f64;
                usage.memory_bytes = memory * usage.data_bytes();
                let question = Question::new(usage);
                let priced = simulated.iter().map(|(strategy, figures)| {
                    let design =
                        Design { strategy: *strategy, write_buffer_bytes, filter_bits_per_key: 10.0 };
                    let predicted = question.predict(&design).unwrap();
                    let cost = figures.cost(&usage, &question.prices, predicted.cached_share);
                    (predicted.cost_ns(), cost.total_ns(), *strategy)
                });
                let priced: Vec<(f64, f64, Strategy)> = priced.collect();
                let choice = priced.iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
                let best = priced.iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
                assert!(
                    choice.1 <= 1.15 * best.1,
                    "{name}, {keys} keys, {memory}: {} chosen at {} ns, {} would take {} ns",
                    choice.2,
                    choice.1,
                    best.2,
                    best.1
                );
                chosen.insert(choice.2.to_string());
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 48);
    assert!(chosen.len() >= 3, "one strategy suits everything: {chosen:?}");
}

#[test]
fn workloads_get_what_suits_them() {
    let of = |name: &str| {
        let (_, operations) = mixtures().into_iter().find(|(other, _)| *other == name).unwrap();
        advised(operations)
    };
    let (writes, reads, scans) = (of("writes"), of("absent"), of("short scans"));
    let write = |advice: &Advice| advice.best.figures.write_amplification;
    assert!(write(&writes) < write(&scans), "{} {}", writes.reason, scans.reason);
    assert!(writes.best.figures.runs > scans.best.figures.runs);
    assert!(reads.best.figures.absent_blocks < writes.best.figures.absent_blocks + 1e-9);
    assert!(
        reads.best.design.filter_bits_per_key > 4.0,
        "absent keys are told by filters: {:?}",
        reads.best.design
    );
    assert!(scans.best.design.filter_bits_per_key == 0.0, "scans ask no filter: {:?}", scans.best.design);
    for advice in [&writes, &reads, &scans] {
        assert!(advice.tried > 5_000, "{}", advice.tried);
        assert_eq!(advice.families.len(), 8);
        assert!(advice.families.is_sorted_by(|a, b| a.cost_ns() <= b.cost_ns()));
        assert_eq!(advice.best, advice.families[0]);
        assert!(advice.reason.len() > 80 && advice.reason.ends_with('.'), "{}", advice.reason);
    }
}

/// The advice is as cheap as every design of a separate grid: the search misses nothing.
#[test]
fn no_design_is_cheaper_than_the_advice() {
    for (name, operations) in mixtures() {
        let question = Question::new(usage(operations));
        let advice = advise(&question).unwrap();
        for strategy in ["leveled:3", "tiered:12", "lazy-leveled:5", "fluid:10,3,2", "partitioned"] {
            for write_buffer in [1.0, 4.0, 16.0, 64.0] {
                for filter_bits_per_key in [0.0, 5.0, 10.0, 16.0] {
                    let strategy = strategy.parse().unwrap();
                    let design =
                        Design { strategy, write_buffer_bytes: write_buffer * MIB, filter_bits_per_key };
                    let cost = question.predict(&design).unwrap().cost_ns();
                    assert!(advice.best.cost_ns() <= cost * (1.0 + 1e-9), "{name}: {design:?} costs {cost}");
                }
            }
        }
    }
}

#[test]
fn the_present_design_is_compared_and_kept_if_good() {
    let (_, operations) = mixtures().remove(0);
    let mut question = Question::new(usage(operations));
    question.present = Some(Design {
        strategy: "leveled:10".parse().unwrap(),
        write_buffer_bytes: MIB,
        filter_bits_per_key: 10.0,
    });
    question.named = vec![("that".to_owned(), question.present.unwrap())];
    let advice = advise(&question).unwrap();
    assert!(advice.is_worth_it() && advice.gain().unwrap() > 0.2, "{}", advice.reason);
    assert!(advice.reason.contains("leveled:10"), "{}", advice.reason);
    assert_eq!(advice.named.len(), 1);
    for (knob, prediction) in &advice.single_changes {
        let (now, then) = (question.present.unwrap(), prediction.design);
        assert!(prediction.cost_ns() < advice.present.unwrap().cost_ns());
        assert_eq!(now.strategy != then.strategy, *knob == Knob::Strategy);
        assert_eq!(now.write_buffer_bytes != then.write_buffer_bytes, *knob == Knob::WriteBuffer);
        assert_eq!(now.filter_bits_per_key != then.filter_bits_per_key, *knob == Knob::Filters);
    }
    assert!(advice.single_changes.len() >= 2);
    // After following the advice, the advice is to stay.
    question.present = Some(advice.best.design);
    let again = advise(&question).unwrap();
    assert_eq!(again.best.design, advice.best.design);
    assert!(!again.is_worth_it() && again.reason.contains("leave it"), "{}", again.reason);
    assert!(again.single_changes.is_empty(), "{:?}", again.single_changes);
}

#[test]
fn memory_is_divided_and_targets_are_met() {
    for memory in [32.0, 256.0, 2048.0] {
        for (name, operations) in mixtures() {
            let usage = Usage { operations, ..Usage::new(10_000_000.0, 16.0, 116.0, memory * MIB) };
            let best = advise(&Question::new(usage)).unwrap().best;
            let taken = 2.0 * best.design.write_buffer_bytes + best.filter_bytes + best.cache_bytes;
            assert!(taken <= usage.memory_bytes * 1.000_001, "{name}: {best:?}");
            assert!(best.cache_bytes >= usage.memory_bytes / 16.0, "{name}: {best:?}");
        }
    }
    let (_, operations) = mixtures().remove(0);
    let mut usage = usage(operations);
    usage.max_space_amplification = Some(1.3);
    let tight = advise(&Question::new(usage)).unwrap();
    assert!(tight.best.figures.space_worst <= 1.3, "{:?}", tight.best);
    assert!(tight.families.iter().all(|prediction| prediction.figures.space_worst <= 1.3));
    usage.max_space_amplification = Some(1.0001);
    assert!(advise(&Question::new(usage)).unwrap_err().contains("allow more"));
}

/// A database that writes more than the formulas predict, and one whose cache has more hits, get different
/// advice.
#[test]
fn measurements_move_the_balance() {
    let operations = Operations { puts: 60.0, short_scans: 2.0, ..Operations::default() };
    let mut question = Question::new(usage(operations));
    let plain = advise(&question).unwrap().best;
    question.known = Calibration { writes: 4.0, in_vain: 1.0, cache_skew: 0.2 };
    let calibrated = advise(&question).unwrap().best;
    assert!(calibrated.cached_share > plain.cached_share);
    let cost = |question: &Question, design| question.predict(design).unwrap().parts;
    let before = cost(&Question::new(question.usage), &plain.design);
    let after = cost(&question, &plain.design);
    assert!((after.writes_ns / before.writes_ns - 4.0).abs() < 1e-9);
    assert!(after.scans_ns < before.scans_ns);
    assert!(calibrated.figures.runs > plain.figures.runs, "{plain:?} {calibrated:?}");
}

/// Without writes, trees that converge have one run, and no other design is cheaper to read.
#[test]
fn read_only_usage_may_stay_with_converging_strategies() {
    let operations = Operations { present_reads: 90.0, short_scans: 10.0, ..Operations::default() };
    let mut question = Question::new(usage(operations));
    let strategy = "partitioned".parse().unwrap();
    question.present = Some(Design { strategy, write_buffer_bytes: 16.0 * MIB, filter_bits_per_key: 10.0 });
    let advice = advise(&question).unwrap();
    let present = advice.present.unwrap();
    assert_eq!((present.figures.runs, present.figures.space), (1.0, 1.0));
    assert!(
        advice.single_changes.iter().all(|(knob, _)| *knob != Knob::Strategy),
        "{:?}",
        advice.single_changes
    );
    question.usage.operations.puts = 50.0;
    assert!(question.predict(&question.present.unwrap()).unwrap().figures.runs > 1.0);
}

/// Trees smaller than a memtable: no run holds more than all data, whatever garbage limits come to for so
/// little.
#[test]
fn tiny_stores_have_possible_figures() {
    for (entries, entry_bytes) in [(1.0, 2.0), (100.0, 116.0), (45_000.0, 92.0), (140_000.0, 116.0)] {
        let operations = Operations { puts: 1.0, present_reads: 1.0, ..Operations::default() };
        let usage = Usage { operations, ..Usage::new(entries, 1.0, entry_bytes, 512.0 * MIB) };
        let mut question = Question::new(usage);
        let strategy = Strategy::Partitioned;
        question.present =
            Some(Design { strategy, write_buffer_bytes: 16.0 * MIB, filter_bits_per_key: 10.0 });
        let advice = advise(&question).unwrap();
        for prediction in advice.families.iter().chain(&advice.present) {
            let Figures { runs, space, space_worst, .. } = prediction.figures;
            let strategy = prediction.design.strategy;
            assert!(
                space <= runs + 0.01 && space_worst < 66.0,
                "{strategy}, {entries}: {space} in {runs} runs"
            );
        }
        let present = advice.present.unwrap().figures;
        assert!(present.runs < 10.0 && present.space < 10.0, "{entries}: {present:?}");
    }
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    let refused = |change: fn(&mut Usage)| {
        let mut usage = usage(Operations { puts: 1.0, ..Operations::default() });
        change(&mut usage);
        advise(&Question::new(usage)).unwrap_err()
    };
    assert!(refused(|usage| usage.entries = 0.0).contains("entries"));
    assert!(refused(|usage| usage.memory_bytes = f64::NAN).contains("memory"));
    assert!(refused(|usage| usage.operations = Operations::default()).contains("operations"));
    assert!(refused(|usage| usage.key_bytes = 500.0).contains("key of 500"));
    assert!(refused(|usage| usage.operations.deletes = -0.5).contains("-0.5"));
    // If all memory is reserved there is no cache.
    assert!(refused(|usage| usage.reserved_bytes = usage.memory_bytes).contains("too few"));
    assert_eq!(Family::of(&"fifo:1GiB,1d".parse().unwrap()), None);
}

/// The index follows the workload and the memory, as the CS265 report's choice among fence pointers does
/// (2.3.2).
#[test]
fn the_index_follows_reads_and_memory() {
    let best = |entries: f64, memory_bytes: f64, cache_skew: f64, operations: Operations| {
        let usage = Usage { operations, ..Usage::new(entries, 16.0, 116.0, memory_bytes) };
        let mut question = Question::new(usage);
        question.known.cache_skew = cache_skew;
        let index = advise(&question).unwrap().index;
        assert!(index.forms.windows(2).all(|pair| pair[0].cost_ns <= pair[1].cost_ns), "{index:?}");
        assert!(index.reason.contains(index.best().form.name()), "{}", index.reason);
        index.best().form
    };
    let (gib, mib) = ((1u64 << 30) as f64, (1u64 << 20) as f64);
    let mixed = Operations { puts: 40.0, present_reads: 30.0, short_scans: 30.0, ..Operations::default() };
    let scans = Operations { short_scans: 100.0, ..Operations::default() };
    let lookups = Operations { present_reads: 70.0, absent_reads: 25.0, puts: 5.0, ..Operations::default() };
    // Everything fits the memory: the fastest search, or for lookups alone none at all.
    assert_eq!(best(1e6, 4.0 * gib, 1.0, mixed), IndexForm::SearchTree);
    assert_eq!(best(1e6, 4.0 * gib, 1.0, scans), IndexForm::SearchTree);
    assert_eq!(best(1e7, 16.0 * gib, 1.0, lookups), IndexForm::HashLocator);
    // Few popular blocks, and little memory for them: its bytes are worth more than time.
    let scarce = best(1e9, 1.5 * gib, 0.3, scans);
    assert!([IndexForm::PrefixCompressed, IndexForm::BTreePages].contains(&scarce), "{scarce:?}");
    // An index of all blocks does not fit at all.
    assert_eq!(best(1e10, 64.0 * mib, 0.3, scans), IndexForm::BTreePages);
}
