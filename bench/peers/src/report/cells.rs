//! Aggregates records of several rounds to one cell for each workload and engine.

use crate::record::{RUN_ENDED, Record};
use std::collections::BTreeMap;

/// Key of a table row: a workload and its threads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    /// Position among the workloads.
    place: usize,
    pub(super) workload: String,
    pub(super) threads: usize,
}

/// Workloads in the order of tables; others come last.
const WORKLOADS: &[&str] = &[
    "copy_all",
    "fill_seq",
    "fill_batch",
    "fill_random",
    "fill_power",
    "overwrite",
    "delete",
    "get_uniform",
    "get_zipf",
    "get_absent",
    "multi_get_32",
    "seek_10",
    "seek_100",
    "seek_1000",
    "seek_10000",
    "scan_forward_first",
    "scan_forward",
    "scan_backward",
    "get_beside_puts",
    "mixed",
    "ycsb_a",
    "ycsb_b",
    "ycsb_c",
    "ycsb_d",
    "ycsb_e",
    "ycsb_e_after_a",
    "ycsb_f",
    "log_append",
    "log_newest",
    "close",
    "reopen_clean",
    "reopen_kill",
    "lost_by_kill",
    "compaction",
    "disk_after_fill",
    "disk_after_compaction",
    "memory_end",
];

/// Other processes took more than this of a processor: the cell is marked.
const DISTURBED_CPUS: f64 = 0.2;

impl Row {
    fn of(record: &Record) -> Row {
        let place = WORKLOADS.iter().position(|name| *name == record.workload).unwrap_or(WORKLOADS.len());
        Row { place, workload: record.workload.clone(), threads: record.threads }
    }

    /// Label of the row.
    pub(super) fn head(&self) -> String {
        if self.threads == 1 {
            self.workload.clone()
        } else {
            format!("{}, {} threads", self.workload, self.threads)
        }
    }

    /// Whether background work follows.
    pub(super) fn writes(&self) -> bool {
        let writing = ["fill_", "overwrite", "delete", "mixed", "ycsb_a", "ycsb_f", "log_"];
        writing.iter().any(|beginning| self.workload.starts_with(beginning))
    }
}

/// The values of several rounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cell {
    numbers: Vec<f64>,
    pub(super) is_void: bool,
    pub(super) is_cut_short: bool,
    pub(super) is_disturbed: bool,
    /// Writes are less durable than elsewhere in the row, so it does not compete.
    pub(super) is_weaker: bool,
}

impl Cell {
    pub(super) fn median(&self) -> f64 {
        let mut numbers = self.numbers.clone();
        numbers.sort_by(f64::total_cmp);
        match (numbers.len() / 2, numbers.len() % 2) {
            (_, _) if numbers.is_empty() => 0.0,
            (middle, 1) => numbers[middle],
            (middle, _) => f64::midpoint(numbers[middle - 1], numbers[middle]),
        }
    }

    /// All rounds in their order.
    pub(super) fn all_rounds(&self) -> String {
        let numbers: Vec<String> = self.numbers.iter().map(|number| format!("{number:.0}")).collect();
        numbers.join(", ")
    }

    /// Half of the distance between the least and the greatest round, in percent of the median.
    pub(super) fn spread_percent(&self) -> f64 {
        let least = self.numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = self.numbers.iter().copied().fold(0.0, f64::max);
        let median = self.median();
        if median > 0.0 { (greatest - least) / 2.0 / median * 100.0 } else { 0.0 }
    }
}

/// The cells of a table, by row and engine.
pub(super) type Cells = BTreeMap<Row, BTreeMap<String, Cell>>;

/// The records of the last run of each engine in each round, if it was complete; and remarks on the
/// incomplete ones.
pub(super) fn of_ended_runs(records: Vec<Record>) -> (Vec<Record>, Vec<String>) {
    let place_of = |record: &Record| (record.configuration.clone(), record.engine.clone(), record.round);
    let mut runs: BTreeMap<_, (u64, bool)> = BTreeMap::new();
    for record in &records {
        let last = runs.entry(place_of(record)).or_default();
        if record.run > last.0 {
            *last = (record.run, false);
        }
        last.1 |= record.run == last.0 && record.workload == RUN_ENDED;
    }
    let not_ended = runs.iter().filter(|(_, (_, has_ended))| !has_ended);
    let told = not_ended
        .map(|((configuration, engine, round), _)| {
            format!("{configuration}, {engine}, round {round}: did not come to its end, and is left out")
        })
        .collect();
    let is_of_ended = |record: &Record| {
        record.workload != RUN_ENDED && runs.get(&place_of(record)) == Some(&(record.run, true))
    };
    (records.into_iter().filter(is_of_ended).collect(), told)
}

/// One number of each record that has it.
pub(super) fn cells(records: &[Record], number: impl Fn(&Row, &Record) -> Option<f64>) -> Cells {
    let mut cells = Cells::new();
    for record in records {
        let row = Row::of(record);
        let Some(number) = number(&row, record) else { continue };
        let row_writes = row.writes();
        let cell: &mut Cell = cells.entry(row).or_default().entry(record.engine.clone()).or_default();
        cell.numbers.push(number);
        cell.is_void |= record.errors > 0;
        cell.is_cut_short |= record.is_cut_short;
        cell.is_weaker |= record.is_weaker && row_writes;
        cell.is_disturbed |= record.value.is_none() && record.others_cpus > DISTURBED_CPUS;
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::{Cell, RUN_ENDED, Record, cells, of_ended_runs};

    fn record(round: u32, per_second: f64, errors: u64) -> Record {
        Record {
            engine: "esker".to_owned(),
            workload: "fill_seq".to_owned(),
            threads: 1,
            round,
            per_second,
            errors,
            ..Record::default()
        }
    }

    fn cell(numbers: &[f64]) -> Cell {
        Cell { numbers: numbers.to_vec(), ..Cell::default() }
    }

    #[test]
    fn medians_and_spreads() {
        assert_eq!(cell(&[3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(cell(&[4.0, 2.0]).median(), 3.0);
        assert_eq!(cell(&[9.0, 10.0, 12.0]).spread_percent(), 15.0);
        assert_eq!(cell(&[90.4, 400.0]).all_rounds(), "90, 400");
    }

    #[test]
    fn a_run_made_again_replaces_the_first_and_one_error_voids_a_cell() {
        let of_run = |run, record: Record| Record { run, ..record };
        let end = |round, run| Record {
            workload: RUN_ENDED.to_owned(),
            value: Some(1.0),
            ..of_run(run, record(round, 0.0, 0))
        };
        let (records, told) = of_ended_runs(vec![
            of_run(1, record(1, 5.0, 0)),
            of_run(2, record(1, 7.0, 0)),
            end(1, 2),
            of_run(3, record(2, 9.0, 1)),
            end(2, 3),
            of_run(4, record(3, 100.0, 0)),
        ]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("round 3"), "{told:?}");
        let cells = cells(&records, |_, record| Some(record.per_second));
        let cell = &cells.values().next().unwrap()["esker"];
        assert_eq!(cell.median(), 8.0);
        assert!(cell.is_void);
    }
}
