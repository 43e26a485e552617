//! `levels`: draws the tree.

use super::{Context, amplification, strategy, write_json};
use crate::args::{LevelsArgs, Shape};
use crate::failure::{Exit, Failure};
use crate::format::{Format, human_bytes, human_count, paragraph};
use esker::metrics::{BlobFileInfo, FilterInfo, KeyspaceLevels, LevelInfo, TableInfo};
use std::io::Write;

/// Widest bar of a level: the columns that the figures leave of eighty.
const BAR_COLUMNS: usize = 26;

/// Names of empty keyspaces that are printed: two lines of them.
const EMPTY_NAMES: usize = 8;

/// Widest key in the list of tables.
const KEY_COLUMNS: usize = 16;

pub(super) fn run(context: &mut Context<'_>, args: &LevelsArgs) -> Result<Exit, Failure> {
    let mut trees = context.database.levels();
    if let Some(only) = &context.only {
        context.existing_keyspace()?;
        trees.retain(|tree| tree.name == *only);
    }
    let targets = context.database.targets();
    let empty = match context.shape.json || context.only.is_some() {
        true => Vec::new(),
        false => leave_out_empty(&mut trees),
    };
    for (at, tree) in trees.iter().enumerate() {
        let target = targets.iter().find(|targets| targets.name == tree.name);
        if context.shape.json {
            let serde_json::Value::Object(mut members) = esker_admin::json::levels::tree(tree) else {
                continue;
            };
            members.extend(
                target.map(|target| ("targets".to_owned(), esker_admin::json::levels::targets(target))),
            );
            write_json(context.out, members)?;
            continue;
        }
        if at > 0 {
            writeln!(context.out)?;
        }
        draw(context.out, tree, args.tables, &context.shape)?;
        if let Some(target) = target {
            write!(context.out, "{target}")?;
        }
    }
    if !empty.is_empty() {
        let (some, rest) = empty.split_at(empty.len().min(EMPTY_NAMES));
        let rest = if rest.is_empty() {
            String::new()
        } else {
            format!(" and {} more", human_count(rest.len() as u64))
        };
        let text = format!("{}{rest}", some.join(", "));
        writeln!(context.out)?;
        paragraph(context.out, "empty: ", &text)?;
    }
    Ok(Exit::Done)
}

/// Leaves out trees that hold nothing and gives their names; the first one stays if there is no other. A
/// server has several such keyspaces from the start.
fn leave_out_empty(trees: &mut Vec<KeyspaceLevels>) -> Vec<String> {
    let keeps_first = trees.iter().all(is_empty);
    let (mut at, mut empty) = (0, Vec::new());
    trees.retain(|tree| {
        at += 1;
        if !is_empty(tree) || (keeps_first && at == 1) {
            return true;
        }
        empty.push(tree.name.escape_debug().to_string());
        false
    });
    empty
}

fn is_empty(tree: &KeyspaceLevels) -> bool {
    tree.memtable_entries == 0
        && tree.migration.is_none()
        && tree.blob_files.is_empty()
        && tree.levels.iter().all(|level| level.runs.is_empty())
}

fn tables(level: &LevelInfo) -> impl Iterator<Item = &TableInfo> {
    level.runs.iter().flat_map(|run| &run.tables)
}

fn bytes(level: &LevelInfo) -> u64 {
    tables(level).map(|table| table.bytes).sum()
}

/// The number of runs, and how many a level of several runs holds before it is compacted.
fn runs(level: &LevelInfo) -> String {
    match level.limit.runs {
        Some(most) if most > 1 => format!("{}/{most}", level.runs.len()),
        _ => level.runs.len().to_string(),
    }
}

fn draw(out: &mut dyn Write, tree: &KeyspaceLevels, list_tables: bool, shape: &Shape) -> Result<(), Failure> {
    writeln!(out, "{}, {}", tree.name.escape_debug(), tree.strategy)?;
    if let Some(migration) = &tree.migration {
        writeln!(out, "{}", strategy::progress(migration))?;
    }
    writeln!(out, "level    runs tables       bytes       entries deleted")?;
    writeln!(out, "memory  {:>4} {:>6} {:>11} {:>13}", "", "", "", human_count(tree.memtable_entries))?;
    let widest = tree.levels.iter().map(bytes).max().unwrap_or(0);
    for level in &tree.levels {
        let entries: u64 = tables(level).map(|table| table.entries).sum();
        let deleted: u64 = tables(level).map(|table| table.tombstones).sum();
        let share = deleted.saturating_mul(100).checked_div(entries).unwrap_or(0);
        let line = format!(
            "{:<7} {:>4} {:>6} {:>11} {:>13} {:>6}% {}",
            level.label(),
            runs(level),
            tables(level).count(),
            human_bytes(bytes(level)),
            human_count(entries),
            share,
            bars(level, widest),
        );
        writeln!(out, "{}", line.trim_end())?;
        let ranges: u64 = tables(level).map(|table| table.range_deletes).sum();
        if ranges > 0 {
            writeln!(out, "        {} range deletes", human_count(ranges))?;
        }
        if let Some(most) = level.limit.bytes {
            let percent = bytes(level).saturating_mul(100).checked_div(most).unwrap_or(0);
            writeln!(
                out,
                "        {percent}% of the {} that it holds before it is compacted",
                human_bytes(most)
            )?;
        }
        filters(out, &level.filters)?;
        if list_tables {
            for (number, run) in level.runs.iter().enumerate() {
                for table in &run.tables {
                    table_line(out, number + 1, table, shape.key)?;
                }
            }
        }
    }
    if !tree.blob_files.is_empty() {
        let sum = |of: fn(&BlobFileInfo) -> u64| tree.blob_files.iter().map(of).sum::<u64>();
        let (bytes, garbage) = (sum(|blob| blob.bytes), sum(|blob| blob.garbage_bytes));
        let share = garbage.saturating_mul(100).checked_div(bytes).unwrap_or(0);
        let (files, bytes) = (tree.blob_files.len(), human_bytes(bytes));
        let values = human_count(sum(|blob| blob.values));
        writeln!(out, "blobs        {files:>6} {bytes:>11} {values:>13} {share:>6}% garbage")?;
        if list_tables {
            for blob in &tree.blob_files {
                let (bytes, garbage) = (human_bytes(blob.bytes), human_bytes(blob.garbage_bytes));
                let (file, values) = (blob.file.get(), human_count(blob.values));
                writeln!(out, "          {file:>6} {bytes:>11} {values:>13} {garbage} garbage")?;
            }
        }
    }
    writeln!(out)?;
    amplification::draw(out, &tree.amplification)
}

/// Prints the measured and the intended false positive rates.
fn filters(out: &mut dyn Write, filters: &FilterInfo) -> Result<(), Failure> {
    let percent = |rate: f64| format!("{:.2}%", 100.0 * rate);
    if filters.probes > 0 {
        let (probes, share) = (filters.probes as f64, |part: f64| percent(part / filters.probes as f64));
        let (seen, expected) =
            (share(filters.false_positives as f64), share(filters.expected_false_positives));
        let probes = human_count(probes as u64);
        writeln!(out, "        filters let {seen} of {probes} absent keys pass, {expected} expected")?;
    }
    if let Some(tuning) = &filters.tuning {
        let (target, bits) = (percent(tuning.target_rate), tuning.bits_per_key);
        let rate = percent(tuning.expected_rate);
        let note = if tuning.is_in_reach { "" } else { ", out of reach" };
        writeln!(out, "        filters aim at {target}{note}: {bits:.1} bits a key for new tables, {rate}")?;
    }
    Ok(())
}

/// A bar for each run, newest first, by its share of the largest level; an ellipsis for the rest.
fn bars(level: &LevelInfo, widest_bytes: u64) -> String {
    let mut out = String::new();
    let mut left = BAR_COLUMNS;
    for (at, run) in level.runs.iter().enumerate() {
        let bytes: u64 = run.tables.iter().map(|table| table.bytes).sum();
        let share = if widest_bytes == 0 { 0.0 } else { bytes as f64 / widest_bytes as f64 };
        // Two columns are the borders of the box.
        let wanted = ((share * BAR_COLUMNS as f64).round() as usize).max(3);
        let is_last = at + 1 == level.runs.len();
        let available = if is_last { left } else { left.saturating_sub(1) };
        if available < 3 {
            out.push('…');
            break;
        }
        let columns = wanted.min(available);
        out.push('▕');
        out.extend(std::iter::repeat_n('█', columns - 2));
        out.push('▏');
        left -= columns;
    }
    out
}

fn table_line(out: &mut dyn Write, run: usize, table: &TableInfo, key: Format) -> Result<(), Failure> {
    writeln!(
        out,
        "  run {run:<3} {:>6} {:>11} {:>13} {} .. {}",
        table.file.get(),
        human_bytes(table.bytes),
        human_count(table.entries),
        short_key(&table.smallest, key),
        short_key(&table.largest, key),
    )?;
    Ok(())
}

/// A key in the chosen format, or escaped if it cannot be written in it, cut to its columns.
fn short_key(bytes: &[u8], key: Format) -> String {
    let text = key.in_line(bytes).unwrap_or_else(|_| crate::format::escape(bytes));
    if text.chars().count() <= KEY_COLUMNS {
        return text;
    }
    let mut text: String = text.chars().take(KEY_COLUMNS - 1).collect();
    text.push('…');
    text
}
