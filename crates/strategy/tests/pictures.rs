//! Planning tests: trees drawn as text and the expected plans, in `tests/testdata/*.txt`.
//!
//! A case is a command, a picture, a line `----` and the expected answer; blank lines end it, lines that
//! start with `#` are comments before it. Commands take options as `name=value`:
//!
//! * `plan STRATEGY` draws the next plan. Options: `idle`, `scanned`, `migrating` and `paused` (after a
//!   change of strategy), `memtable`, `table`, `max_job` (MiB), `k0`, `job_runs`, `hard`, `garbage` and
//!   `worth` (1/1000), `hidden` (a range in which everything is deleted), `small` (MiB), `slices=no`,
//!   `snapshot` (a sequence number), `now`, `delete_within`, `reserve` (seconds), `space_amp` (space target,
//!   1/1000), `jobs`, `plans=n` (this many, each added to the running jobs before the next).
//! * `drain STRATEGY` executes plans, without dropping anything, until there is none; draws their number and
//!   the first.
//! * `misplaced STRATEGY` says how many MiB of old files are not in its form.
//! * `place RANGE` draws where a flush goes.
//! * `manual RANGE` draws the next step of a compaction of a range; option `mark` is the sequence number.
//!
//! A line `busy L0.1 L0.2 -> L1 front` inside a picture is a running job with these runs as input.
//!
//! With `UPDATE_PICTURES=1` in the environment the expected answers are rewritten; read the difference before
//! you commit it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod support;

use esker_base::{KeyspaceId, PartId, RunId, SeqNo};
use esker_strategy::*;
use esker_version::*;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use support::*;

struct Case {
    head: Vec<String>,
    body: Vec<String>,
    expected: Vec<String>,
    line: usize,
}

fn read_cases(text: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while lines.peek().is_some() {
        let mut case = Case { head: Vec::new(), body: Vec::new(), expected: Vec::new(), line: 0 };
        while let Some((_, line)) = lines.next_if(|(_, line)| line.is_empty() || line.starts_with('#')) {
            case.head.push(line.to_string());
        }
        while let Some((at, line)) = lines.next_if(|(_, line)| *line != "----") {
            case.line = case.line.max(at + 1);
            case.body.push(line.to_string());
        }
        lines.next();
        while let Some((_, line)) = lines.next_if(|(_, line)| !line.is_empty()) {
            case.expected.push(line.to_string());
        }
        cases.push(case);
    }
    cases
}

/// The words of a command line: those without `=` in order, the others by name.
struct Words<'a> {
    plain: Vec<&'a str>,
    named: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    fn new(line: &'a str) -> Words<'a> {
        let mut words = Words { plain: Vec::new(), named: BTreeMap::new() };
        for word in line.split_whitespace() {
            match word.split_once('=') {
                Some((name, value)) => drop(words.named.insert(name, value)),
                None => words.plain.push(word),
            }
        }
        words
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.named.get(name).map(|value| value.parse().unwrap())
    }

    fn options(&self) -> StrategyOptions {
        let seconds = |name| self.number(name).map(|seconds| seconds * 1000);
        StrategyOptions {
            memtable_bytes: self.number("memtable").unwrap_or(64) * MIB,
            table_bytes: Some(self.number("table").unwrap_or(64) * MIB),
            max_job_bytes: self.number("max_job").map(|size| size * MIB),
            level0_trigger_runs: self.number("k0").map(|runs| runs as u32),
            max_job_runs: self.number("job_runs").map(|runs| runs as u32),
            level0_hard_runs: self.number("hard").unwrap_or(24) as u32,
            garbage_permille: self.number("garbage").unwrap_or(250) as u32,
            small_garbage_bytes: self.number("small").unwrap_or(0) * MIB,
            idle_permille: self.number("worth").unwrap_or(0) as u32,
            slices: self.named.get("slices") != Some(&"no"),
            max_space_amp_permille: self.number("space_amp"),
            jobs: self.number("jobs").unwrap_or(1) as u32,
            delete_within_ms: seconds("delete_within"),
            delete_reserve_ms: seconds("reserve"),
            ..StrategyOptions::default()
        }
    }

    fn hidden(&self, version: &Version) -> Vec<PartId> {
        let Some(range) = self.named.get("hidden").map(|range| parse_range(range)) else { return Vec::new() };
        let inside = version.parts().filter(|(_, _, part)| range.covers(&part.range));
        let mut hidden: Vec<PartId> = inside.map(|(_, _, part)| part.id).collect();
        hidden.sort_unstable();
        hidden
    }

    fn shape<'v>(&self, version: &'v Version, hidden: &'v [PartId]) -> Shape<'v> {
        let now_ms = self.number("now").unwrap_or(0) * 1000;
        Shape {
            oldest_snapshot: self.number("snapshot").map_or(SeqNo::MAX, SeqNo::new),
            now_ms,
            expired_ms: now_ms,
            hidden,
            idle: self.plain.contains(&"idle"),
            is_scanned: self.plain.contains(&"scanned"),
            migration: self
                .plain
                .contains(&"migrating")
                .then(|| Migration { first_new: FIRST_NEW, is_paused: self.plain.contains(&"paused") }),
            ..Shape::new(version)
        }
    }
}

fn run_case(case: &Case) -> String {
    let words = Words::new(&case.body[0]);
    let mut picture = Picture::default();
    let (jobs, levels): (Vec<&String>, Vec<&String>) =
        case.body[1..].iter().partition(|line| line.starts_with("busy"));
    levels.into_iter().for_each(|line| picture.line(line));
    let (heat, overwrite_ratios) = (picture.heat(), picture.overwrite_ratios());
    let version = picture.version();
    let mut busy = Busy::new();
    for job in jobs {
        busy.add(&parse_job(&version, job));
    }
    let options = words.options();
    let hidden = words.hidden(&version);
    let shape = Shape { heat: &heat, overwrite_ratios: &overwrite_ratios, ..words.shape(&version, &hidden) };
    match words.plain[0] {
        "plan" => plan_case(&words, &shape, busy, &options),
        "drain" => drain_case(&words, version, &options),
        "misplaced" => {
            let strategy: Strategy = words.plain[1].parse().unwrap();
            strategy.misplaced_bytes(&shape, &options).div_ceil(MIB).to_string()
        }
        "place" => {
            let position = flush_placement(&version, &parse_range(words.plain[1]), &busy);
            draw_position(&version, position)
        }
        "manual" => {
            let mark = ManualMark {
                seqno: words.number("mark").map_or(SeqNo::MAX, SeqNo::new),
                part: PartId(words.number("part").unwrap_or(u64::MAX)),
            };
            let range = parse_range(words.plain[1]);
            match Strategy::Partitioned.plan_manual(&shape, &busy, &options, &range, mark) {
                ManualStep::Plan(plan) => draw_plan(&version, &plan),
                other => format!("{other:?}"),
            }
        }
        other => panic!("no command {other:?}"),
    }
}

fn plan_case(words: &Words<'_>, shape: &Shape<'_>, mut busy: Busy, options: &StrategyOptions) -> String {
    let strategy: Strategy = words.plain[1].parse().unwrap();
    let mut answers = Vec::new();
    if busy.is_empty() && !shape.idle {
        let (debt, plan) = (strategy.debt(shape, options), strategy.plan(shape, &busy, options));
        assert_eq!(debt == 0, plan.is_none(), "debt {debt} with {plan:?}");
    }
    for _ in 0..words.number("plans").unwrap_or(1) {
        let plan = strategy.plan(shape, &busy, options);
        assert_eq!(plan, strategy.plan(shape, &busy, options), "the same twice");
        let Some(plan) = plan else {
            answers.push("-".into());
            break;
        };
        validate(shape.version, &busy, &plan).unwrap_or_else(|error| panic!("{error}"));
        answers.push(draw_plan(shape.version, &plan));
        busy.add(&plan);
    }
    answers.join("\n")
}

fn drain_case(words: &Words<'_>, mut version: Version, options: &StrategyOptions) -> String {
    let strategy: Strategy = words.plain[1].parse().unwrap();
    let mut first = None;
    let mut count = 0;
    loop {
        let hidden = words.hidden(&version);
        let shape = words.shape(&version, &hidden);
        let Some(plan) = strategy.plan(&shape, &Busy::new(), options) else { break };
        validate(&version, &Busy::new(), &plan).unwrap_or_else(|error| panic!("{error}"));
        first.get_or_insert_with(|| draw_plan(&version, &plan));
        version = apply(&version, &plan);
        count += 1;
        assert!(count < 10_000, "no end: {plan}");
    }
    format!("{count} plans, {} runs left\n{}", version.run_count(), first.unwrap_or_else(|| "-".into()))
}

/// Applies a plan to the picture: nothing is dropped; output parts have the ranges of the parts they replace
/// in the output run, or are one part.
fn apply(version: &Version, plan: &CompactionPlan) -> Version {
    let keyspace = KeyspaceId(0);
    let mut state = DatabaseState::new([0; 16]);
    let mut edit = VersionEdit::new();
    edit.push(EditOp::CreateKeyspace { id: keyspace, name: "k".into(), options: Arc::default() });
    edit.push(EditOp::LastSeqno(SeqNo::MAX));
    for (level, run, part) in version.parts() {
        edit.add_part(keyspace, Place { level, run: run.id, order: run.order }, part.clone());
    }
    state.apply(&edit).unwrap();
    let new_run = state.take_run_id();
    let mut edit = if plan.kind == PlanKind::Merge {
        let mut edit = VersionEdit::new();
        plan.remove_inputs(keyspace, &mut edit, || state.take_part_id());
        edit
    } else {
        plan.edit_without_output(keyspace, version, new_run, || state.take_part_id())
    };
    if plan.kind == PlanKind::Merge {
        let to = plan.to.in_reading_order();
        let replaced =
            plan.inputs.iter().filter(|input| input.position() == to).flat_map(|input| &input.parts);
        let mut ranges: Vec<KeyRange> = replaced.map(|part| part.range().clone()).collect();
        if ranges.is_empty() {
            ranges.push(plan.hull.clone());
        }
        ranges[0].start = plan.hull.start.clone();
        let count = ranges.len();
        ranges[count - 1].end = plan.hull.end.clone();
        for at in 0..count - 1 {
            ranges[at].end = KeyEnd::Excluded(ranges[at + 1].start.clone());
        }
        let place = plan.to.place(version, new_run);
        for range in ranges {
            let (_, input) = plan.parts().next().unwrap();
            let bytes = (plan.est_out_bytes / count as u64).max(1);
            let file = state.take_file_number();
            let part = PartMeta::new(state.take_part_id(), file, bytes, input.part.table_uid, range);
            edit.add_part(keyspace, place, Arc::new(part));
        }
    }
    state.apply(&edit).unwrap_or_else(|error| panic!("{plan}: {error}"));
    assert_eq!(state.problems(), Vec::<String>::new());
    Version::clone(&state.keyspaces[&keyspace].version)
}

/// A job that merges whole runs.
fn parse_job(version: &Version, line: &str) -> CompactionPlan {
    let (inputs, to) = line.strip_prefix("busy").unwrap().split_once("->").unwrap();
    let inputs: Vec<PlanInput> = inputs
        .split_whitespace()
        .map(|run| {
            let (level, at) = run.split_once('.').unwrap();
            let level = parse_level(level);
            let run = &version.runs_of(level)[at.parse::<usize>().unwrap()];
            let parts = run.parts().iter().cloned().map(InputPart::whole).collect();
            PlanInput { level, run: run.id, order: run.order, parts }
        })
        .collect();
    let to = match to.split_whitespace().collect::<Vec<_>>()[..] {
        [level, "front"] => Position::Front(parse_level(level)),
        [run] => {
            let (level, at) = run.split_once('.').unwrap();
            let level = parse_level(level);
            let run = &version.runs_of(level)[at.parse::<usize>().unwrap()];
            Position::Into { level, run: run.id, order: run.order }
        }
        _ => panic!("{line}"),
    };
    let ranges = inputs.iter().flat_map(|input| &input.parts).map(|part| part.range().clone());
    let hull = ranges.reduce(|hull, range| hull.hull(&range)).unwrap();
    CompactionPlan {
        kind: PlanKind::Merge,
        class: Class::Shape,
        reason: Reason::Tier,
        inputs,
        hull,
        to,
        bottom: false,
        cut: Cut::plain(MIB),
        filter: true,
        est_in_bytes: 0,
        est_out_bytes: 0,
    }
}

/// A plan in one line, runs numbered newest first: `Merge Shape (level 0 has enough runs) L0.0 L0.1 Z.0 ->
/// Z.0 bottom, 448`.
fn draw_plan(version: &Version, plan: &CompactionPlan) -> String {
    let mut text = format!("{:?} {:?} ({})", plan.kind, plan.class, plan.reason);
    for input in &plan.inputs {
        let run = version.run(input.level, input.run).unwrap();
        write!(text, " {}", draw_run(version, input.level, input.run)).unwrap();
        let whole =
            input.parts.len() == run.parts().len() && input.parts.iter().all(|part| part.slice.is_none());
        if whole {
            continue;
        }
        let parts: Vec<String> = input
            .parts
            .iter()
            .map(|consumed| match &consumed.slice {
                None => consumed.part.range.to_string(),
                Some(slice) => format!("{slice} of {}", consumed.part.range),
            })
            .collect();
        write!(text, "{{{}}}", parts.join(" ")).unwrap();
    }
    let to = match plan.to {
        Position::Front(level) => format!("{} front", draw_level(level)),
        Position::Into { level, run, .. } => draw_run(version, level, run),
    };
    write!(text, " -> {to}").unwrap();
    text.push_str(if plan.bottom { " bottom" } else { "" });
    text.push_str(if plan.filter { "" } else { " unfiltered" });
    write!(text, ", {}", plan.est_in_bytes.div_ceil(MIB)).unwrap();
    text
}

fn draw_level(level: LevelIndex) -> String {
    if level.is_last() { "Z".into() } else { format!("L{}", level.get()) }
}

fn draw_run(version: &Version, level: LevelIndex, run: RunId) -> String {
    let at = version.runs_of(level).iter().position(|held| held.id == run);
    at.map_or_else(|| format!("{}.?", draw_level(level)), |at| format!("{}.{at}", draw_level(level)))
}

fn draw_position(version: &Version, position: Position) -> String {
    match position {
        Position::Front(level) => format!("{} front", draw_level(level)),
        Position::Into { level, run, .. } => format!("into {}", draw_run(version, level, run)),
    }
}

#[expect(clippy::disallowed_methods, reason = "test data lie in the source tree, not in a database")]
fn check_file(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut rewritten = String::new();
    let mut wrong = Vec::new();
    for case in read_cases(&text).iter().filter(|case| !case.body.is_empty()) {
        let answer = run_case(case);
        if answer.lines().ne(case.expected.iter().map(String::as_str)) {
            let expected = case.expected.join("\n");
            wrong.push(format!("{name}:{}\nexpected: {expected}\n  answer: {answer}", case.line));
        }
        let lines = case.head.iter().chain(&case.body).map(String::as_str).chain(["----"]);
        rewritten.extend(lines.chain(answer.lines()).flat_map(|line| [line, "\n"]));
    }
    if std::env::var_os("UPDATE_PICTURES").is_some() {
        std::fs::write(&path, rewritten).unwrap();
    } else {
        assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    }
}

#[test]
fn leveled() {
    check_file("leveled.txt");
}

#[test]
fn tiered_and_lazy() {
    check_file("tiered_and_lazy.txt");
}

#[test]
fn partial() {
    check_file("partial.txt");
}

#[test]
fn migration() {
    check_file("migration.txt");
}

#[test]
fn fifo() {
    check_file("fifo.txt");
}

#[test]
fn partitioned() {
    check_file("partitioned.txt");
}

#[test]
fn every_strategy() {
    check_file("every_strategy.txt");
}
