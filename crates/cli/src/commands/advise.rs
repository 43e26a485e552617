//! `advise`: prints the proposed design, the designs it was compared with, and the reasons.

use super::Context;
use crate::args::AdviseArgs;
use crate::failure::{Exit, Failure};
use crate::format::{human_bytes, human_count, paragraph};
use esker::KeyspaceOptions;
use esker::advice::{
    Advice, IndexAdvice, IndexPrediction, Knob, Operations, Prediction, Prices, Question, Usage, advise,
};
use esker::advice::{AdviceRequest, KeyspaceAdvice, ModelCheck};
use serde_json::{Value, json};
use std::io::Write;

/// Memory budget of a stated database, if none is stated.
const STATED_MEMORY_BYTES: u64 = 512 << 20;

const PROFILES: [&str; 4] = ["write-heavy", "read-heavy", "mixed", "range-heavy"];

/// Memtable size of a profile that does not set one.
const PROFILE_WRITE_BUFFER_BYTES: u64 = 16 << 20;

pub(super) fn run(context: &mut Context<'_>, args: &AdviseArgs) -> Result<Exit, Failure> {
    if args.entries.is_some() {
        let memory_bytes = context.database.metrics().memory.budget_bytes;
        return stated(args, Some(memory_bytes), context.shape.json, context.out);
    }
    let keyspace = context.existing_keyspace()?;
    let mut request = AdviceRequest::default().prices(prices(args)?);
    if let Some(operations) = args.operations() {
        request = request.operations(operations);
    }
    let is_stated = request.operations.is_some();
    let told = keyspace.advise(&request).map_err(Failure::from).map_err(|failure| match is_stated {
        true => failure,
        false => failure.advise("state the operations, as in: esker advise --writes 50 --reads-present 50"),
    })?;
    let is_worth_it = told.advice.is_worth_it();
    if args.apply && is_worth_it {
        keyspace.take_advice(&told.advice.best.design)?;
    }
    let is_applied = args.apply.then_some(is_worth_it);
    show(context.out, context.shape.json, &told.usage, &told.advice, Some(&told), is_applied)?;
    Ok(Exit::Done)
}

/// Advice for stated data.
pub(crate) fn stated(
    args: &AdviseArgs,
    memory_bytes: Option<u64>,
    json: bool,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let operations = args.operations().ok_or_else(|| {
        Failure::usage("no operation is stated")
            .advise("say how many there are of each, as in --writes 50 --reads-present 50")
    })?;
    let memory_bytes = memory_bytes.unwrap_or(STATED_MEMORY_BYTES);
    let (entries, key, entry) = (args.entries.unwrap_or(0), args.key_bytes, args.entry_bytes);
    let usage = Usage {
        operations,
        max_space_amplification: args.max_space_amp,
        ..Usage::new(entries as f64, f64::from(key), f64::from(entry), memory_bytes as f64)
    };
    let profile = |name: &&str| {
        let options = KeyspaceOptions::preset(name).ok()?;
        Some(((*name).to_owned(), options.design(PROFILE_WRITE_BUFFER_BYTES)))
    };
    let question = Question {
        prices: prices(args)?,
        named: PROFILES.iter().filter_map(profile).collect(),
        ..Question::new(usage)
    };
    let advice = advise(&question).map_err(Failure::usage)?;
    show(out, json, &usage, &advice, None, None)?;
    Ok(Exit::Done)
}

fn prices(args: &AdviseArgs) -> Result<Prices, Failure> {
    let is_time = args.read_us > 0.0 && args.read_us.is_finite();
    if !is_time || args.merge_rate == 0 {
        return Err(Failure::usage("--read-us and --merge-rate are positive numbers"));
    }
    let byte_merged_ns = 1e9 / args.merge_rate as f64;
    Ok(Prices { block_read_ns: args.read_us * 1e3, byte_merged_ns, ..Prices::default() })
}

fn show(
    out: &mut dyn Write,
    json: bool,
    usage: &Usage,
    advice: &Advice,
    told: Option<&KeyspaceAdvice>,
    is_applied: Option<bool>,
) -> Result<(), Failure> {
    if json {
        writeln!(out, "{}", as_json(usage, advice, told, is_applied))?;
        return Ok(());
    }
    head(out, usage, told)?;
    columns(out)?;
    if let Some(present) = &advice.present {
        row(out, "present", present)?;
    }
    row(out, "proposed", &advice.best)?;
    section(out, "the best of each kind", advice.families.iter().map(|prediction| ("", prediction)))?;
    let knobs = advice.single_changes.iter().map(|(knob, prediction)| (named(*knob), prediction));
    section(out, "one change alone", knobs)?;
    let profiles = advice.named.iter().map(|other| (other.name.as_str(), &other.prediction));
    section(out, "profiles", profiles)?;
    if let Some(told) = told {
        checks(out, &told.checks)?;
    }
    index(out, &advice.index)?;
    writeln!(out)?;
    paragraph(out, "", &advice.reason)?;
    paragraph(out, "", &advice.index.reason)?;
    match is_applied {
        Some(true) => {
            let words = format!(
                "Changed: strategy {}, write buffer {}, filters of {} bits; `esker strategy` shows how far the tree is.",
                advice.best.design.strategy,
                human_bytes(advice.best.design.write_buffer_bytes as u64),
                advice.best.design.filter_bits_per_key,
            );
            paragraph(out, "", &words)?;
        }
        Some(false) => writeln!(out, "Nothing was changed.")?,
        None => {}
    }
    Ok(())
}

fn head(out: &mut dyn Write, usage: &Usage, told: Option<&KeyspaceAdvice>) -> Result<(), Failure> {
    let Operations { present_reads, absent_reads, short_scans, long_scans, puts, deletes, .. } =
        usage.operations;
    let total = usage.operations.total();
    let percent = |count: f64| format!("{:.1}", 100.0 * count / total);
    writeln!(
        out,
        "{} of {:.0} bytes ({}), {} of memory",
        if usage.entries < 1.5 {
            "1 entry".to_owned()
        } else {
            format!("{} entries", human_count(usage.entries as u64))
        },
        usage.entry_bytes,
        human_bytes(usage.data_bytes() as u64),
        human_bytes(usage.memory_bytes as u64),
    )?;
    let source = match told {
        Some(told) if told.is_observed => "seen in its life",
        _ => "stated",
    };
    let words = format!(
        "{} puts, {} deletes, {} lookups of present and {} of absent keys, {} short and {} long scans",
        percent(puts),
        percent(deletes),
        percent(present_reads),
        percent(absent_reads),
        percent(short_scans),
        percent(long_scans),
    );
    paragraph(out, &format!("operations, {source}, in %: "), &words)?;
    writeln!(out)?;
    Ok(())
}

fn columns(out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(
        out,
        "{:<12} {:<24} {:>9} {:>7} {:>9}  {:>6} {:>7} {:>6} {:>5} {:>5} {:>6}  {:>8}",
        "",
        "strategy",
        "buffer",
        "filters",
        "cache",
        "writes",
        "absent",
        "found",
        "runs",
        "space",
        "cached",
        "cost"
    )?;
    Ok(())
}

fn row(out: &mut dyn Write, name: &str, prediction: &Prediction) -> Result<(), Failure> {
    let (design, figures) = (&prediction.design, &prediction.figures);
    writeln!(
        out,
        "{name:<12} {:<24} {:>9} {:>7} {:>9}  {:>6.2} {:>7.3} {:>6.3} {:>5.1} {:>5.2} {:>4.0} %  {:>5.0} ns",
        design.strategy.to_string(),
        human_bytes(design.write_buffer_bytes as u64),
        design.filter_bits_per_key,
        human_bytes(prediction.cache_bytes as u64),
        figures.write_amplification,
        figures.absent_blocks,
        figures.present_blocks,
        figures.runs,
        figures.space,
        100.0 * prediction.cached_share,
        prediction.cost_ns(),
    )?;
    Ok(())
}

fn section<'a>(
    out: &mut dyn Write,
    title: &str,
    rows: impl Iterator<Item = (&'a str, &'a Prediction)>,
) -> Result<(), Failure> {
    let mut rows = rows.peekable();
    if rows.peek().is_some() {
        writeln!(out, "{title}:")?;
    }
    rows.try_for_each(|(name, prediction)| row(out, name, prediction))
}

fn index(out: &mut dyn Write, advice: &IndexAdvice) -> Result<(), Failure> {
    writeln!(out, "block indexes with the proposed design (option index_type):")?;
    for IndexPrediction { form, memory_bytes, cached_share, cost_ns } in &advice.forms {
        writeln!(
            out,
            "  {:<18} {:>10} of memory, {:>3.0} % of blocks cached, {cost_ns:>7.0} ns an operation",
            form.name(),
            human_bytes(memory_bytes.max(0.0) as u64),
            100.0 * cached_share,
        )?;
    }
    Ok(())
}

fn named(knob: Knob) -> &'static str {
    match knob {
        Knob::Strategy => "strategy",
        Knob::WriteBuffer => "buffer",
        Knob::Filters => "filters",
        _ => "other",
    }
}

fn checks(out: &mut dyn Write, checks: &[ModelCheck]) -> Result<(), Failure> {
    writeln!(out, "formulas and this database, with the present design:")?;
    for check in checks {
        let measured = match (check.measured, check.error()) {
            (Some(measured), Some(error)) => {
                format!("{measured:.3} measured, the formula is off by {:+.0} %", 100.0 * error)
            }
            (Some(measured), None) => format!("{measured:.3} measured"),
            (None, _) => "too little seen to tell".to_owned(),
        };
        writeln!(out, "  {:<28} {:>7.3} predicted, {measured}", check.term, check.predicted)?;
    }
    Ok(())
}

fn prediction_json(prediction: &Prediction) -> Value {
    let (design, figures, parts) = (&prediction.design, &prediction.figures, &prediction.parts);
    json!({
        "strategy": design.strategy.to_string(),
        "write_buffer_bytes": design.write_buffer_bytes as u64,
        "filter_bits_per_key": design.filter_bits_per_key,
        "filter_bytes": prediction.filter_bytes as u64,
        "cache_bytes": prediction.cache_bytes as u64,
        "write_amplification": figures.write_amplification,
        "bytes_per_write": prediction.bytes_per_write,
        "absent_read_blocks": figures.absent_blocks,
        "present_read_blocks": figures.present_blocks,
        "short_scan_blocks": prediction.short_scan_blocks,
        "long_scan_blocks": prediction.long_scan_blocks,
        "runs": figures.runs,
        "space_amplification": figures.space,
        "space_amplification_worst": figures.space_worst,
        "cached_share": prediction.cached_share,
        "cost_ns": prediction.cost_ns(),
        "cost_of_writes_ns": parts.writes_ns,
        "cost_of_lookups_ns": parts.lookups_ns,
        "cost_of_scans_ns": parts.scans_ns,
    })
}

fn index_json(prediction: &IndexPrediction) -> Value {
    json!({
        "index_type": prediction.form.name(),
        "memory_bytes": prediction.memory_bytes,
        "cached_share": prediction.cached_share,
        "cost_ns": prediction.cost_ns,
    })
}

fn as_json(usage: &Usage, advice: &Advice, told: Option<&KeyspaceAdvice>, is_applied: Option<bool>) -> Value {
    let with_name = |name: &str, prediction: &Prediction| {
        let mut object = prediction_json(prediction);
        object["name"] = name.into();
        object
    };
    let operations = &usage.operations;
    let checks = told.map(|told| {
        let check = |check: &ModelCheck| {
            json!({
                "figure": check.term.to_string(),
                "predicted": check.predicted,
                "measured": check.measured,
                "error": check.error(),
            })
        };
        told.checks.iter().map(check).collect::<Vec<_>>()
    });
    json!({
        "entries": usage.entries,
        "entry_bytes": usage.entry_bytes,
        "memory_bytes": usage.memory_bytes,
        "operations": {
            "observed": told.is_some_and(|told| told.is_observed),
            "present_reads": operations.present_reads,
            "absent_reads": operations.absent_reads,
            "short_scans": operations.short_scans,
            "short_scan_entries": operations.short_scan_entries,
            "long_scans": operations.long_scans,
            "long_scan_entries": operations.long_scan_entries,
            "puts": operations.puts,
            "deletes": operations.deletes,
        },
        "proposed": prediction_json(&advice.best),
        "present": advice.present.as_ref().map(prediction_json),
        "gain": advice.gain(),
        "worth_it": advice.is_worth_it(),
        "kinds": advice.families.iter().map(prediction_json).collect::<Vec<_>>(),
        "single_changes": advice.single_changes.iter().map(|(knob, prediction)| with_name(named(*knob), prediction)).collect::<Vec<_>>(),
        "profiles": advice.named.iter().map(|other| with_name(&other.name, &other.prediction)).collect::<Vec<_>>(),
        "index": advice.index.forms.iter().map(index_json).collect::<Vec<_>>(),
        "index_reason": advice.index.reason,
        "checks": checks,
        "reason": advice.reason,
        "applied": is_applied,
    })
}
