//! What goes on: the curve of operations, commands by their time, jobs that run, and open readers.

use super::super::snapshot::Job;
use super::{Screen, figures, text};
use crate::format::{human_bytes, human_count};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Sparkline, Widget};

/// Rows of the curve without its rule.
const CURVE_ROWS: u16 = 4;

/// Rows of a list at most, without its rule and its head.
const LIST_ROWS: usize = 8;

/// Columns of a command's figures.
const COMMAND_COLUMNS: usize = 34;

/// Columns of a job's figures.
const JOB_COLUMNS: usize = 42;

/// Draws as much of it as the area has rows for.
pub(super) fn render(screen: &Screen<'_>, area: Rect, cells: &mut Buffer) {
    let area = curve(screen, area, cells);
    let area = commands(screen, area, cells);
    let area = jobs(screen, area, cells);
    readers(screen, area, cells);
}

fn curve(screen: &Screen<'_>, area: Rect, cells: &mut Buffer) -> Rect {
    let points = screen.curve.newest(usize::from(area.width));
    let most = points.iter().max().copied().unwrap_or_default();
    if area.height <= CURVE_ROWS || most == 0 {
        return area;
    }
    let what = if screen.now.redis.is_some() { "commands" } else { "writes" };
    let area = screen.rule(area, &format!("{what}/s, at most {}", human_count(most)), cells);
    let place = Rect { height: CURVE_ROWS, ..area };
    Sparkline::default().data(points.iter().copied()).style(screen.theme.bar()).render(place, cells);
    Rect { y: area.y + CURVE_ROWS, height: area.height - CURVE_ROWS, ..area }
}

/// A list with a rule, a head and rows, if there is room for one row at least; the rest of the area.
fn list(
    screen: &Screen<'_>,
    title: &str,
    head: &str,
    rows: &[String],
    area: Rect,
    cells: &mut Buffer,
) -> Rect {
    if rows.is_empty() || area.height < 3 {
        return area;
    }
    let area = screen.rule(area, title, cells);
    let shown = rows.len().min(LIST_ROWS).min(usize::from(area.height) - 1);
    cells.set_line(area.x, area.y, &Line::styled(head, screen.theme.label()), area.width);
    for (row, y) in rows.iter().take(shown).zip(area.y + 1..) {
        cells.set_line(area.x, y, &Line::raw(row), area.width);
    }
    let taken = 1 + shown as u16;
    Rect { y: area.y + taken, height: area.height - taken, ..area }
}

fn commands(screen: &Screen<'_>, area: Rect, cells: &mut Buffer) -> Rect {
    let Some(rates) = screen.rates else { return area };
    let whole: f64 = rates.by_command.iter().map(|(_, calls, mean_us)| calls * mean_us).sum();
    let room = usize::from(area.width).saturating_sub(COMMAND_COLUMNS + 1).min(30);
    let row = |(name, calls, mean_us): &(String, f64, f64)| {
        let bar = text::bar((calls * mean_us) as u64, whole as u64, room);
        let name = text::left(name, 15);
        format!(" {name}{:>9}{:>10} {bar}", text::rate(*calls), text::microseconds(*mean_us))
    };
    let rows: Vec<String> = rates.by_command.iter().map(row).collect();
    let head = format!(" {:<15}{:>9}{:>10} {}", "command", "calls/s", "mean", "time");
    list(screen, "commands by their time", &head, &rows, area, cells)
}

fn jobs(screen: &Screen<'_>, area: Rect, cells: &mut Buffer) -> Rect {
    let name_columns = usize::from(area.width).saturating_sub(JOB_COLUMNS).min(30);
    let row = |job: &Job| {
        let percent = job.done_bytes.saturating_mul(100).checked_div(job.total_bytes).unwrap_or_default();
        let left = job.total_bytes.saturating_sub(job.done_bytes) as f64 / job.bytes_per_second.max(1.0);
        let left = if job.bytes_per_second > 0.0 { text::time((left * 1e3) as u64) } else { "-".to_owned() };
        format!(
            " {:<6}{}{:>6}{:>10}{percent:>4}%{:>9}",
            figures::work(&job.class),
            text::left(&job.keyspace, name_columns),
            job.to,
            human_bytes(job.total_bytes),
            left,
        )
    };
    let rows: Vec<String> = screen.now.jobs.iter().map(row).collect();
    let name = text::left("keyspace", name_columns);
    let head = format!(" {:<6}{name}{:>6}{:>10}{:>5}{:>9}", "job", "to", "of", "done", "left");
    list(screen, &format!("running: {}", rows.len()), &head, &rows, area, cells)
}

fn readers(screen: &Screen<'_>, area: Rect, cells: &mut Buffer) -> Rect {
    let row = |reader: &super::super::snapshot::PastReader| {
        let of = reader.of.as_deref().unwrap_or("-");
        format!(
            " {:<12}{:>8}{:>11}  {of}",
            reader.kind,
            text::time(reader.age_ms),
            human_bytes(reader.held_bytes)
        )
    };
    let rows: Vec<String> = screen.now.readers.iter().map(row).collect();
    let head = format!(" {:<12}{:>8}{:>11}  of", "reader", "age", "holds");
    list(screen, &format!("readers, oldest first: {}", rows.len()), &head, &rows, area, cells)
}
