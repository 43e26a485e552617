//! The report's formulas of its third step beside what was counted: the cost of an insertion, and the number
//! of runs that a scan merges, of leveling with size ratio 2 and of Dostoevsky with 4.

use super::VARIANTS;
use crate::plot::{Columns, Plot};
use crate::table::{Cell, Column, Table};

/// Pages of a block of entries in the report's cost of an insertion, which cancels in comparisons.
const LEVELING_RATIO: f64 = 2.0;
const DOSTOEVSKY_RATIO: f64 = 4.0;

/// How the formulas call a variant of the table of volumes.
struct Tree {
    variant: usize,
    /// Times that an entry is written by merges, `x` memtables after the first.
    insertion: fn(f64) -> f64,
    runs: fn(f64) -> f64,
}

/// The report's: `T L` and `T + L` for an insertion, a page's entries left out; `L`, and `(T - 1) (L - 1) +
/// 1`, for runs; `L` is the logarithm of data over memtable, to base `T`.
const TREES: [Tree; 2] = [
    Tree {
        variant: 3,
        insertion: |x| LEVELING_RATIO * x.log(LEVELING_RATIO),
        runs: |x| x.log(LEVELING_RATIO),
    },
    Tree {
        variant: 4,
        insertion: |x| DOSTOEVSKY_RATIO + x.log(DOSTOEVSKY_RATIO),
        runs: |x| (DOSTOEVSKY_RATIO - 1.0) * (x.log(DOSTOEVSKY_RATIO) - 1.0) + 1.0,
    },
];

/// One row for each tree and volume of more than a memtable; a memtable has a megabyte, as a volume counts.
pub(super) fn table(volumes: &Table, megabytes: &[u64]) -> Table {
    let columns = [
        Column::key("tree"),
        Column::key("megabytes"),
        Column::number("insertion_by_formula", 2),
        Column::number("written_per_byte", 2),
        Column::number("runs_by_formula", 2),
        Column::number("runs", 0),
    ];
    let title = "The report's formulas of step 3, beside what was counted";
    let mut table = Table::new("theory", title, &columns);
    for tree in &TREES {
        let name = VARIANTS[tree.variant].name;
        for &size in megabytes.iter().filter(|&&size| size > 1) {
            let (x, size) = (size as f64, size.to_string());
            let counted = |column| volumes.number(&[("variant", name), ("megabytes", &size)], column);
            table.push(vec![
                name.into(),
                Cell::from(size.as_str()),
                (tree.insertion)(x).into(),
                counted("write_amplification").into(),
                (tree.runs)(x).max(1.0).into(),
                counted("runs").into(),
            ]);
        }
    }
    table
}

pub(super) fn plots(table: &Table) -> Vec<Plot> {
    let plot = |name, title, y, label| {
        Plot::lines(name, title, table, &[], Columns { series: "tree", x: "megabytes", y })
            .labels("MB of pairs, or memtables", label)
            .logarithmic(true, false)
    };
    vec![
        plot(
            "theory-insertion",
            "Cost of an insertion by the report's formulas",
            "insertion_by_formula",
            "times written",
        ),
        plot("theory-runs", "Runs that a scan merges, by the report's formulas", "runs_by_formula", "runs"),
        plot("runs", "Runs that a scan merges, as counted", "runs", "runs"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The crossings that the report reads off its plots: few runs for Dostoevsky while data is small, more
    /// when it is large, and cheaper insertions from some size on.
    #[test]
    fn formulas_cross_where_the_report_says() {
        let [leveling, dostoevsky] = &TREES;
        assert!((dostoevsky.runs)(4.0) < (leveling.runs)(4.0));
        assert!((dostoevsky.runs)(1024.0) > (leveling.runs)(1024.0));
        assert!((dostoevsky.insertion)(4.0) > (leveling.insertion)(4.0));
        assert!((dostoevsky.insertion)(1024.0) < (leveling.insertion)(1024.0));
        assert!(((leveling.insertion)(1024.0) - 20.0).abs() < 1e-9);
        assert!(((dostoevsky.insertion)(1024.0) - 9.0).abs() < 1e-9);
        assert!(((dostoevsky.runs)(1024.0) - 13.0).abs() < 1e-9);
    }
}
