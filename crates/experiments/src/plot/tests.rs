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
    assert_eq!(bars.across, HorizontalAxis::Names(vec!["b<c>".into(), "art".into()]));
    for plot in [lines, bars.labels("kind", "ns a get")] {
        let svg = plot.svg().unwrap();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        assert!(svg.contains("b&lt;c&gt;") && !svg.contains("b<c>"));
        assert!(svg.contains(plot.y_label), "{svg}");
        assert!(svg.len() < 30_000, "{} bytes", svg.len());
    }
}

/// The names that an axis of a picture has: how many, and how far apart.
fn labels_of(svg: &str, names: &[String]) -> Vec<(i32, i32)> {
    let number = |tag: &str, name: &str| -> i32 {
        tag.split_once(name).unwrap().1.split('"').nth(1).unwrap().parse().unwrap()
    };
    let place = |name: &String| {
        let before = svg.split_once(&format!("\n{name}\n")).unwrap().0;
        let tag = &before[before.rfind("<text").unwrap()..];
        (number(tag, " x="), number(tag, " y="))
    };
    names.iter().map(place).collect()
}

#[test]
fn long_names_stand_one_below_the_other_and_short_ones_side_by_side() {
    for (letters, count, lies) in [(3, 5, false), (20, 16, true), (20, 2, false), (3, 60, true)] {
        let columns = [Column::key("kind"), Column::key("of"), Column::measured("y", 1)];
        let mut table = Table::new("t", "x", &columns);
        let names: Vec<String> =
            (0..count).map(|number| format!("{}{number:02}", "w".repeat(letters - 2))).collect();
        for name in &names {
            table.push(vec![Cell::from(name.as_str()), "all".into(), 5.0.into()]);
        }
        let plot = Plot::bars("p", "t", &table, &[], Columns { series: "of", x: "kind", y: "y" });
        assert_eq!(draw::lying(&plot).is_some(), lies, "{letters} {count}");
        for pair in labels_of(&plot.svg().unwrap(), &names).windows(2) {
            let [one, next] = pair else { unreachable!() };
            let apart = if lies { next.1 - one.1 } else { next.0 - one.0 };
            assert!(apart >= if lies { 14 } else { 6 * letters as i32 }, "{letters} {count}: {apart}");
        }
    }
}

#[test]
fn a_single_series_has_no_legend_and_colours_differ() {
    let one = Plot::bars("p", "t", &table(), &[("entries", "100")], Columns { x: "kind", ..COLUMNS });
    assert_eq!(one.svg().unwrap().matches("\nart\n").count(), 1, "the axis, and not the legend");
    let colours = draw::COLOURS;
    assert!((1..colours.len()).all(|number| !colours[..number].contains(&colours[number])));
}

#[test]
fn no_data_gives_an_empty_picture() {
    let empty =
        Table::new("t", "x", &[Column::key("kind"), Column::key("entries"), Column::measured("get_ns", 1)]);
    for plot in [Plot::lines("p", "t", &empty, &[], COLUMNS), Plot::bars("p", "t", &empty, &[], COLUMNS)] {
        assert!(plot.series.is_empty());
        plot.logarithmic(true, true).svg().unwrap();
    }
}
