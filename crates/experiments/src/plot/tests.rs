use super::*;
use crate::table::{Cell, Column};

fn table() -> Table {
    let mut table =
        Table::new("t", "x", &[Column::key("kind"), Column::key("entries"), Column::measured("get_ns", 1)]);
    for (kind, entries, get_ns) in
        [("b<c>", 1000u64, 9.0), ("art", 1000, 5.0), ("art", 100, 3.0), ("art", 1_000_000, 80.0)]
    {
        table.push(vec![Cell::from(kind), entries.into(), get_ns.into()]);
    }
    table
}

const COLUMNS: Columns = Columns { series: "kind", x: "entries", y: "get_ns" };

#[test]
fn lines_go_through_the_rows_in_order() {
    let plot = Plot::lines("p", "gets", &table(), &[], COLUMNS);
    assert_eq!(plot.series[1].points, [(100.0, 3.0), (1000.0, 5.0), (1_000_000.0, 80.0)]);
    let only = Plot::lines("p", "gets", &table(), &[("kind", "art")], COLUMNS);
    assert_eq!(only.series.len(), 1);
}

/// Counts what an SVG file must have: each tag closed, text escaped, all names in it.
#[test]
fn pictures_are_well_formed() {
    let lines = Plot::lines("p", "gets & more", &table(), &[], COLUMNS).logarithmic(true, true);
    let bars = Plot::bars("p", "gets", &table(), &[("entries", "1000")], Columns { x: "kind", ..COLUMNS });
    assert_eq!(bars.across, Across::Names(vec!["b<c>".into(), "art".into()]));
    for plot in [lines, bars.labels("kind", "ns a get")] {
        let svg = plot.svg().unwrap();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        assert!(svg.contains("b&lt;c&gt;") && !svg.contains("b<c>"));
        assert!(svg.contains(plot.y_label), "{svg}");
        assert!(svg.len() < 30_000, "{} bytes", svg.len());
    }
}

#[test]
fn nothing_gives_an_empty_picture() {
    let empty =
        Table::new("t", "x", &[Column::key("kind"), Column::key("entries"), Column::measured("get_ns", 1)]);
    for plot in [Plot::lines("p", "t", &empty, &[], COLUMNS), Plot::bars("p", "t", &empty, &[], COLUMNS)] {
        assert!(plot.series.is_empty());
        plot.logarithmic(true, true).svg().unwrap();
    }
}
