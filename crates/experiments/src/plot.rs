//! Plots: lines over numbers and bars over names, as SVG files.
//!
//! Colours are those of Okabe and Ito (2008), which colour-blind readers tell apart; lines have markers of
//! different shapes besides. Text is left to the reader's sans-serif font, so a file has a few kilobytes.

mod axis;
mod draw;

pub use axis::Scaling;

use crate::table::Table;

/// A line, or a kind of bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points; of bars, x is the number of the category.
    pub points: Vec<(f64, f64)>,
}

/// The horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub enum HorizontalAxis {
    /// Numbers: the series are lines.
    Numbers(Scaling),
    /// Names: the series are bars, side by side, or one below the other where the names are long.
    Names(Vec<String>),
}

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// The name of its file, without ending.
    pub name: &'static str,
    /// What it shows.
    pub title: String,
    /// What the horizontal axis counts.
    pub x_label: &'static str,
    /// What the vertical axis counts.
    pub y_label: &'static str,
    /// How the horizontal axis is scaled.
    pub across: HorizontalAxis,
    /// How the vertical axis is scaled.
    pub upwards: Scaling,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// The columns of a table that are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// Each value of this column is a line, or a kind of bar.
    pub series: &'static str,
    /// Horizontal.
    pub x: &'static str,
    /// Vertical.
    pub y: &'static str,
}

impl Plot {
    /// Number of lines, or kinds of bars, that have a colour of their own.
    pub const MOST_SERIES: usize = draw::COLOURS.len();

    /// Lines through the rows of `table` in which the given columns have the given values.
    pub fn lines(
        name: &'static str,
        title: &str,
        table: &Table,
        wanted: &[(&str, &str)],
        columns: Columns,
    ) -> Plot {
        let points = |series: &str| {
            let mut points: Vec<(f64, f64)> = Plot::rows(table, wanted, columns.series, series)
                .filter_map(|row| Some((row.number(columns.x)?, row.number(columns.y)?)))
                .collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            points
        };
        let names = table.distinct(columns.series);
        Plot::new(name, title, HorizontalAxis::Numbers(Scaling::Linear), columns, names, points)
    }

    /// Bars for the rows of `table` in which the given columns have the given values.
    pub fn bars(
        name: &'static str,
        title: &str,
        table: &Table,
        wanted: &[(&str, &str)],
        columns: Columns,
    ) -> Plot {
        let categories: Vec<String> = table
            .distinct(columns.x)
            .into_iter()
            .filter(|category| table.find(wanted).any(|row| row.text(columns.x).as_ref() == Some(category)))
            .collect();
        let points = |series: &str| {
            let rows = Plot::rows(table, wanted, columns.series, series);
            rows.filter_map(|row| {
                let category = row.text(columns.x)?;
                let at = categories.iter().position(|name| *name == category)?;
                Some((at as f64, row.number(columns.y)?))
            })
            .collect()
        };
        let names = table.distinct(columns.series);
        Plot::new(name, title, HorizontalAxis::Names(categories.clone()), columns, names, points)
    }

    fn new(
        name: &'static str,
        title: &str,
        across: HorizontalAxis,
        columns: Columns,
        names: Vec<String>,
        points: impl Fn(&str) -> Vec<(f64, f64)>,
    ) -> Plot {
        let series = names.into_iter().map(|name| Series { points: points(&name), name });
        Plot {
            name,
            title: title.to_owned(),
            x_label: columns.x,
            y_label: columns.y,
            across,
            upwards: Scaling::Linear,
            series: series.filter(|series| !series.points.is_empty()).collect(),
        }
    }

    fn rows<'a>(
        table: &'a Table,
        wanted: &'a [(&'a str, &'a str)],
        column: &'a str,
        is: &'a str,
    ) -> impl Iterator<Item = crate::table::Row<'a>> {
        table.find(wanted).filter(move |row| row.text(column).is_some_and(|text| text == is))
    }

    /// The same with these labels at the axes.
    #[must_use]
    pub fn labels(mut self, x_label: &'static str, y_label: &'static str) -> Plot {
        (self.x_label, self.y_label) = (x_label, y_label);
        self
    }

    /// The same with logarithmic axes.
    #[must_use]
    pub fn logarithmic(mut self, x: bool, y: bool) -> Plot {
        if let (true, HorizontalAxis::Numbers(scaling)) = (x, &mut self.across) {
            *scaling = Scaling::Logarithmic;
        }
        if y {
            self.upwards = Scaling::Logarithmic;
        }
        self
    }

    /// The plot, as the text of an SVG file.
    ///
    /// # Errors
    /// The error of the drawing library, as text.
    pub fn svg(&self) -> Result<String, String> {
        draw::svg(self)
    }
}

#[cfg(test)]
mod tests;
