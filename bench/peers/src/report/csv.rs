//! The cells of all tables as comma-separated values: a line for each workload and engine.

use super::cells::Cells;
use std::fmt::Write;

/// The names of the columns.
pub(super) const HEAD: &str = "configuration,table,workload,threads,engine,median,spread_percent,competes\n";

/// Appends the lines of a table.
pub(super) fn push(text: &mut String, configuration: &str, title: &str, cells: &Cells) {
    for (row, engines) in cells {
        for (engine, cell) in engines {
            let competes = !(cell.is_void || cell.is_weaker);
            let _ = writeln!(
                text,
                "{configuration},{},{},{},{engine},{},{:.1},{competes}",
                quoted(title),
                row.workload,
                row.threads,
                cell.median(),
                cell.spread_percent()
            );
        }
    }
}

/// A field that may hold commas.
fn quoted(field: &str) -> String {
    format!("\"{}\"", field.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::report::cells;

    #[test]
    fn every_cell_is_a_line_of_as_many_fields_as_the_head() {
        let record = |engine: &str, per_second| Record {
            engine: engine.to_owned(),
            workload: "get_uniform".to_owned(),
            threads: 2,
            per_second,
            ..Record::default()
        };
        let records = [record("esker", 3.0), record("lmdb", 1.5), record("esker", 5.0)];
        let cells = cells::cells(&records, |_, record| Some(record.per_second));
        let mut text = HEAD.to_owned();
        push(&mut text, "middle", "Seconds, \"all\"", &cells);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "middle,\"Seconds, \"\"all\"\"\",get_uniform,2,esker,4,25.0,true",
                "middle,\"Seconds, \"\"all\"\"\",get_uniform,2,lmdb,1.5,0.0,true"
            ]
        );
    }
}
