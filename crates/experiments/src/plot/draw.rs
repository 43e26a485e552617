//! Draws plots with the drawing library.

use super::axis::Axis;
use super::{HorizontalAxis, Plot, Series};
use plotters::backend::SVGBackend;
use plotters::chart::{ChartBuilder, ChartContext, LabelAreaPosition};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, Cross, PathElement, Rectangle, TriangleMarker};
use plotters::series::LineSeries;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBColor, ShapeStyle, TextStyle, WHITE};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Axis, Axis>>;

const PLOT_SIZE: (u32, u32) = (680, 440);
const TITLE_HEIGHT: u32 = 34;
const MARGIN: u32 = 12;
/// Room for the numbers of the vertical axis, and for what stands below the horizontal one.
const NUMBERS_WIDTH: u32 = 68;
const FOOT_HEIGHT: u32 = 48;
/// Room for the legend: its lines and names of this many pixels a letter.
const LEGEND_LEFT: u32 = 44;
const LETTER_WIDTH: u32 = 7;
/// Least height of a bar that lies, and what is free between those of two names.
const LYING_BAR_HEIGHT: u32 = 6;
const LYING_GAP: u32 = 12;
const LEGEND_LINE_HEIGHT: u32 = 20;
const MARKER_SIZE: i32 = 4;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(224, 224, 224);

/// The palette of Okabe and Ito without the yellow, which is invisible on white; then darker colours.
pub(super) const COLOURS: [RGBColor; 18] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(60, 60, 60),
    RGBColor(140, 86, 75),
    RGBColor(148, 103, 189),
    RGBColor(127, 140, 30),
    RGBColor(0, 80, 70),
    RGBColor(160, 160, 160),
    RGBColor(20, 30, 140),
    RGBColor(190, 20, 50),
    RGBColor(130, 205, 110),
    RGBColor(250, 170, 170),
    RGBColor(110, 60, 10),
    RGBColor(90, 200, 200),
];

pub(super) fn svg(plot: &Plot) -> Result<String, String> {
    let (width, height) = chart_size(plot);
    let size = (width + legend_width(plot), height + TITLE_HEIGHT);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(plot, &root).map_err(|error| error.to_string())?;
        root.present().map_err(|error| error.to_string())?;
    }
    // The library's text has no final line end.
    text.push('\n');
    Ok(text)
}

fn width_of<'a>(texts: impl Iterator<Item = &'a String>) -> u32 {
    LETTER_WIDTH * texts.map(|text| text.chars().count()).max().unwrap_or(0) as u32
}

/// A single series needs no legend: its name would repeat the title.
fn legend_width(plot: &Plot) -> u32 {
    let widest = width_of(plot.series.iter().map(|series| &series.name));
    if plot.series.len() > 1 { LEGEND_LEFT + widest + MARGIN } else { 0 }
}

/// The names of bars that lie one below the other, because their names are too long to stand side by side.
pub(super) fn lying(plot: &Plot) -> Option<&[String]> {
    let HorizontalAxis::Names(names) = &plot.across else { return None };
    let each = (PLOT_SIZE.0 - NUMBERS_WIDTH - 2 * MARGIN) / (names.len() as u32).max(1);
    (width_of(names.iter()) > each).then_some(names)
}

fn chart_size(plot: &Plot) -> (u32, u32) {
    let needed = |names: &[String]| {
        names.len() as u32 * (LYING_BAR_HEIGHT * plot.series.len() as u32 + LYING_GAP) + FOOT_HEIGHT
    };
    (PLOT_SIZE.0, lying(plot).map_or(0, needed).max(PLOT_SIZE.1))
}

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

fn draw(plot: &Plot, root: &Area<'_>) -> Drawn {
    root.fill(&WHITE)?;
    let (title, rest) = root.split_vertically(TITLE_HEIGHT);
    let style = TextStyle::from((FONT, 17).into_font()).color(&INK);
    title.draw_text(&plot.title, &style, (16, 12))?;
    let (left, right) = rest.split_horizontally(PLOT_SIZE.0);
    if plot.series.len() > 1 {
        legend(plot, &right)?;
    }
    let values = Axis::over(plot.upwards, numbers(plot, |point| point.1), 0.06);
    let bottom = values.bottom();
    let (x, y, names_width) = match (&plot.across, lying(plot)) {
        (_, Some(names)) => {
            (values, Axis::named(names).downwards(), width_of(names.iter()) + 2 * MARGIN + LETTER_WIDTH)
        }
        (HorizontalAxis::Names(names), None) => (Axis::named(names), values, NUMBERS_WIDTH),
        (HorizontalAxis::Numbers(scaling), None) => {
            let numbers = numbers(plot, |point| point.0);
            let room = PLOT_SIZE.0 - NUMBERS_WIDTH - 2 * MARGIN;
            let x = Axis::over(*scaling, numbers.clone(), 0.03).marked_at(numbers, room, LETTER_WIDTH);
            (x, values, NUMBERS_WIDTH)
        }
    };
    let mut chart = ChartBuilder::on(&left)
        .margin(MARGIN)
        .set_label_area_size(LabelAreaPosition::Left, names_width)
        .set_label_area_size(LabelAreaPosition::Bottom, FOOT_HEIGHT)
        .build_cartesian_2d(x, y)?;
    mesh(plot, &mut chart)?;
    for (number, series) in plot.series.iter().enumerate() {
        match &plot.across {
            HorizontalAxis::Numbers(_) => line(&mut chart, number, series)?,
            HorizontalAxis::Names(_) => bars(&mut chart, plot, number, bottom, series)?,
        }
    }
    Ok(())
}

fn numbers(plot: &Plot, part: fn(&(f64, f64)) -> f64) -> impl Iterator<Item = f64> + Clone {
    plot.series.iter().flat_map(move |series| series.points.iter().map(part))
}

fn mesh(plot: &Plot, chart: &mut Chart<'_>) -> Drawn {
    let label = TextStyle::from((FONT, 13).into_font()).color(&INK);
    let mut mesh = chart.configure_mesh();
    let (across, upwards) = if lying(plot).is_some() {
        mesh.disable_y_mesh();
        (plot.y_label, plot.x_label)
    } else {
        (plot.x_label, plot.y_label)
    };
    if lying(plot).is_none() && matches!(plot.across, HorizontalAxis::Names(_)) {
        mesh.disable_x_mesh();
    }
    mesh.x_desc(across)
        .y_desc(upwards)
        .label_style(label.clone())
        .axis_desc_style(TextStyle::from((FONT, 14).into_font()).color(&INK))
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(GRID.mix(0.0))
        .x_labels(8)
        .y_labels(8)
        .draw()
}

fn colour(number: usize) -> RGBColor {
    COLOURS[number % COLOURS.len()]
}

fn line(chart: &mut Chart<'_>, number: usize, series: &Series) -> Drawn {
    let style = ShapeStyle::from(colour(number)).stroke_width(2);
    chart.draw_series(LineSeries::new(series.points.iter().copied(), style))?;
    let filled = ShapeStyle::from(colour(number)).filled();
    let points = series.points.iter().copied();
    match number % 3 {
        0 => chart.draw_series(points.map(|point| Circle::new(point, MARKER_SIZE, filled)))?,
        1 => chart.draw_series(points.map(|point| TriangleMarker::new(point, MARKER_SIZE + 1, filled)))?,
        _ => chart.draw_series(points.map(|point| Cross::new(point, MARKER_SIZE, style)))?,
    };
    Ok(())
}

fn bars(chart: &mut Chart<'_>, plot: &Plot, number: usize, bottom: f64, series: &Series) -> Drawn {
    // A fifth of a category stays free between it and the next.
    let width = 0.8 / plot.series.len() as f64;
    let left = 0.1 + width * number as f64;
    let style = ShapeStyle::from(colour(number)).filled();
    let lies = lying(plot).is_some();
    let bar = |&(category, value): &(f64, f64)| {
        let corners = [(category + left, bottom), (category + left + width, value)];
        Rectangle::new(if lies { corners.map(|(along, up)| (up, along)) } else { corners }, style)
    };
    chart.draw_series(series.points.iter().map(bar))?;
    Ok(())
}

fn legend(plot: &Plot, area: &Area<'_>) -> Drawn {
    let style = TextStyle::from((FONT, 13).into_font()).color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
    for (number, series) in plot.series.iter().enumerate() {
        let y = 24 + number as i32 * LEGEND_LINE_HEIGHT as i32;
        let line = ShapeStyle::from(colour(number)).stroke_width(2);
        let filled = line.filled();
        if let HorizontalAxis::Numbers(_) = plot.across {
            area.draw(&PathElement::new([(8, y), (34, y)], line))?;
            match number % 3 {
                0 => area.draw(&Circle::new((21, y), MARKER_SIZE, filled))?,
                1 => area.draw(&TriangleMarker::new((21, y), MARKER_SIZE + 1, filled))?,
                _ => area.draw(&Cross::new((21, y), MARKER_SIZE, line))?,
            }
        } else {
            area.draw(&Rectangle::new([(14, y - 6), (30, y + 6)], filled))?;
        }
        area.draw_text(&series.name, &style, (LEGEND_LEFT as i32 - 4, y))?;
    }
    Ok(())
}
