//! Tables of Markdown.

use super::cells::{Cell, Cells, Row};
use crate::adapters::{ADAPTERS, ORDER, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Whether more or less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    More,
    Less,
}

/// Engines that are not stores; they come last, and do not compete.
pub(super) const LIMITS: &[&str] = &["skiplist", "btreemap", "array", "raw-write", "raw-map", "memcpy"];
/// The store that all others are compared with.
const OURS: &str = "esker";

/// The store of a variant.
fn store_of(engine: &str) -> Option<&str> {
    engine.split_once('+').map(|(store, _)| store)
}

/// The engines of some cells that are no variants, in the order of tables.
pub(super) fn columns(cells: &Cells) -> Vec<String> {
    let engines: BTreeSet<&String> = cells.values().flat_map(BTreeMap::keys).collect();
    let mut columns: Vec<String> =
        engines.into_iter().filter(|engine| store_of(engine).is_none()).cloned().collect();
    columns.sort_by_key(|engine| ORDER.iter().position(|name| name == engine).unwrap_or(ORDER.len()));
    columns
}

/// The best number of a row among stores except `without`.
fn best(row: &BTreeMap<String, Cell>, better: Better, without: Option<&str>) -> Option<f64> {
    let stores = row.iter().filter(|(engine, cell)| {
        let competes = !LIMITS.contains(&engine.as_str()) && store_of(engine).is_none();
        competes && !cell.is_void && !cell.is_weaker && without != Some(engine.as_str())
    });
    let numbers = stores.map(|(_, cell)| cell.median());
    match better {
        Better::More => numbers.reduce(f64::max),
        Better::Less => numbers.reduce(f64::min),
    }
}

/// A number with its significant digits.
pub(super) fn short(number: f64) -> String {
    match number {
        n if n >= 1e7 => format!("{:.1} M", n / 1e6),
        n if n >= 1e6 => format!("{:.2} M", n / 1e6),
        n if n >= 1e5 => format!("{:.0} K", n / 1e3),
        n if n >= 1e3 => format!("{:.1} K", n / 1e3),
        n if n >= 10.0 => format!("{n:.0}"),
        n if n >= 1.0 => format!("{n:.1}"),
        n if n > 0.0 => format!("{n:.2}"),
        _ => "0".to_owned(),
    }
}

fn show(cell: &Cell, is_best: bool) -> String {
    let median = short(cell.median());
    let mut text = if is_best { format!("**{median}**") } else { median };
    if cell.spread_percent() >= 10.0 {
        let _ = write!(text, " ±{:.0} %", cell.spread_percent());
    }
    for (is_set, mark) in
        [(cell.is_void, " ❌"), (cell.is_weaker, " ‡"), (cell.is_cut_short, " †"), (cell.is_disturbed, " °")]
    {
        text.push_str(if is_set { mark } else { "" });
    }
    text
}

/// A table of all rounds, for numbers that no engine is responsible for.
pub(super) fn all_rounds(cells: &Cells) -> String {
    let columns = columns(cells);
    let mut text =
        format!("| workload | {} |\n|---|{}\n", columns.join(" | "), "---:|".repeat(columns.len()));
    for (row, engines) in cells {
        let of = |engine: &String| engines.get(engine).map_or_else(|| "–".to_owned(), Cell::all_rounds);
        let shown: Vec<String> = columns.iter().map(of).collect();
        let _ = writeln!(text, "| {} | {} |", row.head(), shown.join(" | "));
    }
    text
}

/// A table with a row for each workload and a column for each engine, the best store of each row in bold, and
/// a last column that compares ours with the best other store.
pub(super) fn table(cells: &Cells, better: Better) -> String {
    let columns = columns(cells);
    let is_compared = columns.iter().any(|engine| engine == OURS);
    let mut text = format!("| workload | {} |", columns.join(" | "));
    text.push_str(if is_compared { " Esker by best other |\n" } else { "\n" });
    text.push_str(&format!(
        "|---|{}{}\n",
        "---:|".repeat(columns.len()),
        if is_compared { "---:|" } else { "" }
    ));
    for (row, engines) in cells {
        let best_number = best(engines, better, None);
        let _ = write!(text, "| {} |", row.head());
        for engine in &columns {
            let is_limit = LIMITS.contains(&engine.as_str());
            let shown =
                engines.get(engine).map(|cell| show(cell, !is_limit && best_number == Some(cell.median())));
            let _ = write!(text, " {} |", shown.unwrap_or_else(|| "–".to_owned()));
        }
        if is_compared {
            let _ = write!(text, " {} |", compared(engines, better));
        }
        text.push('\n');
    }
    text
}

/// Our number compared with the best other store.
fn compared(engines: &BTreeMap<String, Cell>, better: Better) -> String {
    let ours = engines.get(OURS).filter(|cell| !cell.is_void).map(Cell::median);
    match ours.zip(best(engines, better, Some(OURS))) {
        Some((ours, other)) if other > 0.0 => format!("{:.2}x", ours / other),
        _ => "–".to_owned(),
    }
}

/// The effect of better settings: a row for each workload and variant.
pub(super) fn variants(cells: &Cells) -> Option<String> {
    let mut text =
        "| workload | store | as above | with | setting | ratio |\n|---|---|---:|---:|---|---:|\n".to_owned();
    let mut is_empty = true;
    for (row, engines) in cells {
        for (engine, with) in engines {
            let Some((store, name)) = engine.split_once('+') else { continue };
            let Some(without) = engines.get(store) else { continue };
            if !suits(engine, row) {
                continue;
            }
            is_empty = false;
            let about =
                ADAPTERS.iter().find(|adapter| adapter.name == engine).map_or(name, |adapter| adapter.about);
            let ratio = with.median() / without.median();
            let (head, shown) = (row.head(), [without, with].map(|cell| show(cell, false)));
            let _ =
                writeln!(text, "| {head} | {store} | {} | {} | {about} | {ratio:.2} |", shown[0], shown[1]);
        }
    }
    (!is_empty).then_some(text)
}

fn suits(engine: &str, row: &Row) -> bool {
    let adapter = ADAPTERS.iter().find(|adapter| adapter.name == engine);
    adapter.is_none_or(|adapter| match adapter.role {
        Role::Variant { suits, .. } => suits.contains(&row.workload.as_str()),
        Role::Store | Role::Limit => false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::cells::cells;
    use super::{Better, short, table};
    use crate::record::Record;

    fn record(engine: &str, per_second: f64, errors: u64) -> Record {
        let workload = "get_uniform".to_owned();
        Record { engine: engine.to_owned(), workload, threads: 1, per_second, errors, ..Record::default() }
    }

    #[test]
    fn the_best_store_is_bold_and_neither_limits_nor_void_numbers_compete() {
        let records = [
            record("esker", 2e6, 0),
            record("lmdb", 1e6, 0),
            record("sled", 9e6, 1),
            record("skiplist", 8e6, 0),
        ];
        let text = table(&cells(&records, |_, record| Some(record.per_second)), Better::More);
        let row = text.lines().last().unwrap();
        assert_eq!(row, "| get_uniform | **2.00 M** | 9.00 M ❌ | 1.00 M | 8.00 M | 2.00x |");
    }

    #[test]
    fn numbers_have_the_digits_they_are_worth() {
        for (number, text) in
            [(12.34e6, "12.3 M"), (567_890.0, "568 K"), (5_678.0, "5.7 K"), (56.7, "57"), (0.05, "0.05")]
        {
            assert_eq!(short(number), text);
        }
    }
}
