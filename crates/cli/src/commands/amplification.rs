//! Prints amplification for `levels` and `stats`.

use crate::failure::Failure;
use crate::format::{human_bytes, human_count, paragraph};
use esker::metrics::{Amplification, CauseInfo, LevelAmplification, ReadAmplification};
use std::io::Write;

pub(super) fn draw(out: &mut dyn Write, seen: &Amplification) -> Result<(), Failure> {
    let lookups = seen.reads.lookups;
    writeln!(out, "level      write     read  probed searched  misses expected")?;
    for level in &seen.levels {
        let [probed, searched, misses] = of_lookups(level, lookups);
        writeln!(
            out,
            "{:<7} {:>8} {:>8} {probed:>7} {searched:>8} {misses:>7} {:>8}",
            level.label(),
            ratio(seen.over_user_bytes(level.written_bytes)),
            ratio(seen.over_user_bytes(level.read_bytes)),
            share(level.expected_misses),
        )?;
    }
    writeln!(out)?;
    paragraph(out, "write  ", &write_words(seen))?;
    paragraph(out, "read   ", &read_words(&seen.reads))?;
    paragraph(out, "space  ", &space_words(seen))?;
    Ok(())
}

/// Tables of a level per lookup: probed filters, searched tables, and those without the key.
fn of_lookups(level: &LevelAmplification, lookups: u64) -> [String; 3] {
    let of = |count: u64| {
        if lookups == 0 { "-".to_owned() } else { share(count as f64 / lookups as f64) }
    };
    [of(level.probed), of(level.searched), of(level.searched.saturating_sub(level.found))]
}

/// Bytes per byte of the user.
pub(super) fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

/// A small number of tables per lookup.
fn share(value: f64) -> String {
    if value >= 0.9995 { format!("{value:.2}") } else { format!("{value:.4}") }
}

fn write_words(seen: &Amplification) -> String {
    let Some(total) = seen.write() else {
        return "nothing was written since its writes are counted".to_owned();
    };
    let mut text = format!("{total:.2} bytes for each of {}", human_bytes(seen.user_bytes()));
    let cause = |info: &CauseInfo| {
        let bytes = seen.over_user_bytes(info.written_bytes + info.blob_bytes);
        format!("{} {} in {}", info.cause, ratio(bytes), jobs(info.jobs))
    };
    let causes: Vec<String> = seen.causes.iter().map(cause).collect();
    if !causes.is_empty() {
        text.push_str(": ");
        text.push_str(&causes.join(", "));
    }
    text
}

fn jobs(count: u64) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{} jobs", human_count(count)) }
}

fn read_words(reads: &ReadAmplification) -> String {
    let (memtables, runs) = (reads.memtables, reads.runs);
    let sources = memtables + runs;
    let mut text = format!(
        "a lookup probes {} now, {} and {} of tables",
        counted(sources, "source"),
        counted(memtables, "memtable"),
        counted(runs, "run"),
    );
    for bound in &reads.worst_case {
        text.push_str(&format!("; at worst {} by {} ({})", bound.max_sources, bound.formula, bound.source));
    }
    text.push_str(&format!(
        ". By the filters {} tables are searched for an absent key and {} for a present one",
        share(reads.expected_absent),
        share(reads.expected_present)
    ));
    if let (Some(searched), Some(misses)) = (reads.searched(), reads.misses()) {
        let lookups = crate::format::human_counted(reads.lookups, "lookup");
        let (searched, misses) = (share(searched), share(misses));
        text.push_str(&format!(
            "; measured in {lookups}, one in 64: {searched}, {misses} of them without the key"
        ));
    }
    text
}

fn counted(count: usize, thing: &str) -> String {
    crate::format::human_counted(count as u64, thing)
}

fn space_words(seen: &Amplification) -> String {
    let space = &seen.space;
    let taken = human_bytes(space.table_bytes + space.blob_bytes);
    let Some(most) = space.at_most() else { return format!("{taken}, live share unknown") };
    let Some(times) = space.ratio() else {
        return format!(
            "{taken}; live share unknown until a compaction has measured it: 1.00 if nothing was overwritten, at most {most:.2}"
        );
    };
    if seen.reads.runs <= 1 && space.blob_bytes == 0 {
        return format!("{times:.2}: {taken}, all of it in one run");
    }
    let percent = (space.overwritten_share * 100.0).round();
    format!(
        "{times:.2}: {taken} for {} of live data; {percent}% of the entries above the oldest run overwrite older ones, by recent compactions",
        human_bytes(space.live_bytes),
    )
}
