//! The keyspaces: sizes, rates and amplification, largest first, and which one is chosen.

use super::super::snapshot::{Keyspace, WriteState};
use super::{Screen, text};
use crate::format::{human_bytes, human_count};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

/// Columns beside the name.
const FIGURE_COLUMNS: usize = 59;

/// Rows that all of it takes: the rule, the head, and a row for each.
pub(super) fn rows(screen: &Screen<'_>) -> u16 {
    2 + screen.now.keyspaces.len().max(1) as u16
}

pub(super) fn render(screen: &Screen<'_>, area: Rect, cells: &mut Buffer) {
    let (all, left_out) = (&screen.now.keyspaces, screen.now.left_out);
    let left_out = if left_out > 0 { format!(", {left_out} smaller ones left out") } else { String::new() };
    let area = screen.rule(area, &format!("keyspaces: {}{left_out}", all.len()), cells);
    if area.height == 0 {
        return;
    }
    let columns = usize::from(area.width);
    let name_columns = columns.saturating_sub(FIGURE_COLUMNS);
    let figures = ["size", "runs", "tables", "put/s", "tables/s", "w-amp", "space"].map(str::to_owned);
    let head = row(" keyspace", &figures, name_columns);
    cells.set_line(area.x, area.y, &Line::styled(head, screen.theme.label()), area.width);
    let shown = usize::from(area.height - 1);
    // The chosen one stays within what is shown.
    let chosen = screen.chosen.min(all.len().saturating_sub(1));
    let first = (chosen + 1).saturating_sub(shown);
    for (at, keyspace) in all.iter().enumerate().skip(first).take(shown) {
        let state = screen.now.stalls.iter().find(|stall| stall.keyspace == keyspace.name);
        let style = match state.map(|stall| stall.state) {
            Some(WriteState::Stopped) => screen.theme.bad(),
            Some(WriteState::Slowed) => screen.theme.warning(),
            _ => ratatui::style::Style::new(),
        };
        let mark = if at == chosen { "\u{25b8}" } else { " " };
        let text = row(&format!("{mark}{}", keyspace.name), &figures_of(screen, keyspace), name_columns);
        let style = if at == chosen { style.patch(screen.theme.chosen()) } else { style };
        let y = area.y + 1 + (at - first) as u16;
        cells.set_line(area.x, y, &Line::styled(text, style), area.width);
    }
}

fn row(name: &str, figures: &[String; 7], name_columns: usize) -> String {
    let [size, runs, tables, put, written, write, space] = figures;
    let name = text::left(name, name_columns);
    format!("{name}{size:>11}{runs:>5}{tables:>7}{put:>10}{written:>10}{write:>6}{space:>10}")
}

fn figures_of(screen: &Screen<'_>, keyspace: &Keyspace) -> [String; 7] {
    let sum = |of: fn(&super::super::snapshot::Level) -> u64| keyspace.levels.iter().map(of).sum::<u64>();
    let rates = screen.rates.and_then(|rates| rates.of_keyspace(&keyspace.name));
    let rate = |per_second: Option<f64>| per_second.map_or("-".to_owned(), |rate| human_bytes(rate as u64));
    let space = match (keyspace.space_amplification, keyspace.space_target) {
        (taken, Some(target)) => format!("{}/{target:.2}", text::factor(taken)),
        (taken, None) => text::factor(taken),
    };
    [
        human_bytes(sum(|level| level.bytes) + keyspace.blob_bytes),
        human_count(sum(|level| level.runs)),
        human_count(sum(|level| level.tables)),
        rate(rates.map(|(put, _)| put)),
        rate(rates.map(|(_, written)| written)),
        text::factor(keyspace.write_amplification),
        space,
    ]
}
