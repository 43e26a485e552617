//! The figures of the document's tables.

use crate::table::{Column, Table};

/// A row of one of its tables.
pub(super) struct Reported {
    /// Table number and subject.
    pub(super) table: &'static str,
    pub(super) row: &'static str,
    /// Operations of the row.
    pub(super) operations: u32,
    /// 10^9 cycles, 10^9 instructions, percent of cache references that missed, seconds, their deviation.
    pub(super) numbers: [f64; 5],
}

const fn row(table: &'static str, row: &'static str, operations: u32, numbers: [f64; 5]) -> Reported {
    Reported { table, row, operations, numbers }
}

pub(super) const GETS: &str = "1: gets, uniform";
pub(super) const MIXED: &str = "1: mixed";
pub(super) const PUTS: &str = "2: puts";
pub(super) const PUTS_SKIPLIST: &str = "2: puts, skiplist";
pub(super) const RANGES: &str = "3: ranges";
pub(super) const DELETES: &str = "4: deletes";

pub(super) const REPORTED: [Reported; 16] = [
    row(GETS, "10 K", 10_000, [12.69, 40.73, 10.14, 2.61, 0.04]),
    row(GETS, "100 K", 100_000, [14.90, 48.48, 6.68, 3.17, 0.04]),
    row(GETS, "1 M", 1_000_000, [143.09, 593.08, 3.41, 29.97, 0.28]),
    row(GETS, "2.5 M", 2_500_000, [526.49, 2290.0, 4.08, 107.24, 1.64]),
    row(MIXED, "mixed 1 M, tables probed in parallel", 1_000_000, [2607.0, 3910.0, 13.30, 59.58, 2.67]),
    row(PUTS, "1 M", 1_000_000, [12.505, 40.325, 10.69, 2.53, 0.03]),
    row(PUTS, "5 M", 5_000_000, [68.557, 153.271, 12.14, 21.40, 0.40]),
    row(PUTS, "10 M", 10_000_000, [276.458, 387.272, 7.85, 136.41, 7.56]),
    row(PUTS_SKIPLIST, "Rayon 1 M", 1_000_000, [11.590, 42.265, 4.99, 2.25, 0.03]),
    row(PUTS_SKIPLIST, "Rayon 5 M", 5_000_000, [68.028, 246.052, 8.46, 13.12, 0.33]),
    row(PUTS_SKIPLIST, "Rayon 10 M", 10_000_000, [142.164, 506.605, 9.49, 27.92, 0.75]),
    row(RANGES, "Gaussian", 0, [54.718, 211.731, 5.27, 11.09, 0.10]),
    row(RANGES, "uniform", 0, [55.030, 214.170, 5.16, 11.23, 0.10]),
    row(DELETES, "100 K", 100_000, [8.585, 22.774, 12.17, 1.90, 0.01]),
    row(DELETES, "500 K", 500_000, [7.633, 18.413, 12.05, 1.70, 0.02]),
    row(DELETES, "1 M", 1_000_000, [8.610, 20.740, 12.40, 1.82, 0.01]),
];

/// Seconds of the load, a million puts, that precedes the document's gets and ranges. Its times contain them.
pub(super) const LOAD_SECONDS: f64 = 2.53;

/// The document's seconds for so many operations.
pub(super) fn seconds(table: &str, operations: u32) -> Option<f64> {
    let is_wanted = |row: &&Reported| row.table == table && row.operations == operations;
    REPORTED.iter().find(is_wanted).map(|row| row.numbers[3])
}

/// The document's tables as one.
pub(super) fn table() -> Table {
    let columns = [
        Column::key("table"),
        Column::key("row"),
        Column::number("cycles_e9", 2),
        Column::number("instructions_e9", 2),
        Column::number("cache_miss_percent", 2),
        Column::number("mean_seconds", 2),
        Column::number("deviation_seconds", 2),
    ];
    let title = "What the document reports, on its machine, loads within the times";
    let mut table = Table::new("document", title, &columns);
    for Reported { table: of, row, numbers, .. } in &REPORTED {
        let mut cells = vec![(*of).into(), (*row).into()];
        cells.extend(numbers.iter().map(|&number| number.into()));
        table.push(cells);
    }
    table
}
