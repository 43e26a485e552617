//! The tree of the chosen keyspace: its levels, and the jobs that write into them.

use super::super::snapshot::{Job, Keyspace, Level};
use super::{Screen, figures, text};
use crate::format::{human_bytes, human_count};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// Columns before the bar or the job.
const FIGURE_COLUMNS: usize = 52;

/// The label of the level that flushes write.
const FLUSH_LEVEL: &str = "L0";

/// Rows that all of it takes: the rule, the head, memory, a row for each level, and for large values.
pub(super) fn rows(screen: &Screen<'_>) -> u16 {
    let Some(keyspace) = screen.keyspace() else { return 0 };
    3 + levels(screen, keyspace).len() as u16 + u16::from(keyspace.blob_files > 0)
}

pub(super) fn render(screen: &Screen<'_>, area: Rect, cells: &mut Buffer) {
    let Some(keyspace) = screen.keyspace() else { return };
    let left = keyspace.migration_left_bytes;
    let migration = left.map(|bytes| format!(", {} left to rewrite into it", human_bytes(bytes)));
    let title = format!("tree of {}: {}{}", keyspace.name, keyspace.strategy, migration.unwrap_or_default());
    let area = screen.rule(area, &title, cells);
    let head =
        format!(" {:<7}{:>7}{:>7}{:>11}{:>14}{:>5}", "level", "runs", "tables", "size", "entries", "del");
    let mut lines = vec![Line::styled(head, screen.theme.label())];
    let memory = human_count(keyspace.memtable_entries);
    lines.push(Line::raw(format!(" {:<7}{:>7}{:>7}{:>11}{memory:>14}", "memory", "", "", "")));
    let levels = levels(screen, keyspace);
    let widest = levels.iter().map(|level| level.bytes).max().unwrap_or_default();
    let room = usize::from(area.width).saturating_sub(FIGURE_COLUMNS + 2);
    for level in &levels {
        lines.push(level_line(screen, keyspace, level, widest, room));
    }
    if keyspace.blob_files > 0 {
        let garbage = keyspace.blob_garbage_bytes.saturating_mul(100).checked_div(keyspace.blob_bytes);
        let (files, bytes) = (human_count(keyspace.blob_files), human_bytes(keyspace.blob_bytes));
        let garbage = format!("{} % garbage", garbage.unwrap_or_default());
        lines.push(Line::raw(format!(" {:<7}{:>7}{files:>7}{bytes:>11}{garbage:>14}", "blobs", "")));
    }
    for (line, y) in lines.iter().zip(area.y..area.y + area.height) {
        cells.set_line(area.x, y, line, area.width);
    }
}

/// The levels that hold something or that a job writes.
fn levels(screen: &Screen<'_>, keyspace: &Keyspace) -> Vec<Level> {
    let mut levels: Vec<Level> = keyspace.levels.clone();
    for job in jobs(screen, keyspace).filter(|job| !job.to.is_empty()) {
        if !levels.iter().any(|level| level.label == job.to) {
            levels.push(Level { label: job.to.clone(), ..Level::default() });
        }
    }
    // `Llast` comes behind the numbers.
    levels.sort_by_key(|level| level.label.trim_start_matches('L').parse::<u64>().unwrap_or(u64::MAX));
    levels
}

fn jobs<'a>(screen: &Screen<'a>, keyspace: &Keyspace) -> impl Iterator<Item = &'a Job> {
    let name = keyspace.name.clone();
    screen.now.jobs.iter().filter(move |job| job.keyspace == name)
}

fn level_line(
    screen: &Screen<'_>,
    keyspace: &Keyspace,
    level: &Level,
    widest: u64,
    room: usize,
) -> Line<'static> {
    let stall = screen.now.stalls.iter().find(|stall| stall.keyspace == keyspace.name);
    let limit = stall.and_then(|stall| stall.level0.as_ref()).filter(|_| level.label == FLUSH_LEVEL);
    let runs = match limit {
        Some(limit) if limit.hard > 0 => format!("{}/{}", level.runs, limit.hard),
        _ => human_count(level.runs),
    };
    let deleted = level.tombstones.saturating_mul(100).checked_div(level.entries).unwrap_or_default();
    let figures = format!(
        " {:<7}{runs:>7}{:>7}{:>11}{:>14}{:>4}%",
        level.label,
        human_count(level.tables),
        human_bytes(level.bytes),
        human_count(level.entries),
        deleted,
    );
    let told: Vec<String> = jobs(screen, keyspace).filter(|job| job.to == level.label).map(told).collect();
    let (beside, style) = match told.is_empty() {
        true => (filled(level, widest, room), screen.theme.bar()),
        false => (text::shortened(&told.join(", "), room), screen.theme.warning()),
    };
    Line::from(vec![Span::styled(figures, Style::new()), Span::raw("  "), Span::styled(beside, style)])
}

/// A bar of the level's bytes, and how much that is of what it holds before it is compacted.
fn filled(level: &Level, widest: u64, room: usize) -> String {
    let share = |most: u64| {
        let percent = level.bytes.saturating_mul(100).checked_div(most).unwrap_or_default();
        format!(" {percent}% of {}", human_bytes(most))
    };
    let share = level.max_bytes.map(share).filter(|share| share.len() < room).unwrap_or_default();
    text::bar(level.bytes, widest, room - share.len()) + &share
}

/// A job, how far it is, and how fast.
pub(super) fn told(job: &Job) -> String {
    let percent = job.done_bytes.saturating_mul(100).checked_div(job.total_bytes).unwrap_or_default();
    format!("{} {percent}% {}", figures::work(&job.class), text::bytes_rate(job.bytes_per_second))
}

#[cfg(test)]
mod tests {
    use super::{Level, filled};

    #[test]
    fn a_level_tells_its_share_of_its_limit_where_there_is_room() {
        let level = Level { bytes: 32 << 20, max_bytes: Some(64 << 20), ..Level::default() };
        assert_eq!(filled(&level, 32 << 20, 24), "████████ 50% of 64.0 MiB");
        assert_eq!(filled(&level, 32 << 20, 8), "████████");
        assert_eq!(filled(&Level { max_bytes: None, ..level }, 32 << 20, 8), "████████");
    }
}
