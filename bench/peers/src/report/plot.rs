//! Bar charts as SVG: for each workload the stores beside each other, each as a share of the fastest.
//!
//! Colours are those of Okabe and Ito (2008), which colour-blind readers can distinguish, ours the strongest.
//! Text uses the reader's sans-serif font, so that a file has a few kilobytes.

use super::cells::{Cell, Cells};
use super::markdown::{LIMITS, columns, short};
use std::fmt::Write;

const COLOURS: [&str; 11] = [
    "#d55e00", "#0072b2", "#56b4e9", "#009e73", "#cc79a7", "#e69f00", "#f0e442", "#999999", "#555555",
    "#7b4fa3", "#8c6d31",
];

/// Pixels of a bar's height.
const BAR: usize = 13;
/// Pixels between workloads.
const GAP: usize = 10;
/// Pixels for the names of workloads.
const LEFT: usize = 190;
/// Pixels of the longest bar.
const LONGEST: f64 = 520.0;
/// Pixels for the number behind a bar.
const RIGHT: usize = 90;
/// Pixels for title and legend.
const TOP: usize = 64;

/// A chart of the stores in `cells`: rates, of which more is better.
pub(super) fn bars(title: &str, cells: &Cells) -> String {
    let stores: Vec<String> =
        columns(cells).into_iter().filter(|name| !LIMITS.contains(&name.as_str())).collect();
    let bars: usize = cells.values().map(|row| row.keys().filter(|name| stores.contains(name)).count()).sum();
    let (width, height) = (LEFT + LONGEST as usize + RIGHT, TOP + bars * BAR + cells.len() * GAP + GAP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"8\" y=\"20\" font-size=\"14\">{}</text>\n",
        escape(title)
    );
    legend(&mut svg, &stores);
    let mut top = TOP;
    for (row, engines) in cells {
        let of = |store: &String| engines.get(store).filter(|cell| !cell.is_void).map(Cell::median);
        let fastest = stores.iter().filter_map(of).fold(0.0, f64::max);
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 8,
            top + BAR - 3,
            escape(&row.head())
        );
        for (place, store) in stores.iter().enumerate() {
            let Some(number) = of(store) else { continue };
            let length = if fastest > 0.0 { number / fastest * LONGEST } else { 0.0 };
            let colour = COLOURS[place % COLOURS.len()];
            let _ = writeln!(
                svg,
                "<rect x=\"{LEFT}\" y=\"{top}\" width=\"{length:.1}\" height=\"{}\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{}\" font-size=\"10\">{}</text>",
                BAR - 2,
                LEFT as f64 + length + 4.0,
                top + BAR - 3,
                short(number)
            );
            top += BAR;
        }
        top += GAP;
    }
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String, stores: &[String]) {
    let mut left = 8;
    for (place, store) in stores.iter().enumerate() {
        let colour = COLOURS[place % COLOURS.len()];
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"32\" width=\"11\" height=\"11\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"42\">{}</text>",
            left + 15,
            escape(store)
        );
        left += 30 + store.len() * 7;
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::cells::cells;
    use super::bars;
    use crate::record::Record;

    #[test]
    fn the_fastest_has_the_longest_bar_and_void_numbers_have_none() {
        let record = |engine: &str, per_second: f64, errors| Record {
            engine: engine.to_owned(),
            workload: "get_uniform".to_owned(),
            threads: 1,
            per_second,
            errors,
            ..Record::default()
        };
        let records = [record("esker", 2e6, 0), record("lmdb", 1e6, 0), record("sled", 9e6, 1)];
        let svg = bars("a < b", &cells(&records, |_, record| Some(record.per_second)));
        assert!(svg.contains("a &lt; b"));
        assert!(svg.contains("width=\"520.0\"") && svg.contains("width=\"260.0\""));
        assert!(!svg.contains("9.00 M"));
    }
}
