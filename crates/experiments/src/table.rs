//! Tables of results: printed in aligned columns, as Markdown, and as CSV files.

use crate::statistics::Sample;
use std::fmt::Write;

/// A column's name and how its numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name in the CSV file and of claims: lower case with underscores, unit last.
    pub name: &'static str,
    /// Digits behind the point for people; the CSV file has all there are.
    pub decimals: usize,
    /// Measured in rounds: the CSV file has a second column for the spread.
    pub is_measured: bool,
}

impl Column {
    /// Words or whole numbers: what a row is about.
    pub const fn key(name: &'static str) -> Column {
        Column { name, decimals: 0, is_measured: false }
    }

    /// A number that was not measured in rounds.
    pub const fn number(name: &'static str, decimals: usize) -> Column {
        Column { name, decimals, is_measured: false }
    }

    /// A quantity measured in rounds.
    pub const fn measured(name: &'static str, decimals: usize) -> Column {
        Column { name, decimals, is_measured: true }
    }
}

/// The content of a row's column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A name.
    Text(String),
    /// A count, or a size.
    Whole(u64),
    /// A quantity.
    Number(Sample),
    /// Not applicable, or not measured.
    Missing,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Cell {
        Cell::Whole(number)
    }
}

impl From<usize> for Cell {
    fn from(number: usize) -> Cell {
        Cell::Whole(number as u64)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        if number.is_finite() { Cell::Number(Sample::exact(number)) } else { Cell::Missing }
    }
}

impl From<Sample> for Cell {
    fn from(sample: Sample) -> Cell {
        if sample.median.is_finite() { Cell::Number(sample) } else { Cell::Missing }
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Missing, Into::into)
    }
}

impl Cell {
    /// The number in it, whatever kind of number it is.
    pub fn value(&self) -> Option<f64> {
        match self {
            Cell::Whole(number) => Some(*number as f64),
            Cell::Number(sample) => Some(sample.median),
            Cell::Text(_) | Cell::Missing => None,
        }
    }

    /// Text for the terminal and Markdown.
    fn shown(&self, column: &Column) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Whole(number) => grouped(&number.to_string()),
            Cell::Number(sample) => {
                let number = shown_number(sample.median, column.decimals);
                let percent = (sample.spread() * 100.0).round();
                if column.is_measured && percent >= 1.0 { format!("{number} ±{percent}%") } else { number }
            }
            Cell::Missing => "-".to_owned(),
        }
    }

    /// Text for CSV files.
    fn plain(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Whole(number) => number.to_string(),
            Cell::Number(sample) => sample.median.to_string(),
            Cell::Missing => String::new(),
        }
    }
}

/// Very small numbers keep their first digits, others have as many decimals as the column wants.
fn shown_number(number: f64, decimals: usize) -> String {
    let least_shown = 0.5 * 0.1f64.powi(decimals as i32);
    if number != 0.0 && number.abs() < least_shown {
        return format!("{number:.1e}");
    }
    let text = format!("{number:.decimals$}");
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), ""), |(whole, rest)| (whole, rest));
    if fraction.is_empty() { grouped(whole) } else { format!("{}.{fraction}", grouped(whole)) }
}

/// Commas between thousands.
fn grouped(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let mut text = String::from(sign);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Rows of one shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The name of its file, without ending.
    pub name: &'static str,
    /// What it shows, in a sentence.
    pub title: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Without rows.
    pub fn new(name: &'static str, title: impl Into<String>, columns: &[Column]) -> Table {
        Table { name, title: title.into(), columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Appends a row with a cell for each column.
    pub fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.columns.len(), "a cell for each column of {}", self.name);
        self.rows.push(row);
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn column_at(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The rows in which these columns have these values.
    pub fn find<'a>(&'a self, wanted: &'a [(&'a str, &'a str)]) -> impl Iterator<Item = Row<'a>> {
        let is_wanted = move |row: &Vec<Cell>| {
            wanted.iter().all(|&(name, text)| {
                self.column_at(name).and_then(|at| row.get(at)).is_some_and(|cell| cell.plain() == text)
            })
        };
        self.rows.iter().filter(move |row| is_wanted(row)).map(|cells| Row { table: self, cells })
    }

    /// The number of column `of` in the first row that [`Table::find`] returns.
    pub fn number(&self, wanted: &[(&str, &str)], of: &str) -> Option<f64> {
        self.find(wanted).next()?.number(of)
    }

    /// The values of column `name`, each once, in the order of the rows.
    pub fn distinct(&self, name: &str) -> Vec<String> {
        let mut found = Vec::new();
        for cell in self.column_at(name).into_iter().flat_map(|at| self.rows.iter().map(move |row| &row[at]))
        {
            let text = cell.plain();
            if !found.contains(&text) {
                found.push(text);
            }
        }
        found
    }

    /// In aligned columns.
    pub fn text(&self) -> String {
        let rows: Vec<Vec<String>> = self.shown_rows();
        let is_text: Vec<bool> = self.text_columns();
        let width = |at: usize| {
            let cells = rows.iter().map(|row| row[at].chars().count());
            cells.chain([self.columns[at].name.len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text = String::new();
        let head: Vec<String> = self.columns.iter().map(|column| column.name.replace('_', " ")).collect();
        for row in std::iter::once(&head).chain(&rows) {
            let mut line = String::new();
            for (at, cell) in row.iter().enumerate() {
                let padding = " ".repeat(widths[at] - cell.chars().count());
                let (before, after) =
                    if is_text[at] { ("", padding.as_str()) } else { (padding.as_str(), "") };
                let _ = write!(line, "{before}{cell}{after}  ");
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }

    /// As a table of Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        let line = |cells: &mut dyn Iterator<Item = String>| {
            cells.fold(String::from("|"), |line, cell| format!("{line} {} |", cell.replace('|', "\\|")))
        };
        let is_text = self.text_columns();
        let mut names = self.columns.iter().map(|column| column.name.replace('_', " "));
        let _ = writeln!(text, "{}", line(&mut names));
        let mut rules = is_text.iter().map(|&is_text| String::from(if is_text { "---" } else { "---:" }));
        let _ = writeln!(text, "{}", line(&mut rules));
        for row in self.shown_rows() {
            let _ = writeln!(text, "{}", line(&mut row.into_iter()));
        }
        text
    }

    /// As comma-separated values (RFC 4180); measured columns are followed by their spread.
    pub fn csv(&self) -> String {
        let mut head = Vec::new();
        for column in &self.columns {
            head.push(column.name.to_owned());
            if column.is_measured {
                head.push(format!("{}_spread", column.name));
            }
        }
        let mut text = csv_line(&head);
        for row in &self.rows {
            let mut cells = Vec::new();
            for (cell, column) in row.iter().zip(&self.columns) {
                cells.push(cell.plain());
                if column.is_measured {
                    let spread = if let Cell::Number(sample) = cell { Some(sample.spread()) } else { None };
                    cells.push(spread.map(|spread| format!("{spread:.4}")).unwrap_or_default());
                }
            }
            text.push_str(&csv_line(&cells));
        }
        text
    }

    fn shown_rows(&self) -> Vec<Vec<String>> {
        let shown = |row: &Vec<Cell>| {
            row.iter().zip(&self.columns).map(|(cell, column)| cell.shown(column)).collect()
        };
        self.rows.iter().map(shown).collect()
    }

    /// Whether each column is aligned as text.
    fn text_columns(&self) -> Vec<bool> {
        let is_text = |at: usize| self.rows.iter().any(|row| matches!(row[at], Cell::Text(_)));
        (0..self.columns.len()).map(is_text).collect()
    }
}

/// A row of a table.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    table: &'a Table,
    cells: &'a [Cell],
}

impl Row<'_> {
    /// The number in a column.
    pub fn number(&self, of: &str) -> Option<f64> {
        self.cells.get(self.table.column_at(of)?)?.value()
    }

    /// The text of a column.
    pub fn text(&self, of: &str) -> Option<String> {
        Some(self.cells.get(self.table.column_at(of)?)?.plain())
    }
}

fn csv_line(cells: &[String]) -> String {
    let quoted: Vec<String> = cells
        .iter()
        .map(|cell| {
            let needs_quotes = cell.contains([',', '"', '\n', '\r']);
            if needs_quotes { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.clone() }
        })
        .collect();
    format!("{}\n", quoted.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = [
            Column::key("kind"),
            Column::key("entries"),
            Column::measured("get_ns", 1),
            Column::number("share", 2),
        ];
        let mut table = Table::new("t", "a table", &columns);
        let sample = Sample { median: 12.34, least: 12.0, most: 13.0, mean: 12.5, deviation: 0.4 };
        table.push(vec!["art".into(), 500_000u64.into(), sample.into(), 0.5.into()]);
        table.push(vec!["a, \"b\"".into(), 7u64.into(), 1234.0.into(), Cell::Missing]);
        table
    }

    #[test]
    fn columns_are_aligned() {
        let expected = "\
kind    entries    get ns  share
art     500,000  12.3 ±4%   0.50
a, \"b\"        7   1,234.0      -
";
        assert_eq!(table().text(), expected);
    }

    #[test]
    fn files_of_values_have_quotes_and_spreads() {
        let expected = "\
kind,entries,get_ns,get_ns_spread,share
art,500000,12.34,0.0405,0.5
\"a, \"\"b\"\"\",7,1234,0.0000,
";
        assert_eq!(table().csv(), expected);
    }

    #[test]
    fn markdown_has_a_rule_and_escapes_bars() {
        let mut table = Table::new("t", "bars", &[Column::key("kind"), Column::number("share", 1)]);
        table.push(vec!["a|b".into(), 2.0.into()]);
        assert_eq!(table.markdown(), "| kind | share |\n| --- | ---: |\n| a\\|b | 2.0 |\n");
    }

    #[test]
    fn rows_are_found_by_their_cells() {
        let table = table();
        assert_eq!(table.number(&[("kind", "art"), ("entries", "500000")], "get_ns"), Some(12.34));
        assert_eq!(table.number(&[("kind", "art"), ("entries", "7")], "get_ns"), None);
        assert_eq!(table.number(&[], "no such column"), None);
        assert_eq!(table.distinct("entries"), ["500000", "7"]);
        assert_eq!(table.find(&[]).last().and_then(|row| row.text("kind")).as_deref(), Some("a, \"b\""));
    }

    #[test]
    fn small_numbers_keep_digits() {
        assert_eq!(shown_number(0.000_012_3, 2), "1.2e-5");
        assert_eq!(shown_number(0.0, 2), "0.00");
        assert_eq!(shown_number(-1234.5, 1), "-1,234.5");
        assert_eq!(grouped("1000000"), "1,000,000");
    }
}
