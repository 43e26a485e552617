//! The figures of the whole: operations, write control, memory, cache, log and readers, a line each.

use super::super::snapshot::{Snapshot, Stall, WriteState};
use super::{Screen, text};
use crate::format::{human_bytes, human_count, human_counted};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// Columns of names.
const NAME_COLUMNS: usize = 9;

/// Columns of bars.
const BAR_COLUMNS: usize = 12;

/// Troubles that are told; `esker stats` has all.
const TROUBLES: usize = 3;

/// The lines.
pub(super) fn lines(screen: &Screen<'_>, width: u16) -> Vec<Line<'static>> {
    let mut lines = vec![
        commands(screen),
        writes(screen),
        write_control(screen),
        memory(screen),
        memory_parts(screen),
        cache(screen),
        log(screen),
        readers(screen),
    ];
    for trouble in screen.now.troubles.iter().take(TROUBLES) {
        let short = text::shortened(trouble, usize::from(width).saturating_sub(NAME_COLUMNS + 1));
        let style = screen.theme.bad();
        lines.push(Line::from(vec![Span::styled(" trouble  ", style), Span::styled(short, style)]));
    }
    lines
}

fn line(screen: &Screen<'_>, name: &str, parts: Vec<Span<'static>>) -> Line<'static> {
    let name = Span::styled(format!(" {name:<NAME_COLUMNS$}"), screen.theme.label());
    Line::from_iter(std::iter::once(name).chain(parts))
}

/// The text of parts that are known, with room between them.
fn joined(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join("   ")
}

fn commands(screen: &Screen<'_>) -> Line<'static> {
    let (redis, rates) = (screen.now.redis, screen.rates);
    let Some(redis) = redis else {
        return line(screen, "commands", vec![Span::raw("no server of the Redis protocol")]);
    };
    let known = |rate: Option<f64>| rate.map_or("-".to_owned(), text::rate);
    let per_second = known(rates.and_then(|rates| rates.commands));
    let time = |us: Option<f64>| us.map_or("-".to_owned(), text::microseconds);
    let (p50, p99) = (rates.and_then(|rates| rates.p50_us), rates.and_then(|rates| rates.p99_us));
    let blocked = (redis.blocked_clients > 0).then(|| format!(", {} blocked", redis.blocked_clients));
    let rest = joined([
        Some(format!("   p50 {}", time(p50))),
        Some(format!("p99 {}", time(p99))),
        Some(format!(
            "clients {} of {}{}",
            human_count(redis.clients),
            human_count(redis.max_clients),
            blocked.unwrap_or_default()
        )),
    ]);
    line(
        screen,
        "commands",
        vec![Span::styled(format!("{per_second}/s"), screen.theme.strong()), Span::raw(rest)],
    )
}

fn writes(screen: &Screen<'_>) -> Line<'static> {
    let rates = screen.rates;
    let per_second = rates.map_or("-".to_owned(), |rates| text::rate(rates.writes));
    let rest = joined([
        rates.map(|rates| format!(" {}", text::bytes_rate(rates.written_bytes))),
        rates.map(|rates| format!("lookups {}/s", text::rate(rates.lookups))),
        screen.now.redis.map(|redis| format!("keys {}", human_count(redis.keys))),
    ]);
    line(
        screen,
        "writes",
        vec![Span::styled(format!("{per_second}/s"), screen.theme.strong()), Span::raw(rest)],
    )
}

/// Whether writes are held back, by what, and until when: of the keyspace whose writes are held back most.
fn write_control(screen: &Screen<'_>) -> Line<'static> {
    let full = |stall: &&Stall| stall.pressure.as_ref().map_or(0, |pressure| pressure.permille);
    let worst = screen.now.stalls.iter().max_by_key(|stall| (stall.state, full(stall)));
    let state = worst.map_or(WriteState::Free, |stall| stall.state);
    let (word, style) = match state {
        WriteState::Free => ("none".to_owned(), screen.theme.good()),
        WriteState::Slowed => {
            let rate = worst.and_then(|stall| stall.bytes_per_second);
            let rate = rate.map(|rate| format!(" to {}", text::bytes_rate(rate as f64)));
            (format!("slowed{}", rate.unwrap_or_default()), screen.theme.warning())
        }
        WriteState::Stopped => ("stopped".to_owned(), screen.theme.bad()),
    };
    let cause = worst.and_then(|stall| cause(screen.now, stall)).unwrap_or_default();
    let waited = screen.rates.and_then(waited).filter(|_| state == WriteState::Free);
    line(
        screen,
        "stalls",
        vec![Span::styled(word, style), Span::raw(cause), Span::raw(waited.unwrap_or_default())],
    )
}

/// What of the interval writes waited, when they wait no longer.
fn waited(rates: &super::Rates) -> Option<String> {
    let ms = rates.delay_ms + rates.stall_ms;
    (ms >= 1.0).then(|| format!(", writers waited {} in a second", text::time(ms as u64)))
}

fn cause(now: &Snapshot, stall: &Stall) -> Option<String> {
    let pressure = stall.pressure.as_ref()?;
    let percent = pressure.permille / 10;
    if stall.state == WriteState::Free {
        return (percent > 0).then(|| format!(", {} of {} {percent}% full", pressure.cause, stall.keyspace));
    }
    let end = match (&stall.error, stall.ends_in_ms) {
        (Some(error), _) => format!(", failed: {error}"),
        (None, Some(ms)) => {
            let job = now.jobs.iter().find(|job| Some(job.number) == stall.job);
            let by = job.map(|job| format!(" ({})", work(&job.class))).unwrap_or_default();
            format!(", ends in {}{by}", text::time(ms))
        }
        (None, None) => ", its end is not known".to_owned(),
    };
    Some(format!("{end}: {} of {} {percent}% full", pressure.cause, stall.keyspace))
}

/// What a class of jobs does, in a word.
pub(super) fn work(class: &str) -> &'static str {
    if class == "flush" { "flush" } else { "merge" }
}

fn memory(screen: &Screen<'_>) -> Line<'static> {
    let memory = &screen.now.memory;
    let style = fullness(screen, memory.used_bytes, memory.budget_bytes);
    let told = format!(" {} of {}", human_bytes(memory.used_bytes), human_bytes(memory.budget_bytes));
    let gauge = text::gauge(memory.used_bytes, memory.budget_bytes, BAR_COLUMNS);
    line(screen, "memory", vec![Span::styled(gauge, style), Span::raw(told)])
}

/// Full is usual for memory; over the budget is not.
fn fullness(screen: &Screen<'_>, part: u64, whole: u64) -> Style {
    if part > whole { screen.theme.warning() } else { screen.theme.bar() }
}

fn memory_parts(screen: &Screen<'_>) -> Line<'static> {
    let parts = screen.now.memory.parts.iter().filter(|(_, bytes)| *bytes > 0);
    let parts = parts.map(|(name, bytes)| format!("{} {}", short_name(name), human_bytes(*bytes)));
    line(screen, "", vec![Span::raw(parts.collect::<Vec<_>>().join(", "))])
}

/// Names of parts that are shorter than those of the report.
fn short_name(name: &str) -> &str {
    match name {
        "table metadata" => "tables",
        "log mapped" => "log",
        _ => name,
    }
}

fn cache(screen: &Screen<'_>) -> Line<'static> {
    let memory = &screen.now.memory;
    let gauge = text::gauge(memory.cache_bytes, memory.cache_capacity_bytes, BAR_COLUMNS);
    let percent = |permille: u64| format!("{}.{} %", permille / 10, permille % 10);
    let since = screen.now.totals.and_then(|totals| {
        let asked = totals.cache_hits + totals.cache_misses;
        totals.cache_hits.saturating_mul(1000).checked_div(asked)
    });
    let last = screen.rates.and_then(|rates| rates.hit_permille).map_or("-".to_owned(), percent);
    let since = since.map_or("-".to_owned(), percent);
    let told = format!(
        " {} of {}   hits {last} now, {since} in all",
        human_bytes(memory.cache_bytes),
        human_bytes(memory.cache_capacity_bytes)
    );
    line(screen, "cache", vec![Span::styled(gauge, screen.theme.bar()), Span::raw(told)])
}

fn log(screen: &Screen<'_>) -> Line<'static> {
    let now = screen.now;
    let lag = now.visible.saturating_sub(now.durable);
    let synced = match lag {
        _ if now.log_bytes == 0 => None,
        0 => Some("all synced".to_owned()),
        lag => Some(format!("{} not synced", human_counted(lag, "operation"))),
    };
    let free = now.free_bytes.map(|bytes| format!("disk {} free", human_bytes(bytes)));
    let told = joined([Some(human_bytes(now.log_bytes)), synced, free]);
    line(screen, "log", vec![Span::raw(told)])
}

fn readers(screen: &Screen<'_>) -> Line<'static> {
    let readers = &screen.now.readers;
    let Some(oldest) = readers.iter().max_by_key(|reader| reader.age_ms) else {
        return line(screen, "readers", vec![Span::raw("none")]);
    };
    let of = oldest.of.as_ref().map(|of| format!(" of {of}")).unwrap_or_default();
    let told = format!(
        "{}; oldest: {}{of}, {}, holds {}, {} since",
        human_count(readers.len() as u64),
        oldest.kind,
        text::time(oldest.age_ms),
        human_bytes(oldest.held_bytes),
        human_counted(oldest.newer_operations, "write"),
    );
    line(screen, "readers", vec![Span::raw(told)])
}
