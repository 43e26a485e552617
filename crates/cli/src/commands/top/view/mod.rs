//! Drawing: a pure function from figures to the cells of a terminal.
//!
//! A frame has a title, the figures of the whole, the keyspaces, the tree of the chosen one and a line of
//! keys; a wide terminal has operations, commands, jobs and readers beside them, a tall one below.

mod activity;
mod figures;
mod keyspaces;
mod text;
mod theme;
mod tree;

#[cfg(test)]
mod tests;

pub(super) use theme::Theme;

use super::rates::{Curve, Rates};
use super::snapshot::{Keyspace, Snapshot};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Widget, Wrap};
use std::time::Duration;

/// The least terminal in which the figures can be read.
const LEAST: (u16, u16) = (60, 12);

/// Columns from which on there are two parts beside each other, and those of the left one then.
const WIDE_COLUMNS: u16 = 124;
const LEFT_COLUMNS: u16 = 80;

/// Rows that keyspaces have at least while the tree wants more than is left: a rule, a head, and three names.
const KEYSPACE_ROWS: u16 = 5;

const HELP: [&str; 15] = [
    "q, Ctrl-C     end",
    "up, down, tab choose the keyspace whose tree is shown",
    "?             show or hide this",
    "",
    "now           in the last interval",
    "in all        since the database was opened",
    "lookups       estimated: one in 64 is sampled",
    "p50, p99      of all commands of Redis of the last seconds",
    "w-amp         bytes written to tables for a byte put",
    "space         bytes taken for a byte alive / the promise max_space_amp",
    "L0 4/24       runs of level 0 / those at which writes stop",
    "not synced    operations that a power cut would lose",
    "holds         memory and files that the reader keeps from being freed",
    "",
    "esker stalls, levels, stats and explain say more about each.",
];

/// What a frame is drawn from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Screen<'a> {
    /// Where the figures come from.
    pub(super) place: &'a str,
    pub(super) now: &'a Snapshot,
    /// None in the first frame.
    pub(super) rates: Option<&'a Rates>,
    pub(super) curve: &'a Curve,
    /// The number of the chosen keyspace.
    pub(super) chosen: usize,
    pub(super) interval: Duration,
    /// What went wrong since these figures came.
    pub(super) notice: Option<&'a str>,
    pub(super) shows_help: bool,
    /// Whether a line says which keys there are.
    pub(super) shows_keys: bool,
    pub(super) theme: Theme,
}

impl Widget for &Screen<'_> {
    fn render(self, area: Rect, cells: &mut Buffer) {
        if area.width < LEAST.0 || area.height < LEAST.1 {
            let text = format!("at least {} columns and {} rows are needed; q ends", LEAST.0, LEAST.1);
            return Paragraph::new(text).wrap(Wrap { trim: true }).render(area, cells);
        }
        let keys = u16::from(self.shows_keys);
        let [title, body, foot] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(keys)])
                .areas(area);
        self.title(title, cells);
        let figures = figures::lines(self, body.width);
        let [top, rest] =
            Layout::vertical([Constraint::Length(figures.len() as u16), Constraint::Fill(1)]).areas(body);
        Paragraph::new(figures).render(top, cells);
        if area.width >= WIDE_COLUMNS {
            let [left, _, right] = Layout::horizontal([
                Constraint::Length(LEFT_COLUMNS),
                Constraint::Length(2),
                Constraint::Fill(1),
            ])
            .areas(rest);
            self.trees(left, cells);
            activity::render(self, right, cells);
        } else {
            let taken = self.trees(rest, cells);
            let below = Rect { y: rest.y + taken, height: rest.height - taken, ..rest };
            activity::render(self, below, cells);
        }
        self.foot(foot, cells);
        if self.shows_help {
            self.help(area, cells);
        }
    }
}

impl Screen<'_> {
    /// The keyspace whose tree is shown.
    pub(super) fn keyspace(&self) -> Option<&Keyspace> {
        self.now.keyspaces.get(self.chosen.min(self.now.keyspaces.len().saturating_sub(1)))
    }

    fn title(&self, area: Rect, cells: &mut Buffer) {
        let now = self.now;
        let version = if now.version.is_empty() { String::new() } else { format!(" {}", now.version) };
        let left = format!(" esker{version}  {}", self.place);
        let right = format!("up {}, every {} ", text::time(now.uptime_ms), text::interval(self.interval));
        let columns = usize::from(area.width);
        let room = columns.saturating_sub(right.chars().count() + 1);
        let line = format!("{:<room$} {right}", text::shortened(&left, room));
        cells.set_line(area.x, area.y, &Line::styled(line, self.theme.title()), area.width);
    }

    /// Draws the keyspaces and the tree of the chosen one; the rows that they took.
    fn trees(&self, area: Rect, cells: &mut Buffer) -> u16 {
        let (wanted, tree) = (keyspaces::rows(self), tree::rows(self));
        let for_keyspaces = match wanted + tree <= area.height {
            true => wanted,
            false => wanted.min(area.height.saturating_sub(tree).max(KEYSPACE_ROWS)).min(area.height),
        };
        let for_tree = tree.min(area.height - for_keyspaces);
        keyspaces::render(self, Rect { height: for_keyspaces, ..area }, cells);
        let below = Rect { y: area.y + for_keyspaces, height: for_tree, ..area };
        tree::render(self, below, cells);
        for_keyspaces + for_tree
    }

    fn foot(&self, area: Rect, cells: &mut Buffer) {
        if area.height == 0 {
            return;
        }
        let line = match self.notice {
            Some(notice) => Line::styled(format!(" {notice}"), self.theme.bad()),
            None => {
                let key = |key: &'static str| Span::styled(key, self.theme.strong());
                Line::from(vec![
                    key(" \u{2191}\u{2193}"),
                    Span::raw(" keyspace   "),
                    key("?"),
                    Span::raw(" help   "),
                    key("q"),
                    Span::raw(" end"),
                ])
            }
        };
        cells.set_line(area.x, area.y, &line, area.width);
    }

    fn help(&self, area: Rect, cells: &mut Buffer) {
        let widest = HELP.iter().map(|line| line.len()).max().unwrap_or_default() as u16 + 4;
        let (width, height) = (widest.min(area.width), (HELP.len() as u16 + 2).min(area.height));
        let (x, y) = (area.x + (area.width - width) / 2, area.y + (area.height - height) / 2);
        let place = Rect { x, y, width, height };
        Clear.render(place, cells);
        let lines: Vec<Line<'_>> = HELP.iter().map(|line| Line::raw(format!(" {line}"))).collect();
        Paragraph::new(lines).block(Block::bordered().title(" help ")).render(place, cells);
    }

    /// A line over the width with a title; the rest of the area.
    fn rule(&self, area: Rect, title: &str, cells: &mut Buffer) -> Rect {
        if area.height == 0 {
            return area;
        }
        let columns = usize::from(area.width);
        let title = format!("\u{2500}\u{2500} {} ", text::shortened(title, columns.saturating_sub(5)));
        let rest = "\u{2500}".repeat(columns.saturating_sub(title.chars().count()));
        let line = Line::styled(format!("{title}{rest}"), self.theme.rule());
        cells.set_line(area.x, area.y, &line, area.width);
        Rect { y: area.y + 1, height: area.height - 1, ..area }
    }
}
