//! Every validation rule violated once, and details of plans.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

#[expect(dead_code, reason = "pictures need more")]
mod support;

use esker_base::{KeyspaceId, PartId, RunId};
use esker_strategy::*;
use esker_version::*;
use support::*;

fn draw(lines: &[&str]) -> Version {
    let mut picture = Picture::default();
    lines.iter().for_each(|line| picture.line(line));
    picture.version()
}

/// The parts of a run that `keys` overlaps, as an input.
fn input(version: &Version, level: &str, run: usize, keys: &str) -> PlanInput {
    let level = parse_level(level);
    let run = &version.runs_of(level)[run];
    let parts = run.overlapping(&parse_range(keys)).iter().cloned().map(InputPart::whole).collect();
    PlanInput { level, run: run.id, order: run.order, parts }
}

fn into(version: &Version, level: &str, run: usize) -> Position {
    let level = parse_level(level);
    let run = &version.runs_of(level)[run];
    Position::Into { level, run: run.id, order: run.order }
}

fn merge(inputs: Vec<PlanInput>, to: Position, bottom: bool) -> CompactionPlan {
    let ranges = inputs.iter().flat_map(|input| &input.parts).map(|part| part.range().clone());
    let hull = ranges.reduce(|hull, range| hull.hull(&range)).unwrap();
    CompactionPlan {
        kind: PlanKind::Merge,
        class: Class::Shape,
        reason: Reason::Tier,
        hull,
        to,
        bottom,
        cut: Cut::plain(1),
        filter: true,
        est_in_bytes: 0,
        est_out_bytes: 0,
        inputs,
    }
}

fn assert_broken(version: &Version, busy: &Busy, plan: &CompactionPlan, rule: &str) {
    let error = validate(version, busy, plan).unwrap_err();
    assert!(error.starts_with(rule), "{rule} expected: {error}");
}

fn tree() -> Version {
    draw(&["L0: a-z:1 | a-m:1 n-z:1", "L1: a-z:1", "Z: a-f:1 g-m:1 n-z:1"])
}

#[test]
fn a_legal_plan_is_legal() {
    let version = tree();
    let inputs = vec![
        input(&version, "L0", 1, "a-c"),
        input(&version, "L1", 0, "a-z"),
        input(&version, "Z", 0, "a-z"),
    ];
    validate(&version, &Busy::new(), &merge(inputs, into(&version, "Z", 0), true)).unwrap();
}

#[test]
fn v1_nothing_between_may_overlap() {
    let version = tree();
    let none = Busy::new();
    // Past level 1, which is no input.
    let inputs = vec![input(&version, "L0", 1, "a-m"), input(&version, "Z", 0, "a-m")];
    assert_broken(&version, &none, &merge(inputs, into(&version, "Z", 0), true), "V1");
    // Past the older run of its own level.
    let plan = merge(vec![input(&version, "L0", 0, "a-z")], Position::Front(parse_level("L1")), false);
    assert_broken(&version, &none, &plan, "V1");
    // The other half of a run between conflicts too, if the hull covers it.
    let inputs = vec![input(&version, "L0", 0, "a-z"), input(&version, "L0", 1, "a-m")];
    let plan = merge(inputs, Position::Front(parse_level("L1")), false);
    assert_broken(&version, &none, &plan, "V1");
    // Upwards.
    let plan = merge(vec![input(&version, "Z", 0, "a-f")], Position::Front(parse_level("L1")), false);
    assert_broken(&version, &none, &plan, "V1");
    // A move of a part that a run between overlaps, input or not.
    let inputs = vec![input(&version, "L0", 0, "a-z"), input(&version, "L0", 1, "a-z")];
    let plan = merge(inputs, Position::Front(parse_level("L1")), false);
    assert_broken(&version, &none, &CompactionPlan { kind: PlanKind::Move, ..plan }, "V1");
}

#[test]
fn v2_the_output_run_must_be_free() {
    let version = tree();
    let inputs = vec![input(&version, "L1", 0, "a-z"), input(&version, "Z", 0, "a-f")];
    assert_broken(&version, &Busy::new(), &merge(inputs, into(&version, "Z", 0), true), "V2");
    // A slice leaves the rest of the part, which conflicts.
    let mut sliced = input(&version, "Z", 0, "a-z");
    sliced.parts[2].slice = Some(parse_range("n-p"));
    let inputs = vec![input(&version, "L1", 0, "a-z"), sliced];
    assert_broken(&version, &Busy::new(), &merge(inputs, into(&version, "Z", 0), true), "V2");
}

#[test]
fn v3_bottom_is_set_exactly_when_true() {
    let version = tree();
    let to_front =
        |bottom| merge(vec![input(&version, "L0", 1, "a-z")], Position::Front(parse_level("L1")), bottom);
    assert_broken(&version, &Busy::new(), &to_front(true), "V3");
    validate(&version, &Busy::new(), &to_front(false)).unwrap();
    let inputs = || vec![input(&version, "L1", 0, "a-z"), input(&version, "Z", 0, "a-z")];
    assert_broken(&version, &Busy::new(), &merge(inputs(), into(&version, "Z", 0), false), "V3");
    // The output of a running job counts.
    let version = draw(&["L0: a-b:1 | x-z:1", "L1: c-d:1"]);
    let mut busy = Busy::new();
    let running = merge(
        vec![input(&version, "L0", 1, "x-z"), input(&version, "L1", 0, "c-d")],
        Position::Front(LevelIndex::LAST),
        true,
    );
    let plan =
        |bottom| merge(vec![input(&version, "L0", 0, "a-b")], Position::Front(parse_level("L2")), bottom);
    validate(&version, &busy, &plan(true)).unwrap();
    let wider = CompactionPlan { hull: parse_range("a-z"), ..running };
    busy.add(&wider);
    assert_broken(&version, &busy, &plan(true), "V4");
}

#[test]
fn v4_running_jobs_conflict() {
    let version = draw(&["L0: a-z:1 | a-f:1 | g-z:1", "L1: a-f:1 | a-f:1 g-z:1", "Z: a-z:1"]);
    let mut busy = Busy::new();
    let l1 = Position::Front(parse_level("L1"));
    let job = busy.add(&merge(vec![input(&version, "L0", 1, "a-f")], l1, false));
    // The same part.
    assert_broken(&version, &busy, &merge(vec![input(&version, "L0", 1, "a-f")], l1, false), "V4");
    // The same place and keys.
    let newer = || merge(vec![input(&version, "L0", 0, "a-z"), input(&version, "L0", 2, "g-z")], l1, false);
    assert!(validate(&version, &busy, &newer()).is_err());
    // The same place, other keys.
    validate(&version, &busy, &merge(vec![input(&version, "L0", 2, "g-z")], l1, false)).unwrap();
    // The same keys, from where the job writes to further down.
    let inputs = vec![input(&version, "L1", 0, "a-f"), input(&version, "L1", 1, "a-z")];
    validate(&version, &busy, &merge(inputs, Position::Front(parse_level("L2")), false)).unwrap();
    busy.remove(job);
    assert!(busy.is_empty() && !busy.has(&version.runs_of(LevelIndex::FLUSH)[1].parts()[0]));
    validate(&version, &busy, &merge(vec![input(&version, "L0", 1, "a-f")], l1, false)).unwrap();
}

#[test]
fn sa1_what_is_set_aside_is_merged_by_no_plan_and_passed_by_none() {
    let version = draw(&["L0: a-z:1 | a-z:1 | a-z:1 | a-z:1", "L1: a-f:1 g-m:1 n-z:1", "Z: a-z:1"]);
    let aside = version.runs_of(parse_level("L1"))[0].part_for(b"h").unwrap().clone();
    let busy = Busy::beside([aside.file].into_iter().collect::<std::collections::BTreeSet<_>>().into());
    assert!(busy.has(&aside) && !busy.is_input(&aside) && busy.is_empty());
    let with = merge(vec![input(&version, "L1", 0, "g-m")], Position::Front(parse_level("L2")), false);
    assert_broken(&version, &busy, &with, "SA1");
    validate(&version, &busy, &CompactionPlan { kind: PlanKind::Drop, ..with }).unwrap();
    let beside = merge(vec![input(&version, "L1", 0, "a-f")], Position::Front(parse_level("L2")), false);
    validate(&version, &busy, &beside).unwrap();
    let past = merge(vec![input(&version, "L0", 3, "a-z")], Position::Front(parse_level("L2")), false);
    assert_broken(&version, &busy, &past, "V1");
    // Every strategy finds something to do, and nothing of it touches the part.
    for name in
        ["partitioned", "leveled:4", "tiered:4", "lazy-leveled:4", "partial:10,oldest", "golden-ratio"]
    {
        let strategy: Strategy = name.parse().unwrap();
        let plan = strategy.plan(&Shape::new(&version), &busy, &StrategyOptions::default());
        if let Some(plan) = plan {
            validate(&version, &busy, &plan).unwrap();
            assert!(plan.parts().all(|(_, input)| input.part.id != aside.id), "{name}: {plan}");
        } else {
            assert!(
                strategy.plan(&Shape::new(&version), &Busy::new(), &StrategyOptions::default()).is_none()
            );
        }
    }
}

#[test]
fn v5_something_must_change() {
    let version = tree();
    let plan = merge(vec![input(&version, "Z", 0, "a-f")], into(&version, "Z", 0), true);
    assert_broken(&version, &Busy::new(), &plan, "V5");
    let cleaning = CompactionPlan { class: Class::Clean, reason: Reason::LastTombstones, ..plan };
    validate(&version, &Busy::new(), &cleaning).unwrap();
}

#[test]
fn inputs_must_be_what_the_tree_has() {
    let (version, other) = (tree(), draw(&["L0: a-z:2", "Z: a-f:1"]));
    let plan = |inputs| merge(inputs, Position::Front(LevelIndex::LAST), true);
    let stranger = plan(vec![input(&other, "L0", 0, "a-z")]);
    assert!(validate(&version, &Busy::new(), &stranger).unwrap_err().contains("is not in run"));
    let l1 = input(&version, "L1", 0, "a-z");
    assert!(validate(&version, &Busy::new(), &plan(vec![l1.clone(), l1.clone()])).is_err());
    let mut outside = l1;
    outside.parts[0].slice = Some(parse_range("0-c"));
    assert!(validate(&version, &Busy::new(), &plan(vec![outside])).unwrap_err().contains("to be consumed"));
}

#[test]
fn sliced_inputs_leave_their_remainders_in_place() {
    let version = draw(&["L0: a-z:26", "Z: h-n:1"]);
    let mut sliced = input(&version, "L0", 0, "a-z");
    sliced.parts[0].slice = Some(parse_range("h-n"));
    let plan = merge(vec![sliced, input(&version, "Z", 0, "a-z")], into(&version, "Z", 0), true);
    validate(&version, &Busy::new(), &plan).unwrap();
    let mut edit = VersionEdit::new();
    let mut next = 100;
    plan.remove_inputs(KeyspaceId(0), &mut edit, || {
        next += 1;
        PartId(next)
    });
    let text = edit.to_string();
    let lines: Vec<&str> = text.lines().map(|line| line.split(" bytes").next().unwrap()).collect();
    let rests: Vec<&&str> = lines.iter().filter(|line| line.starts_with("add")).collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(rests[0].contains("part 101 file 1 [a..h)"), "{text}");
    assert!(rests[1].contains("part 102 file 1 [n\\x00..z]"), "{text}");
}

#[test]
fn a_slice_may_leave_something_in_a_range() {
    let version = draw(&["L0: c-p:26"]);
    let mut part = input(&version, "L0", 0, "c-p").parts.remove(0);
    assert!(part.leaves_nothing_in(&parse_range("a-z")));
    part.slice = Some(parse_range("c-g"));
    assert!(part.leaves_nothing_in(&parse_range("a-g")) && part.leaves_nothing_in(&parse_range("q-z")));
    assert!(!part.leaves_nothing_in(&parse_range("a-h")) && !part.leaves_nothing_in(&parse_range("k-l")));
}

#[test]
fn places_are_found_at_the_install() {
    let version = tree();
    let front = Position::Front(LevelIndex::FLUSH).place(&version, RunId(50));
    assert!(front.order > version.runs_of(LevelIndex::FLUSH)[0].order);
    let Position::Into { level, run, order } = into(&version, "L0", 1) else { unreachable!() };
    assert_eq!(into(&version, "L0", 1).place(&version, RunId(50)), Place { level, run, order });
}

fn starts(plan: &CompactionPlan) -> Vec<Anchor> {
    let parts = plan.parts().map(|(_, part)| Anchor { key: part.range().start.clone(), bytes: part.bytes() });
    parts.collect()
}

#[test]
fn hulls_split_into_pieces_of_like_size() {
    let version = draw(&["L0: split(64,1) | split(16,4)", "Z: split(32,4)"]);
    let everything = "a-zzz";
    let inputs = vec![
        input(&version, "L0", 0, everything),
        input(&version, "L0", 1, everything),
        input(&version, "Z", 0, everything),
    ];
    let plan = merge(inputs, into(&version, "Z", 0), true);
    for pieces in 1..=5 {
        let ranges = plan.split(pieces, starts(&plan));
        assert_eq!(ranges.len(), pieces);
        assert_eq!(ranges[0].start, plan.hull.start);
        assert_eq!(ranges[pieces - 1].end, plan.hull.end);
        for pair in ranges.windows(2) {
            assert_eq!(pair[0].end, KeyEnd::Excluded(pair[1].start.clone()), "no gap and no overlap");
        }
        let bytes_in = |range: &KeyRange| -> u64 {
            let within = plan.parts().filter_map(|(_, part)| InputPart::within(&part.part, range));
            within.map(|part| part.bytes()).sum()
        };
        let total: u64 = ranges.iter().map(bytes_in).sum();
        for range in &ranges {
            let share = bytes_in(range) * pieces as u64 * 100 / total;
            assert!((80..=120).contains(&share), "{pieces} pieces: {range} has {share} % of its share");
        }
    }
    // One part cannot be split where only its start is known.
    let single = draw(&["L0: a-z:64"]);
    let plan = merge(vec![input(&single, "L0", 0, "a-z")], Position::Front(LevelIndex::LAST), true);
    assert_eq!(plan.split(4, starts(&plan)), std::slice::from_ref(&plan.hull));
    // Keys outside of the hull are no bounds.
    let outside = Anchor { key: b"~".as_slice().into(), bytes: 64 };
    assert_eq!(plan.split(4, vec![outside.clone(), outside]), std::slice::from_ref(&plan.hull));
}
