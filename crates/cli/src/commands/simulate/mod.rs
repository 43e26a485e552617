//! `simulate`: prints the costs of strategies on a model of the tree.

mod against;

use crate::args::{Global, SimulateArgs};
use crate::failure::{Exit, Failure};
use crate::format::{human_bytes, human_count};
use esker::parts::model::cost::{Costs, Form};
use esker::parts::model::{Input, Outcome, Pace, Scenario, Workload, simulate};
use esker::parts::strategy::StrategyOptions;
use serde_json::{Value, json};
use std::io::Write;

pub(crate) fn run(global: &Global, args: &SimulateArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    let strategies = args.chosen().map_err(Failure::usage)?;
    let workload = workload_of(args);
    let options = StrategyOptions {
        memtable_bytes: args.write_buffer_size,
        table_bytes: args.table_size,
        max_job_bytes: args.max_job,
        ..StrategyOptions::default()
    };
    let (mut notes, mut beyond) = (Vec::new(), Vec::new());
    let mut has_head = global.shape.json;
    for strategy in strategies {
        let mut scenario = Scenario::with_options(strategy, workload, options.clone());
        scenario.filter_bits_per_key = args.filter_bits;
        scenario.machine.disk_bytes_per_s = args.disk as f64;
        scenario.machine.threads = args.threads;
        if let Some(rate) = args.rate {
            scenario.pace = Pace::Rate { bytes_per_s: rate as f64 };
        }
        scenario.passes = args.passes.unwrap_or(scenario.passes);
        scenario.warm_up_passes = args.warm_up.unwrap_or(scenario.warm_up_passes);
        let measured = if args.against_engine {
            scenario.check().map_err(Failure::usage)?;
            let measured = against::measure(global, &scenario)?;
            scenario.table_overhead = measured.table_overhead;
            Some(measured)
        } else {
            None
        };
        let outcome = simulate(&scenario).map_err(Failure::usage)?;
        if let (Some(measured), Some(percent)) = (&measured, args.within) {
            beyond.extend(against::beyond(&outcome, measured, percent));
        }
        if !has_head {
            has_head = true;
            head(out, args, &workload)?;
        }
        let formula = Form::of(&strategy, &scenario.options)
            // The formulas hold for uniform overwrites only.
            .filter(|_| {
                workload.input == Input::Uniform
                    && workload.deleted_share == 0.0
                    && workload.ttl_passes.is_none()
            })
            .map(|form| Costs::of(&form, scenario.flushes_per_pass()));
        if global.shape.json {
            let mut answer = as_json(&scenario, &outcome, formula.as_ref());
            if let Some(measured) = &measured {
                answer["engine"] = measured.as_json();
            }
            writeln!(out, "{answer}")?;
        } else if let Some(measured) = &measured {
            against::row(out, &outcome, measured)?;
        } else {
            row(out, args, &outcome, formula.as_ref())?;
            notes.extend(note(&outcome));
        }
        out.flush()?;
    }
    if !notes.is_empty() {
        writeln!(out)?;
        for note in notes {
            writeln!(out, "{note}")?;
        }
    }
    match beyond[..] {
        [] => Ok(Exit::Done),
        _ => Err(Failure::defect(format!("the simulation is off by too much: {}", beyond.join("; ")))),
    }
}

fn workload_of(args: &SimulateArgs) -> Workload {
    Workload {
        keys: args.entries,
        key_bytes: args.key_bytes,
        value_bytes: args.value_bytes,
        input: args.input,
        deleted_share: args.deletes,
        ttl_passes: args.ttl,
    }
}

fn head(out: &mut dyn Write, args: &SimulateArgs, workload: &Workload) -> Result<(), Failure> {
    let deletes =
        if args.deletes > 0.0 { format!(", {:.0} % deletes", 100.0 * args.deletes) } else { String::new() };
    let expiry = args.ttl.map_or(String::new(), |passes| format!(", each gone after {passes} passes"));
    writeln!(
        out,
        "{} entries of {} + {} bytes ({}), {}{deletes}{expiry}; memtables of {}, filters of {} bits a key",
        human_count(args.entries),
        args.key_bytes,
        args.value_bytes,
        human_bytes(workload.live_bytes() as u64),
        args.input,
        human_bytes(args.write_buffer_size),
        args.filter_bits,
    )?;
    if let Some(rate) = args.rate {
        let (rate, disk) = (human_bytes(rate), human_bytes(args.disk));
        writeln!(out, "{rate}/s wanted, the disk writes {disk}/s, {} threads merge", args.threads)?;
    }
    writeln!(out)?;
    if args.against_engine { against::head(out) } else { columns(out, args) }
}

fn columns(out: &mut dyn Write, args: &SimulateArgs) -> Result<(), Failure> {
    write!(
        out,
        "{:<24} {:^15}  {:^18}  {:^9}  {:^13}  {:>9} {:>10}",
        "", "writes", "space", "runs", "lookup blocks", "filters", "largest"
    )?;
    writeln!(out, "{}", if args.rate.is_some() { "        writers" } else { "" })?;
    write!(
        out,
        "{:<24} {:>7} {:>7}  {:>5} {:>5} {:>6}  {:>5} {:>3}  {:>6} {:>6}  {:>9} {:>10}",
        "strategy",
        "",
        "formula",
        "mean",
        "max",
        "trans.",
        "mean",
        "max",
        "absent",
        "found",
        "memory",
        "merge"
    )?;
    writeln!(out, "{}", if args.rate.is_some() { "   slowed stopped longest" } else { "" })?;
    Ok(())
}

fn row(
    out: &mut dyn Write,
    args: &SimulateArgs,
    outcome: &Outcome,
    formula: Option<&Costs>,
) -> Result<(), Failure> {
    let formula = formula.map_or("-".to_owned(), |costs| format!("{:.2}", costs.write_amplification));
    write!(
        out,
        "{:<24} {:>7.2} {formula:>7}  {:>5.2} {:>5.2} {:>6.2}  {:>5.1} {:>3.0}  {:>6.3} {:>6.3}  {:>9} {:>10}",
        outcome.strategy.to_string(),
        outcome.write_amplification,
        outcome.space.mean,
        outcome.space.max,
        outcome.transient_space,
        outcome.runs.mean,
        outcome.runs.max,
        outcome.reads_in_vain,
        outcome.reads_found,
        human_bytes(outcome.filter_bytes as u64),
        human_bytes(outcome.largest_job_bytes),
    )?;
    if args.rate.is_some() {
        let share = |seconds: f64| format!("{:.1}%", 100.0 * seconds / outcome.elapsed_s.max(1e-9));
        let stalls = &outcome.stalls;
        write!(
            out,
            "  {:>7} {:>7} {:>6.1}s",
            share(stalls.slowed_s),
            share(stalls.stopped_s),
            stalls.longest_stop_s
        )?;
    }
    writeln!(out)?;
    Ok(())
}

fn note(outcome: &Outcome) -> Option<String> {
    let scaling = outcome.scaling?;
    let strategy = outcome.strategy;
    if scaling.levels == 0 {
        return Some(format!(
            "{strategy}: simulated with a memtable {:.0} times as large, because there would be too many flushes",
            scaling.memtable_factor
        ));
    }
    Some(format!(
        "{strategy}: simulated with a memtable {:.0} times as large; the {} smallest levels are added by formula, \
         {:.1} writes and {:.1} runs each",
        scaling.memtable_factor, scaling.levels, scaling.writes_of_a_level, scaling.runs_of_a_level
    ))
}

fn as_json(scenario: &Scenario, outcome: &Outcome, formula: Option<&Costs>) -> Value {
    let workload = &scenario.workload;
    let causes: serde_json::Map<String, Value> =
        outcome.causes.iter().map(|(reason, bytes)| (reason.to_string(), json!(bytes))).collect();
    let levels: Vec<Value> = outcome
        .levels
        .iter()
        .map(|(level, runs, bytes)| json!({"level": level, "runs": runs, "bytes": bytes}))
        .collect();
    let asked = json!({
        "strategy": outcome.strategy.to_string(),
        "entries": workload.keys,
        "key_bytes": workload.key_bytes,
        "value_bytes": workload.value_bytes,
        "input": workload.input.to_string(),
        "deletes": workload.deleted_share,
        "ttl_passes": workload.ttl_passes,
        "write_buffer_bytes": scenario.options.memtable_bytes,
        "warm_up_passes": scenario.warm_up_passes,
        "passes": scenario.passes,
        "filter_bits_per_key": scenario.filter_bits_per_key,
    });
    let writes = json!({
        "user_bytes": outcome.user_bytes,
        "flushed_bytes": outcome.flushed_bytes,
        "merge_read_bytes": outcome.read_bytes,
        "merge_written_bytes": outcome.merged_bytes,
        "merge_written_bytes_by_cause": causes,
        "write_amplification": outcome.write_amplification,
        "write_amplification_by_formula": formula.map(|costs| costs.write_amplification),
        "write_amplification_drained": outcome.drained_write_amplification,
        "merges": outcome.jobs,
        "moves_and_drops": outcome.free_jobs,
        "largest_merge_bytes": outcome.largest_job_bytes,
    });
    let reads = json!({
        "space_amplification_mean": outcome.space.mean,
        "space_amplification_max": outcome.space.max,
        "space_amplification_at_rest": outcome.space_at_rest,
        "space_amplification_transient": outcome.transient_space,
        "space_amplification_drained": outcome.drained_space,
        "runs_mean": outcome.runs.mean,
        "runs_max": outcome.runs.max,
        "blocks_of_an_absent_key": outcome.reads_in_vain,
        "blocks_of_a_present_key": outcome.reads_found,
        "filter_bytes": outcome.filter_bytes,
    });
    let rest = json!({
        "elapsed_s": outcome.elapsed_s,
        "slowed_s": outcome.stalls.slowed_s,
        "stopped_s": outcome.stalls.stopped_s,
        "longest_stop_s": outcome.stalls.longest_stop_s,
        "stops": outcome.stalls.stops,
        "levels": levels,
        "scaled": outcome.scaling.map(|scaling| json!({
            "memtable_factor": scaling.memtable_factor,
            "levels_by_formula": scaling.levels,
            "writes_of_a_level": scaling.writes_of_a_level,
            "runs_of_a_level": scaling.runs_of_a_level,
        })),
    });
    let members = [asked, writes, reads, rest].into_iter().flat_map(|part| match part {
        Value::Object(members) => members,
        _ => serde_json::Map::new(),
    });
    Value::Object(members.collect())
}
